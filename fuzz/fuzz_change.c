/*
 * fuzz_change.c - an input is a program that tests one of the filter kinds that can remove, count
 * or expire keys, fill up, or grow. The program creates two filters from one spec, adds, removes
 * and counts keys, and copies, merges and clears the filters. Each filter is compared with the
 * exact multiset of its keys. A filter must never answer "no" for a member, nor return a count
 * below the true count or below 8, whichever is lower. An add may be refused only with BG_EFULL and
 * only by kinds with BG_TRAIT_FILLS_UP. Neither a refused add nor the removal of a key that is
 * certainly absent may change the filter.
 */
#include "bloomgate/all.h"
#include "fuzz.h"
#include "fuzz_input.h"

enum { SLOTS = 2, KEYS = 256, BATCH_MAX = 100, STEPS_MAX = 80, BYTES_MAX = 1 << 20 };

/* Keys are the integers from 0 to 255. The range is so small that the same key is often added
 * again. */
struct slot {
    bg_filter *filter;
    uint32_t in[KEYS];
    bool overflowed; /* a forced add did not fit, so counts are no longer exact */
};

static struct slot slots[SLOTS];

static const bg_kind kinds[] = {
#define CHANGE_KIND(NAME, number, name) BG_KIND_##NAME,
    BG_OTHER_KINDS(CHANGE_KIND)
#undef CHANGE_KIND
};

static bg_spec take_spec(struct fuzz_input *in)
{
    bg_spec spec = BG_SPEC_INIT;
    uint8_t how = fuzz_byte(in);
    spec.kind = kinds[fuzz_byte(in) % (sizeof kinds / sizeof *kinds)];
    spec.items = 1 + fuzz_byte(in) * (how & 1 ? 1u : 8u);
    spec.rate = how & 2 ? 0 : (1 + fuzz_byte(in)) / 300.0;
    spec.bits_per_key = how & 2 ? 1 + fuzz_byte(in) : 0;
    spec.k = how & 4 ? fuzz_byte(in) % 40 : 0;
    spec.width = how & 8 ? fuzz_byte(in) % 40 : how & 16 ? 8 : 0;
    spec.flags = how & 32 ? BG_SPEC_EXCLUSIVE : 0;
    spec.flags |= how & 64 ? BG_SPEC_SCATTERED : 0;
    spec.max_bytes = BYTES_MAX;
    return spec;
}

/* Returns the bytes of a key. Filters treat these bytes and the integer as the same key. */
static bg_bytes bytes_of(uint64_t key, unsigned char room[8])
{
    for (int b = 0; b < 8; b++) {
        room[b] = (unsigned char)(key >> 8 * b);
    }
    return (bg_bytes){ room, 8 };
}

static uint64_t hash_of(const struct slot *s, uint64_t key)
{
    return bg_hash_u64(bg_filter_hasher(s->filter), key);
}

static void check_members(const struct slot *s)
{
    uint64_t keys[KEYS];
    size_t n = 0;
    for (uint64_t key = 0; key < KEYS; key++) {
        if (s->in[key]) {
            FUZZ_MUST(bg_filter_may_contain_u64(s->filter, key));
            uint32_t least = bg_kind_traits(bg_filter_kind(s->filter)) & BG_TRAIT_COUNT
                                     && !s->overflowed
                                 ? s->in[key]
                                 : 1;
            unsigned char room[8];
            uint64_t count = bg_filter_count_u64(s->filter, key);
            FUZZ_MUST(count >= (least < 8 ? least : 8));
            FUZZ_MUST(count == bg_filter_count_hash(s->filter, hash_of(s, key)));
            FUZZ_MUST(count == bg_filter_count(s->filter, bytes_of(key, room).data, 8));
            keys[n++] = key;
        }
    }
    FUZZ_MUST(bg_filter_may_contain_many(s->filter, bg_keys_u64(keys, n), NULL) == n);
}

static bg_err insert_one(struct slot *s, uint64_t key, bool *is_new)
{
    unsigned char room[8];
    switch (key % 3) {
    case 0: return bg_filter_add_u64(s->filter, key, is_new);
    case 1: return bg_filter_add_hash(s->filter, hash_of(s, key), is_new);
    default: return bg_filter_add(s->filter, bytes_of(key, room).data, 8, is_new);
    }
}

static bg_err remove_one(struct slot *s, uint64_t key)
{
    unsigned char room[8];
    switch (key % 3) {
    case 0: return bg_filter_remove_hash(s->filter, hash_of(s, key));
    case 1: return bg_filter_remove(s->filter, bytes_of(key, room).data, 8);
    default: return bg_filter_remove_u64(s->filter, key);
    }
}

/* Returns a copy of the filter if its kind can refuse adds; otherwise NULL. */
static bg_filter *copy_if_refusing(const struct slot *s)
{
    bg_filter *copy = NULL;
    if (bg_kind_traits(bg_filter_kind(s->filter)) & BG_TRAIT_FILLS_UP) {
        FUZZ_MUST(bg_filter_copy(s->filter, &copy, NULL) == BG_OK);
    }
    return copy;
}

static void step_insert(struct slot *s, uint64_t key)
{
    bool is_new = false, known = bg_filter_may_contain_u64(s->filter, key);
    bg_filter *before = copy_if_refusing(s);
    bg_err err = insert_one(s, key, &is_new);
    if (err == BG_OK) {
        FUZZ_MUST(is_new == !known || s->overflowed);
        FUZZ_MUST(bg_filter_may_contain_u64(s->filter, key));
        s->in[key]++;
    } else {
        FUZZ_MUST(err == BG_EFULL && before && !is_new);
        FUZZ_MUST(bg_filter_equal(s->filter, before));
    }
    bg_filter_free(before);
}

/* Adds a key even if it does not fit; such a key is not counted, but the filter must answer
 * "maybe" for it. */
static void step_add(struct slot *s, uint64_t key)
{
    FUZZ_MUST(bg_filter_add_forced(s->filter, bg_keys_u64(&key, 1), NULL, NULL)
              == BG_OK);
    bg_filter_info info = { .struct_size = sizeof info };
    FUZZ_MUST(bg_filter_get_info(s->filter, &info) == BG_OK);
    s->overflowed |= info.overflowed;
    FUZZ_MUST(bg_filter_may_contain_u64(s->filter, key));
    if (!info.overflowed && info.saturated == 0) {
        s->in[key]++;
    }
}

static void step_remove(struct slot *s, uint64_t key)
{
    if (s->in[key] && !s->overflowed
        && bg_kind_traits(bg_filter_kind(s->filter)) & BG_TRAIT_REMOVE) {
        FUZZ_MUST(remove_one(s, key) == BG_OK);
        s->in[key]--;
    }
}

/* Tries to remove a key above 255, because such keys are never added. Does nothing if the key is a
 * false positive. */
static void step_remove_stranger(struct slot *s, uint64_t key)
{
    if (!bg_filter_may_contain_u64(s->filter, key + KEYS)) {
        bg_err err = remove_one(s, key + KEYS);
        FUZZ_MUST(err == BG_ENOTFOUND || err == BG_ENOTSUP);
    }
}

/* A batch of keys in three forms: fixed-size records, (pointer, length) pairs, and hashes. */
struct many {
    unsigned char records[KEYS][8];
    bg_bytes pairs[KEYS];
    uint64_t hashes[KEYS];
};

static void many_make(const struct slot *s, const uint64_t *keys, size_t n,
                      struct many *many)
{
    for (size_t i = 0; i < n; i++) {
        many->pairs[i] = bytes_of(keys[i], many->records[i]);
        many->hashes[i] = hash_of(s, keys[i]);
    }
}

static bg_err insert_all(struct slot *s, const uint64_t *keys, size_t n, uint8_t form,
                         size_t *done)
{
    struct many many;
    many_make(s, keys, n, &many);
    switch (form % 4) {
    case 0:
        return bg_filter_add_many(s->filter, bg_keys_u64(keys, n), NULL, done, NULL);
    case 1:
        return bg_filter_add_many(s->filter, bg_keys_bytes(many.pairs, n), NULL, done,
                                  NULL);
    case 2:
        return bg_filter_add_many(s->filter, bg_keys_hashes(many.hashes, n), NULL, done,
                                  NULL);
    default:
        return bg_filter_add_many(s->filter, bg_keys_fixed(many.records, 8, n), NULL,
                                  done, NULL);
    }
}

static void step_insert_many(struct slot *s, struct fuzz_input *in)
{
    uint64_t keys[BATCH_MAX] = { 0 };
    size_t n = fuzz_byte(in) % BATCH_MAX, done = 0;
    for (size_t i = 0; i < n; i++) {
        keys[i] = fuzz_byte(in);
    }
    bg_filter *before = copy_if_refusing(s);
    bg_err err = insert_all(s, keys, n, fuzz_byte(in), &done);
    FUZZ_MUST(err ? err == BG_EFULL && before && done < n : done == n);
    for (size_t i = 0; i < done; i++) {
        FUZZ_MUST(!before || bg_filter_add_u64(before, keys[i], NULL) == BG_OK);
        FUZZ_MUST(bg_filter_may_contain_u64(s->filter, keys[i]));
        s->in[keys[i]]++;
    }
    FUZZ_MUST(!before || bg_filter_equal(s->filter, before)); /* only those keys */
    bg_filter_free(before);
}

/* Removes every present key once, passing the keys in one of four forms. */
static void step_remove_many(struct slot *s, uint8_t form)
{
    struct many many;
    uint64_t keys[KEYS];
    size_t n = 0, removed;
    if (s->overflowed
        || !(bg_kind_traits(bg_filter_kind(s->filter)) & BG_TRAIT_REMOVE)) {
        return;
    }
    for (uint64_t key = 0; key < KEYS; key++) {
        if (s->in[key]) {
            keys[n++] = key;
            s->in[key]--;
        }
    }
    many_make(s, keys, n, &many);
    switch (form % 4) {
    case 0:
        removed = bg_filter_remove_many(s->filter, bg_keys_u64(keys, n), NULL);
        break;
    case 1:
        removed = bg_filter_remove_many(s->filter, bg_keys_bytes(many.pairs, n), NULL);
        break;
    case 2:
        removed =
            bg_filter_remove_many(s->filter, bg_keys_hashes(many.hashes, n), NULL);
        break;
    default:
        removed =
            bg_filter_remove_many(s->filter, bg_keys_fixed(many.records, 8, n), NULL);
    }
    FUZZ_MUST(removed == n);
}

static void step_copy(struct slot *to, const struct slot *from)
{
    bg_filter *copy = NULL;
    if (to != from && bg_filter_copy(from->filter, &copy, NULL) == BG_OK) {
        bg_filter_free(to->filter);
        *to = *from;
        to->filter = copy;
    }
}

static void step_merge(struct slot *to, const struct slot *from)
{
    if (to != from && !from->overflowed
        && bg_filter_merge(to->filter, from->filter, NULL) == BG_OK) {
        for (size_t key = 0; key < KEYS; key++) {
            to->in[key] += from->in[key];
        }
    }
}

static void step_clear(struct slot *s)
{
    bg_filter_clear(s->filter);
    bg_filter *filter = s->filter;
    *s = (struct slot){ .filter = filter };
}

static void step(struct fuzz_input *in)
{
    uint8_t what = fuzz_byte(in);
    struct slot *s = &slots[what & 1], *other = &slots[what >> 1 & 1];
    uint64_t key = fuzz_byte(in);
    switch (what >> 2 & 15) {
    case 0: step_copy(s, other); break;
    case 1: step_merge(s, other); break;
    case 2: step_clear(s); break;
    case 3: check_members(s); break;
    case 4: step_remove_stranger(s, key); break;
    case 5: step_add(s, key); break;
    case 6:
    case 7: step_insert_many(s, in); break;
    case 8: step_remove_many(s, (uint8_t)key); break;
    case 9:
    case 10: step_remove(s, key); break;
    default: step_insert(s, key); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    bg_spec spec = take_spec(&in);
    bool made = true;
    for (int i = 0; i < SLOTS; i++) {
        slots[i] = (struct slot){ 0 };
        bg_err err = bg_filter_create(&spec, &slots[i].filter, NULL);
        FUZZ_MUST((err == BG_OK) == (slots[i].filter != NULL));
        made &= err == BG_OK;
    }
    for (int steps = 0; made && steps < STEPS_MAX && in.left > 0; steps++) {
        step(&in);
    }
    for (int i = 0; i < SLOTS; i++) {
        if (made) {
            check_members(&slots[i]);
        }
        bg_filter_free(slots[i].filter);
    }
    return 0;
}

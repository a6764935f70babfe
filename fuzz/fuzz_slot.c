/*
 * fuzz_slot.c - an input is a program that operates on a slot and on the gate that uses it. The
 * backing store is a set of small integers. Whatever happens to the slot, a lookup of any key that
 * is in the backing store must answer "maybe". A refused operation must change nothing.
 */
#include "bloomgate/all.h"
#include "fuzz.h"
#include "fuzz_input.h"
#include "fuzz_move.h"
#include "support/adds.h"

enum { KEYS = 256, STEPS = 60 };

struct world {
    struct fuzz_input *in;
    bg_slot *slot;
    bg_gate *gate;
    bool in_truth[KEYS];
    bool failing;      /* the backing store is failing */
    uint64_t complete; /* maximum that bg_slot_complete_to may return */
    uint64_t time;
    unsigned at;   /* read position in the source */
    unsigned dies; /* the source fails at this key */
    uint64_t source_key;
    bg_rebuild *rebuild; /* in progress, or NULL */
};

/* ---- Filters ----------------------------------------------------------------------------- */

static bg_filter *some_filter(struct fuzz_input *in, bool full_set, struct world *world)
{
    static const bg_kind kinds[] = { BG_KIND_BLOCKED,  BG_KIND_BLOCKED,
                                     BG_KIND_CLASSIC,  BG_KIND_COUNTING,
                                     BG_KIND_CUCKOO,   BG_KIND_QUOTIENT,
                                     BG_KIND_SCALABLE, BG_KIND_REGISTER };
    const uint8_t what = fuzz_byte(in);
    bg_spec spec = BG_SPEC_INIT;
    bg_filter *filter = NULL;
    spec.kind = (uint32_t)kinds[what & 7];
    spec.items = what & 8 ? 16 : 512;
    spec.rate = 0.02;
    spec.allocator = &fuzz_memory;
    spec.hash.seed = what >> 4 & 1;
    spec.flags = what >> 5 == 7 ? BG_SPEC_EXCLUSIVE : 0;
    FUZZ_MUST(bg_filter_create(&spec, &filter, NULL) == BG_OK);
    for (uint64_t key = 0; full_set && key < KEYS; key++) {
        if (world->in_truth[key]) {
            (void)added_u64(filter, key); /* once full, always answers "maybe" */
        }
    }
    return filter;
}

/* ---- The backing store -------------------------------------------------------------------- */

static bg_store_answer ask(void *context, const void *key, size_t len, void *request)
{
    const struct world *world = context;
    uint64_t k;
    (void)request;
    FUZZ_MUST(len == sizeof k);
    memcpy(&k, key, sizeof k);
    return world->failing                   ? BG_STORE_ERROR
           : k < KEYS && world->in_truth[k] ? BG_STORE_PRESENT
                                            : BG_STORE_ABSENT;
}

static bg_err put(void *context, const void *key, size_t len, void *request)
{
    struct world *world = context;
    uint64_t k;
    (void)request;
    FUZZ_MUST(len == sizeof k);
    memcpy(&k, key, sizeof k);
    if (world->failing) {
        return BG_EIO;
    }
    world->in_truth[k] = true;
    return BG_OK;
}

static void alarm_raised(void *context, const bg_alarm *alarm)
{
    (void)context;
    FUZZ_MUST(alarm->kind != BG_ALARM_FALSE_NEGATIVE);
}

static uint64_t now(void *context)
{
    return ((struct world *)context)->time;
}

static bg_err source_next(void *context, bg_bytes *keys, size_t room, size_t *n,
                          bg_errinfo *info)
{
    struct world *world = context;
    (void)room;
    (void)info;
    while (world->at < KEYS && !world->in_truth[world->at]) {
        world->at++;
    }
    *n = 0;
    if (world->at >= world->dies) {
        return BG_EIO;
    }
    if (world->at < KEYS) {
        world->source_key = world->at++;
        keys[0] = (bg_bytes){ &world->source_key, 8 };
        *n = 1;
    }
    return BG_OK;
}

static bg_err source_rewind(void *context, bg_errinfo *info)
{
    (void)info;
    ((struct world *)context)->at = 0;
    return BG_OK;
}

/* ---- Steps -------------------------------------------------------------------------------- */

static void rebuild(struct world *world)
{
    const uint8_t what = fuzz_byte(world->in);
    bg_source source = { source_next, what & 1 ? source_rewind : NULL, world,
                         what & 2 ? 64 : 0 };
    bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
    bg_rebuild_report report = { .struct_size = sizeof report };
    how.spec.kind = what & 4 ? BG_KIND_FUSE : what & 8 ? BG_KIND_CUCKOO : BG_KIND_AUTO;
    how.spec.rate = what & 12 ? 0.02 : 0;
    how.delta = what & 16 ? some_filter(world->in, false, world) : NULL;
    how.headroom = what & 32 ? 0 : 0.5;
    world->at = 0;
    world->dies = what & 64 ? fuzz_byte(world->in) : KEYS + 1;
    (void)!bg_slot_rebuild(world->slot, &source, &how, &report, NULL);
}

/* Starts a rebuild that can last for several steps. */
static void push_begin(struct world *world)
{
    const uint8_t what = fuzz_byte(world->in);
    bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
    how.spec.items = what & 1 ? 300 : what & 2 ? 16 : 0;
    how.spec.kind = what & 4 ? BG_KIND_FUSE : what & 8 ? BG_KIND_CUCKOO : BG_KIND_AUTO;
    how.spec.rate = what & 12 ? 0.02 : 0;
    how.spec.hash.seed = what & 32 ? 1 : 0;
    how.delta = what & 16 ? some_filter(world->in, false, world) : NULL;
    bg_rebuild *begun = NULL;
    bg_err err = bg_slot_begin_rebuild(world->slot, &how, &begun, NULL);
    FUZZ_MUST((err == BG_OK) == (begun != NULL));
    FUZZ_MUST(!world->rebuild || !begun);
    world->rebuild = begun ? begun : world->rebuild;
}

/* Aborts the rebuild, or adds all keys in the store to it and commits it. */
static void push_end(struct world *world)
{
    bg_rebuild_report report = { .struct_size = sizeof report };
    bg_err err = BG_OK;
    if (fuzz_byte(world->in) & 1) {
        bg_rebuild_abort(world->rebuild);
        world->rebuild = NULL;
        return;
    }
    for (uint64_t key = 0; key < KEYS; key++) {
        const bg_bytes bytes = { &key, sizeof key };
        if (world->in_truth[key]
            && bg_rebuild_add_many(world->rebuild, bg_keys_bytes(&bytes, 1), NULL)) {
            err = BG_EFULL;
        }
    }
    bg_err last = bg_rebuild_commit(world->rebuild, &report, NULL);
    FUZZ_MUST(!err || last);
    world->rebuild = NULL;
}

static void write_key(struct world *world)
{
    const uint64_t key = fuzz_byte(world->in);
    bg_err err = bg_gate_write(world->gate, &key, sizeof key, NULL);
    FUZZ_MUST(!world->failing || err == BG_EIO);
}

/* Adds the hash of a key that is not in the store, and removes it again if possible. */
static void add_hash(struct world *world)
{
    const uint64_t key = KEYS + (uint64_t)fuzz_byte(world->in);
    const bg_bytes bytes = { &key, sizeof key };
    uint64_t hash = 0, check = 0, is_new = 0;
    size_t done = 0;
    bg_err err =
        bg_slot_hash_many(world->slot, bg_keys_bytes(&bytes, 1), &hash, &check);
    FUZZ_MUST(err == BG_OK || err == BG_ENOTFOUND || err == BG_EINCOMPAT);
    const bool had = bg_slot_may_contain_u64(world->slot, key);
    if (err == BG_EINCOMPAT) {
        err = bg_slot_add_many(world->slot, bg_keys_bytes(&bytes, 1), &is_new, &done,
                               NULL);
    } else {
        const uint64_t other = check + 1;
        err = bg_slot_add_many(world->slot, bg_keys_hashes_of(&hash, 1, other), &is_new,
                               &done, NULL);
        FUZZ_MUST(err && !done && !is_new);
        err = bg_slot_add_many(world->slot, bg_keys_hashes_of(&hash, 1, check), &is_new,
                               &done, NULL);
    }
    FUZZ_MUST(done == (err == BG_OK) && is_new <= done && !(had && is_new));
    FUZZ_MUST(err || bg_slot_count(world->slot, &key, sizeof key) > 0);
    if (!err && check) {
        FUZZ_MUST(bg_slot_remove_hash(world->slot, hash, check + 1));
        (void)bg_slot_remove_hash(world->slot, hash, check);
    }
}

static bool has_base(const struct world *world)
{
    bg_pin pin;
    bg_role role = BG_ROLE_NEXT;
    bg_slot_pin(world->slot, &pin);
    for (size_t i = 0; role != BG_ROLE_BASE && bg_pin_filter(&pin, i, &role); i++) {
    }
    bg_slot_unpin(world->slot, &pin);
    return role == BG_ROLE_BASE;
}

/* Clears the slot and the store. */
static void clear(struct world *world)
{
    const bool based = has_base(world);
    bg_err err = bg_slot_clear(world->slot, NULL);
    FUZZ_MUST(err == (world->rebuild ? BG_EBUSY : based ? BG_OK : BG_ENOTFOUND));
    if (!err) {
        FUZZ_MUST(bg_slot_complete_to(world->slot) == 0);
        memset(world->in_truth, 0, sizeof world->in_truth);
    }
    for (uint64_t key = 0; !err && key < KEYS; key++) {
        FUZZ_MUST(!bg_slot_may_contain_u64(world->slot, key));
    }
}

/* Merges a filter into the slot. The filter contains the keys in the store and one other key. */
static void merge(struct world *world)
{
    const uint64_t key = KEYS + (uint64_t)fuzz_byte(world->in);
    bg_filter *other = some_filter(world->in, true, world);
    (void)added_u64(other, key);
    bg_err err = bg_slot_merge(world->slot, other, NULL);
    FUZZ_MUST(err || bg_slot_may_contain_u64(world->slot, key));
    bg_filter_free(other);
    FUZZ_MUST(bg_slot_rotate(world->slot, key, NULL) == BG_ENOTSUP);
}

static void look_up(struct world *world)
{
    const uint64_t key = fuzz_byte(world->in) * UINT64_C(2);
    const bool there = key < KEYS && world->in_truth[key];
    bg_outcome outcome = bg_gate_lookup(world->gate, &key, sizeof key, NULL);
    FUZZ_MUST(there ? outcome == BG_OUTCOME_PRESENT || outcome == BG_OUTCOME_UNKNOWN
                    : outcome != BG_OUTCOME_PRESENT);
    FUZZ_MUST(bg_outcome_name(outcome)[0]);
    bg_ticket ticket = { NULL, 0, { 0 } };
    bool audit = false;
    outcome = bg_gate_begin(world->gate, &key, sizeof key, &ticket, &audit);
    FUZZ_MUST(!there || outcome == BG_OUTCOME_PENDING || outcome == BG_OUTCOME_UNKNOWN);
    if (outcome == BG_OUTCOME_PENDING || audit) {
        outcome = bg_gate_finish(world->gate, &ticket, ask(world, &key, 8, NULL));
        FUZZ_MUST(!there || world->failing || outcome == BG_OUTCOME_PRESENT);
    }
}

/* Passes a new filter to one of four functions that change the slot. If the slot refuses the
 * filter, the caller still owns it. */
static void change(struct world *world, uint8_t what)
{
    const bool full = what == 3;
    bg_filter *filter = some_filter(world->in, full, world);
    bg_err err = BG_OK;
    switch (what) {
    case 0: err = bg_slot_set_delta(world->slot, filter, NULL); break;
    case 1:
        (void)!bg_slot_compact(world->slot, filter, NULL);
        err = BG_OK; /* the slot owns the filter, even on failure */
        break;
    case 2:
        err = bg_slot_begin_migration(world->slot, filter, NULL);
        if (!err) {
            FUZZ_MUST(bg_slot_end_migration(world->slot, true, NULL) == BG_OK);
        }
        break;
    default:
        err = bg_slot_swap(world->slot, filter, fuzz_byte(world->in), BG_SLOT_DISCARD,
                           NULL);
        break;
    }
    if (err) {
        bg_filter_free(filter);
    }
}

static void step(struct world *world)
{
    bg_slot_info stats = { .struct_size = sizeof stats };
    const uint8_t byte = fuzz_byte(world->in), what = byte % 12;
    /* This mapping of bytes to steps preserves the meaning of existing corpus files. */
    switch (byte < 228 ? what : 12 + byte % 8) {
    case 0:
    case 1:
    case 2:
    case 3: change(world, what); break;
    case 4: rebuild(world); break;
    case 5: world->failing = fuzz_byte(world->in) & 1; break;
    case 6: world->time += fuzz_any(world->in); break;
    case 7: look_up(world); break;
    case 8: bg_slot_advance(world->slot, fuzz_byte(world->in)); break;
    case 9:
        FUZZ_MUST(bg_slot_get_info(world->slot, &stats) == BG_OK);
        FUZZ_MUST(stats.retired == 0 && stats.filters <= 6);
        FUZZ_MUST(stats.rebuilding == (world->rebuild != NULL));
        break;
    case 12: clear(world); break;
    case 13:
    case 14: merge(world); break;
    case 15:
    case 16: add_hash(world); break;
    case 17:
    case 18: world->rebuild ? push_end(world) : push_begin(world); break;
    default: write_key(world); break;
    }
}

/* ---- Properties ---------------------------------------------------------------------------- */

/* Lookups by hash give the same answers as lookups by key if all filters share a hasher;
 * otherwise every answer is "maybe". */
static void check_hashes(struct world *world, const uint64_t keys[KEYS],
                         const uint64_t *maybe)
{
    uint64_t hashes[KEYS] = { 0 }, answers[BG_BITMAP_WORDS(KEYS)], check;
    bg_bytes bytes[KEYS];
    for (size_t i = 0; i < KEYS; i++) {
        bytes[i] = (bg_bytes){ &keys[i], sizeof keys[i] };
    }
    bg_err err =
        bg_slot_hash_many(world->slot, bg_keys_bytes(bytes, KEYS), hashes, &check);
    (void)bg_slot_may_contain_many(world->slot, bg_keys_hashes_of(hashes, KEYS, check),
                                   answers);
    for (size_t w = 0; w < BG_BITMAP_WORDS(KEYS); w++) {
        FUZZ_MUST(answers[w] == (err ? UINT64_MAX : maybe[w]));
    }
}

static void check_keys(struct world *world)
{
    uint64_t keys[KEYS], maybe[BG_BITMAP_WORDS(KEYS)];
    const bool based = has_base(world);
    for (uint64_t key = 0; key < KEYS; key++) {
        keys[key] = key;
    }
    (void)bg_slot_may_contain_many(world->slot, bg_keys_u64(keys, KEYS), maybe);
    check_hashes(world, keys, maybe);
    for (uint64_t key = 0; key < KEYS; key++) {
        const bool one = bg_slot_may_contain_u64(world->slot, key);
        FUZZ_MUST(one == (maybe[key / 64] >> key % 64 & 1));
        FUZZ_MUST(one || based);
        FUZZ_MUST(!world->in_truth[key]
                  || bg_gate_may_contain(world->gate, &key, sizeof key));
        FUZZ_MUST(bg_slot_may_contain_up_to(world->slot, &key, sizeof key, 0) == one);
        FUZZ_MUST(bg_slot_may_contain_up_to(world->slot, &key, sizeof key,
                                            bg_slot_complete_to(world->slot) + 1));
    }
}

static void check_figures(const struct world *world)
{
    bg_slot_health health = { .struct_size = sizeof health };
    bg_gate_info gate = { .struct_size = sizeof gate };
    FUZZ_MUST(bg_slot_get_health(world->slot, &health) == BG_OK);
    FUZZ_MUST(health.rate >= 0 && health.rate <= 1 && health.fill >= 0
              && health.fill <= 1);
    FUZZ_MUST(bg_gate_get_info(world->gate, &health, &gate) == BG_OK);
    FUZZ_MUST(gate.false_negatives == 0 && gate.observed.low >= 0
              && gate.observed.high <= 1);
    (void)bg_slot_advise(world->slot, NULL, &gate.observed);
}

/* Moves a slot that nothing else refers to; its answers stay the same. */
static void check_move(bg_slot **slot)
{
    bool before[KEYS];
    for (uint64_t key = 0; key < KEYS; key++) {
        before[key] = bg_slot_may_contain_u64(*slot, key);
    }
    FUZZ_MUST(bg_slot_relocate(slot, &fuzz_mover, NULL) == BG_OK);
    for (uint64_t key = 0; key < KEYS; key++) {
        FUZZ_MUST(bg_slot_may_contain_u64(*slot, key) == before[key]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    struct world world = { .in = &in, .time = 1 };
    bg_slot_options options = BG_SLOT_OPTIONS_INIT;
    bg_gate_options gate = BG_GATE_OPTIONS_INIT;
    const uint8_t how = fuzz_byte(&in);
    bg_filter *filter = how & 1 ? some_filter(&in, false, &world) : NULL;
    options.flags = (how & 2 ? BG_SLOT_SEALED : 0) | (how & 64 ? BG_SLOT_SMALL : 0);
    options.allocator = &fuzz_memory;
    options.clock = now;
    options.context = &world;
    if (bg_slot_create(filter, &options, &world.slot, NULL)) {
        bg_filter_free(filter);
        return 0;
    }
    gate.query = ask;
    gate.write = put;
    gate.alarm = alarm_raised;
    gate.context = &world;
    gate.clock = now;
    gate.flags = how & 4 ? BG_GATE_SINGLE_FLIGHT : 0;
    gate.audit = how & 8 ? 0.5 : 0;
    gate.negative_entries = how & 16 ? 8 : 0;
    gate.breaker_failures = how & 32 ? 2 : 0;
    FUZZ_MUST(bg_gate_create(world.slot, &gate, &world.gate, NULL) == BG_OK);
    for (unsigned i = 0; i < STEPS && in.left; i++) {
        step(&world);
        check_keys(&world);
    }
    check_figures(&world);
    bg_rebuild_abort(world.rebuild);
    bg_gate_free(world.gate);
    check_move(&world.slot);
    bg_slot_free(world.slot);
    return 0;
}

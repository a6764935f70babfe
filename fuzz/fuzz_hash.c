/*
 * fuzz_hash.c - hashes keys of any content and length with every profile. Batches give the same
 * hashes as single calls, and every instruction set gives the same hashes as scalar code. Strings
 * and integers have the same hash as their bytes. Incomplete specs are refused.
 */
#include "bloomgate/all.h"
#include "fuzz.h"
#include "fuzz_input.h"

enum { KEYS_MOST = 150, CPUS = 4 };

static uint64_t custom_hash(void *context, const void *key, size_t len)
{
    const uint8_t *bytes = key;
    uint64_t h = *(const uint64_t *)context + len;
    for (size_t i = 0; i < len; i++) {
        h = (h ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    return h ^ h >> 29;
}

struct keys {
    bg_bytes pair[KEYS_MOST];
    uint64_t number[KEYS_MOST];
    size_t n;
    const uint8_t *fixed;
    size_t width, fixed_n;
};

static uint64_t context = 7;
static uint8_t secret[BG_SECRET_BYTES];

static bg_hash_spec take_hash_spec(struct fuzz_input *in)
{
    bg_hash_spec spec = { 0 };
    uint8_t how = fuzz_byte(in);
    spec.profile = how % 8;
    spec.seed = fuzz_any(in);
    fuzz_take(in, secret, sizeof secret);
    spec.secret = how & 0x80 ? NULL : secret;
    spec.custom = how & 0x40 ? NULL : custom_hash;
    spec.custom_context = &context;
    spec.custom_name = how & 0x20 ? NULL : how & 0x10 ? "" : "fuzz";
    return spec;
}

/* Returns whether the spec has everything that its profile requires. */
static bool is_complete(const bg_hash_spec *spec)
{
    switch (spec->profile) {
    case BG_HASH_FAST:
    case BG_HASH_XXH64:
    case BG_HASH_FAST_INT: return true;
    case BG_HASH_KEYED:
    case BG_HASH_KEYED24:
    case BG_HASH_KEYED_INT: return spec->secret != NULL;
    case BG_HASH_CUSTOM:
        return spec->custom && spec->custom_name && spec->custom_name[0];
    default: return false;
    }
}

/* Splits the rest of the input into keys. If the keys do not all have the same length, a byte
 * before each key gives its length. */
static void take_keys(struct fuzz_input *in, struct keys *keys)
{
    size_t same = fuzz_byte(in); /* if below 64, the length of all keys */
    keys->width = 1 + fuzz_byte(in) % 40;
    keys->fixed = in->data;
    keys->fixed_n = in->left / keys->width;
    for (keys->n = 0; keys->n < KEYS_MOST && in->left; keys->n++) {
        size_t len = same < 64 ? same : fuzz_byte(in);
        len = len < in->left ? len : in->left;
        keys->pair[keys->n] = (bg_bytes){ len ? in->data : NULL, len };
        keys->number[keys->n] = 0;
        memcpy(&keys->number[keys->n], in->data, in->left < 8 ? in->left : 8);
        size_t step = len ? len : in->left > 0; /* prevents an endless loop */
        in->data += step;
        in->left -= step;
    }
    keys->fixed_n = keys->fixed_n < KEYS_MOST ? keys->fixed_n : KEYS_MOST;
}

static void check_numbers(const bg_hasher *hasher, const struct keys *keys)
{
    uint64_t out[KEYS_MOST];
    bg_hash_many(hasher, bg_keys_u64(keys->number, keys->n), out);
    for (size_t i = 0; i < keys->n; i++) {
        uint8_t bytes[8];
        for (int b = 0; b < 8; b++) {
            bytes[b] = (uint8_t)(keys->number[i] >> (8 * b));
        }
        FUZZ_MUST(out[i] == bg_hash_u64(hasher, keys->number[i]));
        FUZZ_MUST(out[i] == bg_hash_bytes(hasher, bytes, 8));
    }
}

static void check_records(const bg_hasher *hasher, const struct keys *keys)
{
    uint64_t out[KEYS_MOST];
    bg_hash_many(hasher, bg_keys_fixed(keys->fixed, keys->width, keys->fixed_n), out);
    for (size_t i = 0; i < keys->fixed_n; i++) {
        const uint8_t *record = keys->fixed + i * keys->width;
        FUZZ_MUST(out[i] == bg_hash_bytes(hasher, record, keys->width));
    }
}

static void check_pairs(const bg_hasher *hasher, const bg_hasher *scalar,
                        const struct keys *keys)
{
    uint64_t out[KEYS_MOST + 1];
    out[keys->n] = 99;
    bg_hash_many(hasher, bg_keys_bytes(keys->pair, keys->n), out);
    FUZZ_MUST(out[keys->n] == 99);
    for (size_t i = 0; i < keys->n; i++) {
        const bg_bytes *key = &keys->pair[i];
        char text[256];
        FUZZ_MUST(out[i] == bg_hash_bytes(hasher, key->data, key->len));
        FUZZ_MUST(out[i] == bg_hash_bytes(scalar, key->data, key->len));
        if (key->len < sizeof text && !(key->len && memchr(key->data, 0, key->len))) {
            memcpy(text, key->len ? key->data : "", key->len);
            text[key->len] = 0;
            FUZZ_MUST(out[i] == bg_hash_str(hasher, text));
        }
    }
}

/* Compares the hasher of every instruction set with the scalar hasher. */
static void check_sets(const bg_hash_spec *spec, const struct keys *keys)
{
    bg_hasher scalar, hasher;
    bg_cpu before = bg_cpu_current();
    FUZZ_MUST(bg_cpu_select(BG_CPU_SCALAR) == BG_OK);
    FUZZ_MUST(bg_hasher_init(&scalar, spec, NULL) == BG_OK);
    for (int cpu = 0; cpu < CPUS; cpu++) {
        if (bg_cpu_select((bg_cpu)cpu) == BG_OK) {
            FUZZ_MUST(bg_hasher_init(&hasher, spec, NULL) == BG_OK);
            FUZZ_MUST((uint32_t)bg_hasher_profile(&hasher) == spec->profile);
            FUZZ_MUST(bg_hasher_equal(&hasher, &scalar));
            FUZZ_MUST(bg_hasher_check(&hasher) == bg_hasher_check(&scalar));
            check_pairs(&hasher, &scalar, keys);
            check_records(&hasher, keys);
            check_numbers(&hasher, keys);
            bg_hasher_wipe(&hasher);
        }
    }
    bg_hasher_wipe(&scalar);
    FUZZ_MUST(bg_cpu_select(before) == BG_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct keys keys;
    struct fuzz_input in = { data, size };
    bg_hash_spec spec = take_hash_spec(&in);
    bg_hasher hasher;
    bg_errinfo why;
    bg_err err = bg_hasher_init(&hasher, &spec, &why);
    FUZZ_MUST((err == BG_OK) == is_complete(&spec));
    FUZZ_MUST(why.code == err && (err == BG_OK) == (why.message[0] == 0));
    FUZZ_MUST(bg_hash_name((bg_hash_profile)spec.profile)[0]);
    if (err) {
        FUZZ_MUST(err == BG_EINVAL);
        return 0;
    }
    bg_hasher_wipe(&hasher);
    take_keys(&in, &keys);
    check_sets(&spec, &keys);
    return 0;
}

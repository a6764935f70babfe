/*
 * import_seeded.c - see import_seeded.h.
 *
 * Only the library can compute the size of a valkey-bloom filter, so a temporary filter is created
 * to determine the size. Then a file that contains a filter of this size, with all bits zero, is
 * written in the format described in foreign_valkeybloom.c. The file is decoded like an imported
 * file. The zero bits in this file hardly use any memory, because pages from calloc use none until
 * they are written.
 */
#include "import_seeded.h"

#include "bytes.h"
#include "dump_stream.h"
#include "import_value.h"

#include <stdlib.h>
#include <string.h>

enum {
    SEEDED_HEADER = 30,
    SEEDED_BLOOM = 45, /* size of a filter's data before its bits */
    SEEDED_FRAME = 8 + SEEDED_BLOOM + 16
};

/* The seed that valkey-bloom uses if bloom-use-random-seed is set to no. */
static const uint8_t seeded_fixed[IMPORT_SEED_BYTES] = {
    0x59, 0x0f, 0xf5, 0x22, 0xea, 0x78, 0x11, 0xda, 0xa7, 0x14, 0xd8,
    0x09, 0x3b, 0x3e, 0x7b, 0xd9, 0x1d, 0x89, 0x8a, 0x73, 0x3e, 0x98,
    0x88, 0x87, 0x30, 0x7f, 0x97, 0xcd, 0x28, 0x07, 0x33, 0x83
};

/* Computes the size of the bit array in bytes, and the number of hash functions k. */
static bg_err seeded_size(const struct import_seeded *wish,
                          const struct command_settings *settings, uint64_t *bytes,
                          uint32_t *k, bg_errinfo *info)
{
    bg_foreign_options how = BG_FOREIGN_OPTIONS_INIT;
    bg_foreign_info about = { .struct_size = sizeof about };
    bg_foreign *foreign = NULL;
    how.max_bytes = settings->max_filter_bytes;
    how.allocator = settings->allocator;
    bg_err err = bg_foreign_create(BG_FOREIGN_VALKEYBLOOM, wish->capacity, wish->rate,
                                   &how, &foreign, info);
    err = err ? err : bg_foreign_get_info(foreign, &about);
    *bytes = bg_foreign_size_bytes(foreign);
    *k = about.k;
    bg_foreign_free(foreign);
    return err;
}

static void seeded_put_real(uint8_t *to, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    bytes_store64(to, bits);
}

static void seeded_write(const struct import_seeded *wish, uint64_t bytes, uint32_t k,
                         uint8_t *file)
{
    uint8_t *bloom = file + SEEDED_HEADER + 8;
    file[0] = 1; /* version */
    bytes_store32(file + 1, wish->expansion);
    seeded_put_real(file + 5, wish->rate);
    seeded_put_real(file + 13, wish->tightening);
    file[21] = memcmp(wish->seed, seeded_fixed, sizeof seeded_fixed) != 0;
    bytes_store64(file + 22, 1); /* number of filters */
    bytes_store64(file + SEEDED_HEADER, SEEDED_BLOOM + bytes);
    bloom[0] = 1;
    bytes_store64(bloom + 1, bytes);
    bytes_store32(bloom + 9, k);
    memcpy(bloom + 13, wish->seed, IMPORT_SEED_BYTES);
    bytes_store64(bloom + SEEDED_BLOOM + bytes + 8, wish->capacity);
}

bg_err import_seeded_make(const struct import_seeded *wish,
                          const struct command_settings *settings,
                          struct object **object, bg_errinfo *info)
{
    uint64_t bytes = 0;
    uint32_t k = 0;
    *object = NULL;
    bg_err err = seeded_size(wish, settings, &bytes, &k, info);
    if (err) {
        return err;
    }
    const size_t n =
        SEEDED_HEADER + SEEDED_FRAME
        + (size_t)
            bytes; /* does not overflow, because a filter of this size was just created */
    uint8_t *file = calloc(1, n);
    if (!file) {
        return object_error(info, BG_ENOMEM, "cannot allocate %zu bytes for the filter",
                            n);
    }
    seeded_write(wish, bytes, k, file);
    err = import_object(BG_FOREIGN_VALKEYBLOOM, file, n, settings, object, info);
    free(file);
    return err;
}

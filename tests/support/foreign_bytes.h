/* foreign_bytes.h - helpers for the foreign-format tests, which read and damage files. */
#ifndef FOREIGN_BYTES_H
#define FOREIGN_BYTES_H

#include "bloomgate/all.h"
#include "support/check.h"
#include "support/filters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bytes {
    unsigned char *at;
    size_t n;
};

static inline struct bytes bytes_copy(const void *from, size_t n)
{
    struct bytes b = { calloc(1, n ? n : 1), n };
    CHECK(b.at != NULL);
    if (n) {
        memcpy(b.at, from, n);
    }
    return b;
}

static inline void bytes_append(struct bytes *b, const void *from, size_t n)
{
    struct bytes grown = { malloc(b->n + n + 1), b->n + n };
    CHECK(grown.at != NULL);
    if (b->n) {
        memcpy(grown.at, b->at, b->n);
    }
    if (n) {
        memcpy(grown.at + b->n, from, n);
    }
    free(b->at);
    *b = grown;
}

/* Little-endian integers, as in most formats. */
static inline void bytes_put64(struct bytes *b, size_t at, uint64_t value)
{
    for (size_t i = 0; i < 8; i++) {
        b->at[at + i] = (unsigned char)(value >> 8 * i);
    }
}

static inline void bytes_put_double(struct bytes *b, size_t at, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    bytes_put64(b, at, bits);
}

static inline void bytes_drop(struct bytes *b)
{
    free(b->at);
    *b = (struct bytes){ 0 };
}

/* Reads a file from tests/golden. */
static inline struct bytes bytes_golden(const char *name)
{
    static unsigned char buffer[1 << 20];
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/golden/%s", CHECK_FOLDER, name);
    FILE *file = fopen(path, "rb");
    if (!file) {
        check_fail(__FILE__, __LINE__, "cannot open %s", path);
    }
    size_t n = fread(buffer, 1, sizeof buffer, file);
    (void)fclose(file);
    CHECK(n > 0 && n < sizeof buffer);
    return bytes_copy(buffer, n);
}

/* Encodes a filter and returns the bytes. */
static inline struct bytes bytes_written(const bg_foreign *foreign)
{
    struct bytes b = { 0 };
    CHECK_OK(bg_foreign_encode(foreign, NULL, 0, &b.n, NULL));
    b.at = malloc(b.n ? b.n : 1);
    CHECK(b.at != NULL);
    CHECK_OK(bg_foreign_encode(foreign, b.at, b.n, &b.n, NULL));
    return b;
}

static inline bool bytes_same(const struct bytes *a, const struct bytes *b)
{
    return a->n == b->n && memcmp(a->at, b->at, a->n) == 0;
}

/* Reads a filter from a copy of exactly n bytes, so that a sanitizer detects reads beyond the end.
 * The caller frees the filter. */
static inline bg_err foreign_try(bg_foreign_format format, const void *from, size_t n,
                                 const bg_foreign_options *how, bg_foreign **foreign,
                                 bg_errinfo *why)
{
    struct bytes exact = bytes_copy(from, n);
    bg_err err = bg_foreign_decode(format, exact.at, n, how, foreign, why);
    CHECK((err == BG_OK) == (*foreign != NULL));
    bytes_drop(&exact);
    return err;
}

static inline bg_foreign *foreign_must(bg_foreign_format format, const struct bytes *b,
                                       const bg_foreign_options *how)
{
    bg_foreign *foreign = NULL;
    bg_errinfo why;
    if (foreign_try(format, b->at, b->n, how, &foreign, &why)) {
        check_fail(__FILE__, __LINE__, "refused: %s", why.message);
    }
    return foreign;
}

/* Checks that the bytes are refused with an error that includes the name of this field. */
static inline void foreign_refused(bg_foreign_format format, const struct bytes *b,
                                   const bg_foreign_options *how, bg_err err,
                                   const char *what)
{
    bg_foreign *foreign = NULL;
    bg_errinfo why;
    bg_err found = foreign_try(format, b->at, b->n, how, &foreign, &why);
    bg_foreign_free(foreign);
    CHECK_STR(bg_err_name(found), bg_err_name(err));
    CHECK_STR(why.what, what);
    CHECK(why.found[0] && why.expected[0]);
}

/* Checks that every truncated copy of the bytes is refused. */
static inline void foreign_truncations(bg_foreign_format format, const struct bytes *b,
                                       const bg_foreign_options *how)
{
    for (size_t n = 0; n < b->n; n++) {
        bg_foreign *foreign = NULL;
        bg_errinfo why;
        bg_err err = foreign_try(format, b->at, n, how, &foreign, &why);
        bg_foreign_free(foreign);
        CHECK(err == BG_EFORMAT || err == BG_EVERSION || err == BG_ECHECKSUM
              || err == BG_ENOMEM || err == BG_EINVAL);
    }
}

/* Adds the items "item:<from>" to "item:<to - 1>", and stops at the first failure. */
static inline bg_err foreign_add_items(bg_foreign *foreign, int from, int to)
{
    bg_err err = BG_OK;
    char key[32];
    for (int i = from; !err && i < to; i++) {
        const int n = snprintf(key, sizeof key, "item:%d", i);
        err = bg_foreign_add(foreign, key, (size_t)n, NULL);
    }
    return err;
}

/* Returns the number of these items for which the filter answers "maybe". */
static inline size_t foreign_count_items(const bg_foreign *foreign, int from, int to)
{
    size_t maybe = 0;
    char key[32];
    for (int i = from; i < to; i++) {
        const int n = snprintf(key, sizeof key, "item:%d", i);
        maybe += bg_foreign_may_contain(foreign, key, (size_t)n);
    }
    return maybe;
}

/* Changes one random byte at a time. The changed bytes must either be refused or produce a filter
 * that is safe to query. Returns how many changes were refused. */
static inline size_t foreign_damage(bg_foreign_format format, const struct bytes *b,
                                    const bg_foreign_options *how, size_t times)
{
    struct bytes copy = bytes_copy(b->at, b->n);
    size_t refused = 0;
    for (size_t i = 0; i < times; i++) {
        size_t at = (size_t)check_random_below(copy.n);
        copy.at[at] ^= (unsigned char)(1 + check_random_below(255));
        bg_foreign *foreign = NULL;
        bg_foreign_info about = { .struct_size = sizeof about };
        if (foreign_try(format, copy.at, copy.n, how, &foreign, NULL)) {
            refused++;
        } else {
            (void)bg_foreign_may_contain(foreign, "key", 3);
            (void)bg_foreign_may_contain(foreign, "", 0);
            CHECK_OK(bg_foreign_get_info(foreign, &about));
        }
        bg_foreign_free(foreign);
        copy.at[at] = b->at[at];
    }
    bytes_drop(&copy);
    return refused;
}

/* Checks that reading fails cleanly no matter which allocation fails, and that reading makes at
 * least one allocation. */
static inline void foreign_faults(bg_foreign_format format, const struct bytes *b,
                                  const bg_foreign_options *how)
{
    for (size_t fail = 1;; fail++) {
        struct counting c;
        counting_start(&c);
        c.fail_at = fail;
        bg_foreign_options counted =
            how ? *how : (bg_foreign_options)BG_FOREIGN_OPTIONS_INIT;
        counted.allocator = &c.hooks;
        bg_foreign *foreign = NULL;
        bg_err err = foreign_try(format, b->at, b->n, &counted, &foreign, NULL);
        bg_foreign_free(foreign);
        CHECK_EQ(c.live, 0);
        CHECK_EQ(c.mistakes, 0);
        if (err == BG_OK) {
            CHECK(fail > 1 && c.calls < fail);
            return;
        }
        CHECK_EQ(err, BG_ENOMEM);
    }
}

#endif

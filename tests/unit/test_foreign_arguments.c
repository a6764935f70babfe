/*
 * Behavior shared by all foreign formats: names, traits, and invalid arguments. Each invalid
 * argument is refused with an error that names it.
 */
#include "support/check.h"

#include "bloomgate/all.h"

#include <math.h>
#include <string.h>

static const bg_foreign_format formats[] = {
#define FORMAT(NAME, number, name) BG_FOREIGN_##NAME,
    BG_FOREIGN_FORMATS(FORMAT)
#undef FORMAT
};

enum { FORMATS = sizeof formats / sizeof formats[0] };

TEST(foreign__names)
{
    for (size_t i = 0; i < FORMATS; i++) {
        const char *name = bg_foreign_name(formats[i]);
        CHECK(name);
        bg_foreign_format same = 0;
        CHECK(bg_foreign_parse(name, &same));
        CHECK_EQ(same, formats[i]);
    }
    CHECK_STR(bg_foreign_name(BG_FOREIGN_BIP37), "bip37");
    CHECK_STR(bg_foreign_name((bg_foreign_format)0), "unknown");
    CHECK_STR(bg_foreign_name((bg_foreign_format)10000), "unknown");
    bg_foreign_format unchanged = BG_FOREIGN_SQUID;
    CHECK(!bg_foreign_parse("guav", &unchanged));
    CHECK(!bg_foreign_parse(NULL, &unchanged));
    CHECK_EQ(unchanged, BG_FOREIGN_SQUID);
    CHECK_EQ(bg_foreign_traits((bg_foreign_format)0), 0);
    CHECK(bg_foreign_traits(BG_FOREIGN_GUAVA) & BG_FOREIGN_NEEDS_KEYS);
    CHECK(!(bg_foreign_traits(BG_FOREIGN_GO) & BG_FOREIGN_NEEDS_KEYS));
}

static void check_refused(bg_err err, bg_err expected, const bg_foreign *f,
                          const bg_errinfo *why, const char *what)
{
    CHECK_EQ(err, expected);
    CHECK_EQ(why->code, expected);
    CHECK_STR(why->what, what);
    CHECK(!f);
}

TEST(foreign__refuses_arguments)
{
    static const double rates[] = { 0, 1, -0.5, 2, (double)NAN, (double)INFINITY };
    bg_foreign_options how = BG_FOREIGN_OPTIONS_INIT;
    bg_foreign *f;
    bg_errinfo why;
    bg_err err = bg_foreign_create((bg_foreign_format)0, 9, 0.1, &how, &f, &why);
    check_refused(err, BG_EINVAL, f, &why, "format");
    err = bg_foreign_decode((bg_foreign_format)99, "", 0, &how, &f, &why);
    check_refused(err, BG_EINVAL, f, &why, "format");
    err = bg_foreign_create(BG_FOREIGN_GO, 9, 0.1, &how, NULL, &why);
    check_refused(err, BG_EINVAL, NULL, &why, "foreign");
    err = bg_foreign_decode(BG_FOREIGN_GO, NULL, 9, &how, &f, &why);
    check_refused(err, BG_EINVAL, f, &why, "bytes");
    err = bg_foreign_decode(BG_FOREIGN_GO, NULL, 0, &how, &f, &why);
    check_refused(err, BG_EFORMAT, f, &why, "header");
    err = bg_foreign_create(BG_FOREIGN_GO, 0, 0.1, &how, &f, &why);
    check_refused(err, BG_EINVAL, f, &why, "items");
    err = bg_foreign_create(BG_FOREIGN_GO, UINT64_MAX, 0.1, &how, &f, &why);
    check_refused(err, BG_EINVAL, f, &why, "items");
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        err = bg_foreign_create(BG_FOREIGN_GO, 9, rates[i], &how, &f, &why);
        check_refused(err, BG_EINVAL, f, &why, "rate");
    }
    how.struct_size--;
    err = bg_foreign_create(BG_FOREIGN_GO, 9, 0.1, &how, &f, &why);
    check_refused(err, BG_EINVAL, f, &why, "struct_size");
}

TEST(foreign__refuses_null)
{
    bg_foreign *f;
    bg_foreign_info about = { .struct_size = sizeof about };
    size_t n;
    CHECK_OK(bg_foreign_create(BG_FOREIGN_GO, 9, 0.1, NULL, &f, NULL));
    CHECK_EQ(bg_foreign_add(NULL, "a", 1, NULL), BG_EINVAL);
    CHECK_EQ(bg_foreign_add(f, NULL, 1, NULL), BG_EINVAL);
    CHECK_EQ(bg_foreign_encode(NULL, NULL, 0, &n, NULL), BG_EINVAL);
    CHECK_EQ(bg_foreign_encode(f, NULL, 0, NULL, NULL), BG_EINVAL);
    CHECK_EQ(bg_foreign_get_info(NULL, &about), BG_EINVAL);
    CHECK_EQ(bg_foreign_get_info(f, NULL), BG_EINVAL);
    about.struct_size = 0;
    CHECK_EQ(bg_foreign_get_info(f, &about), BG_EINVAL);
    CHECK_OK(bg_foreign_add(f, NULL, 0, NULL));
    CHECK(bg_foreign_may_contain(f, NULL, 0));
    CHECK(bg_foreign_may_contain(NULL, "a", 1)); /* in doubt */
    bg_foreign_free(f);
    bg_foreign_free(NULL);
}

static void *allocate_nothing(void *context, size_t bytes, size_t alignment,
                              bool zeroed)
{
    (void)bytes;
    (void)zeroed;
    (void)alignment;
    ++*(int *)context;
    return NULL;
}

static void release_nothing(void *context, void *memory, size_t bytes)
{
    (void)context;
    (void)memory;
    (void)bytes;
}

TEST(foreign__without_memory)
{
    int calls = 0;
    bg_allocator none = { .context = &calls,
                          .allocate = allocate_nothing,
                          .release = release_nothing };
    bg_foreign_options how = BG_FOREIGN_OPTIONS_INIT;
    bg_foreign *f;
    bg_errinfo why;
    how.allocator = &none;
    bg_err err = bg_foreign_create(BG_FOREIGN_GO, 9, 0.1, &how, &f, &why);
    check_refused(err, BG_ENOMEM, f, &why, "memory");
    CHECK_EQ(calls, 1);
    /* A header that claims more bytes than are available is refused before any allocation. */
    static const unsigned char lie[24] = { 0, 0, 0x7f };
    err = bg_foreign_decode(BG_FOREIGN_GO, lie, sizeof lie, &how, &f, &why);
    CHECK_EQ(err, BG_EFORMAT);
    CHECK_EQ(calls, 1);
}

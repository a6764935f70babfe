/* Tests packs: references to parts of a pack file, and the tracking of packs in use. References are
 * read from journals, so they are untrusted. */
#define _GNU_SOURCE

#include "persist/pack.h"
#include "support/check.h"
#include "support/scratch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *pack_folder(void)
{
    const char *folder = scratch_path("pack");
    (void)mkdir(folder, 0700);
    return folder;
}

TEST(pack__parts_come_back)
{
    enum { PARTS = 40, LARGE = (1 << 20) - 12 };
    char references[PARTS][PACK_REFERENCE], too_large[PACK_REFERENCE], path[700];
    const char *folder = pack_folder();
    struct pack_writer *writer = NULL;
    char *part = malloc(LARGE + 1);
    (void)snprintf(path, sizeof path, "%s/a.pack", folder);
    (void)unlink(path);
    CHECK_OK(pack_begin(folder, "a.pack", &writer, NULL));
    for (int i = 0; i < PARTS; i++) {
        const size_t n = i == 20 ? LARGE : (size_t)i * 3000;
        memset(part, i, n);
        CHECK_OK(pack_append(writer, part, n, references[i], NULL));
        CHECK(pack_is_reference(references[i]));
    }
    CHECK_EQ(pack_append(writer, part, LARGE + 1, too_large, NULL), BG_EINVAL);
    CHECK_OK(pack_finish(writer, NULL));
    pack_close(writer);
    CHECK_EQ(pack_begin(folder, "a.pack", &writer, NULL), BG_EIO); /* the pack exists */
    struct pack_reader reader;
    pack_reader_begin(&reader, folder);
    for (int i = 0; i < PARTS; i++) {
        void *bytes = NULL;
        size_t n = 0;
        CHECK_OK(pack_read(&reader, references[i], &bytes, &n, NULL));
        CHECK_EQ(n, i == 20 ? LARGE : (size_t)i * 3000);
        memset(part, i, n);
        CHECK(memcmp(part, bytes, n) == 0);
        free(bytes);
    }
    pack_reader_end(&reader);
    free(part);
}

TEST(pack__references_may_be_anything)
{
    static const struct {
        const char *text;
        bg_err err;
    } wrong[] = {
        { "", BG_EFORMAT },
        { "b.pack", BG_EFORMAT },
        { "b.pack@", BG_EFORMAT },
        { "b.pack@0", BG_EFORMAT },
        { "b.pack@0+4x", BG_EFORMAT },
        { "b.pack@0+17", BG_EFORMAT },
        { "b.pack@0+15", BG_EFORMAT },
        { "b.pack@0+3", BG_EFORMAT },
        { "b.pack@1+15", BG_EFORMAT },
        { "b.pack@17+0", BG_EFORMAT },
        { "b.pack@16+1", BG_EFORMAT },
        { "b.pack@-1+1", BG_EFORMAT },
        { "b.pack@18446744073709551615+2", BG_EFORMAT },
        { "b.pack@1+18446744073709551615", BG_EFORMAT },
        { "b.pack@99999999999999999999999999+1", BG_EFORMAT },
        { "0123456789012345678901234567890123456789012345678901234567890123@0+1",
          BG_EFORMAT },
        { "missing.pack@0+1", BG_EIO },
    };
    char reference[PACK_REFERENCE], path[700];
    const char *folder = pack_folder();
    struct pack_writer *writer = NULL;
    void *bytes = NULL;
    size_t n = 0;
    (void)snprintf(path, sizeof path, "%s/b.pack", folder);
    (void)unlink(path);
    CHECK_OK(pack_begin(folder, "b.pack", &writer, NULL));
    CHECK_OK(pack_append(writer, "four", 4, reference, NULL));
    CHECK_OK(pack_finish(writer, NULL));
    pack_close(writer);
    CHECK_STR(reference, "b.pack@0+16");
    struct pack_reader reader;
    pack_reader_begin(&reader, folder);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_EQ(pack_read(&reader, wrong[i].text, &bytes, &n, NULL), wrong[i].err);
        CHECK(!bytes);
    }
    pack_reader_end(&reader);
}

TEST(pack__compares_files)
{
    CHECK(pack_compare("a.pack@1+2", "a.pack@3+4") == 0);
    CHECK(pack_compare("a.pack@1+2", "a.pack") == 0);
    CHECK(pack_compare("a.pack", "a.packs@1+2") < 0);
    CHECK(pack_compare("b", "a.pack@1+2") > 0);
    CHECK(pack_compare("", "a") < 0);
}

TEST(packs__count_references)
{
    char name[PACK_NAME];
    struct packs *packs = packs_create();
    CHECK(packs_hold(packs, "file.bg") && packs_hold(packs, ""));
    CHECK(!packs_release(packs, "file.bg", name));
    CHECK(!packs_release(packs, "a.pack@0+10", name)); /* not in use */
    CHECK(packs_hold(packs, "b.pack@0+10") && packs_hold(packs, "a.pack@0+10"));
    CHECK(packs_hold(packs, "a.pack@10+10") && packs_hold(packs, "a.pack@20+20"));
    CHECK(!packs_is_sparse(packs, "a.pack@0+10"));
    CHECK(!packs_release(packs, "a.pack@20+20", name));
    CHECK(!packs_is_sparse(packs, "a.pack@0+10")); /* half */
    CHECK(!packs_release(packs, "a.pack@10+10", name));
    CHECK(packs_is_sparse(packs, "a.pack@0+10"));
    CHECK(!packs_is_sparse(packs, "b.pack@0+10") && !packs_is_sparse(packs, "c.bg"));
    CHECK(packs_release(packs, "a.pack@0+10", name));
    CHECK_STR(name, "a.pack");
    CHECK(!packs_is_sparse(packs, "a.pack@0+10"));
    CHECK(packs_release(packs, "b.pack@0+10", name));
    CHECK_STR(name, "b.pack");
    packs_free(packs);
}

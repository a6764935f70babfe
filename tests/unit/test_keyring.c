/*
 * Keyrings: valid and invalid text, errors that never reveal a secret, atomic appends, and rotating
 * the secrets of saved filters.
 */
#define _GNU_SOURCE /* memmem, strcasestr */

#include "support/adds.h"
#include "support/faulty_disk.h"
#include "support/files.h"
#include "support/pages.h"

#include "base/memory.h"
#include "gate/keyring_text.h"

#include <sys/wait.h>

/* The secrets contain letters throughout, so that no number in a message matches part of a secret
 * by chance. */
#define FIRST  "a1bc2def3a4bcd5ef6ab7cd8e9fa0b1c"
#define SECOND "Fe1DCb2Af3eD4cb5A6fE7dcB8aFeD9Cb"

static const uint8_t first_bytes[BG_SECRET_BYTES] = { 0xa1, 0xbc, 0x2d, 0xef,
                                                      0x3a, 0x4b, 0xcd, 0x5e,
                                                      0xf6, 0xab, 0x7c, 0xd8,
                                                      0xe9, 0xfa, 0x0b, 0x1c };

static void write_bytes(const char *path, const char *text, size_t n, mode_t mode)
{
    (void)unlink(path);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(file >= 0);
    CHECK_EQ(write(file, text, n), n);
    CHECK(fchmod(file, mode) == 0);
    CHECK(close(file) == 0);
}

static const char *write_ring(const char *text)
{
    const char *path = files_path("ring");
    write_bytes(path, text, strlen(text), 0600);
    return path;
}

static bg_keyring *must_open(const char *path)
{
    bg_keyring *ring = NULL;
    bg_errinfo why;
    if (bg_keyring_open(path, &ring, &why) != BG_OK) {
        check_fail(__FILE__, __LINE__, "%s", why.message);
    }
    CHECK_EQ(why.code, BG_OK);
    return ring;
}

static size_t read_bytes(const char *path, char *to, size_t room)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(file >= 0);
    ssize_t n = read(file, to, room);
    CHECK(n >= 0 && (size_t)n < room);
    CHECK(close(file) == 0);
    to[n] = 0;
    return (size_t)n;
}

static void key_id_of(const char *name, uint8_t key_id[BG_KEY_ID_BYTES])
{
    size_t n = strlen(name);
    for (size_t i = 0; i < BG_KEY_ID_BYTES; i++) {
        key_id[i] = i < n ? (uint8_t)name[i] : 0;
    }
}

/* ---- Valid keyrings ------------------------------------------------------------------- */

TEST(keyring__reads_names_secrets_and_states)
{
    bg_keyring *ring = must_open(write_ring("# bloomgate keyring\n"
                                            "2026-10 " FIRST " retired\n"
                                            "\n"
                                            "2026-11 " SECOND "\n"));
    bool retired = false;
    CHECK_EQ(bg_keyring_count(ring), 2);
    CHECK_STR(bg_keyring_name(ring, 0, &retired), "2026-10");
    CHECK(retired);
    CHECK_STR(bg_keyring_name(ring, 1, &retired), "2026-11");
    CHECK(!retired);
    retired = true;
    CHECK_STR(bg_keyring_name(ring, 2, &retired), "");
    CHECK(!retired);
    CHECK_STR(bg_keyring_name(ring, 0, NULL), "2026-10");
    bg_hash_spec hash = { .profile = BG_HASH_FAST };
    uint8_t key_id[BG_KEY_ID_BYTES], expected[BG_KEY_ID_BYTES];
    bg_errinfo why = { .code = BG_EINVAL };
    CHECK_OK(bg_keyring_current(ring, &hash, key_id, &why));
    CHECK_EQ(why.code, BG_OK);
    key_id_of("2026-11", expected);
    CHECK(memcmp(key_id, expected, sizeof key_id) == 0);
    CHECK_EQ(hash.profile, BG_HASH_KEYED);
    CHECK_EQ(hash.secret[0], 0xfe);
    CHECK_EQ(hash.secret[15], 0xcb);
    key_id_of("2026-10", key_id);
    CHECK_OK(bg_keyring_find(ring, key_id, &hash, NULL)); /* retired or not */
    CHECK(memcmp(hash.secret, first_bytes, sizeof first_bytes) == 0);
    bg_keyring_free(ring);
    files_clean();
}

TEST(keyring__takes_text_as_editors_leave_it)
{
    static const char *const texts[] = {
        "a " FIRST,                                /* without a newline at the end */
        "a " FIRST "\r\n",                         /* from another OS */
        "a " FIRST "   \t \r\n\r\n  \t\r\n",       /* blanks */
        "\t a \t " FIRST "\t\n",                   /* before and between */
        "#\n#a\n # b " SECOND "\n\na " FIRST "\n", /* comments */
        "a A1BC2DEF3A4BCD5EF6AB7CD8E9FA0B1C\n",    /* capitals */
        "# a\xff\x01\na " FIRST "\n",              /* any comment */
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        bg_keyring *ring = must_open(write_ring(texts[i]));
        bg_hash_spec hash = { .profile = BG_HASH_FAST };
        uint8_t key_id[BG_KEY_ID_BYTES];
        CHECK_EQ(bg_keyring_count(ring), 1);
        CHECK_STR(bg_keyring_name(ring, 0, NULL), "a");
        CHECK_OK(bg_keyring_current(ring, &hash, key_id, NULL));
        CHECK(memcmp(hash.secret, first_bytes, sizeof first_bytes) == 0);
        bg_keyring_free(ring);
    }
    files_clean();
}

TEST(keyring__names_have_up_to_31_bytes_of_which_16_are_the_id)
{
    const char *name = "Az0-9_.Az0-9_.Az0-9_.Az0-9_.abc";
    char text[256];
    CHECK_EQ(strlen(name), 31);
    (void)snprintf(text, sizeof text, "%s %s\n%.15s %s retired\n%.14s %s\n", name,
                   FIRST, name, SECOND, name, SECOND);
    bg_keyring *ring = must_open(write_ring(text));
    bg_hash_spec hash = { .profile = BG_HASH_FAST };
    uint8_t key_id[BG_KEY_ID_BYTES];
    CHECK_STR(bg_keyring_name(ring, 0, NULL), name);
    memcpy(key_id, name, sizeof key_id);
    CHECK_OK(bg_keyring_find(ring, key_id, &hash, NULL));
    CHECK(memcmp(hash.secret, first_bytes, sizeof first_bytes) == 0);
    key_id[15] = 0; /* this shorter name belongs to a different secret */
    CHECK_OK(bg_keyring_find(ring, key_id, &hash, NULL));
    CHECK_EQ(hash.secret[0], 0xfe);
    key_id[14] = 0;
    key_id[15] = 'x'; /* a key ID must have only zeros after the name */
    CHECK_EQ(bg_keyring_find(ring, key_id, &hash, NULL), BG_ENOTFOUND);
    bg_keyring_free(ring);
    files_clean();
}

TEST(keyring__keeps_a_keyed_profile_and_replaces_others)
{
    static const bg_hash_profile before[] = { BG_HASH_FAST,    BG_HASH_KEYED,
                                              BG_HASH_KEYED24, BG_HASH_KEYED_INT,
                                              BG_HASH_XXH64,   BG_HASH_CUSTOM,
                                              BG_HASH_FAST_INT };
    bg_keyring *ring = must_open(write_ring("a " FIRST "\n"));
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        bg_hash_spec hash = { .profile = before[i] }, found = hash;
        uint8_t key_id[BG_KEY_ID_BYTES];
        bool keyed = i >= 1 && i <= 3;
        CHECK_OK(bg_keyring_current(ring, &hash, key_id, NULL));
        CHECK_OK(bg_keyring_find(ring, key_id, &found, NULL));
        CHECK_EQ(hash.profile, keyed ? before[i] : BG_HASH_KEYED);
        CHECK_EQ(found.profile, hash.profile);
        CHECK(found.secret == hash.secret);
    }
    bg_keyring_free(ring);
    files_clean();
}

TEST(keyring__without_a_secret_for_new_filters)
{
    static const char *const texts[] = { "", "# nothing\n", "\n\n",
                                         "a " FIRST " retired\n" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        bg_keyring *ring = must_open(write_ring(texts[i]));
        bg_hash_spec hash = { .profile = BG_HASH_FAST };
        uint8_t key_id[BG_KEY_ID_BYTES] = { 0 };
        bg_errinfo why;
        CHECK_EQ(bg_keyring_count(ring), i == 3);
        CHECK_EQ(bg_keyring_current(ring, &hash, key_id, &why), BG_ENOTFOUND);
        CHECK_EQ(why.code, BG_ENOTFOUND);
        CHECK_EQ(bg_keyring_find(ring, key_id, &hash, &why), BG_ENOTFOUND);
        CHECK_EQ(hash.profile, BG_HASH_FAST);
        CHECK(hash.secret == NULL);
        bg_keyring_free(ring);
    }
    files_clean();
}

TEST(keyring__null_is_refused_or_empty)
{
    bg_keyring *ring = must_open(write_ring("a " FIRST "\n")), *none = ring;
    bg_hash_spec hash = { .profile = BG_HASH_FAST };
    uint8_t key_id[BG_KEY_ID_BYTES] = "a";
    CHECK_EQ(bg_keyring_open(NULL, &none, NULL), BG_EINVAL);
    CHECK(none == NULL);
    CHECK_EQ(bg_keyring_open(files_path("ring"), NULL, NULL), BG_EINVAL);
    CHECK_EQ(bg_keyring_current(NULL, &hash, key_id, NULL), BG_EINVAL);
    CHECK_EQ(bg_keyring_current(ring, NULL, key_id, NULL), BG_EINVAL);
    CHECK_EQ(bg_keyring_current(ring, &hash, NULL, NULL), BG_EINVAL);
    CHECK_EQ(bg_keyring_find(NULL, key_id, &hash, NULL), BG_EINVAL);
    CHECK_EQ(bg_keyring_find(ring, NULL, &hash, NULL), BG_EINVAL);
    CHECK_EQ(bg_keyring_find(ring, key_id, NULL, NULL), BG_EINVAL);
    CHECK_EQ(bg_keyring_append(NULL, "a", NULL), BG_EINVAL);
    CHECK_EQ(bg_keyring_append(files_path("ring"), NULL, NULL), BG_EINVAL);
    CHECK_EQ(bg_keyring_count(NULL), 0);
    CHECK_STR(bg_keyring_name(NULL, 0, NULL), "");
    bg_keyring_free(NULL);
    bg_keyring_free(ring);
    files_clean();
}

/* ---- Invalid text ---------------------------------------------------------------------- */

/* Checks that no string in the error details contains four consecutive digits of a secret. */
static void check_tells_nothing(const bg_errinfo *why, const char *hex)
{
    const char *const strings[] = { why->what, why->found, why->expected,
                                    why->message };
    for (size_t i = 0; i + 4 <= strlen(hex); i++) {
        char part[5] = { hex[i], hex[i + 1], hex[i + 2], hex[i + 3], 0 };
        for (size_t j = 0; j < sizeof strings / sizeof *strings; j++) {
            if (strcasestr(strings[j], part)) {
                check_fail(__FILE__, __LINE__, "it reveals \"%s\": %s", part,
                           strings[j]);
            }
        }
    }
}

TEST(keyring__bad_text_is_refused_by_line_and_tells_no_secret)
{
    static const struct {
        const char *text, *what, *found;
        uint64_t offset;
    } bad[] = {
        { "a\n", "line 1, secret", "nothing", 0 },
        { "# x\n\na \n", "line 3, secret", "nothing", 5 },
        { FIRST "\n", "line 1, name", "32 bytes", 0 },   /* no name */
        { FIRST " a\n", "line 1, name", "32 bytes", 0 }, /* the wrong order */
        { "retired " FIRST " a\n", "line 1, state", "1 bytes", 0 },
        { "a " FIRST "0\n", "line 1, secret", "33 bytes", 0 },
        { "a " FIRST SECOND "\n", "line 1, secret", "64 bytes", 0 },
        { "a a1bc2def3a4bcd5ef6ab7cd8e9fa0b1\n", "line 1, secret", "31 bytes", 0 },
        { "a a1bc2def3a4bcd5ef6ab7cd8e9fa0b1g\n", "line 1, secret", "32 bytes", 0 },
        { "a g1bc2def3a4bcd5ef6ab7cd8e9fa0b1c\n", "line 1, secret", "32 bytes", 0 },
        { "a 0x" FIRST "\n", "line 1, secret", "34 bytes", 0 },
        { "a \"" FIRST "\"\n", "line 1, secret", "34 bytes", 0 },
        { "a:" FIRST "\n", "line 1, name", "34 bytes", 0 },
        { "a=" FIRST "\n", "line 1, name", "34 bytes", 0 },
        { "a " FIRST " Retired\n", "line 1, state", "7 bytes", 0 },
        { "a " FIRST " retire\n", "line 1, state", "6 bytes", 0 },
        { "a " FIRST " " SECOND "\n", "line 1, state", "32 bytes", 0 },
        { "a " FIRST " # new\n", "line 1, state", "1 bytes", 0 },
        { "a " FIRST " retired retired\n", "line 1, end", "7 bytes", 0 },
        { "a " FIRST " retired " SECOND " x\n", "line 1, end", "32 bytes", 0 },
        { "a b " FIRST "\n", "line 1, secret", "1 bytes", 0 },
        { "a/b " FIRST "\n", "line 1, name", "3 bytes", 0 },
        { "\xc3\xa4 " FIRST "\n", "line 1, name", "2 bytes", 0 },
        { "\xef\xbb\xbf"
          "a " FIRST "\n",
          "line 1, name", "4 bytes", 0 }, /* a byte order mark */
        { "a " FIRST "\rb " SECOND "\r", "line 1, secret", "34 bytes", 0 },
        { "a " FIRST "\na " SECOND "\n", "line 2, name",
          "the same first 16 bytes as on line 1", 35 },
        { "a " FIRST "\nb " SECOND "\n#\na " SECOND " retired\n", "line 4, name",
          "the same first 16 bytes as on line 1", 72 },
        { "0123456789abcdefg " FIRST "\n0123456789abcdefh " SECOND "\n", "line 2, name",
          "the same first 16 bytes as on line 1",
          51 }, /* a different name with the same ID */
        { "0123456789abcdef0123456789abcdef " FIRST "\n", "line 1, name", "32 bytes",
          0 },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *path = write_ring(bad[i].text);
        bg_keyring *ring = (bg_keyring *)(uintptr_t)&bad;
        bg_errinfo why;
        CHECK_EQ(bg_keyring_open(path, &ring, &why), BG_EFORMAT);
        CHECK(ring == NULL);
        CHECK_STR(why.what, bad[i].what);
        CHECK_STR(why.found, bad[i].found);
        CHECK(*why.expected);
        CHECK_EQ(why.offset, bad[i].offset);
        check_tells_nothing(&why, FIRST);
        check_tells_nothing(&why, SECOND);
        CHECK_EQ(bg_keyring_open(path, &ring, NULL), BG_EFORMAT);
        CHECK_EQ(bg_keyring_append(path, "new", &why), BG_EFORMAT); /* unchanged */
        check_tells_nothing(&why, FIRST);
        char after[512];
        (void)read_bytes(path, after, sizeof after);
        CHECK_STR(after, bad[i].text);
    }
    files_clean();
}

TEST(keyring__zero_bytes_are_no_end)
{
    static const char inside[] = "a\0b " FIRST "\n", behind[] = "a " FIRST "\n\0";
    const char *path = files_path("ring");
    bg_keyring *ring = NULL;
    bg_errinfo why;
    write_bytes(path, inside, sizeof inside - 1, 0600);
    CHECK_EQ(bg_keyring_open(path, &ring, &why), BG_EFORMAT);
    CHECK_STR(why.what, "line 1, name");
    write_bytes(path, behind, sizeof behind - 1, 0600);
    CHECK_EQ(bg_keyring_open(path, &ring, &why), BG_EFORMAT);
    CHECK_STR(why.what, "line 2, name");
    files_clean();
}

/* Writes n keyring lines, each with a secret followed by `behind`. Returns their total length. */
static size_t many_lines(char *text, int n, const char *behind)
{
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        at += (size_t)sprintf(text + at, "k%d %s%s\n", i, FIRST, behind);
    }
    return at;
}

TEST(keyring__holds_256_secrets_and_64_KiB)
{
    static char text[KEYRING_BYTES + 4096];
    const char *path = files_path("ring");
    bg_keyring *ring;
    bg_errinfo why;
    size_t n = many_lines(text, KEYRING_SECRETS, " retired");
    write_bytes(path, text, n, 0600);
    ring = must_open(path);
    CHECK_EQ(bg_keyring_count(ring), KEYRING_SECRETS);
    CHECK_STR(bg_keyring_name(ring, 255, NULL), "k255");
    bg_keyring_free(ring);
    CHECK_EQ(bg_keyring_append(path, "new", &why), BG_EFORMAT);
    CHECK_STR(why.found, "one more");
    memset(text + n, '\n', KEYRING_BYTES - n); /* the file now has its maximum size */
    write_bytes(path, text, KEYRING_BYTES, 0600);
    ring = must_open(path);
    CHECK_EQ(bg_keyring_count(ring), KEYRING_SECRETS);
    bg_keyring_free(ring);
    text[KEYRING_BYTES] = '\n';
    write_bytes(path, text, KEYRING_BYTES + 1, 0600);
    CHECK_EQ(bg_keyring_open(path, &ring, &why), BG_EFORMAT);
    CHECK_STR(why.what, "size");
    n = many_lines(text, KEYRING_SECRETS + 1, "");
    write_bytes(path, text, n, 0600);
    CHECK_EQ(bg_keyring_open(path, &ring, &why), BG_EFORMAT);
    CHECK_STR(why.what, "line 257, secret");
    CHECK(truncate(path, (off_t)1 << 40) == 0); /* a TiB of nothing */
    CHECK_EQ(bg_keyring_open(path, &ring, &why), BG_EFORMAT);
    CHECK_STR(why.what, "size");
    memset(text, '#', KEYRING_BYTES); /* leaves no space for another line */
    write_bytes(path, text, KEYRING_BYTES, 0600);
    CHECK_EQ(bg_keyring_append(path, "new", &why), BG_EFORMAT);
    CHECK_STR(why.what, "size");
    files_clean();
}

/* ---- Invalid files --------------------------------------------------------------------- */

static void check_refused(const char *path, bg_err code, const char *what)
{
    bg_keyring *ring = NULL;
    bg_errinfo why;
    CHECK_EQ(bg_keyring_open(path, &ring, &why), code);
    CHECK(ring == NULL);
    CHECK_STR(why.what, what);
    check_tells_nothing(&why, FIRST);
    CHECK_EQ(bg_keyring_append(path, "new", &why), code);
    CHECK_STR(why.what, what);
}

TEST(keyring__only_its_owner_may_read_it)
{
    const char *path = write_ring("a " FIRST "\n");
    for (unsigned mode = 0; mode < 01000; mode++) {
        if (mode & 0400 && !(mode & 077)) {
            CHECK(chmod(path, mode) == 0);
            bg_keyring_free(must_open(path));
        } else if (mode & 077) {
            CHECK(chmod(path, mode | 0400) == 0);
            check_refused(path, BG_EINVAL, "mode");
        }
    }
    CHECK(chmod(path, 0600) == 0);
    if (geteuid() == 0 && chown(path, 12345, 0) == 0) {
        check_refused(path, BG_EINVAL, "owner");
        bg_keyring *ring = NULL;
        bg_errinfo why;
        CHECK_EQ(bg_keyring_open(path, &ring, &why), BG_EINVAL);
        CHECK_STR(why.message,
                  "owner: found user 12345, expected the current user or root (run "
                  "this as the owner, or change the owner with chown)");
    }
    files_clean();
}

TEST(keyring__is_a_regular_file_by_its_own_name)
{
    const char *path = write_ring("a " FIRST "\n"), *other = files_path("other");
    bg_errinfo why;
    bg_keyring *ring = NULL;
    CHECK(symlink(path, other) == 0);
    check_refused(other, BG_EIO, "open");
    CHECK_EQ(bg_keyring_open(other, &ring, &why), BG_EIO);
    CHECK_STR(why.message,
              "a keyring must not be a symbolic link; use the path of its target");
    CHECK(unlink(other) == 0);
    CHECK(symlink(files_path("nothing"), other)
          == 0); /* a file is not created through a symbolic link, either */
    check_refused(other, BG_EIO, "open");
    CHECK(unlink(other) == 0);
    CHECK(mkfifo(other, 0600) == 0);
    check_refused(other, BG_EFORMAT, "path"); /* refused without waiting for a writer */
    CHECK(unlink(other) == 0);
    CHECK(mkdir(other, 0700) == 0);
    check_refused(other, BG_EFORMAT, "path");
    CHECK(rmdir(other) == 0);
    check_refused("/dev/null", BG_EFORMAT, "path");
    CHECK_EQ(bg_keyring_open(other, &ring, &why), BG_EIO);
    CHECK_EQ(why.os_errno, ENOENT);
    CHECK_EQ(bg_keyring_append("/nonexistent/ring", "new", &why), BG_EIO);
    CHECK_EQ(why.os_errno, ENOENT);
    static char deep[5000];
    memset(deep, 'x', sizeof deep - 1);
    CHECK_EQ(bg_keyring_open(deep, &ring, &why), BG_EINVAL);
    CHECK_EQ(bg_keyring_append(deep, "new", &why), BG_EINVAL);
    files_clean();
}

/* ---- Appending ------------------------------------------------------------------------- */

static unsigned mode_of(const char *path)
{
    struct stat about;
    CHECK(stat(path, &about) == 0);
    return (unsigned)about.st_mode & 07777;
}

TEST(keyring__append_creates_a_file_for_the_owner_alone)
{
    const char *path = files_path("ring");
    static const mode_t masks[] = { 0, 022, 077 };
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        mode_t before = umask(masks[i]);
        bg_errinfo why = { .code = BG_EIO };
        CHECK_OK(bg_keyring_append(path, "2026-11", &why));
        (void)umask(before);
        CHECK_EQ(why.code, BG_OK);
        CHECK_STR(why.message, "");
        CHECK_EQ(mode_of(path), 0600);
        bg_keyring *ring = must_open(path);
        bg_hash_spec hash = { .profile = BG_HASH_FAST };
        uint8_t key_id[BG_KEY_ID_BYTES];
        CHECK_EQ(bg_keyring_count(ring), 1);
        CHECK_OK(bg_keyring_current(ring, &hash, key_id, NULL));
        bg_keyring_free(ring);
        CHECK(unlink(path) == 0);
    }
    files_clean();
}

TEST(keyring__append_keeps_every_byte)
{
    static const char *const texts[] = {
        "",
        "# mine\r\n\r\nold " FIRST "\tretired \r\n",
        "old " SECOND,       /* gets a newline */
        "old " SECOND "\n#", /* also after a comment */
        "\n\n\n",
    };
    const char *path = files_path("ring");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char after[512];
        size_t n = strlen(texts[i]);
        write_bytes(path, texts[i], n, 0400);
        CHECK_OK(bg_keyring_append(path, "new", NULL));
        CHECK_EQ(mode_of(path), 0400);
        size_t all = read_bytes(path, after, sizeof after);
        CHECK(memcmp(after, texts[i], n) == 0);
        size_t ends = n > 0 && texts[i][n - 1] != '\n';
        CHECK_EQ(all, n + ends + strlen("new " FIRST "\n"));
        CHECK(!ends || after[n] == '\n');
        CHECK(memcmp(after + n + ends, "new ", 4) == 0);
        bg_keyring *ring = must_open(path);
        CHECK_STR(bg_keyring_name(ring, bg_keyring_count(ring) - 1, NULL), "new");
        bg_keyring_free(ring);
    }
    files_clean();
}

TEST(keyring__append_refuses_names_that_are_there_or_none)
{
    static const char *const bad[] = { "",
                                       "a b",
                                       "a\n",
                                       "#a",
                                       "a/b",
                                       "\xc3\xa4",
                                       "0123456789abcdef0123456789abcdef",
                                       "old",
                                       "0123456789abcdefz" };
    const char *text = "old " FIRST " retired\n0123456789abcdefg " SECOND "\n";
    const char *path = write_ring(text);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char after[512];
        bg_errinfo why;
        CHECK_EQ(bg_keyring_append(path, bad[i], &why), BG_EINVAL);
        CHECK_STR(why.what, "name");
        (void)read_bytes(path, after, sizeof after);
        CHECK_STR(after, text);
    }
    CHECK_EQ(bg_keyring_append(files_path("none"), "a b", NULL), BG_EINVAL);
    CHECK(access(files_path("none"), F_OK) != 0);
    files_clean();
}

/* ---- Importing --------------------------------------------------------------------------- */

static void secret_of(const char *hex, uint8_t secret[BG_SECRET_BYTES])
{
    for (size_t i = 0; i < BG_SECRET_BYTES; i++) {
        const char digits[3] = { hex[2 * i], hex[2 * i + 1], 0 };
        secret[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
}

TEST(keyring__import_adds_a_retired_secret)
{
    const char *path = files_path("ring");
    uint8_t secret[BG_SECRET_BYTES], key_id[BG_KEY_ID_BYTES];
    bg_hash_spec hash = { .profile = BG_HASH_FAST };
    char before[512], after[512];
    secret_of(FIRST, secret);
    CHECK_OK(bg_keyring_import(path, "shard", secret, NULL));
    CHECK_EQ(mode_of(path), 0600);
    bg_keyring *ring = must_open(path);
    CHECK_EQ(bg_keyring_current(ring, &hash, key_id, NULL), BG_ENOTFOUND);
    key_id_of("shard", key_id);
    CHECK_OK(bg_keyring_find(ring, key_id, &hash, NULL));
    CHECK(memcmp(hash.secret, secret, sizeof secret) == 0);
    bg_keyring_free(ring);

    CHECK_OK(bg_keyring_append(path, "mine", NULL));
    secret_of(SECOND, secret);
    CHECK_OK(bg_keyring_import(path, "other", secret, NULL));
    (void)read_bytes(path, before, sizeof before);
    CHECK_OK(bg_keyring_import(path, "other", secret, NULL)); /* already in the file */
    (void)read_bytes(path, after, sizeof after);
    CHECK_STR(after, before);
    ring = must_open(path);
    CHECK_EQ(bg_keyring_count(ring), 3);
    CHECK_OK(bg_keyring_current(ring, &hash, key_id, NULL));
    CHECK_STR((const char *)key_id, "mine");
    bg_keyring_free(ring);
    files_clean();
}

TEST(keyring__import_refuses_other_secrets_and_other_files)
{
    static const char text[] = "old " FIRST "\n0123456789abcdefg " SECOND "\n";
    const char *path = write_ring(text);
    uint8_t first[BG_SECRET_BYTES], second[BG_SECRET_BYTES];
    char after[512];
    bg_errinfo why;
    secret_of(FIRST, first);
    secret_of(SECOND, second);
    CHECK_EQ(bg_keyring_import(path, "old", second, &why), BG_EINCOMPAT);
    CHECK(strstr(why.message, "line 1") && !strstr(why.message, SECOND));
    CHECK_EQ(bg_keyring_import(path, "0123456789abcdef", first, NULL), BG_EINCOMPAT);
    CHECK_OK(bg_keyring_import(path, "0123456789abcdef", second, NULL));
    CHECK_EQ(bg_keyring_import(path, "a b", second, NULL), BG_EINVAL);
    CHECK_EQ(bg_keyring_import(path, "new", NULL, NULL), BG_EINVAL);
    (void)read_bytes(path, after, sizeof after);
    CHECK_STR(after, text);

    const char *link = files_path("link"), *notes = files_path("notes");
    CHECK(symlink(path, link) == 0);
    CHECK_EQ(bg_keyring_import(link, "new", second, NULL), BG_EIO);
    write_bytes(notes, "some notes\n", 11, 0600);
    CHECK_EQ(bg_keyring_import(notes, "new", second, NULL), BG_EFORMAT);
    (void)read_bytes(notes, after, sizeof after);
    CHECK_STR(after, "some notes\n");
    files_clean();
}

TEST(keyring__secrets_are_not_repeated)
{
    const char *path = files_path("ring");
    enum { SECRETS = 64 };
    char name[16];
    unsigned ones = 0;
    for (int i = 0; i < SECRETS; i++) {
        (void)snprintf(name, sizeof name, "k%d", i);
        CHECK_OK(bg_keyring_append(path, name, NULL));
    }
    bg_keyring *ring = must_open(path);
    bg_hash_spec hash[SECRETS] = { { 0 } };
    CHECK_EQ(bg_keyring_count(ring), SECRETS);
    for (int i = 0; i < SECRETS; i++) {
        uint8_t key_id[BG_KEY_ID_BYTES];
        (void)snprintf(name, sizeof name, "k%d", i);
        key_id_of(name, key_id);
        CHECK_OK(bg_keyring_find(ring, key_id, &hash[i], NULL));
        for (int j = 0; j < i; j++) {
            CHECK(memcmp(hash[i].secret, hash[j].secret, BG_SECRET_BYTES) != 0);
        }
        for (int j = 0; j < BG_SECRET_BYTES; j++) {
            ones += (unsigned)__builtin_popcount(hash[i].secret[j]);
        }
    }
    CHECK_NEAR(ones, SECRETS * BG_SECRET_BYTES * 4, 0.1); /* 9 standard deviations */
    bg_keyring_free(ring);
    files_clean();
}

/* A caller may use a new secret as soon as its append has succeeded, so concurrent appends must not
 * overwrite each other. */
TEST(keyring__appends_of_several_processes_are_all_there)
{
    enum { PROCESSES = 4, EACH = 8 };
    const char *path = files_path("ring");
    pid_t children[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        CHECK(children[i] >= 0);
        if (children[i] == 0) {
            int failed = 0;
            for (int j = 0; j < EACH; j++) {
                char name[32];
                (void)snprintf(name, sizeof name, "p%d-%d", i, j);
                failed += bg_keyring_append(path, name, NULL) != BG_OK;
            }
            _exit(failed);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = 1;
        CHECK_EQ(waitpid(children[i], &status, 0), children[i]);
        CHECK_EQ(status, 0);
    }
    bg_keyring *ring = must_open(path);
    CHECK_EQ(bg_keyring_count(ring), PROCESSES * EACH);
    bg_keyring_free(ring);
    files_clean();
}

/* ---- A disk that fails ----------------------------------------------------------------- */

static unsigned temporaries(void)
{
    unsigned count = 0;
    DIR *folder = opendir(files_folder());
    CHECK(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        count += strstr(entry->d_name, ".tmp.") != NULL;
    }
    (void)closedir(folder);
    return count;
}

/* Checks that the keyring is complete and is either the old or the new one. Returns true for the
 * new keyring. */
static bool check_old_or_new(const char *path, bool there)
{
    char after[512];
    if (!there && access(path, F_OK) != 0) {
        return false;
    }
    bg_keyring *ring = must_open(path);
    bool is_new = bg_keyring_count(ring) == (size_t)there + 1;
    CHECK(is_new || (there && bg_keyring_count(ring) == 1));
    bg_keyring_free(ring);
    (void)read_bytes(path, after, sizeof after);
    CHECK(strncmp(after, there ? "old " FIRST "\n" : "# ", 2) == 0);
    CHECK_EQ(mode_of(path), 0600);
    return is_new;
}

static void check_faults(const char *path, bool there, enum disk_fault fault)
{
    for (unsigned long at = 1;; at++) {
        bg_errinfo why;
        (void)unlink(path);
        if (there) {
            write_bytes(path, "old " FIRST "\n", strlen("old " FIRST "\n"), 0600);
        }
        disk.fault = fault;
        disk.calls = 0;
        disk.at = at;
        bg_err err = bg_keyring_append(path, "new", &why);
        bool came = disk.calls >= at;
        disk.at = 0;
        /* A temporary file may remain only if a new keyring was linked into place but its temporary
         * name could not be removed. */
        CHECK(temporaries() == 0 || (!there && !err));
        bool is_new = check_old_or_new(path, there);
        CHECK(err || is_new);
        disk_empty_folder(files_folder());
        CHECK(!err || err == BG_EIO);
        if (!came) {
            CHECK_OK(err);
            CHECK(at > 5);
            return;
        }
    }
}

TEST(keyring__a_disk_that_fails_leaves_the_old_ring_or_the_new)
{
    for (int fault = DISK_EIO; fault < DISK_FAULTS; fault++) {
        check_faults(files_path("ring"), true, (enum disk_fault)fault);
        check_faults(files_path("ring"), false, (enum disk_fault)fault);
    }
    files_clean();
}

TEST(keyring__a_process_that_dies_leaves_the_old_ring_or_the_new)
{
    const char *path = files_path("ring");
    unsigned long at = 1;
    for (unsigned long status = 1; status != 0; at++) {
        write_bytes(path, "old " FIRST "\n", strlen("old " FIRST "\n"), 0600);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            disk.fault = at % 2 ? DISK_STOP_BEFORE : DISK_STOP_AFTER;
            disk.calls = 0;
            disk.at = 1 + at / 2;
            _exit(bg_keyring_append(path, "new", NULL) != BG_OK);
        }
        int how = 0;
        CHECK_EQ(waitpid(child, &how, 0), child);
        status = (unsigned long)how;
        bool is_new = check_old_or_new(path, true);
        CHECK(status || is_new);
    }
    CHECK(at > 12);
    files_clean();
}

/* ---- In memory ------------------------------------------------------------------------- */

TEST(keyring__secrets_are_hidden_and_not_inherited)
{
    bg_keyring *ring = must_open(write_ring("a " FIRST "\n"));
    bg_hash_spec hash = { .profile = BG_HASH_FAST };
    uint8_t key_id[BG_KEY_ID_BYTES];
    CHECK_OK(bg_keyring_current(ring, &hash, key_id, NULL));
    if (pages_are_told()) {
        CHECK(pages_have(hash.secret, "dd"));
        CHECK(pages_have(hash.secret, "wf") || pages_have(hash.secret, "dc"));
    }
    if (pages_are_told() && pages_have(hash.secret, "wf")) {
        pid_t child = fork();
        CHECK(child >= 0);
        /* In the child, the keyring must be empty instead of containing a secret of zeros. */
        if (child == 0) {
            bool empty =
                bg_keyring_count(ring) == 0
                && bg_keyring_current(ring, &hash, key_id, NULL) == BG_ENOTFOUND
                && bg_keyring_find(ring, key_id, &hash, NULL) == BG_ENOTFOUND;
            bg_keyring_free(ring);
            _exit(empty ? 0 : 1);
        }
        int status = 1;
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(status, 0);
        CHECK_EQ(hash.secret[0], 0xa1);
    }
    bg_keyring_free(ring);
    files_clean();
}

/* After each call, neither the bytes nor the digits of a secret that was created here remain in
 * memory. */
TEST(keyring__leaves_no_copies_behind)
{
    struct bgi_memory memory;
    const char *path = files_path("ring");
    if (CHECK_SANITIZED || !pages_are_told()) {
        return;
    }
    CHECK(bgi_secret_take(&memory, 4096));
    struct {
        char text[512], hex[2 * BG_SECRET_BYTES];
        uint8_t bytes[BG_SECRET_BYTES];
    } *look = memory.base;
    for (int turn = 0; turn < 3; turn++) {
        char name[16];
        (void)snprintf(name, sizeof name, "k%d", turn);
        CHECK_OK(bg_keyring_append(path, name, NULL));
        size_t n = read_bytes(path, look->text, sizeof look->text);
        memcpy(look->hex, look->text + n - 1 - sizeof look->hex, sizeof look->hex);
        CHECK_EQ(pages_dumped((const uint8_t *)look->hex, sizeof look->hex), 0);
        bg_keyring *ring = must_open(path);
        CHECK_EQ(pages_dumped((const uint8_t *)look->hex, sizeof look->hex), 0);
        bg_hash_spec hash = { .profile = BG_HASH_FAST };
        uint8_t key_id[BG_KEY_ID_BYTES];
        CHECK_OK(bg_keyring_current(ring, &hash, key_id, NULL));
        memcpy(look->bytes, hash.secret, sizeof look->bytes);
        bg_keyring_free(ring);
        CHECK_EQ(pages_dumped(look->bytes, sizeof look->bytes), 0);
    }
    bgi_secret_give(&memory);
    files_clean();
}

/* ---- Rotation -------------------------------------------------------------------------- */

/* Creates a filter with the current secret and saves it with the secret's key ID. */
static void save_with_current(const char *ring_path, const char *path, uint64_t key)
{
    bg_keyring *ring = must_open(ring_path);
    bg_spec spec = BG_SPEC_INIT;
    bg_save_options saving = BG_SAVE_OPTIONS_INIT;
    spec.items = 1000;
    spec.rate = 1e-6;
    CHECK_OK(bg_keyring_current(ring, &spec.hash, saving.key_id, NULL));
    bg_filter *filter = must_create(&spec);
    bg_keyring_free(ring); /* the filter has its own copy of the secret */
    CHECK(added_u64(filter, key));
    CHECK_OK(bg_save(filter, path, &saving, NULL));
    bg_filter_free(filter);
}

/* Finds the secret for a file's key ID in the keyring, and opens the file with it. */
static bg_err open_by_id(const char *ring_path, const char *path, bg_filter **filter)
{
    bg_keyring *ring = must_open(ring_path);
    bg_file_info about = { .struct_size = sizeof about };
    bg_open_options opening = BG_OPEN_OPTIONS_INIT;
    bg_hash_spec hash = { .profile = BG_HASH_FAST };
    CHECK_OK(bg_file_get_info(path, &about, NULL));
    bg_err err = bg_keyring_find(ring, about.key_id, &hash, NULL);
    opening.hash = &hash;
    err = err ? err : bg_open(path, &opening, filter, NULL);
    bg_keyring_free(ring);
    return err;
}

static void check_knows(const char *ring_path, const char *path, uint64_t key)
{
    bg_filter *filter = NULL;
    CHECK_OK(open_by_id(ring_path, path, &filter));
    CHECK(bg_filter_may_contain_u64(filter, key));
    CHECK(!bg_filter_may_contain_u64(filter, key + 1));
    bg_filter_free(filter);
}

/* Appends `to` to the first line after the keyring's heading. If `to` is empty, deletes the heading
 * and that line instead. */
static void change_first_line(const char *path, const char *to)
{
    char text[512], changed[600];
    (void)read_bytes(path, text, sizeof text);
    /* Points to the end of the line after the heading. */
    char *second = strchr(strchr(text, '\n') + 1, '\n');
    CHECK(second);
    (void)snprintf(changed, sizeof changed, "%.*s%s%s", (int)(second - text), text, to,
                   second);
    if (!*to) { /* deletes the line */
        (void)snprintf(changed, sizeof changed, "%s", second + 1);
    }
    write_bytes(path, changed, strlen(changed), 0600);
}

TEST(keyring__secrets_change_under_files)
{
    const char *path = files_path("ring"), *old = files_path("old.bg");
    const char *new = files_path("new.bg");
    bg_filter *filter = NULL;
    CHECK_OK(bg_keyring_append(path, "2026-10", NULL));
    save_with_current(path, old, 1);
    CHECK_OK(bg_keyring_append(path, "2026-11", NULL));
    save_with_current(path, new, 7);
    bg_file_info about = { .struct_size = sizeof about };
    CHECK_OK(bg_file_get_info(new, &about, NULL));
    CHECK(memcmp(about.key_id, "2026-11\0\0\0\0\0\0\0\0\0", BG_KEY_ID_BYTES) == 0);
    check_knows(path, old, 1); /* both filters are queried, each with its own secret */
    check_knows(path, new, 7);
    change_first_line(path, " retired");
    check_knows(path, old, 1);
    check_knows(path, new, 7);
    change_first_line(path, ""); /* deletes the old secret */
    CHECK_EQ(open_by_id(path, old, &filter), BG_ENOTFOUND);
    check_knows(path, new, 7);
    files_clean();
}

TEST(keyring__the_secret_of_another_is_noticed)
{
    const char *path = files_path("ring"), *file = files_path("keyed.bg");
    bg_keyring *ring;
    bg_filter *filter = NULL;
    bg_open_options opening = BG_OPEN_OPTIONS_INIT;
    bg_hash_spec hash = { .profile = BG_HASH_FAST };
    uint8_t key_id[BG_KEY_ID_BYTES];
    CHECK_OK(bg_keyring_append(path, "a", NULL));
    save_with_current(path, file, 1);
    CHECK_OK(bg_keyring_append(path, "b", NULL));
    ring = must_open(path);
    CHECK_OK(bg_keyring_current(ring, &hash, key_id, NULL));
    opening.hash = &hash;
    CHECK_EQ(bg_open(file, &opening, &filter, NULL), BG_EINCOMPAT);
    bg_keyring_free(ring);
    files_clean();
}

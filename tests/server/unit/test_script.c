/* test_script.c - tests that readers of a gate's script always see a complete script. */
#define _GNU_SOURCE
#include "source/script.h"

#include "support/check.h"
#include "support/scratch.h"

#include <errno.h>
#include <sys/stat.h>

static bool write_script(const char *path, const char *text)
{
    struct script script;
    CHECK(script_begin(&script));
    (void)fputs(text, script.to);
    return script_end(&script, path);
}

static void check_reads(FILE *file, const char *expected)
{
    char text[64];
    const size_t n = fread(text, 1, sizeof text - 1, file);
    text[n] = 0;
    CHECK_STR(text, expected);
    CHECK(fclose(file) == 0);
}

TEST(script__replaces_the_file_in_one_step)
{
    const char *path = scratch_path("gate.sql");
    CHECK(write_script(path, "first;\n"));
    FILE *reader = fopen(path, "re");
    CHECK(reader);
    CHECK(write_script(path, "second;\n"));
    check_reads(reader, "first;\n");
    check_reads(fopen(path, "re"), "second;\n");
    CHECK(access(scratch_path("gate.sql.partial"), F_OK) != 0);
}

TEST(script__leaves_an_unchanged_file_alone)
{
    static const char *const others[] = { "same;\nmore", "sam", "", "Same;\n" };
    struct stat before, after;
    const char *path = scratch_write("same.sql", "same;\n");
    CHECK(stat(path, &before) == 0 && write_script(path, "same;\n")
          && stat(path, &after) == 0);
    CHECK_EQ(before.st_ino, after.st_ino);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        CHECK(write_script(path, others[i]));
        check_reads(fopen(path, "re"), others[i]);
    }
}

TEST(script__errors)
{
    errno = 0;
    CHECK(!write_script("/nowhere/gate.sql", "x;\n"));
    CHECK_EQ(errno, ENOENT);
    const char *folder = scratch_path("folder");
    CHECK(mkdir(folder, 0700) == 0);
    CHECK(!write_script(folder, "x;\n")); /* the rename fails */
    CHECK_EQ(errno, EISDIR);
    CHECK(access(scratch_path("folder.partial"), F_OK) != 0);
}

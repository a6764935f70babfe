/*
 * Tests a service with a damaged journal. No matter which frame or segment is lost, no added key is
 * reported as absent under any name, either after startup or after the next snapshot, and no file
 * is deleted. Also tests which filters are in doubt, and when they are trusted again.
 */
#define _GNU_SOURCE

#include "support/faulty_disk.h"
#include "support/scratch.h"
#include "support/service_world.h"

/* ---- Helpers ------------------------------------------------------------------------------------- */

static struct world w;

#define DOUBT  "damaged-journal doubt\n"
#define FORGET "damaged-journal forget\n"

static void must_open(const char *folder, const char *lines)
{
    disk.patient = true;
    if (!world_open(&w, folder, lines)) {
        check_fail(__FILE__, __LINE__, "%s", w.why.message);
    }
}

static void reopen(const char *folder, const char *lines)
{
    CHECK(world_ack(&w));
    world_crash(&w);
    must_open(folder, lines);
}

static void says(const char *line, const char *answer)
{
    if (strcmp(world_ask(&w, "%s", line), answer) != 0) {
        check_fail(__FILE__, __LINE__, "%s: %s, expected %s", line, w.said, answer);
    }
}

static bool in_doubt(void)
{
    struct persist_stats stats;
    persist_about(w.server.persist, &stats);
    return stats.names_in_doubt;
}

/* ---- Directories --------------------------------------------------------------------------------- */

enum { FOLDER_FILES = 64 };

struct names {
    char at[FOLDER_FILES][100];
    size_t n;
};

static int names_compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Lists the files in a directory whose names start with a prefix, sorted by name. */
static void list(const char *folder, const char *prefix, struct names *names)
{
    DIR *files = opendir(folder);
    names->n = 0;
    CHECK(files != NULL);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a private directory */
    for (const struct dirent *entry; (entry = readdir(files)) != NULL;) {
        if (entry->d_name[0] != '.'
            && strncmp(entry->d_name, prefix, strlen(prefix)) == 0) {
            CHECK(names->n < FOLDER_FILES);
            (void)snprintf(names->at[names->n++], 100, "%.99s", entry->d_name);
        }
    }
    (void)closedir(files);
    qsort(names->at, names->n, sizeof *names->at, names_compare);
}

static const char *inside(const char *folder, const char *name)
{
    static char paths[4][800];
    static unsigned next;
    char *path = paths[next++ % 4];
    (void)snprintf(path, sizeof *paths, "%s/%s", folder, name);
    return path;
}

static const char *filter_file(const char *folder, const char *name)
{
    static char paths[2][800];
    static unsigned next;
    char *path = paths[next++ % 2];
    (void)snprintf(path, sizeof *paths, "%s/filters/%s", folder, name);
    return path;
}

static void copy_all(const char *from, const char *to)
{
    struct names names;
    (void)mkdir(to, 0700);
    disk_empty_folder(to);
    list(from, "journal", &names);
    for (size_t i = 0; i < names.n; i++) {
        disk_copy(inside(from, names.at[i]), inside(to, names.at[i]));
    }
}

/* Copies a directory with its filters and its keyring. */
static void copy_folder(const char *from, const char *to)
{
    struct names names;
    char ring[2][600];
    copy_all(from, to);
    (void)mkdir(inside(to, "filters"), 0700);
    disk_empty_folder(inside(to, "filters"));
    list(inside(from, "filters"), "", &names);
    for (size_t i = 0; i < names.n; i++) {
        disk_copy(filter_file(from, names.at[i]), filter_file(to, names.at[i]));
    }
    (void)snprintf(ring[0], sizeof ring[0], "%s.keyring", from);
    (void)snprintf(ring[1], sizeof ring[1], "%s.keyring", to);
    disk_copy(ring[0], ring[1]);
}

/* Checks that `folder` contains all filter files that are in `from`. */
static void check_files_kept(const char *from, const char *folder)
{
    struct names names;
    list(inside(from, "filters"), "", &names);
    CHECK(names.n > 0);
    for (size_t i = 0; i < names.n; i++) {
        if (access(filter_file(folder, names.at[i]), F_OK) != 0) {
            check_fail(__FILE__, __LINE__, "%s is missing", names.at[i]);
        }
    }
}

/* ---- A sequence of changes, any part of which may be lost ------------------------------ */

static void story(const char *folder)
{
    must_open(folder, "");
    says("BF.RESERVE old 0.001 100", "+OK");
    says("CF.RESERVE cuckoo 100", "+OK");
    says("BF.RESERVE dropped 0.001 100", "+OK");
    says("BF.RESERVE lasting 0.001 100", "+OK");
    says("BF.RESERVE still 0.001 100", "+OK");
    world_add(&w, "old", 0, 4);
    world_add(&w, "cuckoo", 0, 4);
    world_add(&w, "dropped", 0, 4);
    world_add(&w, "lasting", 0, 4);
    world_add(&w, "still", 0, 4);
    says("EXPIRE lasting 1000", ":1");
    says("SAVE", "+OK");
    says("RENAME old new", "+OK");
    world_add(&w, "new", 4, 6);
    says("DEL dropped", ":1");
    says("BF.RESERVE dropped 0.001 100", "+OK");
    world_add(&w, "dropped", 10, 12);
    says("PERSIST lasting", ":1");
    world_add(&w, "lasting", 4, 6);
    says("BF.RESERVE early 0.001 100", "+OK");
    world_add(&w, "early", 0, 3);
    CHECK(world_ack(&w));
    world_close(&w);
    must_open(folder, ""); /* opening the journal starts a new segment */
    says("RENAME early late", "+OK");
    world_add(&w, "late", 3, 5);
    says("COPY cuckoo copy", ":1");
    world_add(&w, "cuckoo", 4, 6);
    CHECK(world_ack(&w));
    world_close(&w);
}

static void check_story(void)
{
    world_has(&w, "new", 0, 6);
    world_has(&w, "cuckoo", 0, 6);
    world_has(&w, "copy", 0, 4);
    world_has(&w, "dropped", 10, 12);
    world_has(&w, "lasting", 0, 6);
    world_has(&w, "still", 0, 4);
    world_has(&w, "late", 0, 5);
    /* the filter never expires, or its expiry time is unknown */
    CHECK(world_ask(&w, "TTL lasting")[1] == '-');
}

/* Checks that a damaged directory is refused by default, and stays in doubt across restarts if it
 * is accepted. */
static void check_damaged(const char *whole, const char *damaged)
{
    CHECK(!world_open(&w, damaged, ""));
    CHECK(w.why.code == BG_ECHECKSUM || w.why.code == BG_EFORMAT);
    check_files_kept(whole, damaged);
    for (unsigned i = 0; i < 2; i++) {
        must_open(damaged, DOUBT);
        check_story();
        check_files_kept(whole, damaged);
        if (i == 0) {
            CHECK(world_ack(&w));
            world_crash(&w);
        }
    }
    const bool names = in_doubt();
    says("BF.EXISTS whatever x", names ? ":1" : ":0");
    says("SAVE", "+OK");
    for (unsigned i = 0; i < 2; i++) {
        reopen(damaged, ""); /* the snapshot has replaced the damaged journal */
        CHECK_EQ(in_doubt(), names);
        check_story();
        says("SAVE", "+OK");
    }
    CHECK(world_ack(&w));
    world_crash(&w);
}

static uint64_t frame_bytes(const char *path, long at)
{
    unsigned char length[4] = { 0 };
    FILE *file = fopen(path, "re");
    CHECK(file && fseek(file, at, SEEK_SET) == 0);
    const size_t n = fread(length, 1, 4, file);
    CHECK_EQ(fclose(file), 0);
    return n < 4 ? 0 : 32 + (uint64_t)length[0] + ((uint64_t)length[1] << 8);
}

static void flip(const char *path, long at)
{
    FILE *file = fopen(path, "r+e");
    CHECK(file && fseek(file, at, SEEK_SET) == 0);
    const int c = fgetc(file);
    CHECK(fseek(file, at, SEEK_SET) == 0 && fputc(c ^ 4, file) != EOF);
    CHECK_EQ(fclose(file), 0);
}

TEST(doubt__any_frame_is_damaged)
{
    const char *whole = scratch_path("frames"), *damaged = scratch_path("frames2");
    struct names segments;
    unsigned frames = 0;
    story(whole);
    list(whole, "journal-", &segments);
    CHECK(segments.n >= 2);
    for (size_t i = 0; i < segments.n; i++) {
        char path[800];
        long at = 64;
        (void)snprintf(path, sizeof path, "%s", inside(whole, segments.at[i]));
        for (uint64_t n; (n = frame_bytes(path, at)) > 0; at += (long)n) {
            if (i + 1 == segments.n && frame_bytes(path, at + (long)n) == 0) {
                /* the last frame is the MARK that a clean shutdown writes; it records no change */
                break;
            }
            copy_folder(whole, damaged);
            flip(inside(damaged, segments.at[i]), at + 36);
            check_damaged(whole, damaged);
            frames++;
        }
    }
    CHECK(frames > 30);
}

TEST(doubt__any_segment_is_missing)
{
    const char *whole = scratch_path("segments"), *damaged = scratch_path("segments2");
    struct names segments;
    story(whole);
    list(whole, "journal-", &segments);
    /* removes each segment in turn, and finally all segments */
    for (size_t i = 0; i <= segments.n; i++) {
        copy_folder(whole, damaged);
        for (size_t k = 0; k < segments.n; k++) {
            if (k == i || i == segments.n) {
                CHECK_EQ(__real_unlink(inside(damaged, segments.at[k])), 0);
            }
        }
        check_damaged(whole, damaged);
    }
    /* A directory written by version 0.1 does not record the newest segment. The loss of all
     * segments is still detected, because the directory contains filter files. */
    copy_folder(whole, damaged);
    for (size_t k = 0; k < segments.n; k++) {
        CHECK_EQ(__real_unlink(inside(damaged, segments.at[k])), 0);
    }
    CHECK_EQ(truncate(inside(damaged, "journal.lock"), 0), 0);
    check_damaged(whole, damaged);
}

/* After a clean shutdown, the last segment is truncated before or within each frame. */
TEST(doubt__the_end_is_missing)
{
    const char *whole = scratch_path("ends"), *damaged = scratch_path("ends2");
    struct names segments;
    long at = 64;
    story(whole);
    list(whole, "journal-", &segments);
    const char *last = segments.at[segments.n - 1];
    char path[800];
    (void)snprintf(path, sizeof path, "%s", inside(whole, last));
    for (uint64_t n; (n = frame_bytes(path, at)) > 0; at += (long)n) {
        if (frame_bytes(path, at + (long)n) == 0) {
            /* the last frame is the MARK that a clean shutdown writes; it records no change */
            break;
        }
        for (long part = 0; part < 2; part++) {
            copy_folder(whole, damaged);
            CHECK_EQ(truncate(inside(damaged, last), at + part * 40), 0);
            check_damaged(whole, damaged);
        }
    }
    CHECK(at > 64);
}

/* If a segment has the content of another segment, or no content, its frames are lost as if the
 * segment were missing. */
TEST(doubt__any_segment_is_replaced)
{
    const char *whole = scratch_path("copies"), *damaged = scratch_path("copies2");
    struct names segments;
    story(whole);
    list(whole, "journal-", &segments);
    for (size_t i = 0; i < segments.n; i++) {
        for (size_t k = 0; k < segments.n; k++) {
            copy_folder(whole, damaged);
            CHECK_EQ(truncate(inside(damaged, segments.at[i]), 0), 0);
            if (k != i) {
                disk_copy(inside(whole, segments.at[k]),
                          inside(damaged, segments.at[i]));
            }
            check_damaged(whole, damaged);
        }
    }
}

/* ---- Which filters are in doubt, and for how long -------------------------------------------- */

/* Creates a journal in which the frame that contains a rename is damaged. Only one other frame, and
 * the MARK that a clean shutdown writes, follow the damaged frame. */
static const char *make_doubtful(const char *name)
{
    const char *folder = scratch_path(name);
    struct names segments;
    long at = 64;
    must_open(folder, "");
    says("BF.RESERVE known 0.001 100", "+OK");
    world_add(&w, "known", 0, 5);
    says("SAVE", "+OK");
    says("RENAME known renamed", "+OK");
    says("BF.RESERVE later 0.001 100", "+OK");
    CHECK(world_ack(&w));
    world_close(&w);
    list(folder, "journal-", &segments);
    const char *path = inside(folder, segments.at[segments.n - 1]);
    long frames[200];
    size_t n = 0;
    for (uint64_t bytes; (bytes = frame_bytes(path, at)) > 0; at += (long)bytes) {
        CHECK(n < 200);
        frames[n++] = at;
    }
    CHECK(n > 3);
    flip(path, frames[n - 3] + 36);
    return folder;
}

TEST(doubt__names_that_nobody_knows)
{
    const char *folder = make_doubtful("names");
    must_open(folder, DOUBT);
    CHECK(in_doubt());
    world_has(&w, "renamed", 0, 5);
    world_has(&w, "known", 0, 5);
    says("BF.EXISTS other x", ":1");
    says("BF.MEXISTS other x y", "[:1 :1]");
    says("CF.EXISTS other x", ":1");
    says("CF.COUNT other x", ":1");
    says("BG.MEXISTS other x", "[:1]");
    /* No command can create the filter `other`: neither an add, nor an explicit creation, nor a
     * copy of another filter. */
    CHECK(
        strncmp(world_ask(&w, "BF.ADD other y"), "-MISCONF the journal was damaged", 32)
        == 0);
    CHECK(world_ask(&w, "BF.RESERVE other 0.01 100")[0] == '-');
    CHECK(world_ask(&w, "CF.ADD other y")[0] == '-');
    CHECK(world_ask(&w, "BG.CREATE other")[0] == '-');
    CHECK(world_ask(&w, "COPY later other")[0] == '-');
    CHECK(world_ask(&w, "BG.MERGE other later")[0] == '-');
    says("BF.EXISTS other x", ":1");
    /* Filters created after the damage are not in doubt. */
    says("BF.EXISTS later x", ":0");
    says("BF.ADD later x", ":1");
    /* The filter `other` is also in doubt in a transaction. */
    says("MULTI", "+OK");
    says("BF.EXISTS other x", "+QUEUED");
    says("EXEC", "[:1]");
    CHECK(world_ack(&w));
    world_close(&w);
}

TEST(doubt__names_that_are_dropped_are_free)
{
    const char *folder = make_doubtful("free");
    must_open(folder, DOUBT);
    says("DEL other", ":0");
    says("BF.EXISTS other x", ":0");
    says("BF.ADD other y", ":1");
    says("DEL known", ":1");
    says("BF.EXISTS known k1", ":0");
    says("BF.ADD known again", ":1");
    /* the name `unknown` may already be in use */
    CHECK(world_ask(&w, "RENAMENX later unknown")[0] == '-');
    says("BF.EXISTS unknown x", ":1");
    says("RENAME later moved", "+OK");
    says("BF.EXISTS later x", ":0");
    says("RENAMENX moved later", ":1"); /* the name `later` is known to be free */
    says("RENAME later moved", "+OK");
    says("COPY moved another REPLACE", ":1"); /* the content of the copy is known */
    says("BF.EXISTS another x", ":0");
    says("SAVE", "+OK");
    reopen(folder, "");
    CHECK(in_doubt());
    says("BF.EXISTS other y", ":1");
    says("BF.EXISTS other x", ":0");
    says("BF.EXISTS known again", ":1");
    says("BF.EXISTS known k1", ":0");
    says("BF.EXISTS later x", ":1"); /* no record shows that the name `later` is free */
    CHECK(world_ack(&w));
    world_close(&w);
}

TEST(doubt__an_operator_can_forget)
{
    const char *folder = make_doubtful("forget");
    struct names files, before;
    list(inside(folder, "filters"), "", &before);
    CHECK_EQ(before.n, 1);
    /* An unused file may belong to a filter whose creation and save are recorded in the missing
     * part of the journal. */
    disk_copy(filter_file(folder, before.at[0]),
              filter_file(folder, "00000000000000000000000000000000.bg"));
    for (int i = 0; i < 2; i++) {
        must_open(folder, DOUBT);
        CHECK_EQ(w.server.persist->stats.files_kept, 1);
        says("SAVE", "+OK");
        CHECK(world_ack(&w));
        world_crash(&w);
    }
    must_open(folder, FORGET);
    CHECK(!in_doubt());
    CHECK_EQ(w.server.persist->stats.files_kept, 0);
    world_has(&w, "known", 0, 5); /* this filter is known to be incomplete */
    CHECK(world_ask(&w, "BF.ADD known x")[0] == '-');
    says("BF.EXISTS renamed k1", ":0");
    says("BF.ADD other x", ":1");
    says("SAVE", "+OK");
    reopen(folder, "");
    CHECK(!in_doubt());
    says("BF.EXISTS other y", ":0");
    world_has(&w, "known", 0, 5);
    list(inside(folder, "forgotten"), "", &files);
    CHECK_EQ(files.n, 1);
    CHECK_EQ(access(filter_file(folder, before.at[0]), F_OK), 0);
    says("DEL known", ":1"); /* the file is no longer needed */
    says("SAVE", "+OK");
    CHECK(access(filter_file(folder, before.at[0]), F_OK) != 0);
    CHECK(world_ack(&w));
    world_close(&w);
}

/* ---- Files ------------------------------------------------------------------------------------------------ */

/* The directory is damaged, because one filter's base file is missing. Unused files are therefore
 * kept. */
TEST(doubt__nothing_is_deleted_while_something_is_missing)
{
    const char *folder = scratch_path("leftover");
    const char *left = "00000000000000000000000000000000.bg";
    struct names files;
    must_open(folder, "");
    says("BF.ADD a x", ":1");
    says("SAVE", "+OK");
    CHECK(world_ack(&w));
    world_close(&w);
    list(inside(folder, "filters"), "", &files);
    CHECK_EQ(files.n, 1);
    CHECK_EQ(__real_rename(filter_file(folder, files.at[0]), filter_file(folder, left)),
             0);
    must_open(folder, "");
    CHECK_EQ(w.server.persist->stats.files_kept, 1);
    says("BF.EXISTS a x", ":1");
    CHECK(world_ack(&w));
    world_close(&w);
    CHECK_EQ(access(filter_file(folder, left), F_OK), 0);
    disk_copy(filter_file(folder, left), filter_file(folder, files.at[0]));
    must_open(folder, ""); /* no file is missing, so the unused copy is deleted */
    CHECK_EQ(w.server.persist->stats.files_kept, 0);
    CHECK(access(filter_file(folder, left), F_OK) != 0);
    says("BF.EXISTS a x", ":1");
    says("BF.EXISTS a y", ":0");
    world_close(&w);
}

/* Returns the offset of the last occurrence of a string in a file. */
static long place_of(const char *path, const char *text)
{
    static char bytes[65536];
    long last = -1;
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL);
    const size_t n = fread(bytes, 1, sizeof bytes, file);
    (void)fclose(file);
    for (size_t i = 0; i + strlen(text) <= n; i++) {
        last = memcmp(bytes + i, text, strlen(text)) == 0 ? (long)i : last;
    }
    CHECK(last >= 0);
    return last;
}

/* A pack (a file that contains several filters) contains a known filter and a filter whose name is
 * in the missing part of the journal. */
TEST(doubt__a_pack_with_unknown_parts_is_kept)
{
    const char *folder = scratch_path("packed");
    struct names segments, packs;
    must_open(folder, "");
    w.server.persist->pack_from = 1;
    says("BF.ADD known x", ":1");
    says("BF.ADD unknown x", ":1");
    says("SAVE", "+OK");
    says("BF.ADD later x", ":1");
    CHECK(world_ack(&w));
    world_close(&w);
    list(inside(folder, "filters"), "", &packs);
    CHECK_EQ(packs.n, 1);
    list(folder, "journal-", &segments);
    const char *path = inside(folder, segments.at[segments.n - 1]);
    flip(path, place_of(path, "unknown"));
    for (int i = 0; i < 2; i++) {
        must_open(folder, DOUBT);
        CHECK(in_doubt());
        says("BF.EXISTS unknown x", ":1");
        says("DEL known", i == 0 ? ":1" : ":0");
        says("SAVE", "+OK");
        CHECK_EQ(access(filter_file(folder, packs.at[0]), F_OK), 0);
        CHECK(world_ack(&w));
        world_close(&w);
    }
    must_open(folder, FORGET);
    CHECK(access(filter_file(folder, packs.at[0]), F_OK) != 0);
    list(inside(folder, "forgotten"), "", &segments);
    CHECK_EQ(segments.n, 1);
    world_close(&w);
}

/* Version 0.1 does not record which segment is the newest, so the loss of the newest segment is not
 * detected. Files of filters created in that segment are moved to the directory `forgotten`. */
TEST(doubt__files_of_older_folders_are_put_aside)
{
    const char *folder = scratch_path("older");
    struct names files;
    must_open(folder, "");
    says("BF.ADD a x", ":1");
    CHECK(world_ack(&w));
    world_close(&w);
    must_open(folder, ""); /* segment 2 */
    says("COPY a b", ":1");
    CHECK(world_ack(&w));
    world_close(&w);
    CHECK_EQ(__real_unlink(inside(folder, "journal-00000000000000000002.log")), 0);
    CHECK_EQ(truncate(inside(folder, "journal.lock"), 0), 0);
    for (int i = 0; i < 2; i++) {
        must_open(folder, "");
        says("BF.EXISTS a x", ":1");
        CHECK(world_ack(&w));
        world_close(&w);
        list(inside(folder, "forgotten"), "", &files);
        CHECK_EQ(files.n, 1);
    }
}

/* The service does not modify or delete files that it did not create. */
TEST(doubt__other_files_are_left_alone)
{
    const char *folder = scratch_path("others");
    must_open(folder, "");
    says("BF.ADD a x", ":1");
    says("SAVE", "+OK");
    FILE *file = fopen(filter_file(folder, "README"), "we");
    CHECK(file != NULL);
    CHECK_EQ(fclose(file), 0);
    reopen(folder, "");
    CHECK_EQ(access(filter_file(folder, "README"), F_OK), 0);
    CHECK_EQ(w.server.persist->stats.files_kept, 0);
    world_close(&w);
}

/*
 * bench_files.c - how fast are saving and opening files, compared with memory and disk?
 *
 * Measures one blocked filter in a file of --bytes bytes (default: 1 GiB) in the current
 * directory. All rows run several times, in turn, and the best time of each row is reported. The
 * rows are:
 *
 *     read memory       the limit of `verify in memory`: sums all words
 *     verify in memory  bg_encoded_verify
 *     plain write       the limit of `save`: writes the same bytes, 1 MiB per write(), and fsync
 *     save              bg_save, which also reads the file back and verifies it
 *     save, not read    the same without reading back
 *     open, map, verify bg_open, bg_map and bg_verify of the file, which is in the page cache
 *
 * The ratio is the limit's time divided by the row's time. The limit is "plain
 * write" for both `save` rows, "read memory" for `verify in memory`, and `open` for `map` and
 * `verify`.
 *
 * Also measures small filters, because a server may have millions of them: a scalable
 * filter with one key is encoded and decoded in memory, with and without canaries (embedded
 * self-test keys), and compared with copying the same bytes.
 */
#include "bench.h"
#include "bench_adds.h"
#include "harness.h"
#include "output.h"

#include "bloomgate/all.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FILES_MEMORY,
    FILES_VERIFY_BYTES,
    FILES_WRITE,
    FILES_SAVE,
    FILES_SAVE_ONLY,
    FILES_OPEN,
    FILES_MAP,
    FILES_VERIFY,
    FILES_ROWS
};

static const struct {
    const char *name;
    int limit; /* the row whose time this row is compared with */
} files_rows[FILES_ROWS] = {
    { "read memory", FILES_MEMORY },
    { "verify in memory", FILES_MEMORY },
    { "plain write", FILES_WRITE },
    { "save", FILES_WRITE },
    { "save, not read back", FILES_WRITE },
    { "open", FILES_OPEN },
    { "map", FILES_OPEN },
    { "verify", FILES_OPEN },
};

static const char files_path[] = "bgbench-files.bg",
                  files_plain[] = "bgbench-files.raw";

struct files {
    bg_filter *filter;
    unsigned char *bytes; /* the contents of the file */
    size_t n;
    uint64_t sum; /* keeps the compiler from removing the reads */
    double best[FILES_ROWS];
};

static void files_must(bg_err err, const char *what)
{
    if (err) {
        (void)fprintf(stderr, "bgbench: %s: %s\n", what, bg_strerror(err));
        exit(3); /* NOLINT(concurrency-mt-unsafe): only one thread is running */
    }
}

static void files_read_memory(struct files *f)
{
    uint64_t sums[8] = { 0 };
    for (size_t i = 0; i + 64 <= f->n; i += 64) {
        const uint64_t *words = (const uint64_t *)(const void *)(f->bytes + i);
        for (size_t j = 0; j < 8; j++) {
            sums[j] += words[j];
        }
    }
    for (size_t j = 0; j < 8; j++) {
        f->sum += sums[j];
    }
}

static void files_plain_write(const struct files *f)
{
    const size_t piece = 1 << 20;
    int file = open(files_plain, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (size_t at = 0; at < f->n && file >= 0; at += piece) {
        size_t n = f->n - at < piece ? f->n - at : piece;
        if (write(file, f->bytes + at, n) != (ssize_t)n) {
            files_must(BG_EIO, "write");
        }
    }
    if (file < 0 || fsync(file) != 0 || close(file) != 0) {
        files_must(BG_EIO, files_plain);
    }
}

static void files_do(struct files *f, int row)
{
    bg_filter *filter = NULL;
    bg_save_options quick = BG_SAVE_OPTIONS_INIT;
    quick.flags = BG_FILE_NO_READ_BACK;
    switch (row) {
    case FILES_MEMORY: files_read_memory(f); break;
    case FILES_VERIFY_BYTES:
        files_must(bg_encoded_verify(f->bytes, f->n, NULL, NULL, NULL), "verify");
        break;
    case FILES_WRITE: files_plain_write(f); break;
    case FILES_SAVE:
        files_must(bg_save(f->filter, files_path, NULL, NULL), "save");
        break;
    case FILES_SAVE_ONLY:
        files_must(bg_save(f->filter, files_path, &quick, NULL), "save");
        break;
    case FILES_OPEN:
        files_must(bg_open(files_path, NULL, &filter, NULL), "open");
        break;
    case FILES_MAP: files_must(bg_map(files_path, NULL, &filter, NULL), "map"); break;
    default: files_must(bg_verify(files_path, NULL, NULL, NULL), "verify");
    }
    bg_filter_free(filter);
}

static void files_print(const struct files *f)
{
    for (int row = 0; row < FILES_ROWS; row++) {
        double seconds = f->best[row] / 1e9;
        bgb_row_begin();
        bgb_cell_text("subject", "subject", -22, files_rows[row].name);
        bgb_cell_count("bytes", "bytes", 12, f->n);
        bgb_cell_real("ms", "ms", 10, 3, f->best[row] / 1e6);
        bgb_cell_real("gb_per_s", "GB/s", 8, 2, (double)f->n / 1e9 / seconds);
        bgb_cell_real("ratio", "ratio", 10, 2,
                      f->best[files_rows[row].limit] / f->best[row]);
        bgb_row_end();
    }
}

/* ---- Small filters --------------------------------------------------------------- */

enum { SMALL_COPY, SMALL_ENCODE, SMALL_ENCODE_BARE, SMALL_DECODE, SMALL_DECODE_BARE };
enum { SMALL_ROWS = 5, SMALL_TIMES = 1000, SMALL_ROOM = 64 << 10 };

static const char *const small_rows[SMALL_ROWS] = { "copy", "encode",
                                                    "encode, no canaries", "decode",
                                                    "decode, no canaries" };

struct small {
    bg_filter *filter;
    size_t n;
    unsigned char with[SMALL_ROOM], bare[SMALL_ROOM], to[SMALL_ROOM];
};

static void small_do(struct small *s, int row)
{
    bg_filter *filter = NULL;
    bg_save_options how = BG_SAVE_OPTIONS_INIT;
    size_t n = 0;
    how.flags = BG_FILE_FROZEN;
    switch (row) {
    case SMALL_COPY:
        memcpy(s->to, s->with, s->n);
        __asm__ volatile("" : : "r"(s->to) : "memory");
        break;
    case SMALL_ENCODE_BARE: how.flags |= BG_FILE_NO_CANARIES; /* fall through */
    case SMALL_ENCODE:
        files_must(bg_encode(s->filter, &how, s->to, sizeof s->to, &n, NULL), "encode");
        break;
    default:
        files_must(bg_decode(row == SMALL_DECODE ? s->with : s->bare, s->n, NULL,
                             &filter, NULL),
                   "decode");
    }
    bg_filter_free(filter);
}

static void small_print(const struct small *s, const double best[SMALL_ROWS])
{
    bgb_table("files_small",
              "scalable, sized for 100 keys; ratio = time of the row / time of a copy");
    for (int row = 0; row < SMALL_ROWS; row++) {
        bgb_row_begin();
        bgb_cell_text("subject", "subject", -22, small_rows[row]);
        bgb_cell_count("bytes", "bytes", 12, s->n);
        bgb_cell_real("us", "us", 10, 2, best[row] / 1e3 / SMALL_TIMES);
        bgb_cell_real("ratio", "ratio", 10, 1, best[row] / best[SMALL_COPY]);
        bgb_row_end();
    }
}

static void files_bench_small(void)
{
    static struct small s;
    double best[SMALL_ROWS] = { 0 };
    bg_save_options how = BG_SAVE_OPTIONS_INIT;
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_SCALABLE;
    spec.items = 100;
    spec.rate = 0.01;
    files_must(bg_filter_create(&spec, &s.filter, NULL), "create");
    (void)added_u64(s.filter, 1);
    files_must(bg_encode(s.filter, &how, s.with, sizeof s.with, &s.n, NULL), "encode");
    how.flags = BG_FILE_NO_CANARIES;
    files_must(bg_encode(s.filter, &how, s.bare, sizeof s.bare, &s.n, NULL), "encode");
    for (int round = 0; round < 4; round++) {
        for (int row = 0; row < SMALL_ROWS; row++) {
            const uint64_t before = bgb_now_ns();
            for (int i = 0; i < SMALL_TIMES; i++) {
                small_do(&s, row);
            }
            const double took = (double)(bgb_now_ns() - before);
            best[row] = round == 0 || took < best[row] ? took : best[row];
        }
    }
    small_print(&s, best);
    bg_filter_free(s.filter);
}

void bgb_bench_files(const struct bgb_options *options)
{
    struct files f = { .n = 0 };
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_BLOCKED;
    spec.k = 8;
    spec.bytes = options->bytes_count ? options->bytes[0] : (uint64_t)1 << 30;
    files_must(bg_filter_create(&spec, &f.filter, NULL), "create");
    /* Sets some bits in every block. */
    for (uint64_t i = 0; i < spec.bytes / 2; i += 64) {
        (void)added_u64(f.filter, i);
    }
    files_must(bg_encode(f.filter, NULL, NULL, 0, &f.n, NULL), "encode");
    f.bytes = aligned_alloc(64, (f.n + 63) / 64 * 64);
    if (!f.bytes) {
        files_must(BG_ENOMEM, "memory");
    }
    files_must(bg_encode(f.filter, NULL, f.bytes, f.n, &f.n, NULL), "encode");
    for (int round = 0; round < 4; round++) {
        for (int row = 0; row < FILES_ROWS; row++) {
            uint64_t before = bgb_now_ns();
            files_do(&f, row);
            double took = (double)(bgb_now_ns() - before);
            if (round == 0 || took < f.best[row]) {
                f.best[row] = took;
            }
        }
    }
    bgb_table("files", "blocked; ratio = time of the limit / time of the row");
    files_print(&f);
    (void)unlink(files_path);
    (void)unlink(files_plain);
    free(f.bytes);
    bg_filter_free(f.filter);
    files_bench_small();
}

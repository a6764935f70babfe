/*
 * Files written in chunks: for every kind, bg_encode_stream writes exactly the same bytes as
 * bg_encode. bg_encode_stream detects concurrent changes to the filter and stops on request.
 */
#include "support/adds.h"
#include "support/files.h"

enum { STREAM_PIECE = 1 << 20 };

/* The output written so far. */
struct stream {
    unsigned char *bytes;
    size_t n, room, pieces;
    /* The filter to which a key is added when the first chunk is written, or NULL. */
    bg_filter *adds_to;
    size_t stops_after; /* number of chunks after which to stop; 0 means never */
};

static bg_err stream_write(void *context, const void *bytes, size_t n)
{
    struct stream *stream = context;
    CHECK(n > 0 && n <= STREAM_PIECE && n <= stream->room - stream->n);
    memcpy(stream->bytes + stream->n, bytes, n);
    stream->n += n;
    stream->pieces++;
    if (stream->adds_to) {
        (void)added(stream->adds_to, "one more", 8);
        stream->adds_to = NULL;
    }
    return stream->stops_after && stream->pieces == stream->stops_after ? BG_EIO
                                                                        : BG_OK;
}

static bg_save_options stream_options(uint32_t flags)
{
    bg_save_options options = BG_SAVE_OPTIONS_INIT;
    options.generation = 7;
    options.created = 1700000000;
    options.metadata = "keys: URL, lower case\n";
    options.flags = flags;
    return options;
}

/* Writes a filter at once and in chunks, compares the bytes, and returns the number of chunks. */
static size_t stream_compare(const bg_filter *filter, const char *name)
{
    const bg_save_options options = stream_options(0);
    const bg_save_options still = stream_options(BG_FILE_FROZEN);
    size_t n = 0, pieces = 0;
    unsigned char *whole = files_encode(filter, 7, &n);
    for (int i = 0; i < 2; i++) {
        struct stream stream = { .bytes = malloc(n), .room = n };
        CHECK(stream.bytes != NULL);
        CHECK_OK(bg_encode_stream(filter, i ? &still : &options, stream_write, &stream,
                                  NULL));
        if (stream.n != n || memcmp(stream.bytes, whole, n) != 0) {
            check_fail(__FILE__, __LINE__, "%s: different bytes", name);
        }
        pieces = stream.pieces;
        free(stream.bytes);
    }
    free(whole);
    return pieces;
}

TEST(file_stream__every_kind_is_written_as_in_one_piece)
{
    for (unsigned i = 0; i < FILES_CASES_COUNT; i++) {
        bg_filter *filter = files_make(i, 7);
        (void)stream_compare(filter, files_name(i));
        bg_filter_free(filter);
    }
}

TEST(file_stream__large_ones_come_in_several_pieces)
{
    static const bg_kind kinds[] = { BG_KIND_BLOCKED, BG_KIND_QUOTIENT,
                                     BG_KIND_SCALABLE };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bg_spec spec = BG_SPEC_INIT;
        spec.kind = kinds[i];
        spec.items = 3000000;
        spec.rate = 0.01;
        bg_filter *filter = files_make_spec(&spec, 7);
        CHECK(stream_compare(filter, bg_kind_name(kinds[i])) > 4);
        bg_filter_free(filter);
    }
}

TEST(file_stream__a_change_between_is_noticed)
{
    const bg_save_options still = stream_options(BG_FILE_FROZEN);
    for (unsigned i = 0; i < FILES_CASES_COUNT; i++) {
        bg_filter *filter = files_make(i, 7);
        size_t n = 0;
        CHECK_OK(bg_encode(filter, &still, NULL, 0, &n, NULL));
        struct stream stream = { .bytes = malloc(2 * n), .room = 2 * n };
        bg_errinfo why;
        if (!(bg_kind_traits(bg_filter_kind(filter)) & BG_TRAIT_STATIC)) {
            stream.adds_to = filter;
            CHECK_EQ(bg_encode_stream(filter, &still, stream_write, &stream, &why),
                     BG_EBUSY);
            CHECK_STR(why.what, "filter");
        }
        free(stream.bytes);
        bg_filter_free(filter);
    }
}

/* Without BG_FILE_FROZEN, filters of kinds that move keys are copied, so the file is a consistent
 * snapshot. */
TEST(file_stream__kinds_that_move_keys_are_copied)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_QUOTIENT;
    spec.items = 1000;
    spec.rate = 0.01;
    bg_filter *filter = files_make_spec(&spec, 7);
    size_t n = 0;
    unsigned char *before = files_encode(filter, 7, &n);
    const bg_save_options options = stream_options(0);
    struct stream stream = { .bytes = malloc(n), .room = n, .adds_to = filter };
    CHECK_OK(bg_encode_stream(filter, &options, stream_write, &stream, NULL));
    CHECK_EQ(stream.n, n);
    CHECK(memcmp(stream.bytes, before, n) == 0);
    CHECK(bg_filter_may_contain(filter, "one more", 8));
    free(stream.bytes);
    free(before);
    bg_filter_free(filter);
}

TEST(file_stream__stops_when_told_to)
{
    bg_filter *filter = files_make(2, 7);
    const bg_save_options options = stream_options(0);
    size_t n = 0;
    CHECK_OK(bg_encode(filter, &options, NULL, 0, &n, NULL));
    for (size_t after = 1; after <= 3; after++) {
        struct stream stream = { .bytes = malloc(n), .room = n, .stops_after = after };
        bg_errinfo why;
        CHECK_EQ(bg_encode_stream(filter, &options, stream_write, &stream, &why),
                 BG_EIO);
        CHECK_EQ(stream.pieces, after);
        CHECK_STR(why.what, "write");
        free(stream.bytes);
    }
    bg_save_options wrong = stream_options(1u << 30);
    CHECK_EQ(bg_encode_stream(NULL, &options, stream_write, NULL, NULL), BG_EINVAL);
    CHECK_EQ(bg_encode_stream(filter, &options, NULL, NULL, NULL), BG_EINVAL);
    CHECK_EQ(bg_encode_stream(filter, &wrong, stream_write, NULL, NULL), BG_EINVAL);
    bg_filter_free(filter);
}

static bool stream_progress(void *context, uint64_t done, uint64_t all)
{
    unsigned char **bytes = context;
    memset(*bytes, 0xff, (size_t)done);
    return done <= all;
}

/* As file.h documents for bg_decode, callers may release memory that has already been read. */
TEST(file_stream__what_was_decoded_is_not_read_again)
{
    for (unsigned i = 0; i < FILES_CASES_COUNT; i++) {
        bg_filter *filter = files_make(i, 7), *back = NULL;
        size_t n = 0;
        unsigned char *bytes = files_encode(filter, 7, &n);
        bg_open_options options = BG_OPEN_OPTIONS_INIT;
        options.progress = stream_progress;
        options.context = &bytes;
        CHECK_OK(bg_decode(bytes, n, &options, &back, NULL));
        CHECK(bg_filter_equal(filter, back));
        free(bytes);
        bg_filter_free(back);
        bg_filter_free(filter);
    }
}

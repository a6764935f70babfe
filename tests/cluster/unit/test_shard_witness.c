/* Witnesses of shards: what is written is read again, and what is read lists only whom it names. */
#include "support/check.h"

#include "shard_witness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum witness_verdict read_reply(const char *reply, uint64_t run, bool known,
                                       struct witness *witness)
{
    char why[WITNESS_WHY] = "";
    const struct cluster_ask ask = { .run = run };
    const enum witness_verdict verdict =
        witness_read(&ask, (bg_bytes){ reply, strlen(reply) }, known, witness, why);
    CHECK_EQ(verdict == WITNESS_DOUBT, *why != 0);
    return verdict;
}

static enum witness_verdict read_text(const char *text, uint64_t run)
{
    struct witness witness = { 0 };
    char reply[4096];
    (void)snprintf(reply, sizeof reply, "$%zu\r\n%s\r\n", strlen(text), text);
    const enum witness_verdict verdict = read_reply(reply, run, false, &witness);
    witness_free(&witness);
    return verdict;
}

TEST(witness__what_is_written_is_read)
{
    const uint64_t runs[] = { 7, UINT64_MAX, UINT64_C(0x0123456789abcdef) };
    struct witness before = { 0 };
    char *text = witness_write(&before, runs, 3);
    CHECK_STR(text, "1 0000000000000007 ffffffffffffffff 0123456789abcdef");
    for (size_t i = 0; i < 3; i++) {
        CHECK_EQ(read_text(text, runs[i]), WITNESS_GOOD);
    }
    CHECK_EQ(read_text(text, 8), WITNESS_DOUBT);
    CHECK_EQ(read_text(text, 0), WITNESS_DOUBT);
    free(text);
}

TEST(witness__keeps_some_that_do_not_answer)
{
    uint64_t runs[100];
    struct witness before = { 0 };
    for (size_t i = 0; i < 100; i++) {
        runs[i] = i + 1;
    }
    char *first = witness_write(&before, runs, 100);
    CHECK(witness_parse((bg_bytes){ first, strlen(first) }, &before));
    CHECK_EQ(before.count, 100);
    const uint64_t now[] = { 50, 1000 };
    char *second = witness_write(&before, now, 2);
    CHECK_EQ(read_text(second, 1000), WITNESS_GOOD);
    CHECK_EQ(read_text(second, 50), WITNESS_GOOD);
    CHECK_EQ(read_text(second, 1), WITNESS_GOOD);
    CHECK_EQ(read_text(second, 16), WITNESS_GOOD);
    CHECK_EQ(read_text(second, 17), WITNESS_DOUBT); /* it does not grow for ever */
    witness_free(&before);
    free(first);
    free(second);
}

TEST(witness__what_cannot_be_read_lists_nobody)
{
    static const char *const texts[] = {
        "",
        "1",
        "2 0000000000000007",
        "1 000000000000007",
        "1 0000000000000007 ",
        "1 000000000000000G",
        "10000000000000000",
        "1\n0000000000000007",
        "1 FFFFFFFFFFFFFFFF",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        CHECK_EQ(read_text(texts[i], 7), WITNESS_DOUBT);
        CHECK_EQ(read_text(texts[i], 0), WITNESS_DOUBT);
        CHECK_EQ(read_text(texts[i], UINT64_MAX), WITNESS_DOUBT);
    }
}

TEST(witness__none)
{
    struct witness witness = { 0 };
    CHECK_EQ(read_reply("$-1\r\n", 7, false, &witness), WITNESS_NONE);
    CHECK(witness_lists(&witness, 7) && !witness_lists(&witness, 8));
    witness_free(&witness);
    CHECK_EQ(read_reply("$-1\r\n", 7, true, &witness), WITNESS_DOUBT);
    CHECK_EQ(read_reply("$-1\r\n", 0, false, &witness), WITNESS_NONE);
    CHECK(witness_lists(&witness, 0)); /* who it is cannot be told there */
    witness_free(&witness);
    CHECK_EQ(read_reply("-ERR unknown command 'GET'\r\n", 7, true, &witness),
             WITNESS_GOOD);
    CHECK(witness_lists(&witness, 8));
    witness_free(&witness);
    CHECK_EQ(read_reply("-NOPERM no\r\n", 7, false, &witness), WITNESS_DOUBT);
    CHECK_EQ(read_reply("-WRONGTYPE no\r\n", 7, false, &witness), WITNESS_DOUBT);
    CHECK(!witness_lists(&witness, 7));
    const struct cluster_ask refused = { .run_refused = true };
    char why[WITNESS_WHY] = "";
    CHECK_EQ(witness_read(&refused, (bg_bytes){ "$-1\r\n", 5 }, false, &witness, why),
             WITNESS_DOUBT);
    CHECK(strstr(why, "+info") != NULL);
}

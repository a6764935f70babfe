/* Tests shard witnesses. A witness lists the server processes that were running when it was
 * written. A written witness can be read again, and lists only processes that were added to it. */
#include "support/check.h"

#include "shard_witness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum witness_verdict read_reply(const char *reply, struct link_process who,
                                       bool known, struct witness *witness)
{
    char why[WITNESS_WHY] = "";
    const struct cluster_ask ask = { .by = &who };
    const enum witness_verdict verdict =
        witness_read(&ask, (bg_bytes){ reply, strlen(reply) }, known, witness, why);
    CHECK_EQ(verdict == WITNESS_DOUBT || verdict == WITNESS_RESTART, *why != 0);
    return verdict;
}

static enum witness_verdict read_text(const char *text, struct link_process who)
{
    struct witness witness = { 0 };
    char reply[8192];
    (void)snprintf(reply, sizeof reply, "*2\r\n$9\r\nprocesses\r\n$%zu\r\n%s\r\n",
                   strlen(text), text);
    const enum witness_verdict verdict = read_reply(reply, who, false, &witness);
    witness_free(&witness);
    return verdict;
}

static struct link_process process(uint64_t run, uint64_t history, uint64_t before)
{
    return (struct link_process){ .run = run, .history = history, .before = before };
}

TEST(witness__what_is_written_is_read)
{
    static struct cluster_view view;
    const struct witness before = { 0 };
    view.count = 2;
    view.processes[0] = process(7, 70, 0);
    view.processes[1] = process(8, UINT64_MAX, 0);
    char *text = witness_write(&before, 9, &view);
    CHECK_STR(text, "1 0000000000000009 0000000000000007:0000000000000046 "
                    "0000000000000008:ffffffffffffffff");
    CHECK_EQ(read_text(text, process(7, 70, 0)), WITNESS_GOOD);
    CHECK_EQ(read_text(text, process(7, 1, 70)), WITNESS_GOOD); /* promoted */
    CHECK_EQ(read_text(text, process(7, 1, 2)), WITNESS_RESTART);
    CHECK_EQ(read_text(text, process(8, UINT64_MAX, 0)), WITNESS_GOOD);
    CHECK_EQ(read_text(text, process(9, 1, 0)), WITNESS_GOOD); /* served the shard */
    CHECK_EQ(read_text(text, process(9, 1, 2)),
             WITNESS_RESTART); /* served the shard, but then copied other data */
    CHECK_EQ(read_text(text, process(10, 70, 70)), WITNESS_RESTART);
    CHECK_EQ(read_text(text, process(0, 70, 70)), WITNESS_RESTART);
    free(text);
}

TEST(witness__a_doubt_outweighs_the_list)
{
    const struct link_process who = process(7, 70, 0);
    struct witness witness = { 0 };
    char name[WITNESS_FIELD];
    witness_doubt_name(9, name);
    CHECK_STR(name, "doubt:0000000000000009");
    CHECK_EQ(read_reply("*4\r\n$22\r\ndoubt:0000000000000009\r\n$1\r\n1\r\n"
                        "$9\r\nprocesses\r\n$18\r\n1 0000000000000007\r\n",
                        who, false, &witness),
             WITNESS_DOUBT);
    CHECK_EQ(witness.doubt_count, 1);
    CHECK_EQ(witness.doubts[0], 9);
    CHECK(!witness_believes(&witness, &who));
    witness.doubt_count = 0;
    CHECK(witness_believes(&witness, &who));
    witness_free(&witness);
    CHECK_EQ(read_reply("*2\r\n$8\r\ndoubt:xx\r\n$0\r\n\r\n", who, false, &witness),
             WITNESS_DOUBT);
    CHECK_EQ(witness.doubt_count, 1);
    witness_free(&witness);
}

TEST(witness__keeps_some_that_do_not_answer)
{
    static struct cluster_view view;
    struct witness before = { 0 };
    view.count = 100;
    for (size_t i = 0; i < 100; i++) {
        view.processes[i] = process(i + 1, 5, 0);
    }
    char *first = witness_write(&before, 1, &view);
    CHECK(witness_parse((bg_bytes){ first, strlen(first) }, &before));
    CHECK_EQ(before.count, 100);
    view.count = 2;
    view.processes[0] = process(50, 5, 0);
    view.processes[1] = process(1000, 5, 0);
    CHECK(witness_has(&before, &view.processes[0]));
    CHECK(!witness_has(&before, &view.processes[1]));
    char *second = witness_write(&before, 1000, &view);
    static const uint64_t kept[] = { 1000, 50, 1, 16 };
    for (size_t i = 0; i < 4; i++) {
        CHECK_EQ(read_text(second, process(kept[i], 5, 0)), WITNESS_GOOD);
    }
    CHECK_EQ(read_text(second, process(17, 5, 0)),
             WITNESS_RESTART); /* dropped, because a witness has a limited length */
    witness_free(&before);
    free(first);
    free(second);
}

TEST(witness__what_cannot_be_read_lists_nobody)
{
    static const char *const texts[] = {
        "",
        "1",
        "1 ",
        "2 0000000000000007",
        "1 000000000000007",
        "1 0000000000000007 ",
        "1 000000000000000G",
        "10000000000000007x",
        "1 FFFFFFFFFFFFFFFF",
        "1 0000000000000007 0000000000000007",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        CHECK_EQ(read_text(texts[i], process(7, 7, 7)), WITNESS_DOUBT);
        CHECK_EQ(read_text(texts[i], process(0, 0, 0)), WITNESS_DOUBT);
    }
    CHECK_EQ(read_text("1 0000000000000001 0000000000000007-0000000000000007",
                       process(7, 7, 7)),
             WITNESS_RESTART);
}

TEST(witness__none)
{
    struct witness witness = { 0 };
    const struct link_process who = process(7, 70, 0), other = process(8, 70, 0),
                              nobody = process(0, 0, 0);
    CHECK_EQ(read_reply("*0\r\n", who, false, &witness), WITNESS_NONE);
    CHECK(witness_believes(&witness, &who) && !witness_believes(&witness, &other));
    witness_free(&witness);
    CHECK_EQ(read_reply("*0\r\n", who, true, &witness), WITNESS_DOUBT);
    CHECK_EQ(read_reply("*0\r\n", nobody, false, &witness), WITNESS_NONE);
    CHECK(
        witness_believes(&witness, &nobody)); /* the server does not identify itself */
    witness_free(&witness);
    CHECK_EQ(read_reply("-ERR unknown command 'HGETALL'\r\n", who, true, &witness),
             WITNESS_GOOD);
    CHECK(witness_believes(&witness, &other));
    witness_free(&witness);
    CHECK_EQ(read_reply("-NOPERM no\r\n", who, false, &witness), WITNESS_DOUBT);
    CHECK_EQ(read_reply("$3\r\nabc\r\n", who, false, &witness), WITNESS_DOUBT);
    CHECK_EQ(read_reply("-WRONGTYPE no\r\n", who, false, &witness), WITNESS_DOUBT);
    CHECK(!witness_believes(&witness, &who));
    const struct link_process refused = { .refused = true };
    CHECK_EQ(read_reply("*0\r\n", refused, false, &witness), WITNESS_DOUBT);
}

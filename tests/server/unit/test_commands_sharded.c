/* Tests BG.SHARDED: shard names, routes and sizes in replies, and error messages. */
#include "server/support/fake_host.h"

TEST(sharded__names)
{
    struct fake h;
    fake_begin(&h);
    CHECK_STR(fake(&h, "BG.SHARDED KEYS seen 4"),
              "[${3}seen/0of4 ${2}seen/1of4 ${1}seen/2of4 ${0}seen/3of4]");
    CHECK_STR(fake(&h, "bg.sharded keys x 1"), "[${0}x/0of1]");
    CHECK_STR(fake(&h, "BG.SHARDED SHARD seen 16 a b c a"),
              "[${10}seen/0of16 ${60}seen/6of16 ${43}seen/3of16 ${10}seen/0of16]");
    fake_end(&h);
}

TEST(sharded__plan)
{
    struct fake h;
    fake_begin(&h);
    const char *got = fake(&h, "BG.SHARDED PLAN 1000000 0.001 16");
    CHECK(strstr(got, "shards :16") && strstr(got, "capacity :63900"));
    CHECK(strstr(got, "kind $blocked"));
    fake_end(&h);
}

TEST(sharded__mistakes)
{
    static const char *const bad[][2] = {
        { "BG.SHARDED KEYS seen 0", "-ERR shards: found '0', expected 1 to 1024" },
        { "BG.SHARDED KEYS seen 1025",
          "-ERR shards: found '1025', expected 1 to 1024" },
        { "BG.SHARDED KEYS seen x", "-ERR shards: found 'x', expected 1 to 1024" },
        { "BG.SHARDED SHARD seen 0 a", "-ERR shards: found '0', expected 1 to 1024" },
        { "BG.SHARDED KEYS seen 4 5",
          "-ERR wrong number of arguments for 'bg.sharded' command" },
        { "BG.SHARDED SHARD seen 4",
          "-ERR wrong number of arguments for 'bg.sharded' command" },
        { "BG.SHARDED PLAN 0 0.1 4", "-ERR bad capacity" },
        { "BG.SHARDED PLAN 10 1 4", "-ERR bad error rate" },
        { "BG.SHARDED PLAN 10 0.1 0", "-ERR shards: found '0', expected 1 to 1024" },
        { "BG.SHARDED KEY seen 4", "-ERR found 'KEY', expected KEYS, SHARD or PLAN" },
    };
    struct fake h;
    fake_begin(&h);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_STR(fake(&h, bad[i][0]), bad[i][1]);
    }
    fake_end(&h);
}

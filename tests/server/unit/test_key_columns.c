/* test_key_columns.c - tests the `keys` setting: its syntax, and the SQL derived from it.
 */
#include "source/key_columns.h"

#include "support/check.h"

#include <stdlib.h>
#include <string.h>

static struct key_columns columns;

static bool parses(const char *text, bool fold)
{
    key_columns_free(&columns);
    bg_errinfo info;
    return key_columns_parse(text, fold, &columns, &info) == BG_OK;
}

static void is(size_t i, const char *schema, const char *table, const char *column)
{
    CHECK(i < columns.n);
    CHECK_STR(columns.list[i].schema, schema);
    CHECK_STR(columns.list[i].table, table);
    CHECK_STR(columns.list[i].column, column);
}

TEST(columns__are_parsed)
{
    CHECK(parses("users(email)", true));
    CHECK_EQ(columns.n, 1);
    is(0, "", "users", "email");
    CHECK(parses(" shop.Users ( EMail ) , aliases(alias)", true));
    CHECK_EQ(columns.n, 2);
    is(0, "shop", "users", "email");
    is(1, "", "aliases", "alias");
    CHECK(parses("Users(EMail)", false));
    is(0, "", "Users", "EMail");
    CHECK(parses("\"My.Shop\".\"a \"\"b\"\"\"(\"c)\")", true));
    is(0, "My.Shop", "a \"b\"", "c)");
    CHECK(parses("größe(x_1$)", true));
    is(0, "", "größe", "x_1$");
    key_columns_free(&columns);
}

TEST(columns__mistakes)
{
    static const char *const wrong[] = { "",
                                         "users",
                                         "users(",
                                         "users()",
                                         "users(email",
                                         "(email)",
                                         "users(email))",
                                         "users(email) x",
                                         "users(email),",
                                         ",users(email)",
                                         "1users(a)",
                                         "users(a, b)",
                                         "users(lower(a))",
                                         "a.b.c(d)",
                                         "\"users(email)",
                                         "\"\"(a)",
                                         "SELECT x FROM y",
                                         "users.(a)",
                                         "users(email);" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK(!parses(wrong[i], true));
    }
    CHECK(!parses(
        "a(b),a(b),a(b),a(b),a(b),a(b),a(b),a(b),a(b),a(b),a(b),a(b),a(b),a(b),a(b),"
        "a(b),a(b)",
        true));
    key_columns_free(&columns);
}

TEST(columns__make_sql)
{
    CHECK(parses("shop.users(email), \"a\"\"b\"(c)", true));
    char *lookup = key_columns_lookup(&columns, "1", "= $1");
    CHECK_STR(lookup, "SELECT 1 FROM \"shop\".\"users\" WHERE \"email\" = $1 UNION ALL "
                      "SELECT 1 FROM \"a\"\"b\" WHERE \"c\" = $1 LIMIT 1");
    CHECK_STR(columns.list[0].sql_table, "\"shop\".\"users\"");
    CHECK_STR(columns.list[1].sql_table, "\"a\"\"b\"");
    CHECK_STR(columns.list[1].sql_column, "\"c\"");
    free(lookup);
    key_columns_free(&columns);
}

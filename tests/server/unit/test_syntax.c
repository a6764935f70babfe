/* test_syntax.c - tests the parser for the descriptions of command arguments. */
#define _GNU_SOURCE

#include "commands/syntax.h"
#include "core/server.h"
#include "main/run.h"
#include "support/check.h"

#include <stdio.h>
#include <string.h>

static void write_nodes(const struct syntax_node *first, char *text, size_t room);

/* Writes a node as text, such as ERROR:double:error? or oneof(a b)*. */
static void write_node(const struct syntax_node *node, char *text, size_t room)
{
    char inside[1024] = "";
    if (node->first) {
        write_nodes(node->first, inside, sizeof inside);
    }
    (void)snprintf(text, room, "%s%s%s:%s%s%s%s%s%s", node->token,
                   *node->token ? ":" : "", syntax_type_name(node->type), node->name,
                   node->first ? "(" : "", inside, node->first ? ")" : "",
                   node->optional ? "?" : "", node->multiple ? "*" : "");
}

static void write_nodes(const struct syntax_node *first, char *text, size_t room)
{
    size_t n = 0;
    for (const struct syntax_node *node = first; node && n < room; node = node->next) {
        char one[1200];
        write_node(node, one, sizeof one);
        n += (size_t)snprintf(text + n, room - n, "%s%s", n ? " " : "", one);
    }
}

static const char *tree(const char *line)
{
    static char text[4096];
    struct syntax syntax;
    text[0] = 0;
    if (!syntax_parse(&syntax, line)) {
        return "wrong";
    }
    write_nodes(syntax.first, text, sizeof text);
    return text;
}

TEST(syntax__values)
{
    CHECK_STR(tree(""), "");
    CHECK_STR(tree("key"), "string:key");
    CHECK_STR(tree("key error_rate capacity"),
              "string:key double:error_rate integer:capacity");
    CHECK_STR(tree("pattern unix-time-seconds"),
              "pattern:pattern unix-time:unix-time-seconds");
    CHECK_STR(tree("  key   item "), "string:key string:item");
}

TEST(syntax__options)
{
    CHECK_STR(
        tree("key [EXPANSION expansion] [NONSCALING]"),
        "string:key EXPANSION:integer:expansion? NONSCALING:pure-token:nonscaling?");
    CHECK_STR(tree("[username] password"), "string:username? string:password");
    CHECK_STR(tree("[protover [AUTH username password] [SETNAME name]]"),
              "block:protover(integer:protover AUTH:block:auth(string:username "
              "string:password)? SETNAME:string:name?)?");
}

TEST(syntax__alternatives)
{
    CHECK_STR(tree("<ON | OFF>"), "oneof:option(ON:pure-token:on OFF:pure-token:off)");
    CHECK_STR(tree("key [NX | XX]"),
              "string:key oneof:option(NX:pure-token:nx XX:pure-token:xx)?");
    CHECK_STR(tree("[TYPE <NORMAL | PUBSUB>]"),
              "TYPE:oneof:type(NORMAL:pure-token:normal PUBSUB:pure-token:pubsub)?");
    CHECK_STR(tree("<LIB-NAME libname | LIB-VER libver>"),
              "oneof:option(LIB-NAME:string:libname LIB-VER:string:libver)");
    CHECK_STR(tree("<ip:port | [ID client-id] [USER username]>"),
              "oneof:option(string:ip:port block:client-id(ID:integer:client-id? "
              "USER:string:username?))");
}

TEST(syntax__repetition)
{
    CHECK_STR(tree("key [key ...]"), "string:key*");
    CHECK_STR(tree("key ITEMS item [item ...]"), "string:key ITEMS:string:item*");
    CHECK_STR(tree("parameter value [parameter value ...]"),
              "block:data(string:parameter string:value)*");
    CHECK_STR(tree("[section [section ...]]"), "string:section?*");
    CHECK_STR(tree("key <ADD item [item ...] | COMMIT>"),
              "string:key oneof:option(ADD:string:item* COMMIT:pure-token:commit)");
}

TEST(syntax__wrong_lines)
{
    static const char *const lines[] = {
        "key [",
        "key ]",
        "key [item",
        "<a | b",
        "a | b",
        "[]",
        "[item ...]",
        "...",
        "key [a>",
        "Mixed",
        "[[[[[[[a]]]]]]]",
        "12",
        "<>",
        "<a |",
        "a_name_that_is_much_longer_than_any_name_should_be",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        CHECK_STR(tree(lines[i]), "wrong");
    }
}

/* For any input, parsing terminates and uses at most SYNTAX_NODES nodes. */
TEST(syntax__noise)
{
    static const char letters[] = "aA [[]]<<>>||.....  keyTOKEN";
    for (size_t i = 0; i < 20000 * check_scale(); i++) {
        char line[200];
        struct syntax syntax;
        const size_t n = check_random_below(sizeof line);
        for (size_t j = 0; j < n; j++) {
            line[j] = letters[check_random_below(sizeof letters - 1)];
        }
        line[n] = 0;
        (void)syntax_parse(&syntax, line);
        CHECK(syntax.used <= SYNTAX_NODES);
    }
}

/* All commands in the service have valid argument descriptions. */
TEST(syntax__of_all_commands)
{
    size_t count = 0;
    for (size_t f = 0; f < server_families_count; f++) {
        for (const struct command *c = server_families[f]; c->name; c++) {
            struct syntax syntax;
            CHECK(syntax_parse(&syntax, c->syntax));
            CHECK(*c->summary && *c->complexity && *c->since);
            CHECK(c->summary[strlen(c->summary) - 1] != '.');
            count++;
        }
    }
    CHECK(count > 100);
}

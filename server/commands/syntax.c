/*
 * syntax.c - see syntax.h. A recursive-descent parser that fills an array of nodes.
 *
 *     alternatives := sequence { "|" sequence }
 *     sequence     := { word | "[" alternatives "]" | "<" alternatives ">" }
 */
#include "commands/syntax.h"

#include "letters.h"

#include <ctype.h>
#include <string.h>

struct parser {
    struct syntax *syntax;
    const char *at;
    int depth;
    bool failed;
};

/* A list of sibling nodes, and the link at which the next node is added. */
struct chain {
    struct syntax_node *first, **end;
    size_t count;
};

static void parse_alternatives(struct parser *p, struct chain *chain);

/* ---- Nodes ----------------------------------------------------------------------------------- */

static struct syntax_node *parse_node(struct parser *p, enum syntax_type type)
{
    if (p->syntax->used == SYNTAX_NODES) {
        p->failed = true;
        return NULL;
    }
    struct syntax_node *node = &p->syntax->nodes[p->syntax->used++];
    *node = (struct syntax_node){ .type = type };
    return node;
}

static void chain_init(struct chain *chain)
{
    *chain = (struct chain){ .first = NULL };
    chain->end = &chain->first;
}

static void chain_add(struct chain *chain, struct syntax_node *node)
{
    if (node) {
        *chain->end = node;
        chain->end = &node->next;
        chain->count++;
    }
}

/* Returns the link to the nth node from the end, where n = 1 refers to the last node. */
static struct syntax_node **chain_back(struct chain *chain, size_t n)
{
    struct syntax_node **link = &chain->first;
    for (size_t i = n; i < chain->count; i++) {
        link = &(*link)->next;
    }
    return link;
}

static void syntax_lower(char *to, const char *from)
{
    const size_t n = strlen(from);
    letters_lower(to, n + 1, from, n);
}

static enum syntax_type syntax_type_of(const char *name)
{
    static const char *const integers[] = {
        "capacity",       "expansion", "count",         "seconds",
        "milliseconds",   "cursor",    "index",         "timeout",
        "bucketsize",     "protover",  "numreplicas",   "client-id",
        "maxage",         "iterator",  "maxiterations", "items",
        "destination-db", "width",     "generations",   "memory",
        "seed",           "k",         "shards",
    };
    if (strcmp(name, "error_rate") == 0 || strcmp(name, "error") == 0
        || strcmp(name, "rate") == 0 || strcmp(name, "bits_per_key") == 0) {
        return SYNTAX_DOUBLE;
    }
    if (strcmp(name, "pattern") == 0) {
        return SYNTAX_PATTERN;
    }
    if (strncmp(name, "unix-time", 9) == 0) {
        return SYNTAX_TIME;
    }
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        if (strcmp(name, integers[i]) == 0) {
            return SYNTAX_INTEGER;
        }
    }
    return SYNTAX_STRING;
}

/* ---- Words ----------------------------------------------------------------------------------- */

static void parse_blanks(struct parser *p)
{
    p->at += strspn(p->at, " ");
}

static bool parse_word(struct parser *p, char word[SYNTAX_NAME])
{
    const size_t n = strcspn(p->at, " []<>|");
    if (n == 0 || n >= SYNTAX_NAME) {
        p->failed = true;
        return false;
    }
    memcpy(word, p->at, n);
    word[n] = 0;
    p->at += n;
    parse_blanks(p);
    return true;
}

/* Returns whether a word is a literal token: it contains uppercase letters but no lowercase
 * letters. */
static bool parse_is_token(const char *word)
{
    bool capital = false;
    for (; *word; word++) {
        if (islower((unsigned char)*word)) {
            return false;
        }
        capital = capital || isupper((unsigned char)*word);
    }
    return capital;
}

static bool parse_at_value(const struct parser *p)
{
    return islower((unsigned char)*p->at);
}

static struct syntax_node *parse_value(struct parser *p)
{
    char word[SYNTAX_NAME];
    struct syntax_node *node =
        parse_word(p, word) ? parse_node(p, SYNTAX_STRING) : NULL;
    if (node) {
        node->type = syntax_type_of(word);
        memcpy(node->name, word, sizeof word);
    }
    return node;
}

/* ---- Groups ---------------------------------------------------------------------------------- */

static struct syntax_node *parse_group(struct parser *p, char end)
{
    struct chain chain;
    struct syntax_node *node = NULL;
    p->at++;
    parse_blanks(p);
    chain_init(&chain);
    if (++p->depth > SYNTAX_DEPTH) {
        p->failed = true;
        return NULL;
    }
    parse_alternatives(p, &chain);
    p->depth--;
    if (*p->at != end || !chain.first) {
        p->failed = true;
        return NULL;
    }
    p->at++;
    parse_blanks(p);
    if (chain.count == 1) {
        return chain.first;
    }
    node = parse_node(p, SYNTAX_ONEOF);
    if (node) {
        memcpy(node->name, "option", 7);
        node->first = chain.first;
    }
    return node;
}

/* Parses the rest of an argument that starts with a token: TOKEN, TOKEN value or TOKEN <a | b>. A group that starts
 * with TOKEN and has several values is a block (see parse_sequence). */
static struct syntax_node *parse_token(struct parser *p, const char *token)
{
    struct syntax_node *node = NULL;
    if (parse_at_value(p)) {
        node = parse_value(p);
    } else if (*p->at == '<') {
        node = parse_group(p, '>');
        if (node && node->type == SYNTAX_ONEOF) {
            syntax_lower(node->name, token);
        }
    } else {
        node = parse_node(p, SYNTAX_TOKEN);
        if (node) {
            syntax_lower(node->name, token);
        }
    }
    if (node) {
        memcpy(node->token, token,
               strlen(token) + 1); /* both buffers are large enough for a word */
    }
    return node;
}

/* ---- Repetition ------------------------------------------------------------------------------ */

/* Parses "[item ...]" or "[a b ...]", and returns its number of words. Returns 0 for any other text. */
static size_t parse_repetition(struct parser *p)
{
    const char *dots = strstr(p->at, "...]");
    const char *end = strchr(p->at, ']');
    size_t words = 0;
    if (!dots || dots + 3 != end) {
        return 0;
    }
    for (const char *c = p->at + 1; c < dots; c++) {
        if (*c == '[') {
            return 0; /* the repetition is nested in this group */
        }
        words += *c == ' ';
    }
    p->at = end + 1;
    parse_blanks(p);
    return words;
}

/* Marks the last n nodes as repeatable. Several nodes are first combined into a block. */
static void chain_repeat(struct parser *p, struct chain *chain, size_t n)
{
    if (chain->count < n) {
        p->failed = true;
        return;
    }
    struct syntax_node **link = chain_back(chain, n);
    if (n == 1) {
        (*link)->multiple = true;
        return;
    }
    struct syntax_node *block = parse_node(p, SYNTAX_BLOCK);
    if (!block) {
        return;
    }
    memcpy(block->name, "data", 5);
    block->multiple = true;
    block->first = *link;
    *link = block;
    chain->end = &block->next;
    chain->count -= n - 1;
}

/* ---- Sequences ------------------------------------------------------------------------------- */

static void parse_item(struct parser *p, struct chain *chain)
{
    char word[SYNTAX_NAME];
    struct syntax_node *node = NULL;
    size_t repeated = 0;
    if (*p->at == '[') {
        repeated = parse_repetition(p);
        if (repeated) {
            chain_repeat(p, chain, repeated);
            return;
        }
        node = parse_group(p, ']');
        if (node) {
            node->optional = true;
        }
    } else if (*p->at == '<') {
        node = parse_group(p, '>');
    } else if (parse_at_value(p)) {
        node = parse_value(p);
    } else if (parse_word(p, word)) {
        if (parse_is_token(word)) {
            node = parse_token(p, word);
        } else {
            p->failed = true;
        }
    }
    chain_add(chain, node);
}

/* Parses the items between brackets or bars into one node. For example, "AUTH username password" becomes a block with
 * the token AUTH. At the top level, each item is a separate argument. */
static void parse_sequence(struct parser *p, struct chain *out)
{
    struct chain chain;
    chain_init(&chain);
    while (!p->failed && *p->at && !strchr("]>|", *p->at)) {
        parse_item(p, &chain);
    }
    if (p->failed || chain.count <= 1 || p->depth == 0) {
        for (struct syntax_node *node = chain.first, *next = NULL; node; node = next) {
            next = node->next;
            node->next = NULL;
            chain_add(out, node);
        }
        return;
    }
    struct syntax_node *block = parse_node(p, SYNTAX_BLOCK);
    if (!block) {
        return;
    }
    block->first = chain.first;
    memcpy(block->name, chain.first->name, sizeof block->name);
    if (chain.first->token[0] && chain.first->type != SYNTAX_TOKEN
        && !chain.first->optional) {
        syntax_lower(block->name, chain.first->token);
        memcpy(block->token, chain.first->token, sizeof block->token);
        chain.first->token[0] = 0;
    }
    chain_add(out, block);
}

static void parse_alternatives(struct parser *p, struct chain *chain)
{
    parse_sequence(p, chain);
    while (!p->failed && *p->at == '|') {
        p->at++;
        parse_blanks(p);
        parse_sequence(p, chain);
    }
}

bool syntax_parse(struct syntax *syntax, const char *line)
{
    struct parser parser = { .syntax = syntax, .at = line };
    struct chain chain;
    syntax->used = 0;
    syntax->first = NULL;
    chain_init(&chain);
    parse_blanks(&parser);
    parse_sequence(&parser, &chain);
    if (parser.failed || *parser.at) {
        return false;
    }
    syntax->first = chain.first;
    return true;
}

const char *syntax_type_name(enum syntax_type type)
{
    static const char *const names[] = { "string",    "integer",    "double", "pattern",
                                         "unix-time", "pure-token", "oneof",  "block" };
    return names[type];
}

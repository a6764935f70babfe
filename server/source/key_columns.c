/* key_columns.c - see key_columns.h. */
#include "source/key_columns.h"

#include "letters.h"
#include "source/source.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char columns_expected[] =
    "table(column), or a list such as users(email), aliases(alias)";

struct columns_text {
    const char *at;
    bool fold;
    bg_errinfo *info;
};

static bg_err columns_wrong(const struct columns_text *text, const char *what)
{
    return source_error(text->info, BG_EINVAL, "keys", columns_expected, "%s at: %.40s",
                        what, *text->at ? text->at : "the end");
}

static void columns_skip(struct columns_text *text)
{
    while (*text->at == ' ' || *text->at == '\t') {
        text->at++;
    }
}

static bool columns_is_part(char c, bool first)
{
    const unsigned char u = (unsigned char)c;
    return isalpha(u) || u == '_' || u >= 0x80 || (!first && (isdigit(u) || u == '$'));
}

/* Reads an unquoted identifier into `to`, which has space for the whole text. */
static size_t columns_plain(struct columns_text *text, char *to)
{
    size_t n = 0;
    while (columns_is_part(*text->at, n == 0)) {
        const char c = *text->at++;
        to[n++] = (char)(text->fold ? letter_lower(c) : c);
    }
    return n;
}

/* Reads a quoted identifier into `to`. Returns 0 if the closing quote is missing. */
static size_t columns_quoted(struct columns_text *text, char *to)
{
    size_t n = 0;
    text->at++;
    while (*text->at && (*text->at != '"' || text->at[1] == '"')) {
        text->at += *text->at == '"';
        to[n++] = *text->at++;
    }
    if (*text->at != '"') {
        return 0;
    }
    text->at++;
    return n;
}

static bg_err columns_identifier(struct columns_text *text, char **name)
{
    columns_skip(text);
    char *to = malloc(strlen(text->at) + 1);
    *name = to;
    if (!to) {
        return source_error(text->info, BG_ENOMEM, "keys", NULL, "out of memory");
    }
    const size_t n =
        *text->at == '"' ? columns_quoted(text, to) : columns_plain(text, to);
    to[n] = 0;
    columns_skip(text);
    return n ? BG_OK : columns_wrong(text, "no identifier");
}

static bg_err columns_sign(struct columns_text *text, char sign)
{
    if (*text->at != sign) {
        const char what[] = { 'n', 'o', ' ', '\'', sign, '\'', 0 };
        return columns_wrong(text, what);
    }
    text->at++;
    columns_skip(text);
    return BG_OK;
}

static bg_err columns_one(struct columns_text *text, struct key_column *column)
{
    bg_err err = columns_identifier(text, &column->table);
    if (!err && *text->at == '.') {
        text->at++;
        column->schema = column->table;
        column->table = NULL;
        err = columns_identifier(text, &column->table);
    } else if (!err) {
        column->schema = strdup("");
        err = column->schema
                  ? BG_OK
                  : source_error(text->info, BG_ENOMEM, "keys", NULL, "out of memory");
    }
    err = err ? err : columns_sign(text, '(');
    err = err ? err : columns_identifier(text, &column->column);
    return err ? err : columns_sign(text, ')');
}

bg_err key_columns_parse(const char *text, bool fold, struct key_columns *columns,
                         bg_errinfo *info)
{
    struct columns_text rest = { .at = text, .fold = fold, .info = info };
    bg_err err = BG_OK;
    *columns = (struct key_columns){ .n = 0 };
    do {
        if (columns->n == KEY_COLUMNS) {
            return source_error(info, BG_EINVAL, "keys", NULL,
                                "too many columns (maximum: 16)");
        }
        err = columns_one(&rest, &columns->list[columns->n++]);
    } while (!err && *rest.at == ',' && rest.at++);
    return err || !*rest.at ? err : columns_wrong(&rest, "unexpected text");
}

void key_columns_free(struct key_columns *columns)
{
    for (size_t i = 0; i < columns->n; i++) {
        free(columns->list[i].schema);
        free(columns->list[i].table);
        free(columns->list[i].column);
    }
    columns->n = 0;
}

/* Prints a quoted identifier. */
static void columns_print_name(FILE *to, const char *name)
{
    (void)fputc('"', to);
    for (; *name; name++) {
        if (*name == '"') {
            (void)fputc('"', to);
        }
        (void)fputc(*name, to);
    }
    (void)fputc('"', to);
}

static void columns_print_table(FILE *to, const struct key_column *column)
{
    if (*column->schema) {
        columns_print_name(to, column->schema);
        (void)fputc('.', to);
    }
    columns_print_name(to, column->table);
}

/* Closes a stream opened by open_memstream. Returns its text, or NULL if out of memory. */
static char *columns_printed(FILE *to, char **text)
{
    const bool failed = !to || ferror(to);
    if ((to && fclose(to) != 0) || failed) {
        free(*text);
        *text = NULL;
    }
    return *text;
}

char *key_column_table(const struct key_column *column)
{
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    if (to) {
        columns_print_table(to, column);
    }
    return columns_printed(to, &text);
}

char *key_columns_lookup(const struct key_columns *columns, const char *comparison)
{
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    for (size_t i = 0; to && i < columns->n; i++) {
        (void)fputs(i ? " UNION ALL SELECT 1 FROM " : "SELECT 1 FROM ", to);
        columns_print_table(to, &columns->list[i]);
        (void)fputs(" WHERE ", to);
        columns_print_name(to, columns->list[i].column);
        (void)fprintf(to, " %s", comparison);
    }
    if (to) {
        (void)fputs(" LIMIT 1", to);
    }
    return columns_printed(to, &text);
}

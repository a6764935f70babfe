/* key_columns.c - see key_columns.h. */
#include "source/key_columns.h"

#include "letters.h"
#include "source/driver.h"

#include <ctype.h>
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

static bg_err columns_no_memory(bg_errinfo *info)
{
    return source_error(info, BG_ENOMEM, "keys", NULL, "out of memory");
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
        return columns_no_memory(text->info);
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

/* Makes the quoted names. */
static bg_err columns_quote(struct key_column *column, bg_errinfo *info)
{
    char *schema = source_quote(column->schema), *table = source_quote(column->table);
    column->sql_column = source_quote(column->column);
    if (schema && table) {
        column->sql_table = *column->schema ? source_format("%s.%s", schema, table)
                                            : source_format("%s", table);
    }
    free(schema);
    free(table);
    return column->sql_table && column->sql_column ? BG_OK : columns_no_memory(info);
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
        err = column->schema ? BG_OK : columns_no_memory(text->info);
    }
    err = err ? err : columns_sign(text, '(');
    err = err ? err : columns_identifier(text, &column->column);
    err = err ? err : columns_sign(text, ')');
    return err ? err : columns_quote(column, text->info);
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
        struct key_column *column = &columns->list[i];
        free(column->schema);
        free(column->table);
        free(column->column);
        free(column->sql_table);
        free(column->sql_column);
    }
    columns->n = 0;
}

char *key_columns_lookup(const struct key_columns *columns, const char *selected,
                         const char *comparison)
{
    char *text = strdup("");
    for (size_t i = 0; text && i < columns->n; i++) {
        const struct key_column *column = &columns->list[i];
        char *more = source_format("%s%sSELECT %s FROM %s WHERE %s %s%s", text,
                                   i ? " UNION ALL " : "", selected, column->sql_table,
                                   column->sql_column, comparison,
                                   i + 1 == columns->n ? " LIMIT 1" : "");
        free(text);
        text = more;
    }
    return text;
}

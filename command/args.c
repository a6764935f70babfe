/* args.c - see args.h. Items are processed in batches of OBJECT_BATCH, a multiple of 64. */
#include "args.h"

#include "error_text.h"
#include "ledger.h"
#include "letters.h"
#include "number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool args_is(bg_bytes argument, const char *word)
{
    const char *bytes = argument.data;
    for (size_t i = 0; i < argument.len; i++) {
        if (word[i] == 0 || letter_upper(bytes[i]) != word[i]) {
            return false;
        }
    }
    return word[argument.len] == 0;
}

bool args_count(bg_bytes argument, uint64_t *value)
{
    const char *digits = argument.data;
    uint64_t number = 0;
    if (argument.len == 0 || argument.len > 20) {
        return false;
    }
    const char *end = digits + argument.len;
    if (!digits_read(&digits, end, &number) || digits < end) {
        return false;
    }
    *value = number;
    return true;
}

bool args_real(bg_bytes argument, double *value)
{
    char text[64], *end = NULL;
    if (argument.len == 0 || argument.len >= sizeof text) {
        return false;
    }
    memcpy(text, argument.data, argument.len);
    text[argument.len] = 0;
    /* This check rejects inf, nan, hexadecimal numbers, blanks and NUL. */
    if (text[strspn(text, "0123456789+-.eE")] != 0) {
        return false;
    }
    const double real = strtod(text, &end);
    if (end != text + argument.len || !isfinite(real)) {
        return false;
    }
    *value = real;
    return true;
}

enum { ARGS_NUMBER = 64 };

/* Copies an argument that is a short text without NUL bytes. */
static bool args_copy(bg_bytes argument, char text[ARGS_NUMBER])
{
    if (argument.len == 0 || argument.len >= ARGS_NUMBER
        || memchr(argument.data, 0, argument.len)) {
        return false;
    }
    memcpy(text, argument.data, argument.len);
    text[argument.len] = 0;
    return true;
}

bool args_amount(bg_bytes argument, uint64_t *value)
{
    char text[ARGS_NUMBER];
    return args_count(argument, value)
           || (args_copy(argument, text) && number_count(text, value));
}

bool args_share(bg_bytes argument, double *value)
{
    char text[ARGS_NUMBER];
    return args_real(argument, value)
           || (args_copy(argument, text) && number_share(text, value));
}

bool args_scaled(bg_bytes argument, double *value)
{
    char text[ARGS_NUMBER];
    return args_real(argument, value)
           || (args_copy(argument, text) && number_real(text, value));
}

bool args_seconds(bg_bytes argument, double *value)
{
    char text[ARGS_NUMBER];
    return args_real(argument, value)
           || (args_copy(argument, text) && number_seconds(text, value));
}

bool args_milliseconds(bg_bytes argument, uint64_t *value)
{
    double seconds = 0;
    double number = 0;
    if (args_count(argument, value)) {
        return true;
    }
    if (args_real(argument, &number)) {
        return args_amount(argument, value); /* 1e6 */
    }
    if (!args_seconds(argument, &seconds) || !(seconds < 1e15)) {
        return false;
    }
    number = nearbyint(seconds * 1000);
    *value = (uint64_t)number;
    return fabs(seconds * 1000 - number) <= number * 1e-12;
}

const char *args_number(const struct args_number *number, bg_bytes argument,
                        void *options)
{
    uint64_t *count = (void *)((char *)options + number->at);
    double *share = (void *)count;
    if (number->type == ARGS_COUNT) {
        return !args_amount(argument, count)                  ? number->unparsable
               : *count < number->min || *count > number->max ? number->out_of_range
                                                              : NULL;
    }
    return !args_share(argument, share) ? number->unparsable
           : *share > 0 && *share < 1   ? NULL
                                        : number->out_of_range;
}

const char *args_option(const struct request *request, size_t *i, bool inserting,
                        const struct args_number *numbers, size_t n,
                        const char *missing, void *options)
{
    for (const struct args_number *number = numbers; number < numbers + n; number++) {
        if ((inserting ? number->in_insert : number->in_reserve)
            && args_is(request->argv[*i], number->word)) {
            return ++*i < request->argc
                       ? args_number(number, request->argv[*i], options)
                   : missing ? missing
                             : number->unparsable;
        }
    }
    return "ERR Unknown argument received";
}

static const char *args_show_in(bg_bytes argument, char *text, size_t room)
{
    const unsigned char *bytes = argument.data;
    const size_t most = room - 4;
    size_t n = argument.len < most ? argument.len : most;
    for (size_t i = 0; i < n; i++) {
        text[i] = '?';
        if (bytes[i] >= 32 && bytes[i] < 127) {
            memcpy(text + i, bytes + i, 1);
        }
    }
    if (argument.len > most) {
        memcpy(text + n, "...", 3);
        n += 3;
    }
    text[n] = 0;
    return text;
}

const char *args_show(bg_bytes argument, char text[64])
{
    return args_show_in(argument, text, 64);
}

const char *args_show_long(bg_bytes argument, char text[ARGS_SHOW_MAX])
{
    return args_show_in(argument, text, ARGS_SHOW_MAX);
}

bool args_refuse_gate(struct request *request, bg_bytes name)
{
    const struct host_ops *ops = request->host->ops;
    char text[64];
    if (!ops->is_gate || !ops->is_gate(request->host, name)) {
        return false;
    }
    reply_errorf(&request->reply, "WRONGTYPE " ARGS_IS_GATE, args_show(name, text));
    return true;
}

struct object *args_find(struct request *request, uint32_t families,
                         const char *missing, bool *sent)
{
    struct object *object = request->host->ops->find(request->host, request->argv[1]);
    if (!object && args_refuse_gate(request, request->argv[1])) {
        if (sent) {
            *sent = true;
        }
        return NULL;
    }
    const bool fits = object && families >> object->shape.family & 1;
    const char *wrong = object ? ARGS_WRONGTYPE : missing;
    if (sent) {
        *sent = !fits && wrong;
    }
    if (!fits && wrong) {
        reply_error(&request->reply, wrong);
    }
    return fits ? object : NULL;
}

struct object *args_find_cuckoo(struct request *request, const char *missing,
                                bool *sent)
{
    struct object *object = args_find(request, ARGS_CF, missing, sent);
    if (object && object_is_whole(object)
        && !(bg_kind_traits((bg_kind)object->shape.kind) & BG_TRAIT_REMOVE)) {
        reply_error(&request->reply, ARGS_WRONGTYPE);
        if (sent) {
            *sent = true;
        }
        return NULL;
    }
    return object;
}

struct object *args_find_any(struct request *request, bg_bytes name)
{
    struct object *object = request->host->ops->find(request->host, name);
    char text[64];
    if (!object && !args_refuse_gate(request, name)) {
        reply_errorf(&request->reply, "NOFILTER no such filter '%s'",
                     args_show(name, text));
    }
    return object;
}

bg_err args_create(struct request *request, struct object *object, bg_errinfo *info)
{
    const bg_err err =
        request->host->ops->create(request->host, request->argv[1], object, info);
    if (err) {
        object_free(object);
    }
    return err;
}

static bg_err args_make(struct request *request, const struct args_maker *maker,
                        const void *options, bg_errinfo *info)
{
    struct object *object = NULL;
    const bg_err err = maker->make(request, options, &object, info);
    return err ? err : args_create(request, object, info);
}

void args_reserve(struct request *request, const struct args_maker *maker,
                  const char *wrong, const void *options)
{
    bg_errinfo info = { 0 };
    bg_err err = BG_EINVAL;
    if (!wrong && request->host->ops->find(request->host, request->argv[1])) {
        wrong = ARGS_EXISTS;
    }
    if (!wrong && args_refuse_gate(request, request->argv[1])) {
        return;
    }
    if (!wrong) {
        err = args_make(request, maker, options, &info);
        wrong = err == BG_EBUSY ? ARGS_EXISTS : NULL;
    }
    if (wrong) {
        reply_error(&request->reply, wrong);
    } else if (err) {
        maker->failed(request, err, &info);
    } else {
        reply_ok(&request->reply);
    }
}

struct object *args_find_own(struct request *request, bool *sent)
{
    const uint32_t categories = request->command->categories;
    if (categories & (CATEGORY_BLOOM | CATEGORY_CUCKOO)) {
        return categories & CATEGORY_CUCKOO ? args_find_cuckoo(request, NULL, sent)
                                            : args_find(request, ARGS_BF, NULL, sent);
    }
    struct object *object = args_find_any(request, request->argv[1]);
    *sent = !object;
    return object;
}

struct object *args_find_or_make(struct request *request, bool nocreate,
                                 const void *options)
{
    const struct args_maker *maker =
        request->command->categories & CATEGORY_CUCKOO ? &cf_maker : &bf_maker;
    for (;;) {
        bool sent = false;
        struct object *object = args_find_own(request, &sent);
        if (object || sent) {
            return object;
        }
        if (nocreate) {
            reply_error(&request->reply, ARGS_NOT_FOUND);
            return NULL;
        }
        bg_errinfo info = { 0 };
        const bg_err err = args_make(request, maker, options, &info);
        if (err && err != BG_EBUSY) { /* BG_EBUSY: another client created the object */
            maker->failed(request, err, &info);
            return NULL;
        }
    }
}

void args_arity(struct request *request)
{
    char name[32];
    const char *own = request->command->name;
    letters_lower(name, sizeof name, own, strlen(own));
    reply_errorf(&request->reply, "ERR wrong number of arguments for '%s' command",
                 name);
}

void args_no_memory(const struct request *request, const char *text)
{
    char why[LEDGER_WHY];
    if (ledger_refusal(why)) {
        reply_errorf(&request->reply, "OOM %s", why);
    } else {
        reply_errorf(&request->reply, "ERR Insufficient memory%s%s",
                     text[0] == ' ' ? "" : ": ", text);
    }
}

void args_failed(struct request *request, bg_err err, const bg_errinfo *info,
                 const char *full)
{
    const char *text = error_text(info, err);
    switch (err) {
    case BG_EFULL: reply_error(&request->reply, full); break;
    case BG_ENOMEM: args_no_memory(request, text); break;
    case BG_EQUOTA: reply_errorf(&request->reply, "LIMIT %s", text); break;
    case BG_EIO: reply_errorf(&request->reply, "MISCONF %s", text); break;
    default: reply_errorf(&request->reply, "ERR %s", text); break;
    }
}

void args_done(struct request *request, bg_err err, const bg_errinfo *info,
               const char *full)
{
    if (err) {
        args_failed(request, err, info, full);
    } else {
        reply_ok(&request->reply);
    }
}

/* ---- Items ---------------------------------------------------------------------------------- */

void items_reply(struct request *request, const uint64_t *bits, size_t n)
{
    request->reply.ops->booleans(request->reply.to, bits, n);
}

const char *items_full(const struct request *request, const struct object *object)
{
    const uint32_t categories = request->command->categories;
    if (categories & CATEGORY_CUCKOO) {
        return object->shape.family == OBJECT_CF && object->shape.expansion
                   ? CF_EXPANDED
                   : CF_FULL;
    }
    return categories & CATEGORY_BLOOM ? BF_FULL : BGC_FULL;
}

/* Adds items of a pipeline and sends one reply for each. Returns the number of replies. *step is the
 * maximum number of items; it is reduced to 1 after an error. */
static size_t items_add_some(struct request *request, struct object *object,
                             const bg_bytes *items, size_t n, size_t *step)
{
    uint64_t is_new[BG_BITMAP_WORDS(OBJECT_BATCH)];
    size_t done = 0;
    bg_errinfo info = { 0 };
    const bg_err err = object_add_many(object, request->host, items,
                                       n < *step ? n : *step, is_new, &done, &info);
    if (request->command->categories & CATEGORY_CUCKOO) {
        memset(is_new, 0xFF, sizeof is_new);
    }
    items_reply(request, is_new, done);
    *step = err ? 1 : *step < OBJECT_BATCH ? 2 * *step : *step;
    if (err) {
        args_failed(request, err, &info, items_full(request, object));
    }
    return done + (err ? 1 : 0);
}

void items_add_many(struct request *request, const bg_bytes *items, size_t n)
{
    size_t step = OBJECT_BATCH;
    for (size_t at = 0; at < n;) {
        struct object *object = args_find_or_make(request, false, NULL);
        /* without an object, the error has been sent */
        at += object ? items_add_some(request, object, items + at, n - at, &step) : 1;
    }
}

void items_add_one(struct request *request)
{
    items_add_many(request, request->argv + 2, 1);
}

void items_add_to(struct request *request, struct object *object, const bg_bytes *items,
                  size_t n)
{
    uint64_t *is_new = calloc(BG_BITMAP_WORDS(n) + 1, sizeof *is_new);
    bg_errinfo info = { 0 };
    bg_err err = is_new ? BG_OK : BG_ENOMEM;
    size_t done = 0;
    while (!err && done < n) {
        const size_t now = n - done < OBJECT_BATCH ? n - done : OBJECT_BATCH;
        size_t in = 0;
        err = object_add_many(object, request->host, items + done, now,
                              is_new + done / 64, &in, &info);
        done += in;
    }
    const bool full_in_array = !(request->command->categories & CATEGORY_GATE);
    if (!err || done || (full_in_array && err == BG_EFULL)) {
        reply_array(&request->reply, done + (err ? 1 : 0));
        items_reply(request, is_new, done);
    }
    if (err) {
        args_failed(request, err, &info, items_full(request, object));
    }
    free(is_new);
}

void items_add_list(struct request *request)
{
    struct object *object = args_find_or_make(request, false, NULL);
    if (object) {
        items_add_to(request, object, request->argv + 2, request->argc - 2);
    }
}

void items_exist(struct request *request, const struct object *object,
                 const bg_bytes *items, size_t n)
{
    for (size_t at = 0; at < n; at += OBJECT_BATCH) {
        const size_t now = n - at < OBJECT_BATCH ? n - at : OBJECT_BATCH;
        uint64_t maybe[BG_BITMAP_WORDS(OBJECT_BATCH)] = { 0 };
        if (object) {
            (void)object_may_contain_many(object, items + at, now, maybe);
        }
        items_reply(request, maybe, now);
    }
}

void items_exist_many(struct request *request, const bg_bytes *items, size_t n)
{
    for (size_t i = 0; i < n; i++) { /* sends an error for each item */
        bool sent = false;
        const struct object *object = args_find_own(request, &sent);
        if (!sent) {
            items_exist(request, object, items + i, n - i);
            return;
        }
    }
}

void items_exist_one(struct request *request)
{
    items_exist_many(request, request->argv + 2, 1);
}

void items_exist_list(struct request *request)
{
    bool sent = false;
    const struct object *object = args_find_own(request, &sent);
    if (!sent) {
        reply_array(&request->reply, request->argc - 2);
        items_exist(request, object, request->argv + 2, request->argc - 2);
    }
}

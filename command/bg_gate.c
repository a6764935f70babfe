/*
 * bg_gate.c - BG.LOOKUP returns a definite "no" or the backing store's answer; BG.ROW returns the row;
 * BG.WROTE adds keys to a gate's filter after a program has written them to the backing store.
 *
 * The reply to BG.LOOKUP is an array of two elements: whether the key exists (1, 0, or null if the
 * backing store did not answer), and the outcome: absent_by_filter, absent_by_cache,
 * absent_by_truth, present or unknown. A gate that fails closed replies with an error instead of
 * "unknown".
 *
 * The reply to BG.ROW is a map from column names to values, or null if the key is absent. If the backing
 * store did not answer, the reply is an error, even if the gate fails open, because null always
 * means that there is no row.
 */
#include "bg_handlers.h"
#include "store_row.h"

static void gate_failed(struct request *request, bg_err err, const bg_errinfo *info)
{
    char name[64];
    if (err == BG_ENOTFOUND) {
        reply_errorf(&request->reply, "NOGATE no such gate '%s'",
                     args_show(request->argv[1], name));
    } else {
        args_failed(request, err, info, BGC_FULL);
    }
}

static void gate_reply_no_answer(struct request *request)
{
    char name[64];
    reply_errorf(&request->reply,
                 "FAILED the backing store of gate '%s' did not answer",
                 args_show(request->argv[1], name));
}

static void gate_tell(struct request *request, bg_outcome outcome)
{
    if (outcome == BG_OUTCOME_FAILED) {
        gate_reply_no_answer(request);
        return;
    }
    reply_array(&request->reply, 2);
    if (outcome == BG_OUTCOME_UNKNOWN || outcome == BG_OUTCOME_PENDING) {
        reply_null(&request->reply);
    } else {
        reply_boolean(&request->reply, outcome == BG_OUTCOME_PRESENT);
    }
    reply_text(&request->reply, bg_outcome_name(outcome));
}

/* Looks up one key, and its row unless `row` is NULL. Returns false after sending an error. */
static bool gate_ask(struct request *request, bg_bytes key, struct store_row *row,
                     bg_outcome *outcome)
{
    struct host *host = request->host;
    bg_errinfo info = { 0 };
    if (!host->ops->lookup) {
        reply_error(&request->reply, "ERR gates are not available on this server");
        return false;
    }
    const bg_err err =
        host->ops->lookup(host, request->argv[1], key, row, outcome, &info);
    if (err && err != BG_EBUSY) { /* BG_EBUSY: the request will run again; see host.h */
        gate_failed(request, err, &info);
    }
    return !err;
}

void bgc_lookup(struct request *request)
{
    bg_outcome outcome = BG_OUTCOME_UNKNOWN;
    if (gate_ask(request, request->argv[2], NULL, &outcome)) {
        gate_tell(request, outcome);
    }
}

static void gate_reply_row(struct request *request, const struct store_row *row)
{
    struct store_column column;
    bg_errinfo info = { 0 };
    const bg_err err = store_row_check(row, &info);
    if (err) {
        args_failed(request, err, &info, BGC_FULL);
        return;
    }
    reply_map(&request->reply, row->columns);
    for (size_t at = 0; store_row_next(row, &at, &column);) {
        reply_bulk(&request->reply, column.name.data, column.name.len);
        if (column.is_null) {
            reply_null(&request->reply);
        } else {
            reply_bulk(&request->reply, column.value.data, column.value.len);
        }
    }
}

void bgc_row(struct request *request)
{
    struct store_row row = STORE_ROW_INIT;
    bg_outcome outcome = BG_OUTCOME_UNKNOWN;
    if (gate_ask(request, request->argv[2], &row, &outcome)) {
        switch (outcome) {
        case BG_OUTCOME_PRESENT: gate_reply_row(request, &row); break;
        case BG_OUTCOME_ABSENT_BY_FILTER:
        case BG_OUTCOME_ABSENT_BY_CACHE:
        case BG_OUTCOME_ABSENT_BY_STORE: reply_null(&request->reply); break;
        default: gate_reply_no_answer(request); break;
        }
    }
    store_row_free(&row);
}

/* The lookup of the first key also checks that the gate exists. */
void bgc_mlookup(struct request *request)
{
    bg_outcome outcome = BG_OUTCOME_UNKNOWN;
    if (!gate_ask(request, request->argv[2], NULL, &outcome)) {
        return;
    }
    reply_array(&request->reply, request->argc - 2);
    gate_tell(request, outcome);
    for (size_t i = 3; i < request->argc; i++) {
        if (gate_ask(request, request->argv[i], NULL, &outcome)) {
            gate_tell(request, outcome);
        }
    }
}

/* Adds all keys that can be added, and reports the first error. */
void bgc_wrote(struct request *request)
{
    struct host *host = request->host;
    bg_errinfo info = { 0 };
    bg_err err = BG_OK;
    if (!host->ops->wrote) {
        reply_error(&request->reply, "ERR gates are not available on this server");
        return;
    }
    for (size_t i = 2; i < request->argc; i++) {
        bg_errinfo why = { 0 };
        const bg_err one =
            host->ops->wrote(host, request->argv[1], request->argv[i], &why);
        if (one && !err) {
            err = one;
            info = why;
        }
    }
    if (err) {
        gate_failed(request, err, &info);
    } else {
        reply_ok(&request->reply);
    }
}

/*
 * rebuild_pull.c - a rebuild (rebuild.c) that reads the keys from a source. If the number of keys
 * is unknown, it reads the source twice. The rebuild reports progress and can be canceled.
 */
#include "gate/rebuild.h"

/* The number of keys per batch, and the number of batches per progress report. */
enum { PULL_BATCH = 1024, PULL_TELL = 64 };

struct pull {
    struct bg_rebuild *rebuild;
    const bg_source *source;
    bg_rebuild_progress progress;
};

static bg_err pull_tell(struct pull *pull, bg_errinfo *info)
{
    const bg_rebuild_options *how = &pull->rebuild->how;
    bg_rebuild_progress *p = &pull->progress;
    p->seconds = rebuild_seconds(pull->rebuild);
    p->keys_per_second = p->seconds > 0 ? (double)p->keys / p->seconds : 0;
    p->seconds_left = -1;
    if (p->expected > p->keys && p->keys_per_second > 0) {
        p->seconds_left = (double)(p->expected - p->keys) / p->keys_per_second;
    }
    if (how->progress && !how->progress(how->context, p)) {
        return bgi_err_state(info, BG_ECANCELED, "progress",
                             "the progress callback canceled the rebuild");
    }
    return BG_OK;
}

/* Reads the next batch of keys from the source. */
static bg_err pull_next(struct pull *pull, bg_bytes keys[PULL_BATCH], size_t *n,
                        bg_errinfo *info)
{
    const bg_source *source = pull->source;
    *n = 0;
    bg_err err = source->next(source->context, keys, PULL_BATCH, n, info);
    if (err && info && info->code != err) {
        (void)bgi_err_state(info, err, "source",
                            "the source failed after %llu keys: %s",
                            (unsigned long long)pull->progress.keys, bg_strerror(err));
    }
    if (!err && *n > PULL_BATCH) {
        err = bgi_err_state(
            info, BG_EINVAL, "source",
            "the source returned %zu keys, but at most 1024 were requested", *n);
    }
    return err;
}

/* Reads the whole source, either to count the keys or to add them. */
static bg_err pull_read(struct pull *pull, bg_errinfo *info)
{
    bg_bytes keys[PULL_BATCH];
    bg_err err = pull_tell(pull, info);
    for (uint64_t batch = 1; !err; batch++) {
        size_t n = 0;
        err = pull_next(pull, keys, &n, info);
        if (err || n == 0) {
            break;
        }
        if (!pull->progress.counting) {
            err = rebuild_put(pull->rebuild, bg_keys_bytes(keys, n), info);
        }
        pull->progress.keys += err ? 0 : n;
        if (!err && batch % PULL_TELL == 0) {
            err = pull_tell(pull, info);
        }
    }
    return err ? err : pull_tell(pull, info);
}

/* Moves the source to its first key, because an earlier rebuild may have read it to the end. */
static bg_err pull_rewind(const bg_source *source, bg_errinfo *info)
{
    return source->rewind ? source->rewind(source->context, info) : BG_OK;
}

static bg_err pull_count(struct pull *pull, bg_errinfo *info)
{
    const bg_source *source = pull->source;
    pull->progress.expected = source->count;
    if (source->count || pull->rebuild->how.spec.items) {
        return BG_OK;
    }
    if (!source->rewind) {
        return bgi_err_state(info, BG_ENOTSUP, "source",
                             "the number of keys is unknown; set the source's count or "
                             "spec.items, or provide rewind");
    }
    pull->progress.counting = 1;
    bg_err err = pull_read(pull, info);
    pull->progress.counting = 0;
    pull->progress.expected = pull->progress.keys;
    pull->progress.keys = 0;
    return err ? err : pull_rewind(source, info);
}

static bg_err pull_check(const bg_source *source, bg_errinfo *info)
{
    return source && source->next
               ? BG_OK
               : bgi_err(info, BG_EINVAL, "source", "a source with `next`", "NULL");
}

bg_err bg_slot_rebuild(bg_slot *slot, const bg_source *source,
                       const bg_rebuild_options *options, bg_rebuild_report *report,
                       bg_errinfo *info)
{
    bg_errinfo own;
    bg_errinfo *why = info ? info : &own;
    struct bg_rebuild rebuild;
    struct pull pull = { .rebuild = &rebuild,
                         .source = source,
                         .progress = { .struct_size = sizeof pull.progress } };
    bgi_err_clear(why);
    bg_err err = rebuild_check(slot, options, why);
    err = err ? err : pull_check(source, why);
    err = err ? err : rebuild_claim(&rebuild, slot, options, why);
    if (err) {
        bg_filter_free(options ? options->delta : NULL);
        return err;
    }
    err = pull_rewind(source, why);
    err = err ? err : pull_count(&pull, why);
    err = err ? err : rebuild_open(&rebuild, pull.progress.expected, why);
    err = err ? err : pull_read(&pull, why);
    return rebuild_close(&rebuild, err, report, why);
}

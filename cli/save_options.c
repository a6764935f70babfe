/* save_options.c - see save_options.h. */
#include "save_options.h"

#include "number.h"
#include "say.h"
#include "spool.h"
#include "stop.h"

#include <string.h>

#define OPT_STRUCT struct save_options
static const struct option save_table[] = {
    OPT_FLAG("force", 'f', force, "overwrite existing files"),
    OPT_TEXT("generation", 'g', generation, "N",
             "generation number in the file (default: unchanged)"),
    OPT_END,
};
static const struct option force_table[] = {
    OPT_FLAG("force", 'f', force, "overwrite existing files"),
    OPT_END,
};
const struct option_group save_options_group = { "Saving", save_table };
const struct option_group force_options_group = { "Saving", force_table };

bool saving_progress(void *context, uint64_t done, uint64_t all)
{
    progress_tick(context, done, all);
    return !stop_wanted();
}

int saving_begin(const struct save_options *options, const bg_file_info *like,
                 struct saving *saving)
{
    *saving = (struct saving){ .how = BG_SAVE_OPTIONS_INIT };
    memcpy(saving->metadata, like->metadata, sizeof saving->metadata);
    memcpy(saving->how.key_id, like->key_id, sizeof saving->how.key_id);
    saving->how.generation = like->generation;
    saving->how.metadata = saving->metadata;
    saving->how.progress = saving_progress;
    saving->how.context = &saving->progress;
    if (options->generation
        && !number_count(options->generation, &saving->how.generation)) {
        return say_usage("--generation: found '%s', expected a whole number",
                         options->generation);
    }
    return CLI_OK;
}

int saving_write(struct saving *saving, const bg_filter *filter, const char *path)
{
    progress_begin(&saving->progress, "saving");
    const int code = filter_save(filter, path, &saving->how);
    progress_end(&saving->progress);
    return code;
}

void saving_warn(const bg_filter_info *info, const char *fix)
{
    if (filter_misses_rate(info)) {
        say_warning("the filter %s; %s",
                    filter_show_rate(info, (char[FILTER_RATE_TEXT]){ "" }), fix);
    }
}

void saving_tell(const bg_filter *filter, const char *path, const char *fix)
{
    bg_filter_info info = { .struct_size = sizeof info };
    if (bg_filter_get_info(filter, &info)) {
        return;
    }
    const uint64_t keys = (uint64_t)(info.items.value + 0.5);
    say_note("%s: %s, about %s key%s, %s, false-positive rate %s",
             spool_target_name(path), bg_kind_name(info.kind), COUNT_TEXT(keys),
             keys == 1 ? "" : "s", BYTES_TEXT(info.bytes),
             RATE_OF_TEXT(info.rate, info.design_rate));
    saving_warn(&info, fix);
}

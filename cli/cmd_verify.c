/*
 * cmd_verify.c - bloomgate verify: checks filter files for damage.
 *
 * Damage is a result, not an error, so it is printed on stdout, with exit code 1. All files are
 * checked, and the highest exit code is returned.
 */
#include "command.h"
#include "filter_file.h"
#include "json.h"
#include "save_options.h"
#include "spool.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct verify_options {
    struct common common;
    struct open_options open;
    bool json;
};

#define OPT_STRUCT struct verify_options
static const struct option verify_table[] = {
    OPT_FLAG("json", 0, json, "print a JSON object per file (bloomgate.verify.1)"),
    OPT_END,
};

static const char verify_schema[] = "bloomgate.verify.1";

static void verify_json(const char *path, const bg_verify_report *report, bool asked)
{
    struct json json;
    json_begin(&json, verify_schema);
    json_text(&json, "file", path);
    json_text(&json, "format", "bloomgate");
    json_bool(&json, "whole", report->bad == 0);
    json_bool(&json, "canaries_asked", asked);
    json_count(&json, "blocks", report->blocks);
    json_count(&json, "bad_blocks", report->bad_blocks);
    json_count(&json, "bad", report->bad);
    if (report->bad) {
        json_object(&json, "first");
        json_text(&json, "what", report->what);
        json_count(&json, "offset", report->first_offset);
        json_text(&json, "found", report->found);
        json_text(&json, "expected", report->expected);
        json_text(&json, "error", bg_err_name(report->code));
        json_close(&json, '}');
    }
    json_end(&json);
}

/* Returns the file name to print; on a terminal, control characters are replaced with '?'. */
static const char *verify_name(const char *path)
{
    static char name[4096];
    if (!isatty(STDOUT_FILENO)) {
        return path;
    }
    (void)snprintf(name, sizeof name, "%s", path);
    say_tame(name, strlen(name));
    return name;
}

static void verify_print(const char *path, const bg_verify_report *report, bool asked)
{
    path = verify_name(path);
    if (report->bad == 0) {
        if (!say_is_quiet()) {
            printf("%s: intact%s\n", path,
                   asked ? ""
                         : ", but its canaries cannot be checked without --keyring");
        }
        return;
    }
    printf("%s: damaged: %s at byte %" PRIu64 ": found %s, expected %s", path,
           report->what, report->first_offset, report->found, report->expected);
    if (report->bad_blocks) {
        printf("; %" PRIu64 " of %" PRIu64 " blocks are damaged", report->bad_blocks,
               report->blocks);
    }
    printf("\n");
}

/* Returns whether an error means that the file is damaged. Other errors mean, for example, that the
 * file cannot be read, was written by a newer version, or uses a different secret. */
static bool verify_is_damage(bg_err err)
{
    return err == BG_EFORMAT || err == BG_ECHECKSUM;
}

/* An intact file may still contain a filter whose answers are mostly wrong. */
static void verify_note_rate(const struct verify_options *o, const char *path)
{
    static struct filter_file file;
    if (!say_is_quiet()
        && !filter_open(path, &o->open, FILTER_OURS | FILTER_MAPPED, KEY_TEXT, &file)) {
        filter_note_rate(&file);
        filter_close(&file);
    }
}

static int verify_ours(const struct verify_options *o, const char *path)
{
    static struct filter_file file;
    bg_open_options opening = BG_OPEN_OPTIONS_INIT;
    bg_verify_report report = { .struct_size = sizeof report };
    bg_errinfo why;
    struct progress progress;
    const char *name = spool_name(path), *given = path;
    path = spool_path(path);
    file = (struct filter_file){ .path = name };
    if (o->open.keyring) { /* damage to the header is ignored here and reported below */
        bg_file_info about = { .struct_size = sizeof about };
        if (!bg_file_get_info(path, &about, NULL)) {
            const int code = filter_secret(path, &o->open, &file, &opening);
            file.path = name;
            if (code) {
                filter_close(&file);
                return code;
            }
        }
    }
    opening.progress = saving_progress;
    opening.context = &progress;
    progress_begin(&progress, "verifying");
    const bg_err err = bg_verify(path, &opening, &report, &why);
    progress_end(&progress);
    const bool asked = opening.hash || !filter_needs_secret(path);
    filter_close(&file);
    if (err && (!verify_is_damage(err) || report.bad == 0)) { /* a directory */
        return say_error(name, &why);
    }
    (o->json ? verify_json : verify_print)(name, &report, asked);
    if (!err && asked) {
        verify_note_rate(o, given);
    }
    return err ? CLI_NO : CLI_OK;
}

static int verify_foreign(const struct verify_options *o, const char *path,
                          struct filter_file *file)
{
    bg_foreign_info about = { .struct_size = sizeof about };
    if (bg_foreign_get_info(file->foreign, &about)) {
        return say_data("%s: cannot be checked", path);
    }
    const char *name = bg_foreign_name((bg_foreign_format)about.format);
    const bool sums =
        about.format == BG_FOREIGN_ROCKSDB || about.format == BG_FOREIGN_LEVELDB;
    if (o->json) {
        struct json json;
        json_begin(&json, verify_schema);
        json_text(&json, "file", path);
        json_text(&json, "format", name);
        json_bool(&json, "has_checksum", sums);
        json_bool(&json, sums ? "whole" : "structure_fits", true);
        json_end(&json);
    } else if (!say_is_quiet()) {
        printf("%s: %s, %s\n", verify_name(path), name,
               sums ? "intact: its checksums match"
                    : "its structure is valid; the format has no checksum");
    }
    return CLI_OK;
}

static int verify_one(const struct verify_options *o, const char *path)
{
    static struct filter_file file;
    int code = spool_read(path);
    if (code) {
        return code;
    }
    if (filter_is_ours(path, &o->open)) {
        return verify_ours(o, path);
    }
    code = filter_open(path, &o->open, 0, KEY_TEXT, &file);
    if (!code) {
        code = verify_foreign(o, file.path, &file);
        filter_close(&file);
    }
    return code;
}

static int verify_command(void *options, const struct arguments *arguments)
{
    int worst = CLI_OK;
    for (size_t i = 0; i < arguments->count; i++) {
        const int code = verify_one(options, arguments->items[i]);
        worst = code > worst ? code : worst;
        if (code == CLI_INTERRUPTED) {
            break;
        }
    }
    return out_finish(worst);
}

const struct command command_verify = {
    .name = "verify",
    .summary = "check filter files for damage",
    .usage = "[options] FILTER...",
    .about =
        "Reads each file completely and checks every checksum, the internal "
        "structure, and the filter's answers for its canaries. Prints \"intact\", or "
        "the first error, its position, and the number of damaged blocks. Exit code: "
        "0 if all files are intact, 1 if a file is damaged, higher if a file cannot "
        "be checked because it does not exist, is not a filter, or was written by a "
        "newer version.\n\nWithout a filter's secret, everything except its canaries "
        "can be verified. Most formats used by other software have no checksum, so "
        "only the structure can be checked. With -q, only damaged files are printed.",
    .size = sizeof(struct verify_options),
    .arguments = { 1, COMMAND_ANY, "missing argument FILTER" },
    .uses = { OPT_GROUP("Verifying", verify_table),
              { &open_options_group, offsetof(struct verify_options, open) } },
    .examples = { { "bloomgate verify /var/lib/app/*.bg", "check all filters" },
                  { "bloomgate verify -q --keyring ring *.bg",
                    "print only damaged files" } },
    .run = verify_command,
};

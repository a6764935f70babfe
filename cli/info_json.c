/* info_json.c - prints the output of bloomgate info as JSON: one object per file. */
#include "info_facts.h"
#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static void info_json_header(struct json *json, const struct info_facts *facts)
{
    const bg_file_info *about = &facts->about;
    char text[INFO_KEY_ID > INFO_TIME ? INFO_KEY_ID : INFO_TIME], version[32];
    (void)snprintf(version, sizeof version, "%u.%u", about->major, about->minor);
    json_text(json, "version", version);
    json_text(json, "kind", bg_kind_name((bg_kind)about->kind));
    json_count(json, "k", about->k);
    json_count(json, "units", about->units);
    json_count(json, "width", about->width);
    json_count(json, "shards", about->shards > 1 ? about->shards : 1);
    json_object(json, "design");
    json_count(json, "items", about->items);
    json_real(json, "rate", about->rate);
    json_close(json, '}');
    json_object(json, "hash");
    json_text(json, "profile", bg_hash_name((bg_hash_profile)about->profile));
    json_count(json, "seed", about->seed);
    (void)snprintf(text, sizeof text, "%016" PRIx64, about->check);
    json_text(json, "check", text);
    info_key_id(about->key_id, text);
    json_text(json, "key_id", text);
    json_close(json, '}');
    json_text(json, "keys", facts->recipe);
    json_count(json, "generation", about->generation);
    json_bool(json, "canaries", about->present_canaries > 0);
    info_time(about->created, text);
    json_text(json, "created", text);
    json_text(json, "digest", about->digest_text);
    json_text(json, "metadata", about->metadata);
    json_count(json, "blocks", about->blocks);
}

static void info_json_content(struct json *json, const struct info_facts *facts)
{
    const bg_filter_info *info = &facts->info;
    json_count(json, "bits", info->bits);
    json_count(json, "bytes", info->bytes);
    json_count(json, "foldable", info->foldable);
    json_count(json, "ones", info->ones);
    json_real(json, "fill", info->fill);
    json_object(json, "items");
    json_real(json, "value", info->items.value);
    json_real(json, "low", info->items.low);
    json_real(json, "high", info->items.high);
    json_close(json, '}');
    json_real(json, "rate", info->rate);
    json_count(json, "saturated", info->saturated);
    json_text(json, "health", info_health_name(facts->health));
    json_real(json, "times_design_rate", facts->times);
}

static void info_json_foreign(struct json *json, const struct info_facts *facts)
{
    const bg_foreign_info *f = &facts->foreign;
    json_count(json, "version", f->version);
    json_count(json, "parts", f->parts);
    json_count(json, "k", f->k);
    json_count(json, "bits", f->bits);
    json_count(json, "bytes", (f->bits + 7) / 8);
    json_count(json, "ones", f->ones);
    json_real(json, "fill", f->bits ? (double)f->ones / (double)f->bits : 0);
    json_object(json, "design");
    json_count(json, "items", f->design);
    json_close(json, '}');
    json_object(json, "items");
    json_real(json, "value", f->items ? (double)f->items : facts->foreign_keys);
    json_close(json, '}');
    json_real(json, "rate", f->rate);
}

void info_print_json(const struct info_facts *facts, const double *shares, size_t cells)
{
    struct json json;
    json_begin(&json, "bloomgate.info.1");
    json_text(&json, "file", facts->path);
    json_count(&json, "file_bytes", facts->file_bytes);
    json_text(&json, "format",
              facts->ours ? "bloomgate"
                          : bg_foreign_name((bg_foreign_format)facts->foreign.format));
    json_bool(&json, "complete", facts->complete);
    json_real(&json, "bits_per_key",
              facts->bits_per_key > 0 ? facts->bits_per_key : (double)NAN);
    if (!facts->ours) {
        info_json_foreign(&json, facts);
    } else {
        info_json_header(&json, facts);
        if (facts->complete) {
            info_json_content(&json, facts);
        }
    }
    if (cells > 0) {
        json_list(&json, "occupancy");
        for (size_t i = 0; i < cells; i++) {
            json_real(&json, NULL, shares[i]);
        }
        json_close(&json, ']');
    }
    json_end(&json);
}

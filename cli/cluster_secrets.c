/*
 * cluster_secrets.c - bloomgate cluster secrets: adds the secrets of all shards to a keyring, so that
 * files written by dump can be queried without the cluster.
 *
 * Each server usually has its own secret, so several shards have the same one. The secrets of all
 * shards are read with BG.SECRET before the keyring is changed. The servers log each BG.SECRET.
 *
 * Invariants
 *   (I1) An unusable keyring is reported before any server sends a secret.
 *   (I2) bg_keyring_import adds the secrets as retired, so that new filters never use them. It does
 *        not follow symbolic links or change files that are not keyrings.
 *   (I3) Secrets are never printed, and are wiped from memory.
 */
#include "cluster_actions.h"
#include "error_text.h"
#include "letters.h"

#include <errno.h>
#include <stdlib.h>

struct shard_secret {
    char name[BG_KEY_ID_BYTES + 1]; /* the key ID */
    uint8_t secret[BG_SECRET_BYTES];
};

struct shard_secrets {
    struct shard_secret of[SHARDS_MAX];
    uint32_t wrong; /* the first shard that replied with an error */
    bg_errinfo why;
};

/* Parses a key ID and a secret of 32 hexadecimal digits. */
static bool secret_read(const struct reply_item *name, const struct reply_item *hex,
                        struct shard_secret *secret)
{
    const char *digits = hex->text.data;
    bool fits = name->type == '$' && name->text.len > 0
                && name->text.len <= BG_KEY_ID_BYTES && hex->type == '$'
                && hex->text.len == 2 * (size_t)BG_SECRET_BYTES;
    if (fits) {
        memcpy(secret->name, name->text.data, name->text.len);
    }
    for (size_t i = 0; fits && i < BG_SECRET_BYTES; i++) {
        const int high = hex_digit(digits[2 * i]), low = hex_digit(digits[2 * i + 1]);
        fits = high >= 0 && low >= 0;
        secret->secret[i] = (uint8_t)((unsigned)high << 4 | (unsigned)low);
    }
    return fits;
}

static void secret_receive(void *context, uint32_t shard, bg_bytes reply)
{
    struct shard_secrets *s = context;
    size_t at = 0;
    const struct reply_item list = reply_next(reply, &at),
                            name = reply_next(reply, &at), hex = reply_next(reply, &at);
    if (list.type == '*' && secret_read(&name, &hex, &s->of[shard])) {
        return;
    }
    if (s->why.code) {
        return;
    }
    s->wrong = shard;
    if (list.type == '-') {
        (void)error_fail(&s->why, BG_EIO, "%.*s",
                         (int)(list.text.len < 200 ? list.text.len : 200),
                         (const char *)list.text.data);
    } else {
        (void)error_fail(&s->why, BG_EFORMAT,
                         "BG.SECRET: invalid reply, expected a key ID and a secret");
    }
}

/* Returns an error if the file exists but is not a usable keyring (I1). */
static int secrets_check_file(const char *path)
{
    bg_keyring *ring = NULL;
    bg_errinfo why;
    const bg_err err = bg_keyring_open(path, &ring, &why);
    bg_keyring_free(ring);
    return err && why.os_errno != ENOENT ? say_error(path, &why) : CLI_OK;
}

static int secrets_request(struct cluster_work *w, struct shard_secrets *s)
{
    const bg_bytes word = cluster_word("BG.SECRET");
    const struct sharded_order order = {
        .words = &word, .count = 1, .told = secret_receive, .context = s
    };
    bg_errinfo why;
    if (sharded_each(&w->filter, &order, &why)) {
        return cluster_say(w, &why);
    }
    if (s->why.code) {
        const bg_bytes name = w->filter.names[s->wrong];
        return say_data("%.*s: %s", (int)name.len, (const char *)name.data,
                        s->why.message);
    }
    return CLI_OK;
}

static int secrets_keep(const char *path, const struct shard_secrets *s,
                        uint32_t shards)
{
    bg_errinfo why;
    for (uint32_t i = 0; i < shards; i++) {
        if (i > 0 && memcmp(&s->of[i], &s->of[i - 1], sizeof s->of[i]) == 0) {
            continue; /* neighbors are usually on the same server */
        }
        if (bg_keyring_import(path, s->of[i].name, s->of[i].secret, &why)) {
            return say_error(path, &why);
        }
    }
    return CLI_OK;
}

int cluster_secrets(struct cluster_work *w)
{
    const uint32_t shards = w->filter.tags.shards;
    if (w->arguments->count != 3) {
        return say_usage("expected NAME and FILE, a keyring");
    }
    const char *path = w->arguments->items[2];
    int code = secrets_check_file(path);
    struct shard_secrets *s = code ? NULL : calloc(1, sizeof *s);
    if (!s) {
        return code ? code : say_full("out of memory");
    }
    code = secrets_request(w, s);
    code = code ? code : secrets_keep(path, s, shards);
    explicit_bzero(s, sizeof *s);
    free(s);
    if (!code) {
        say_note("%s: contains the secrets of all %u shards of %s", path, shards,
                 w->name);
    }
    return code;
}

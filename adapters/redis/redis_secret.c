/* redis_secret.c - see redis_secret.h. A list is sufficient, because there are few secrets, usually
 * just one. */
#include "redis_secret.h"

#include "object.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct redis_secret {
    struct redis_secret *next;
    uint64_t holders;
    uint8_t id[BG_KEY_ID_BYTES];
    uint8_t secret[BG_SECRET_BYTES];
};

/* The table keeps references to the current and the previous secret. If CONFIG SET fails, the
 * server restores the previous secret by its ID. */
static struct {
    pthread_mutex_t lock;
    struct redis_secret *first, *current, *before;
    bool chosen;                     /* the current secret was set, not generated */
    uint8_t wanted[BG_KEY_ID_BYTES]; /* ID of an expected but unknown secret */
} secrets = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* The secret that secret_of last returned to the handler on this thread. The secret is held until
 * the handler returns, because another thread may delete the last filter that uses it. */
static _Thread_local struct redis_secret *lent;

/* ---- IDs ------------------------------------------------------------------------------------- */

static bg_err secret_id(const uint8_t secret[BG_SECRET_BYTES],
                        uint8_t id[BG_KEY_ID_BYTES], bg_errinfo *info)
{
    static const char *const texts[] = { "bloomgate key id 1", "bloomgate key id 2" };
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const bg_hash_spec how = { .profile = BG_HASH_KEYED24, .secret = secret };
    bg_hasher hasher;
    const bg_err err = bg_hasher_init(&hasher, &how, info);
    for (size_t i = 0; !err && i < 2; i++) {
        const uint64_t hash = bg_hash_str(&hasher, texts[i]);
        for (size_t c = 0; c < 8; c++) {
            id[8 * i + c] = (uint8_t)letters[hash >> 6 * c & 63];
        }
    }
    bg_hasher_wipe(&hasher);
    return err;
}

/* ---- The list; the caller holds `lock` ------------------------------------------------------- */

static struct redis_secret *secret_find(const uint8_t id[BG_KEY_ID_BYTES])
{
    struct redis_secret *s = secrets.first;
    while (s && memcmp(s->id, id, BG_KEY_ID_BYTES) != 0) {
        s = s->next;
    }
    return s;
}

static void secret_drop(struct redis_secret *held)
{
    if (!held || --held->holders > 0) {
        return;
    }
    struct redis_secret **at = &secrets.first;
    while (*at != held) {
        at = &(*at)->next;
    }
    *at = held->next;
    explicit_bzero(held, sizeof *held);
    free(held);
}

/* Takes a reference to a secret, and adds the secret to the list if it is new. */
static bg_err secret_take(const uint8_t secret[BG_SECRET_BYTES],
                          struct redis_secret **held, bg_errinfo *info)
{
    uint8_t id[BG_KEY_ID_BYTES];
    const bg_err err = secret_id(secret, id, info);
    if (err) {
        return err;
    }
    struct redis_secret *s = secret_find(id);
    if (!s) {
        s = calloc(1, sizeof *s);
        if (!s) {
            return error_fail(info, BG_ENOMEM, "out of memory");
        }
        memcpy(s->id, id, sizeof s->id);
        memcpy(s->secret, secret, sizeof s->secret);
        s->next = secrets.first;
        secrets.first = s;
    }
    s->holders++;
    *held = s;
    if (secrets.chosen && !secrets.current
        && memcmp(id, secrets.wanted, sizeof id) == 0) {
        s->holders++;
        secrets.current = s;
    }
    return BG_OK;
}

static bg_err secret_make(bg_errinfo *info)
{
    uint8_t random[BG_SECRET_BYTES];
    if (secrets.current) {
        return BG_OK;
    }
    if (secrets.chosen) {
        return error_fail(
            info, BG_EINVAL,
            "the secret with ID %.16s is unknown: set bloomgate.secret to the "
            "secret's 32 hexadecimal digits",
            (const char *)secrets.wanted);
    }
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        return error_fail(info, BG_EIO, "cannot read random bytes from the OS");
    }
    const bg_err err = secret_take(random, &secrets.current, info);
    explicit_bzero(random, sizeof random);
    return err;
}

/* ---- For handlers ---------------------------------------------------------------------------- */

static bg_err secret_current(void *context, bg_hash_spec *hash,
                             uint8_t key_id[BG_KEY_ID_BYTES], bg_errinfo *info)
{
    (void)context;
    pthread_mutex_lock(&secrets.lock);
    const bg_err err = secret_make(info);
    if (!err) {
        hash->secret = secrets.current->secret;
        memcpy(key_id, secrets.current->id, BG_KEY_ID_BYTES);
    }
    pthread_mutex_unlock(&secrets.lock);
    return err;
}

static bg_err secret_of(void *context, const uint8_t key_id[BG_KEY_ID_BYTES],
                        bg_hash_spec *hash, bg_errinfo *info)
{
    (void)context;
    pthread_mutex_lock(&secrets.lock);
    struct redis_secret *found = secret_find(key_id);
    found = found ? found : secrets.current; /* the decoder detects a wrong secret */
    if (found) {
        hash->secret = found->secret;
        found->holders++;
        secret_drop(lent);
        lent = found;
    }
    pthread_mutex_unlock(&secrets.lock);
    return found
               ? BG_OK
               : error_fail(
                   info, BG_EINVAL,
                   "this server does not have the filter's secret: use RESTORE, "
                   "MIGRATE or replication, which include it, or set bloomgate.secret");
}

const struct secret_source redis_secrets = { secret_current, secret_of, NULL };

/* ---- For the module -------------------------------------------------------------------------- */

/* Sets the current secret, which may be NULL. The table takes over the caller's reference to `now`.
 * The caller holds `lock`. */
static void secret_put(struct redis_secret *now, bool chosen)
{
    secret_drop(secrets.before);
    secrets.before = secrets.current;
    secrets.current = now;
    secrets.chosen = chosen;
}

void redis_secret_set(const uint8_t secret[BG_SECRET_BYTES])
{
    struct redis_secret *now = NULL;
    pthread_mutex_lock(&secrets.lock);
    if (!secret || !secret_take(secret, &now, NULL)) { /* fails only if out of memory */
        secret_put(now, secret != NULL);
    }
    pthread_mutex_unlock(&secrets.lock);
}

bool redis_secret_choose(const uint8_t key_id[BG_KEY_ID_BYTES], bool expect)
{
    pthread_mutex_lock(&secrets.lock);
    struct redis_secret *found = secret_find(key_id);
    if (found) {
        found->holders++;
    }
    if (found || expect) {
        memcpy(secrets.wanted, key_id, sizeof secrets.wanted);
        secret_put(found, true);
    }
    pthread_mutex_unlock(&secrets.lock);
    return found || expect;
}

bool redis_secret_chosen(uint8_t key_id[BG_KEY_ID_BYTES])
{
    pthread_mutex_lock(&secrets.lock);
    const bool chosen = secrets.chosen;
    memcpy(key_id, secrets.current ? secrets.current->id : secrets.wanted,
           BG_KEY_ID_BYTES);
    pthread_mutex_unlock(&secrets.lock);
    return chosen;
}

bg_err redis_secret_join(const uint8_t key_id[BG_KEY_ID_BYTES],
                         const uint8_t secret[BG_SECRET_BYTES],
                         struct redis_secret **held, bg_errinfo *info)
{
    uint8_t id[BG_KEY_ID_BYTES];
    *held = NULL;
    bg_err err = secret_id(secret, id, info);
    if (!err && memcmp(id, key_id, sizeof id) != 0) {
        err = error_fail(info, BG_EFORMAT, "the secret does not match its ID");
    }
    if (!err) {
        pthread_mutex_lock(&secrets.lock);
        err = secret_take(secret, held, info);
        pthread_mutex_unlock(&secrets.lock);
    }
    return err;
}

struct redis_secret *redis_secret_hold(uint8_t key_id[BG_KEY_ID_BYTES])
{
    pthread_mutex_lock(&secrets.lock);
    struct redis_secret *found = secret_find(key_id);
    found = found ? found : lent ? lent : secrets.current;
    if (found) {
        found->holders++;
        memcpy(key_id, found->id, BG_KEY_ID_BYTES);
    }
    pthread_mutex_unlock(&secrets.lock);
    return found;
}

void redis_secret_return(void)
{
    redis_secret_leave(lent);
    lent = NULL;
}

void redis_secret_leave(struct redis_secret *held)
{
    if (held) {
        pthread_mutex_lock(&secrets.lock);
        secret_drop(held);
        pthread_mutex_unlock(&secrets.lock);
    }
}

const uint8_t *redis_secret_bytes(const struct redis_secret *held)
{
    return held->secret;
}

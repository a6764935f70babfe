/*
 * keyring.c - manages keyrings in files and in memory; keyring_text.c parses their text.
 *
 * Reading. The checks apply to the file that is actually read. The file is opened first, without
 * following a symbolic link or blocking on a pipe. Its type, owner and mode are then read from the
 * file descriptor. The file's bytes are stored only in memory for secrets.
 *
 * In memory
 *
 *     struct bg_keyring  --->  struct keyring_table, in memory for secrets
 *     malloc'ed                count, then names and secrets
 *
 * The count is stored with the secrets. So a child process, which sees these pages as zero after
 * fork, has an empty keyring. If the count were in the handle, the child would have all-zero
 * secrets and would create filters with them.
 *
 * Appending creates a new file that contains the old bytes and one more line, and renames the new
 * file over the old file. Two processes that append at the same time must not overwrite each
 * other's line, because each process may use its new secret immediately. So the old file is locked
 * from before it is read until it is replaced, and
 *
 *   (I1) a process that holds the lock checks whether the path still refers to the locked file, and
 *        starts over if another process has replaced that file;
 *   (I2) if there is no old file, the new file is put in place with link(), which fails if another
 *        process has created the file in the meantime, and the process then starts over.
 *
 * On file systems without locks, the last writer wins.
 */
#define _GNU_SOURCE /* O_NOFOLLOW, getrandom */

#include "bloomgate/keyring.h"

#include "base/errinfo.h"
#include "base/memory.h"
#include "gate/keyring_text.h"
#include "store/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

struct bg_keyring {
    struct bgi_memory memory; /* of this struct */
    struct bgi_memory secrets;
    const struct keyring_table *table; /* in `secrets` */
};

/* ---- Files ------------------------------------------------------------------------------ */

struct keyring_file {
    struct disk_file file;
    struct bgi_memory memory;
    size_t n;
};

static bg_err keyring_check_file(const struct stat *about, bg_errinfo *info)
{
    if (!S_ISREG(about->st_mode)) {
        return bgi_err(info, BG_EFORMAT, "path", "a regular file", "another file type");
    }
    if (about->st_uid != geteuid() && about->st_uid != 0) {
        return bgi_err(info, BG_EINVAL, "owner",
                       "the current user or root (run this as the owner, or change the "
                       "owner with chown)",
                       "user %lu", (unsigned long)about->st_uid);
    }
    if (about->st_mode & 077) {
        return bgi_err(info, BG_EINVAL, "mode",
                       "no permissions for group and others (chmod 600)", "%o",
                       (unsigned)about->st_mode & 07777);
    }
    if (about->st_size > KEYRING_BYTES) {
        return bgi_err(info, BG_EFORMAT, "size", "at most 65536 bytes", "%llu bytes",
                       (unsigned long long)about->st_size);
    }
    return BG_OK;
}

/* Opens the file and then checks the open file. */
static bg_err keyring_open_file(const char *path, struct disk_file *file, size_t *n,
                                bg_errinfo *info)
{
    struct stat about;
    file->descriptor = -1;
    if (!path || strlen(path) >= sizeof file->path) {
        return bgi_err(info, BG_EINVAL, "path", "a path shorter than 4096 bytes", "%s",
                       path ? "a longer path" : "NULL");
    }
    memcpy(file->path, path, strlen(path) + 1);
    file->descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file->descriptor < 0) {
        return errno == ELOOP ? bgi_err_state(
                   info, BG_EIO, "open",
                   "a keyring must not be a symbolic link; use the path "
                   "of its target")
                              : disk_error(info, "open", path);
    }
    bg_err err = fstat(file->descriptor, &about) != 0
                     ? disk_error(info, "stat", path)
                     : keyring_check_file(&about, info);
    if (err) {
        disk_close(file);
        return err;
    }
    *n = (size_t)about.st_size;
    return BG_OK;
}

static void keyring_unload(struct keyring_file *file)
{
    bgi_secret_give(&file->memory);
    disk_close(&file->file);
}

/* Allocates n bytes of memory for secrets (memory.h). */
static bg_err keyring_take(struct bgi_memory *memory, size_t n, bg_errinfo *info)
{
    return bgi_secret_take(memory, n)
               ? BG_OK
               : bgi_err_state(info, BG_ENOMEM, "memory",
                               "cannot allocate %zu bytes for secrets", n);
}

/* Reads n bytes, after which the file must end. */
static bg_err keyring_load_bytes(struct keyring_file *file, size_t n, bg_errinfo *info)
{
    bg_err err = keyring_take(&file->memory, n + 1, info);
    if (err) {
        return err;
    }
    char *bytes = file->memory.base;
    err = disk_read(&file->file, 0, bytes, n, info);
    if (!err && pread(file->file.descriptor, bytes + n, 1, (off_t)n) > 0) {
        err = bgi_err_state(info, BG_EFORMAT, "size",
                            "the keyring file grew while it was being read; try again");
    }
    file->n = n;
    return err;
}

static bg_err keyring_load(const char *path, struct keyring_file *file,
                           bg_errinfo *info)
{
    size_t n = 0;
    file->memory = (struct bgi_memory){ .base = NULL };
    bg_err err = keyring_open_file(path, &file->file, &n, info);
    err = err ? err : keyring_load_bytes(file, n, info);
    if (err) {
        keyring_unload(file);
    }
    return err;
}

/* Parses the secrets in a keyring's text. */
static bg_err keyring_parse(const char *text, size_t n, struct bgi_memory *secrets,
                            bg_errinfo *info)
{
    bg_err err = keyring_take(secrets, keyring_table_bytes(text, n), info);
    err = err ? err : keyring_read(text, n, secrets->base, info);
    if (err) {
        bgi_secret_give(secrets);
    }
    return err;
}

/* ---- Lifecycle -------------------------------------------------------------------------- */

bg_err bg_keyring_open(const char *path, bg_keyring **ring, bg_errinfo *info)
{
    struct keyring_file file;
    struct bgi_memory memory, secrets = { .base = NULL };
    if (!ring) {
        return bgi_err(info, BG_EINVAL, "ring", "a pointer to receive the keyring",
                       "NULL");
    }
    *ring = NULL;
    bgi_err_clear(info);
    bg_err err = keyring_load(path, &file, info);
    if (err) {
        return err;
    }
    err = keyring_parse(file.memory.base, file.n, &secrets, info);
    keyring_unload(&file);
    if (!err && !bgi_memory_take(&memory, sizeof **ring, NULL, true)) {
        bgi_secret_give(&secrets);
        err = bgi_err_state(info, BG_ENOMEM, "memory",
                            "cannot allocate %zu bytes for the keyring", sizeof **ring);
    }
    if (!err) {
        *ring = memory.base;
        **ring = (bg_keyring){ memory, secrets, secrets.base };
    }
    return err;
}

void bg_keyring_free(bg_keyring *ring)
{
    if (ring) {
        struct bgi_memory memory = ring->memory;
        bgi_secret_give(&ring->secrets);
        bgi_memory_give(&memory);
    }
}

/* ---- Queries ---------------------------------------------------------------------------- */

size_t bg_keyring_count(const bg_keyring *ring)
{
    return ring ? ring->table->count : 0;
}

const char *bg_keyring_name(const bg_keyring *ring, size_t i, bool *retired)
{
    bool is_there = i < bg_keyring_count(ring);
    if (retired) {
        *retired = is_there && ring->table->of[i].retired;
    }
    return is_there ? ring->table->of[i].name : "";
}

static bool keyring_profile_keyed(uint32_t profile)
{
    return profile == BG_HASH_KEYED || profile == BG_HASH_KEYED24
           || profile == BG_HASH_KEYED_INT;
}

static void keyring_tell(const struct keyring_secret *secret, bg_hash_spec *hash)
{
    if (!keyring_profile_keyed(hash->profile)) {
        hash->profile = BG_HASH_KEYED;
    }
    hash->secret = secret->secret;
}

bg_err bg_keyring_current(const bg_keyring *ring, bg_hash_spec *hash,
                          uint8_t key_id[BG_KEY_ID_BYTES], bg_errinfo *info)
{
    if (!ring || !hash || !key_id) {
        return bgi_err(info, BG_EINVAL, "ring, hash, key_id", "non-null pointers",
                       "NULL");
    }
    bgi_err_clear(info);
    for (uint32_t i = ring->table->count; i > 0; i--) {
        const struct keyring_secret *secret = &ring->table->of[i - 1];
        if (!secret->retired) {
            keyring_tell(secret, hash);
            memcpy(key_id, secret->name, BG_KEY_ID_BYTES);
            return BG_OK;
        }
    }
    return bgi_err_state(info, BG_ENOTFOUND, "current secret",
                         "no secret in the keyring is current; append a new one");
}

/* Writes a key id, which may come from an untrusted file, as text. Names of secrets contain no other
 * characters. */
static const char *keyring_text(const uint8_t key_id[BG_KEY_ID_BYTES],
                                char text[BG_KEY_ID_BYTES + 1])
{
    size_t n = 0;
    for (; n < BG_KEY_ID_BYTES && key_id[n]; n++) {
        text[n] = (char)(key_id[n] > ' ' && key_id[n] < 127 ? key_id[n] : '?');
    }
    text[n] = '\0';
    return text;
}

bg_err bg_keyring_find(const bg_keyring *ring, const uint8_t key_id[BG_KEY_ID_BYTES],
                       bg_hash_spec *hash, bg_errinfo *info)
{
    if (!ring || !hash || !key_id) {
        return bgi_err(info, BG_EINVAL, "ring, key_id, hash", "non-null pointers",
                       "NULL");
    }
    bgi_err_clear(info);
    const struct keyring_secret *secret = keyring_find(ring->table, key_id);
    if (!secret) {
        char text[BG_KEY_ID_BYTES + 1];
        return bgi_err_state(info, BG_ENOTFOUND, "key id",
                             "no secret in the keyring has the key id '%s'",
                             keyring_text(key_id, text));
    }
    keyring_tell(secret, hash);
    return BG_OK;
}

/* ---- Appending -------------------------------------------------------------------------- */

enum { KEYRING_ATTEMPTS = 100 };

static const char keyring_heading[] = "# bloomgate keyring: NAME SECRET [retired]\n";

/* The line to append. If `secret` is NULL, a random secret is created, which becomes current.
 * Otherwise the line is marked as retired, so that new filters do not use its secret. */
struct keyring_line {
    const char *name;
    const uint8_t *secret; /* NULL for a random secret */
};

/* A keyring's new text, in memory for secrets. */
struct keyring_draft {
    struct bgi_memory memory;
    size_t n;
};

static void keyring_put(struct keyring_draft *draft, const char *bytes, size_t n)
{
    memcpy((char *)draft->memory.base + draft->n, bytes, n);
    draft->n += n;
}

static void keyring_put_secret(struct keyring_draft *draft,
                               const uint8_t secret[BG_SECRET_BYTES])
{
    char hex[2 * BG_SECRET_BYTES];
    keyring_write_hex(secret, hex);
    keyring_put(draft, hex, sizeof hex);
    bgi_wipe(hex, sizeof hex);
}

static bg_err keyring_put_random(struct keyring_draft *draft, bg_errinfo *info)
{
    uint8_t secret[BG_SECRET_BYTES];
    ssize_t got;
    do {
        got = getrandom(secret, sizeof secret, 0);
    } while (got < 0 && errno == EINTR);
    if (got != sizeof secret) {
        return disk_error(info, "read", "random bytes");
    }
    keyring_put_secret(draft, secret);
    bgi_wipe(secret, sizeof secret);
    return BG_OK;
}

/* Composes a keyring's new text: the old text (or a heading if there is no old text) and one more
 * line. */
static bg_err keyring_compose(struct keyring_draft *draft, const char *text, size_t n,
                              const struct keyring_line *line, bg_errinfo *info)
{
    static const char retired[] = " retired";
    size_t most = n + sizeof keyring_heading + KEYRING_NAME + 2 * BG_SECRET_BYTES
                  + sizeof retired + 4;
    bg_err err = keyring_take(&draft->memory, most, info);
    if (err) {
        return err;
    }
    draft->n = 0;
    if (text) {
        keyring_put(draft, text, n);
    } else {
        keyring_put(draft, keyring_heading, sizeof keyring_heading - 1);
    }
    const char *bytes = draft->memory.base;
    if (draft->n > 0 && bytes[draft->n - 1] != '\n') {
        keyring_put(draft, "\n", 1);
    }
    keyring_put(draft, line->name, strlen(line->name));
    keyring_put(draft, " ", 1);
    if (line->secret) {
        keyring_put_secret(draft, line->secret);
        keyring_put(draft, retired, sizeof retired - 1);
    } else {
        err = keyring_put_random(draft, info);
    }
    keyring_put(draft, "\n", 1);
    return err;
}

/* Writes the text to the keyring file. `over` means that the text replaces the existing file. */
static bg_err keyring_place(const char *path, const struct keyring_draft *text,
                            bool over, bg_errinfo *info)
{
    struct disk_draft draft;
    struct container_sink sink;
    bg_err err = disk_begin(&draft, path, DISK_PRIVATE, &sink, info);
    if (err) {
        return err;
    }
    err = disk_write(&draft.file, 0, text->memory.base, text->n, info);
    if (err) {
        disk_discard(&draft);
        return err;
    }
    err = disk_keep(&draft, over, info);
    disk_close(&draft.file);
    return err;
}

/* Parses the new text before writing it, so that an unreadable keyring is never written. */
static bg_err keyring_replace(const char *path, const char *text, size_t n,
                              const struct keyring_line *line, bg_errinfo *info)
{
    struct keyring_draft draft = { .memory = { .base = NULL } };
    struct bgi_memory secrets = { .base = NULL };
    bg_err err = keyring_compose(&draft, text, n, line, info);
    err = err ? err : keyring_parse(draft.memory.base, draft.n, &secrets, info);
    err = err ? err : keyring_place(path, &draft, text != NULL, info);
    bgi_secret_give(&secrets);
    bgi_secret_give(&draft.memory);
    return err;
}

/* Compares a line with the existing line that has the same key id. Returns BG_OK if both have the
 * same secret. */
static bg_err keyring_compare(const struct keyring_secret *other,
                              const struct keyring_line *line, bg_errinfo *info)
{
    if (!line->secret) {
        return bgi_err_state(
            info, BG_EINVAL, "name",
            "the name has the same first 16 bytes as the name on line %u; "
            "choose another name",
            other->line);
    }
    unsigned differs = 0;
    for (size_t i = 0; i < BG_SECRET_BYTES; i++) { /* in constant time */
        differs |= (unsigned)(other->secret[i] ^ line->secret[i]);
    }
    return differs ? bgi_err_state(info, BG_EINCOMPAT, "secret",
                                   "line %u has a different secret with the same key "
                                   "id; use another keyring",
                                   other->line)
                   : BG_OK;
}

/* Sets *known if the keyring file already contains the line's secret. Otherwise, checks that it
 * does not contain the name. */
static bg_err keyring_check_new(const struct keyring_file *file,
                                const struct keyring_line *line, bool *known,
                                bg_errinfo *info)
{
    char padded[KEYRING_NAME] = "";
    struct bgi_memory secrets = { .base = NULL };
    bg_err err = keyring_parse(file->memory.base, file->n, &secrets, info);
    if (err) {
        return err;
    }
    memcpy(padded, line->name, strlen(line->name) + 1);
    const struct keyring_secret *other = keyring_find(secrets.base, padded);
    *known = other != NULL;
    err = other ? keyring_compare(other, line, info) : BG_OK;
    bgi_secret_give(&secrets);
    return err;
}

/* Takes the lock. Returns whether the path still refers to the locked file (I1). */
static bool keyring_lock(const struct disk_file *file)
{
    struct stat mine, named;
    while (flock(file->descriptor, LOCK_EX) != 0 && errno == EINTR) {
    }
    return fstat(file->descriptor, &mine) == 0 && lstat(file->path, &named) == 0
           && mine.st_dev == named.st_dev && mine.st_ino == named.st_ino;
}

/* Appends a line to an open keyring file. If the file was replaced in the meantime, sets *again
 * and appends nothing. */
static bg_err keyring_append_to(struct keyring_file *file, size_t n,
                                const struct keyring_line *line, bool *again,
                                bg_errinfo *info)
{
    bool known = false;
    *again = !keyring_lock(&file->file);
    if (*again) {
        return BG_OK;
    }
    bg_err err = keyring_load_bytes(file, n, info);
    err = err ? err : keyring_check_new(file, line, &known, info);
    return err || known ? err
                        : keyring_replace(file->file.path, file->memory.base, file->n,
                                          line, info);
}

static bg_err keyring_append_once(const char *path, const struct keyring_line *line,
                                  bool *again, bg_errinfo *why)
{
    struct keyring_file file = { .memory = { .base = NULL } };
    size_t n = 0;
    *again = false;
    bg_err err = keyring_open_file(path, &file.file, &n, why);
    if (!err) {
        err = keyring_append_to(&file, n, line, again, why);
        keyring_unload(&file);
    } else if (err == BG_EIO && why->os_errno == ENOENT) {
        err = keyring_replace(path, NULL, 0, line, why);
        *again = err == BG_EIO && why->os_errno == EEXIST; /* (I2) */
    }
    return err;
}

static bg_err keyring_append_line(const char *path, const struct keyring_line *line,
                                  bg_errinfo *info)
{
    bg_errinfo why;
    bool again = true;
    bgi_err_clear(&why);
    bg_err err = keyring_check_name(line->name, &why);
    for (int i = 0; i < KEYRING_ATTEMPTS && !err && again; i++) {
        err = keyring_append_once(path, line, &again, &why);
        err = again ? BG_OK : err;
    }
    if (!err && again) {
        err = bgi_err_state(&why, BG_EBUSY, "keyring",
                            "other processes keep changing the keyring; retry later");
    } else if (!err) {
        bgi_err_clear(&why);
    }
    if (info) {
        *info = why;
    }
    return err;
}

bg_err bg_keyring_append(const char *path, const char *name, bg_errinfo *info)
{
    return keyring_append_line(path, &(struct keyring_line){ name, NULL }, info);
}

bg_err bg_keyring_import(const char *path, const char *name,
                         const uint8_t secret[BG_SECRET_BYTES], bg_errinfo *info)
{
    if (!secret) {
        return bgi_err(info, BG_EINVAL, "secret", "a pointer to 16 bytes", "NULL");
    }
    return keyring_append_line(path, &(struct keyring_line){ name, secret }, info);
}

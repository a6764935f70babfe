/*
 * backup_set.h - a backup of a service on disk: a directory with one file per filter, and a manifest
 * that lists them.
 *
 *     DIR/000001.bg        a filter file (docs/format.md)
 *     DIR/000002.foreign   a filter imported from RedisBloom or valkey-bloom (docs/foreign.md)
 *     DIR/manifest.jsonl   one JSON object per line: the header, the filters, the end
 *
 * A dump (command/dump.h) consists of a description line and the bytes of the filter. The manifest
 * contains the description, and the file contains the bytes. Other subcommands can therefore read
 * the files, and a load only has to send the description first. The checksum of a filter covers
 * both parts. It is the value that the service computed for its own copy of the filter.
 *
 * A name that is not valid UTF-8 is stored as hexadecimal digits (name_hex); `name` is then only
 * for human readers. The last line contains the number of filters and the checksum of all bytes
 * before it, so a truncated or modified manifest is rejected.
 *
 * Invariant: a directory that contains a manifest contains a complete backup. The manifest is
 * written after all files have been written, synced and checked.
 */
#ifndef CLI_BACKUP_SET_H
#define CLI_BACKUP_SET_H

#include "claim.h"
#include "say.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BACKUP_MANIFEST "manifest.jsonl"

enum {
    BACKUP_FILE = 32,   /* size of a file name */
    BACKUP_LINE = 1536, /* maximum length of a description; see DUMP_LINE_MAX */
    BACKUP_NAME = 65536 /* maximum length of a filter's name */
};

struct backup_filter {
    uint64_t id; /* see BG.LIST */
    char *name;  /* any bytes, followed by a NUL */
    size_t name_len;
    uint64_t expires; /* milliseconds since 1970; 0: never */
    /* "complete"; "locked" if the secret is missing; or "unknown". A filter that is not complete
     * has no file, and the following fields are empty. */
    char state[16];
    char file[BACKUP_FILE];
    char *description;                 /* including its newline */
    uint64_t bytes;                    /* size of the file */
    uint64_t checksum;                 /* XXH64 of the description and the file */
    char digest[BG_DIGEST_TEXT_BYTES]; /* as returned by BG.DIGEST */
};

struct backup_set {
    struct backup_filter *filters; /* sorted by ID */
    size_t count, room;
    bool names_in_doubt; /* the service may have lost filters whose names are unknown */
    uint64_t started, finished; /* milliseconds since 1970 */
    char service[300], version[32];
};

/* Appends a filter. Returns NULL if out of memory. The result is valid until the next call. */
struct backup_filter *backup_append(struct backup_set *set, const char *name,
                                    size_t len);
/* Frees the memory of a filter, but does not delete its file. */
void backup_free_filter(struct backup_filter *filter);
void backup_free(struct backup_set *set);

bool backup_is_complete(const struct backup_filter *filter);
bool backup_is_foreign(const struct backup_filter *filter);

/* Returns the name in a form that is safe in messages: shortened, without control characters. */
enum { BACKUP_SHOWN = 80 };
const char *backup_show(const struct backup_filter *filter, char text[BACKUP_SHOWN]);
#define BACKUP_NAME_TEXT(filter) backup_show(filter, (char[BACKUP_SHOWN]){ "" })

/* Writes the path of a file in the directory. Returns an exit code. */
int backup_path(const char *dir, const char *file, char path[CLAIM_PATH]);

/* Write and read the manifest. Report errors, and return an exit code. */
int backup_write_manifest(const char *dir, const struct backup_set *set);
int backup_read_manifest(const char *dir, struct backup_set *set);

/* Returns whether a backup gives filter files this name. */
bool backup_is_file_name(const char *file);

/* Opens a file of a backup for reading. Anything but a regular file is refused: a pipe would block,
 * and a device may have no end. Returns -1 on failure, and sets *damage to a description, or to
 * NULL if errno describes the failure. */
int backup_open(const char *path, const char **damage);

/* Reads a filter's file and checks its size, its checksum, its structure and its digest. If the
 * filter has no digest yet, sets it. Reports damage, and returns an exit code. */
int backup_check(const char *dir, struct backup_filter *filter,
                 struct progress *progress);

/* Returns the sum of the sizes of all files. */
uint64_t backup_bytes(const struct backup_set *set);

#endif

/*
 * args.h - parses command arguments (keywords and numbers), and sends the errors that clients
 * expect.
 */
#ifndef COMMAND_ARGS_H
#define COMMAND_ARGS_H

#include "command_table.h"
#include "object.h"

/* Returns whether an argument equals `word` (uppercase), ignoring case. */
bool args_is(bg_bytes argument, const char *word);

/* Parse a whole argument as a decimal integer or as a finite real number. Return false if the
 * argument is not valid. */
bool args_count(bg_bytes argument, uint64_t *value);
bool args_real(bg_bytes argument, double *value);

/* Returns the argument as a C string for messages: truncated to fit, and with unprintable bytes
 * replaced by '?'. */
const char *args_show(bg_bytes argument, char text[64]);

/* Returns the object named by argv[1] if it belongs to one of `families`, a bitmask (1 << OBJECT_BF
 * ...). If the object does not exist, sends the error `missing`, unless `missing` is NULL, and
 * returns NULL. If the object belongs to a different family, sends WRONGTYPE and returns NULL. Sets
 * *sent to whether an error was sent. */
struct object *args_find(struct request *request, uint32_t families,
                         const char *missing, bool *sent);

/* Returns the object called `name`, which may belong to any family. If there is none, sends
 * NOFILTER and returns NULL. */
struct object *args_find_any(struct request *request, bg_bytes name);

enum {
    ARGS_BF = 1u << OBJECT_BF | 1u << OBJECT_BG, /* BF.*: all kinds */
    ARGS_CF = 1u << OBJECT_CF | 1u << OBJECT_BG, /* CF.*: kinds that support deletion */
    ARGS_ANY = 1u << OBJECT_BF | 1u << OBJECT_CF | 1u << OBJECT_BG
};

#define ARGS_WRONGTYPE                                                                 \
    "WRONGTYPE Operation against a key holding the wrong kind of value"

/* Returns whether an object can be created under the name in argv[1]. Otherwise, sends an error: `wrong`,
 * unless it is NULL, or that the name is in use. */
bool args_may_create(struct request *request, const char *wrong);

/* Stores an object under the name in argv[1]. Frees the object on error. Errors: BG_EBUSY if the name is
 * in use; those of the host. */
bg_err args_create(struct request *request, struct object *object, bg_errinfo *info);

#define ARGS_EXISTS "ERR item exists"

void args_arity(
    struct request *request); /* sends "ERR wrong number of arguments for ..." */

/* Sends an out-of-memory error. If the ledger refused the memory, the error states the limit that
 * would be exceeded; otherwise, the error is "Insufficient memory" followed by `text`, after a
 * colon unless `text` starts with a space. */
void args_no_memory(const struct request *request, const char *text);

/* Sends a library error as a reply. `full` is the reply for BG_EFULL. */
void args_failed(struct request *request, bg_err err, const bg_errinfo *info,
                 const char *full);

#endif

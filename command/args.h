/*
 * args.h - helpers shared by command handlers: parsing arguments, finding the object named by
 * argv[1], adding and looking up items, and sending errors.
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

/* Parse a whole argument as the command line does (number.h): 1000000, 1e6, 1M or 64Mi; 0.01, 1% or
 * 1/100; 50k. They also accept all arguments that args_count or args_real accepts. */
bool args_amount(bg_bytes argument, uint64_t *value);
bool args_share(bg_bytes argument, double *value);
bool args_scaled(bg_bytes argument, double *value);

/* Parse a duration: 90s, 5ms, 24h. A number without a unit is in seconds (args_seconds) or
 * milliseconds (args_milliseconds). args_milliseconds accepts only whole milliseconds. */
bool args_seconds(bg_bytes argument, double *value);
bool args_milliseconds(bg_bytes argument, uint64_t *value);

/* A numeric option: the range of its values, and the errors for values that cannot be parsed or are
 * out of range. Counts (args_amount) are uint64_t from `min` to `max`; shares (args_share) are
 * doubles above 0 and below 1. */
struct args_number {
    const char *word;
    enum { ARGS_COUNT, ARGS_SHARE } type;
    size_t at; /* offset in the options of the command */
    bool in_reserve, in_insert;
    uint64_t min, max;
    const char *unparsable, *out_of_range;
};

/* Parses a value into `options`. Returns an error, or NULL. */
const char *args_number(const struct args_number *number, bg_bytes argument,
                        void *options);

/* Parses the option at argv[*i] and its value. Leaves *i at the last argument that it parsed.
 * `missing` is the error for an option without a value; NULL selects `unparsable`. Returns an error,
 * or NULL. */
const char *args_option(const struct request *request, size_t *i, bool inserting,
                        const struct args_number *numbers, size_t n,
                        const char *missing, void *options);

/* Returns the argument as a C string for messages: truncated to fit, and with unprintable bytes
 * replaced by '?'. */
const char *args_show(bg_bytes argument, char text[64]);

/* Like args_show, but with a higher limit, for the log. */
enum { ARGS_SHOW_MAX = 512 };
const char *args_show_long(bg_bytes argument, char text[ARGS_SHOW_MAX]);

/* The format of the error for the name of a gate. */
#define ARGS_IS_GATE "'%s' is a gate, not a filter; use BG.LOOKUP"

/* Sends an error if `name` is the name of a gate. Returns whether an error was sent. Call it only
 * if no object has the name. */
bool args_refuse_gate(struct request *request, bg_bytes name);

/* Returns the object named by argv[1] if it belongs to one of `families`, a bitmask (1 << OBJECT_BF
 * ...). If the object does not exist, sends the error `missing`, unless `missing` is NULL, and
 * returns NULL. If the name belongs to a gate, sends an error even if `missing` is NULL. If the
 * object belongs to a different family, sends WRONGTYPE and returns NULL. Sets
 * *sent to true if an error was sent, and to false otherwise. `sent` may be NULL only if `missing`
 * is non-NULL. */
struct object *args_find(struct request *request, uint32_t families,
                         const char *missing, bool *sent);

/* Like args_find with ARGS_CF, but also sends WRONGTYPE and returns NULL if the object's kind does not
 * support deletion. */
struct object *args_find_cuckoo(struct request *request, const char *missing,
                                bool *sent);

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

/* Stores an object under the name in argv[1]. Frees the object on error. Errors: BG_EBUSY if the name is
 * in use; those of the host. */
bg_err args_create(struct request *request, struct object *object, bg_errinfo *info);

#define ARGS_EXISTS "ERR item exists"

/* How a family of commands creates objects. Without options, `make` uses the defaults. */
struct args_maker {
    bg_err (*make)(struct request *request, const void *options, struct object **object,
                   bg_errinfo *info);
    void (*failed)(struct request *request, bg_err err, const bg_errinfo *info);
};

extern const struct args_maker bf_maker, cf_maker; /* bf.c, cf.c */

/* Handles RESERVE and CREATE. Sends `wrong` if it is non-NULL; otherwise, creates the object under
 * the name in argv[1] and sends OK, ARGS_EXISTS if the name is in use, or the error from
 * maker->failed. */
void args_reserve(struct request *request, const struct args_maker *maker,
                  const char *wrong, const void *options);

/* Returns the object named by argv[1] for a command of the category bloom, cuckoo or gate: calls
 * args_find for ARGS_BF, args_find_cuckoo, or args_find_any. Only a command of the category gate
 * sends an error if the object does not exist. */
struct object *args_find_own(struct request *request, bool *sent);

/* Like args_find_own, but a command of the category bloom or cuckoo creates an object that does not
 * exist, or sends an error if `nocreate` is set. Returns NULL after sending an error. */
struct object *args_find_or_make(struct request *request, bool nocreate,
                                 const void *options);

#define ARGS_NOT_FOUND "ERR not found"

/* Sends "ERR wrong number of arguments for ..." */
void args_arity(struct request *request);

/* Sends an out-of-memory error. If the ledger refused the memory, the error states the limit that
 * would be exceeded; otherwise, the error is "Insufficient memory" followed by `text`, after a
 * colon unless `text` starts with a space. */
void args_no_memory(const struct request *request, const char *text);

/* Sends a library error as a reply. `full` is the reply for BG_EFULL. args_done sends OK if there is no
 * error. */
void args_failed(struct request *request, bg_err err, const bg_errinfo *info,
                 const char *full);
void args_done(struct request *request, bg_err err, const bg_errinfo *info,
               const char *full);

/* ---- Items ---------------------------------------------------------------------------------- */

/* Sends the first n bits as booleans, without an array header. */
void items_reply(struct request *request, const uint64_t *bits, size_t n);

/* The replies of adds if a filter is full. */
#define BF_FULL     "ERR non scaling filter is full"
#define CF_FULL     "ERR Filter is full"
#define CF_EXPANDED "ERR Maximum expansions reached"
#define BGC_FULL    "FULL the filter has reached its capacity"

/* Returns the reply that the command sends if the filter is full. */
const char *items_full(const struct request *request, const struct object *object);

/* The handlers of ADD, for a pipeline and for one request, and of MADD. BF.* and CF.* create an object
 * that does not exist, with the default options. ADD replies whether the item is new; CF.ADD always
 * replies 1. MADD sends an array. */
void items_add_many(struct request *request, const bg_bytes *items, size_t n);
void items_add_one(struct request *request);
void items_add_list(struct request *request);

/* Adds the items of one request. Sends an array, in which an error is the last element. If nothing was
 * added, sends only the error, except that the error of a full filter is sent in an array by commands
 * other than BG.*. */
void items_add_to(struct request *request, struct object *object, const bg_bytes *items,
                  size_t n);

/* Sends whether the object may contain each item, without an array header. A NULL object contains no
 * items. */
void items_exist(struct request *request, const struct object *object,
                 const bg_bytes *items, size_t n);

/* The handlers of EXISTS, for a pipeline and for one request, and of MEXISTS. For BF.* and CF.*, a
 * filter that does not exist contains no items. */
void items_exist_many(struct request *request, const bg_bytes *items, size_t n);
void items_exist_one(struct request *request);
void items_exist_list(struct request *request);

#endif

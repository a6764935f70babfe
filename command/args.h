/*
 * args.h - arguments of commands: words, numbers, and errors in the words that clients know.
 */
#ifndef COMMAND_ARGS_H
#define COMMAND_ARGS_H

#include "command_table.h"
#include "object.h"

/* Whether an argument is that word, given in capitals, in any case of letters. */
bool args_is(bg_bytes argument, const char *word);

/* A whole number in decimal digits, nothing around it; a finite number. */
bool args_count(bg_bytes argument, uint64_t *value);
bool args_real(bg_bytes argument, double *value);

/* As a string of C, cut to fit, with what cannot be printed as '?': for messages. */
const char *args_show(bg_bytes argument, char text[64]);

/* The object that argv[1] names, if it is of these families (bits 1 << OBJECT_BF ...). NULL:
 * there is none, and `missing`, unless NULL, was sent as an error; or it is of another family,
 * and WRONGTYPE was sent. *sent says whether. */
struct object *args_find(struct request *request, uint32_t families,
                         const char *missing, bool *sent);

/* The object of a name, of whatever family. NULL: there is none, and NOFILTER was sent. */
struct object *args_find_any(struct request *request, bg_bytes name);

enum {
    ARGS_BF = 1u << OBJECT_BF | 1u << OBJECT_BG, /* BF.* serve filters of any kind, */
    ARGS_CF = 1u << OBJECT_CF | 1u << OBJECT_BG, /* CF.* those that can delete */
    ARGS_ANY = 1u << OBJECT_BF | 1u << OBJECT_CF | 1u << OBJECT_BG
};

#define ARGS_WRONGTYPE                                                                 \
    "WRONGTYPE Operation against a key holding the wrong kind of value"

void args_arity(struct request *request); /* "ERR wrong number of arguments for ..." */

/* Replies that memory is short: with the limit that would be exceeded, if the ledger refused the
 * memory, or else with `text` (" to create filter", or text after a colon). */
void args_no_memory(const struct request *request, const char *text);

/* The library's error as a reply; `full` is what to say for BG_EFULL. */
void args_failed(struct request *request, bg_err err, const bg_errinfo *info,
                 const char *full);

#endif

/*
 * rdb_value.h - reads a filter from the output of DUMP, without a server.
 *
 *     7 | type ID | fields | 0 | RDB version (2 bytes) | CRC-64 of all bytes before (8 bytes)
 *
 * 7 marks a module's value. The type ID contains the nine characters of the type's name, with six
 * bits each, and the version of its format in the last ten bits. Each field is preceded by its type:
 * 2 for unsigned integers, 4 for doubles, and 5 for strings. Integers and lengths take one to nine
 * bytes. A string can be stored as an integer, or compressed with LZF (rdb_value.c).
 *
 * The fields are those of import_value.h, which checks their values. All bytes are untrusted.
 */
#ifndef COMMAND_RDB_VALUE_H
#define COMMAND_RDB_VALUE_H

#include "object.h"

/* Creates an object from the output of DUMP for a key of type MBbloom--, MBbloomCF or bloomfltr, of
 * any size. Errors: those of import_value; BG_EFORMAT and BG_ECHECKSUM if the output is damaged;
 * BG_ENOTSUP for other types. */
bg_err rdb_value_object(const void *bytes, size_t n,
                        const struct command_settings *settings, struct object **object,
                        bg_errinfo *info);

/* Returns the CRC-64 at the end of a value ("Jones", reflected). */
uint64_t rdb_value_checksum(const void *bytes, size_t n);

/* Decompresses `n` bytes that were compressed with LZF. Returns whether the result has exactly
 * `room` bytes. */
bool rdb_lzf_expand(const uint8_t *from, size_t n, uint8_t *to, size_t room);

#endif

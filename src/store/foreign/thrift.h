/*
 * thrift.h - reads Thrift's compact protocol, as far as Parquet's metadata needs it.
 *
 *     struct thrift_struct s = { 0 };
 *     while (thrift_field(in, &s)) {
 *         switch (s.id) {
 *         case 1: offset = thrift_integer(in, s.type); break;
 *         default: thrift_skip(in, s.type);
 *         }
 *     }
 *
 * A reader that has run into something impossible is `bad`: everything then gives 0 and
 * no more fields, so that callers check once, at the end. Bytes come from strangers:
 * nothing behind `n` is read, nesting is bounded, and whatever is repeated takes at least
 * one byte each, so that the work is bounded by the bytes there are.
 */
#ifndef BGI_THRIFT_H
#define BGI_THRIFT_H

#include "store/foreign/foreign.h"

enum thrift_type {
    THRIFT_STOP = 0,
    THRIFT_TRUE = 1,
    THRIFT_FALSE = 2,
    THRIFT_BYTE = 3,
    THRIFT_I16 = 4,
    THRIFT_I32 = 5,
    THRIFT_I64 = 6,
    THRIFT_DOUBLE = 7,
    THRIFT_BINARY = 8,
    THRIFT_LIST = 9,
    THRIFT_SET = 10,
    THRIFT_MAP = 11,
    THRIFT_STRUCT = 12
};

enum { THRIFT_DEPTH_MAX = 32 };

struct thrift {
    struct foreign_input input;
    uint32_t depth;
    bool bad;
};

/* The field that was reached in a struct; zero before the first. */
struct thrift_struct {
    int64_t id;
    uint32_t type;
};

/* Goes to the next field; false at the end of the struct. */
bool thrift_field(struct thrift *in, struct thrift_struct *s);

/* An integer of a field of that type, which must be an integer's. */
int64_t thrift_integer(struct thrift *in, uint32_t type);

/* How many elements a list has, which must be of `element`; `type` is the field's. */
uint64_t thrift_list(struct thrift *in, uint32_t type, uint32_t element);

/* Passes over a value. */
void thrift_skip(struct thrift *in, uint32_t type);

#endif

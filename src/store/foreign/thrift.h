/*
 * thrift.h - reads the parts of Thrift's compact protocol that Parquet metadata uses.
 *
 *     struct thrift_struct s = { 0 };
 *     while (thrift_field(in, &s)) {
 *         switch (s.id) {
 *         case 1: offset = thrift_integer(in, s.type); break;
 *         default: thrift_skip(in, s.type);
 *         }
 *     }
 *
 * When a function encounters invalid input, it sets `bad`. From then on, all functions return 0 or
 * false, so callers need to check `bad` only once, at the end. The input is untrusted: nothing
 * after the first `n` bytes is read, nesting is limited, and every list element takes at least one
 * byte, so the work is limited by the size of the input.
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

/* The current field of a struct; all zeros before the first field. */
struct thrift_struct {
    int64_t id;
    uint32_t type;
};

/* Advances to the next field. Returns false at the end of the struct. */
bool thrift_field(struct thrift *in, struct thrift_struct *s);

/* Reads the integer value of a field. `type` must be an integer type. */
int64_t thrift_integer(struct thrift *in, uint32_t type);

/* Reads the number of elements in a list. `type` is the type of the field, and the elements must
 * have the type `element`. */
uint64_t thrift_list(struct thrift *in, uint32_t type, uint32_t element);

/* Skips a value. */
void thrift_skip(struct thrift *in, uint32_t type);

#endif

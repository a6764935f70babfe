/* thrift.c - see thrift.h. Varints are at most ten bytes long. */
#include "store/foreign/thrift.h"

static uint64_t thrift_bad(struct thrift *in)
{
    in->bad = true;
    return 0;
}

static unsigned thrift_byte(struct thrift *in)
{
    const unsigned char *p = in->bad ? NULL : foreign_take(&in->input, 1);
    return p ? *p : (unsigned)thrift_bad(in);
}

static uint64_t thrift_varint(struct thrift *in)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        uint64_t byte = thrift_byte(in);
        if (shift == 63 && byte > 1) {
            break;
        }
        value |= (byte & 127) << shift;
        if (byte < 128) {
            return value;
        }
    }
    return thrift_bad(in);
}

static int64_t thrift_zigzag(struct thrift *in)
{
    uint64_t value = thrift_varint(in);
    return (int64_t)(value >> 1 ^ (0 - (value & 1)));
}

bool thrift_field(struct thrift *in, struct thrift_struct *s)
{
    unsigned head = thrift_byte(in);
    s->type = head & 15;
    if (in->bad || head == THRIFT_STOP) {
        return false;
    }
    int64_t id = head >> 4 ? s->id + (head >> 4) : thrift_zigzag(in);
    if (s->type == THRIFT_STOP || id < INT16_MIN || id > INT16_MAX) {
        thrift_bad(in);
        return false;
    }
    s->id = id;
    return !in->bad;
}

int64_t thrift_integer(struct thrift *in, uint32_t type)
{
    bool integer = type == THRIFT_I16 || type == THRIFT_I32 || type == THRIFT_I64;
    return integer ? thrift_zigzag(in) : (int64_t)thrift_bad(in);
}

/* Reads the header of a list, which contains the number and the type of its elements. */
static uint64_t thrift_elements(struct thrift *in, uint32_t *element)
{
    unsigned head = thrift_byte(in);
    uint64_t count = head >> 4 == 15 ? thrift_varint(in) : head >> 4;
    *element = head & 15;
    return count > in->input.n - in->input.at ? thrift_bad(in) : count;
}

uint64_t thrift_list(struct thrift *in, uint32_t type, uint32_t element)
{
    uint32_t found = element;
    uint64_t count = type == THRIFT_LIST ? thrift_elements(in, &found) : thrift_bad(in);
    return count && found != element ? thrift_bad(in) : count;
}

static void thrift_skip_bytes(struct thrift *in, uint64_t bytes)
{
    if (in->bad || !foreign_take(&in->input, bytes)) {
        thrift_bad(in);
    }
}

/* Skips an element of a container. In a container, a boolean takes one byte; in a field, the
 * boolean's value is part of the type. */
static void thrift_skip_element(struct thrift *in, uint32_t type)
{
    if (type == THRIFT_TRUE || type == THRIFT_FALSE) {
        thrift_skip_bytes(in, 1);
    } else {
        thrift_skip(in, type);
    }
}

static void thrift_skip_list(struct thrift *in)
{
    uint32_t element;
    uint64_t count = thrift_elements(in, &element);
    for (uint64_t i = 0; i < count && !in->bad; i++) {
        thrift_skip_element(in, element);
    }
}

static void thrift_skip_map(struct thrift *in)
{
    uint64_t count = thrift_varint(in);
    unsigned types = count ? thrift_byte(in) : 0;
    if (count > in->input.n - in->input.at) {
        thrift_bad(in);
    }
    for (uint64_t i = 0; i < count && !in->bad; i++) {
        thrift_skip_element(in, types >> 4);
        thrift_skip_element(in, types & 15);
    }
}

static void thrift_skip_struct(struct thrift *in)
{
    struct thrift_struct s = { 0 };
    while (thrift_field(in, &s)) {
        thrift_skip(in, s.type);
    }
}

void thrift_skip(struct thrift *in, uint32_t type)
{
    if (++in->depth > THRIFT_DEPTH_MAX) {
        thrift_bad(in);
    }
    switch (in->bad ? THRIFT_TRUE : (enum thrift_type)type) {
    case THRIFT_TRUE:
    case THRIFT_FALSE: break;
    case THRIFT_BYTE: thrift_skip_bytes(in, 1); break;
    case THRIFT_I16:
    case THRIFT_I32:
    case THRIFT_I64: (void)thrift_varint(in); break;
    case THRIFT_DOUBLE: thrift_skip_bytes(in, 8); break;
    case THRIFT_BINARY: thrift_skip_bytes(in, thrift_varint(in)); break;
    case THRIFT_LIST:
    case THRIFT_SET: thrift_skip_list(in); break;
    case THRIFT_MAP: thrift_skip_map(in); break;
    case THRIFT_STRUCT: thrift_skip_struct(in); break;
    case THRIFT_STOP:
    default: thrift_bad(in); break;
    }
    in->depth--;
}

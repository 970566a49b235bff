/*
 * wire: the walk reads keys and lengths only, and looks into strings and messages that the
 * descriptor knows. Unknown fields are skipped, so that a newer client can talk to an older server.
 */
#include "wire/wire.h"

#include <stdbool.h>
#include <string.h>

enum wire_type { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

#define VARINT_BYTES_MAX 10
#define FIELD_MAX        ((UINT32_C(1) << 29) - 1)

struct cursor {
    const uint8_t *at;
    const uint8_t *end;
};

static bool take_varint(struct cursor *c, uint64_t *ret_value)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < VARINT_BYTES_MAX && c->at < c->end; i++) {
        uint8_t byte = *c->at++;
        value |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            *ret_value = value;
            return true;
        }
    }
    return false;
}

static bool skip(struct cursor *c, uint64_t n)
{
    if (n > (size_t)(c->end - c->at))
        return false;
    c->at += n;
    return true;
}

/* Length of the UTF-8 character at text, 0 if it is not valid. The table of the Unicode
 * standard, by first byte. */
static size_t char_len(const uint8_t *text, size_t left)
{
    uint8_t a = text[0];
    size_t len;
    uint8_t low = 0x80, high = 0xbf; /* of the second byte */

    if (a < 0x80)
        return a != 0;
    if (a >= 0xc2 && a <= 0xdf)
        len = 2;
    else if (a >= 0xe0 && a <= 0xef)
        len = 3;
    else if (a >= 0xf0 && a <= 0xf4)
        len = 4;
    else
        return 0;
    if (a == 0xe0)
        low = 0xa0;
    else if (a == 0xed)
        high = 0x9f;
    else if (a == 0xf0)
        low = 0x90;
    else if (a == 0xf4)
        high = 0x8f;
    if (left < len || text[1] < low || text[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    return len;
}

bool wire_text_valid(const uint8_t *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t n = char_len(text + i, len - i);
        if (n == 0)
            return false;
        i += n;
    }
    return true;
}

static int
check(const ProtobufCMessageDescriptor *type, struct cursor c, int depth, struct pawl_err *err);

/* One field whose value is a run of bytes. */
static int check_bytes(const ProtobufCMessageDescriptor *type,
                       const ProtobufCFieldDescriptor *field,
                       struct cursor value,
                       int depth,
                       struct pawl_err *err)
{
    if (field == NULL)
        return 0;
    if (field->type == PROTOBUF_C_TYPE_STRING &&
        !wire_text_valid(value.at, (size_t)(value.end - value.at)))
        return err_set(err,
                       PAWL_EINVAL,
                       "%s.%s is not valid UTF-8 text, or contains a NUL",
                       type->name,
                       field->name);
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return check(field->descriptor, value, depth + 1, err);
    return 0;
}

static int check_broken(const ProtobufCMessageDescriptor *type, struct pawl_err *err)
{
    return err_set(err, PAWL_EINVAL, "the bytes are not a %s", type->name);
}

static int
check(const ProtobufCMessageDescriptor *type, struct cursor c, int depth, struct pawl_err *err)
{
    if (depth > WIRE_DEPTH_MAX)
        return err_set(err, PAWL_EINVAL, "messages are nested too deeply");
    while (c.at < c.end) {
        uint64_t key, n;
        if (!take_varint(&c, &key) || key >> 3 == 0 || key >> 3 > FIELD_MAX)
            return check_broken(type, err);
        bool whole = false;
        switch (key & 7) {
        case WIRE_VARINT:
            whole = take_varint(&c, &n);
            break;
        case WIRE_64:
            whole = skip(&c, 8);
            break;
        case WIRE_32:
            whole = skip(&c, 4);
            break;
        case WIRE_BYTES: {
            struct cursor value = {0};
            if (!take_varint(&c, &n))
                break;
            value.at = c.at;
            whole = skip(&c, n);
            value.end = c.at;
            const ProtobufCFieldDescriptor *field =
                protobuf_c_message_descriptor_get_field(type, (unsigned)(key >> 3));
            int rc = whole ? check_bytes(type, field, value, depth, err) : 0;
            if (rc < 0)
                return rc;
            break;
        }
        default: /* groups, and unknown wire types */
            break;
        }
        if (!whole)
            return check_broken(type, err);
    }
    return 0;
}

int wire_check(const ProtobufCMessageDescriptor *type,
               const uint8_t *data,
               size_t len,
               struct pawl_err *err)
{
    return check(type, (struct cursor){data, data + len}, 1, err);
}

struct allocator {
    ProtobufCAllocator base;
    struct arena *arena;
    bool exhausted;
};

static void *allocator_alloc(void *data, size_t size)
{
    struct allocator *allocator = data;
    void *p = arena_alloc(allocator->arena, size);

    if (p == NULL)
        allocator->exhausted = true;
    return p;
}

static void allocator_free(void *data, void *p)
{
    (void)data; /* the arena is freed as a whole */
    (void)p;
}

int wire_unpack(const ProtobufCMessageDescriptor *type,
                struct arena *arena,
                const uint8_t *data,
                size_t len,
                ProtobufCMessage **ret_message,
                struct pawl_err *err)
{
    struct allocator allocator = {.base = {.alloc = allocator_alloc, .free = allocator_free},
                                  .arena = arena};
    allocator.base.allocator_data = &allocator;

    int rc = wire_check(type, data, len, err);
    if (rc < 0)
        return rc;
    ProtobufCMessage *message = protobuf_c_message_unpack(type, &allocator.base, len, data);
    if (message == NULL && allocator.exhausted)
        return err_set(err,
                       PAWL_ELIMIT,
                       "the %s holds more than its size allows: too many small parts",
                       type->name);
    if (message == NULL)
        return check_broken(type, err);
    *ret_message = message;
    return 0;
}

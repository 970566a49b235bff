/*
 * wire: from bytes to a protobuf-c message, without its traps. Before unpacking, the bytes are
 * walked once: strings must be UTF-8 without NUL (protobuf-c would cut them there), nesting is
 * bounded, groups are refused. The message is unpacked into an arena with a maximum, because a few
 * megabytes of empty messages would otherwise become hundreds. Pure except for memory; one thread.
 */
#ifndef WIRE_WIRE_H
#define WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "base/arena.h"
#include "base/err.h"

#define WIRE_DEPTH_MAX 16

/* Memory that unpacking a message of len bytes may take. An ordinary message takes two to five
 * times its length; the base is for small messages with many fields. */
#define WIRE_ARENA_BASE     ((size_t)1024 * 1024)
#define WIRE_ARENA_MAX(len) (WIRE_ARENA_BASE + 8 * (len))

/* PAWL_EINVAL with what is wrong with which field. */
int wire_check(const ProtobufCMessageDescriptor *type,
               const uint8_t *data,
               size_t len,
               struct pawl_err *err) MUST_CHECK;

/* Checks and unpacks. PAWL_EINVAL, or PAWL_ELIMIT: the arena was too small. The message lives in
 * the arena and is never freed on its own. */
int wire_unpack(const ProtobufCMessageDescriptor *type,
                struct arena *arena,
                const uint8_t *data,
                size_t len,
                ProtobufCMessage **ret_message,
                struct pawl_err *err) MUST_CHECK;

/* UTF-8 as Unicode defines it: no overlong forms, no surrogates, nothing beyond U+10FFFF; and no
 * NUL. */
bool wire_text_valid(const uint8_t *text, size_t len);

#endif

/*
 * frame: gRPC's length-prefixed messages, cut out of a stream of bytes. A message is a flag
 * (compressed or not), four bytes of length, and the bytes. Pure except for memory; one thread.
 *
 * The memory that is used follows the bytes that have arrived, never the length that a prefix
 * announces.
 */
#ifndef WIRE_FRAME_H
#define WIRE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "wire/status.h"

#define FRAME_PREFIX_LEN 5

struct frame_reader {
    struct buf buf;         /* owned; the beginning of an incomplete message */
    struct buf inflated;    /* owned; the last compressed message */
    bool exposed;           /* buf has a whole message, which the caller uses */
    size_t message_max;     /* bytes of one message, before and after it is inflated */
    bool gzip;              /* the call said that compressed messages are gzip */
    enum rpc_status status; /* why the reader failed */
    const char *error;      /* static text; with the status */
};

void frame_reader_init(struct frame_reader *reader, size_t message_max);
void frame_reader_deinit(struct frame_reader *reader);
/* For the next call: empty, and the memory kept unless it is much. */
void frame_reader_clear(struct frame_reader *reader);

/*
 * Takes bytes from *data until a message is complete, and moves *data and *len on. 1: ret_message
 * points to the message, in the reader or in the caller's bytes, until the next call. 0: all bytes
 * were taken, and more are needed. Negative: the stream is broken or too large; status and error
 * say why, and the reader must not be fed again.
 */
int frame_next(struct frame_reader *reader,
               const uint8_t **data,
               size_t *len,
               const uint8_t **ret_message,
               size_t *ret_len) MUST_CHECK;

/* A message has begun and is not complete. */
bool frame_partial(const struct frame_reader *reader);

/* Bytes of memory that the reader uses. */
size_t frame_memory(const struct frame_reader *reader);

/* The prefix of a message that is not compressed. */
void frame_prefix(uint8_t prefix[FRAME_PREFIX_LEN], size_t len);

/* Inflates one gzip member with nothing behind it. PAWL_ELIMIT: the result would exceed the
 * maximum of out; PAWL_EINVAL: not gzip; PAWL_ENOMEM. */
int gzip_inflate(const uint8_t *data, size_t len, struct buf *out) MUST_CHECK;

#endif

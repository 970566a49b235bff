/*
 * frame: gRPC's length-prefixed messages, cut out of a stream of bytes. A message is a flag (compressed
 * or not), four bytes of length, and as many bytes. Pure but for memory; one thread.
 *
 * Memory follows what has arrived, never what a prefix announces.
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
    struct buf buf;         /* owned; the beginning of a message that is not complete */
    struct buf inflated;    /* owned; the last message that was compressed */
    bool exposed;           /* buf holds a whole message, which the caller has */
    size_t message_max;     /* bytes of one message, before and after it is inflated */
    bool gzip;              /* the call said that compressed messages are gzip */
    enum rpc_status status; /* why it failed */
    const char *error;      /* static text; with the status */
};

void frame_reader_init(struct frame_reader *reader, size_t message_max);
void frame_reader_deinit(struct frame_reader *reader);
/* For the next call: empty, its memory kept unless it is much. */
void frame_reader_clear(struct frame_reader *reader);

/*
 * Takes bytes from *data until a message is complete; moves *data and *len on. 1: ret_message points to it, into the
 * reader or into the caller's own bytes, until the next call. 0: more bytes are needed, all were taken. Negative:
 * the stream is broken or too large; status and error say why, and the reader must not be fed again.
 */
int frame_next(struct frame_reader *reader,
               const uint8_t **data,
               size_t *len,
               const uint8_t **ret_message,
               size_t *ret_len) MUST_CHECK;

/* A message has begun and is not complete. */
bool frame_partial(const struct frame_reader *reader);

/* Bytes of memory held. */
size_t frame_memory(const struct frame_reader *reader);

/* The five bytes in front of a message that is not compressed. */
void frame_prefix(uint8_t prefix[FRAME_PREFIX_LEN], size_t len);

/* gzip, one member, nothing behind it. PAWL_ELIMIT: it would be larger than out's maximum; PAWL_EINVAL: not gzip;
 * PAWL_ENOMEM. */
int gzip_inflate(const uint8_t *data, size_t len, struct buf *out) MUST_CHECK;

#endif

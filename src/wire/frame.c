/*
 * frame: bytes are copied only when a message is split over several pieces. Conserved: between two
 * calls buf has less than one whole frame.
 */
#include "wire/frame.h"

#include <assert.h>
#include <string.h>

#define ZLIB_CONST
#include <zlib.h>

#define KEEP_MAX      ((size_t)16 * 1024) /* memory a cleared reader keeps */
#define INFLATE_CHUNK ((size_t)16 * 1024)
#define GZIP_WINDOW   (15 + 16) /* tells zlib to accept gzip only */

void frame_reader_init(struct frame_reader *reader, size_t message_max)
{
    *reader = (struct frame_reader){.message_max = message_max};
    buf_init(&reader->buf, message_max + FRAME_PREFIX_LEN);
    buf_init(&reader->inflated, message_max);
}

void frame_reader_deinit(struct frame_reader *reader)
{
    buf_deinit(&reader->buf);
    buf_deinit(&reader->inflated);
}

static void buf_slim(struct buf *buf)
{
    if (buf->cap > KEEP_MAX)
        buf_deinit(buf);
    buf_clear(buf);
}

void frame_reader_clear(struct frame_reader *reader)
{
    buf_slim(&reader->buf);
    buf_slim(&reader->inflated);
    reader->gzip = false;
    reader->exposed = false;
    reader->status = RPC_OK;
    reader->error = NULL;
}

bool frame_partial(const struct frame_reader *reader)
{
    return reader->buf.len > 0 && !reader->exposed;
}

size_t frame_memory(const struct frame_reader *reader)
{
    return reader->buf.cap + reader->inflated.cap;
}

void frame_prefix(uint8_t prefix[FRAME_PREFIX_LEN], size_t len)
{
    assert(len <= UINT32_MAX);
    prefix[0] = 0;
    prefix[1] = (uint8_t)(len >> 24);
    prefix[2] = (uint8_t)(len >> 16);
    prefix[3] = (uint8_t)(len >> 8);
    prefix[4] = (uint8_t)len;
}

static int frame_fail(struct frame_reader *reader, enum rpc_status status, const char *error)
{
    reader->status = status;
    reader->error = error;
    return PAWL_EINVAL;
}

int gzip_inflate(const uint8_t *data, size_t len, struct buf *out)
{
    z_stream z = {.next_in = data, .avail_in = (uInt)len};
    int status = Z_OK;
    int rc = 0;

    assert(len <= UINT32_MAX);
    if (inflateInit2(&z, GZIP_WINDOW) != Z_OK)
        return PAWL_ENOMEM;
    while (status == Z_OK) {
        uint8_t chunk[INFLATE_CHUNK];
        z.next_out = chunk;
        z.avail_out = sizeof(chunk);
        status = inflate(&z, Z_NO_FLUSH);
        if (status != Z_OK && status != Z_STREAM_END)
            break;
        rc = buf_append(out, chunk, sizeof(chunk) - z.avail_out);
        if (rc < 0)
            break;
        if (status == Z_OK && z.avail_in == 0 && z.avail_out > 0)
            break; /* the input ends in the middle */
    }
    if (rc == 0 && (status != Z_STREAM_END || z.avail_in > 0))
        rc = status == Z_MEM_ERROR ? PAWL_ENOMEM : PAWL_EINVAL;
    inflateEnd(&z);
    return rc;
}

/* Exposes one message, inflated if it was compressed. */
static int frame_finish(struct frame_reader *reader,
                        const uint8_t *frame,
                        size_t len,
                        const uint8_t **ret_message,
                        size_t *ret_len)
{
    const uint8_t *body = frame + FRAME_PREFIX_LEN;

    if (frame[0] == 0) {
        *ret_message = body;
        *ret_len = len;
        return 1;
    }
    if (!reader->gzip)
        return frame_fail(
            reader, RPC_INTERNAL, "a compressed message in a call without grpc-encoding: gzip");
    buf_clear(&reader->inflated);
    int rc = gzip_inflate(body, len, &reader->inflated);
    if (rc == PAWL_ELIMIT)
        return frame_fail(reader,
                          RPC_RESOURCE_EXHAUSTED,
                          "the message is larger than the limit when it is inflated");
    if (rc == PAWL_ENOMEM)
        return frame_fail(reader, RPC_RESOURCE_EXHAUSTED, "no memory to inflate the message");
    if (rc < 0)
        return frame_fail(reader, RPC_INTERNAL, "the compressed message is not valid gzip");
    *ret_message = (const uint8_t *)buf_str(&reader->inflated);
    *ret_len = reader->inflated.len;
    return 1;
}

/* Checks a prefix; ret_len: the length of the message behind it. */
static int frame_head(struct frame_reader *reader, const uint8_t *prefix, size_t *ret_len)
{
    size_t len = (size_t)prefix[1] << 24 | (size_t)prefix[2] << 16 | (size_t)prefix[3] << 8 |
                 (size_t)prefix[4];

    if (prefix[0] > 1)
        return frame_fail(reader, RPC_INTERNAL, "a message does not begin with 0 or 1");
    if (len > reader->message_max)
        return frame_fail(reader, RPC_RESOURCE_EXHAUSTED, "the message is larger than the limit");
    *ret_len = len;
    return 0;
}

static size_t less(size_t a, size_t b)
{
    return a < b ? a : b;
}

static int frame_take(struct frame_reader *reader, const uint8_t **data, size_t *len, size_t n)
{
    if (buf_append(&reader->buf, *data, n) < 0)
        return frame_fail(reader, RPC_RESOURCE_EXHAUSTED, "no memory for the message");
    *data += n;
    *len -= n;
    return 0;
}

int frame_next(struct frame_reader *reader,
               const uint8_t **data,
               size_t *len,
               const uint8_t **ret_message,
               size_t *ret_len)
{
    struct buf *buf = &reader->buf;
    size_t body_len;

    if (reader->exposed) {
        buf_clear(buf);
        reader->exposed = false;
    }
    if (buf->len == 0 && *len >= FRAME_PREFIX_LEN) {
        const uint8_t *frame = *data;
        if (frame_head(reader, frame, &body_len) < 0)
            return PAWL_EINVAL;
        if (*len - FRAME_PREFIX_LEN >= body_len) {
            *data += FRAME_PREFIX_LEN + body_len;
            *len -= FRAME_PREFIX_LEN + body_len;
            return frame_finish(reader, frame, body_len, ret_message, ret_len);
        }
    }
    if (buf->len < FRAME_PREFIX_LEN &&
        frame_take(reader, data, len, less(*len, FRAME_PREFIX_LEN - buf->len)) < 0)
        return PAWL_EINVAL;
    if (buf->len < FRAME_PREFIX_LEN)
        return 0;
    if (frame_head(reader, (const uint8_t *)buf->data, &body_len) < 0)
        return PAWL_EINVAL;
    if (frame_take(reader, data, len, less(*len, FRAME_PREFIX_LEN + body_len - buf->len)) < 0)
        return PAWL_EINVAL;
    if (buf->len < FRAME_PREFIX_LEN + body_len)
        return 0;
    reader->exposed = true;
    return frame_finish(reader, (const uint8_t *)buf->data, body_len, ret_message, ret_len);
}

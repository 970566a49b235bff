/*
 * io: the bytes of one connected socket, for both ends of a connection. A read decrypts and gives
 * plain bytes to the owner; a write takes plain bytes from the owner, encrypts them and keeps what
 * the socket does not take. The owner polls the socket, and decides when to read, to write and to
 * close.
 *
 * Conserved: bytes that a write left are in `unsent`, and while there are any, nothing more is
 * taken from the owner: at most one chunk waits here, and the rest waits where the owner bounds it.
 *
 * Loop's thread. The owner owns the socket and the buffers; the io owns its TLS session.
 */
#ifndef WIRE_IO_H
#define WIRE_IO_H

#include "base/buf.h"
#include "wire/tls.h"

#define IO_INPUT_SIZE ((size_t)64 * 1024) /* bytes of one read at most */
#define IO_CHUNK      ((size_t)64 * 1024) /* plain bytes of one write, after which `output` stops */
#define IO_OUTPUT_MAX ((size_t)256 * 1024)
#define IO_UNSENT_MAX ((size_t)512 * 1024) /* bytes that a write leaves, TLS included */

/* Buffers that all connections of a loop share: they are empty between two calls. */
struct io_buffers {
    uint8_t *input; /* owned; IO_INPUT_SIZE */
    struct buf output;
};

/* PAWL_ENOMEM. */
int io_buffers_init(struct io_buffers *buffers) MUST_CHECK;
/* Also after a failed init. */
void io_buffers_deinit(struct io_buffers *buffers);

struct io_ops {
    /* Takes plain bytes, all of them. With TLS a first call, when the handshake is over, may
     * have none. Negative: nothing more is wanted. */
    int (*input)(void *data, const uint8_t *bytes, size_t len);
    /* Adds plain bytes to out, about IO_CHUNK at most. Not before the handshake is over. */
    int (*output)(void *data, struct buf *out);
};

struct io {
    const struct io_ops *ops;
    void *data;
    struct io_buffers *buffers; /* borrowed */
    struct tls_session *tls;    /* owned; NULL without TLS */
    struct buf unsent;          /* from `sent` on */
    size_t sent;
    uint64_t bytes_in; /* since the start, as they were on the network */
    uint64_t bytes_out;
    int fd;       /* borrowed; set by the owner */
    int errnum;   /* after IO_END and PAWL_ECONN; 0: the end of the stream */
    bool blocked; /* the socket takes no more; the owner resets it when the socket is writable */
};

void io_init(struct io *io, const struct io_ops *ops, void *data, struct io_buffers *buffers);
void io_deinit(struct io *io);

/* Plain bytes can be exchanged: there is no TLS, or its handshake is over. */
bool io_ready(const struct io *io);

enum io_read {
    IO_MORE,    /* the buffer was filled: the socket may have more */
    IO_IDLE,    /* the socket has nothing more at present */
    IO_END,     /* the socket ended or is broken: errnum */
    IO_REFUSED, /* TLS or the owner refused the bytes: *ret_code, as tls_session_input */
};

/* One read. ret_code: only for IO_REFUSED. */
enum io_read io_read(struct io *io, int *ret_code) MUST_CHECK;
/* Sends up to `chunks` chunks. 1: there may be more. 0: all was sent, or the socket is blocked.
 * PAWL_ECONN: the socket is broken (errnum). Any other code: of `output`, or PAWL_ENOMEM. */
int io_write(struct io *io, int chunks) MUST_CHECK;

#endif

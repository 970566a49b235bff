/* io: reading and writing. */
#include "wire/io.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

int io_buffers_init(struct io_buffers *buffers)
{
    buf_init(&buffers->output, IO_OUTPUT_MAX);
    buffers->input = malloc(IO_INPUT_SIZE);
    return buffers->input != NULL ? 0 : PAWL_ENOMEM;
}

void io_buffers_deinit(struct io_buffers *buffers)
{
    free(buffers->input);
    buffers->input = NULL;
    buf_deinit(&buffers->output);
}

void io_init(struct io *io, const struct io_ops *ops, void *data, struct io_buffers *buffers)
{
    *io = (struct io){.ops = ops, .data = data, .buffers = buffers, .fd = -1};
    buf_init(&io->unsent, IO_UNSENT_MAX);
}

void io_deinit(struct io *io)
{
    tls_session_free(io->tls);
    io->tls = NULL;
    buf_deinit(&io->unsent);
}

bool io_ready(const struct io *io)
{
    return io->tls == NULL || tls_session_ready(io->tls);
}

enum io_read io_read(struct io *io, int *ret_code)
{
    uint8_t *input = io->buffers->input;
    ssize_t n = recv(io->fd, input, IO_INPUT_SIZE, 0);
    int rc;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return IO_IDLE;
    if (n <= 0) {
        io->errnum = n < 0 ? errno : 0;
        return IO_END;
    }
    io->bytes_in += (size_t)n;
    if (io->tls != NULL)
        rc = tls_session_input(io->tls, input, (size_t)n, io->ops->input, io->data);
    else
        rc = io->ops->input(io->data, input, (size_t)n);
    if (rc < 0) {
        *ret_code = rc;
        return IO_REFUSED;
    }
    return (size_t)n < IO_INPUT_SIZE ? IO_IDLE : IO_MORE;
}

/* As much as the socket takes; PAWL_ECONN. */
static ssize_t send_some(struct io *io, const void *data, size_t len)
{
    ssize_t n = send(io->fd, data, len, MSG_NOSIGNAL);

    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        io->errnum = errno;
        return PAWL_ECONN;
    }
    if (n < 0)
        n = 0;
    io->blocked = (size_t)n < len;
    io->bytes_out += (size_t)n;
    return n;
}

static int send_unsent(struct io *io)
{
    if (io->unsent.len == 0)
        return 0;
    ssize_t n = send_some(io, io->unsent.data + io->sent, io->unsent.len - io->sent);

    if (n < 0)
        return (int)n;
    io->sent += (size_t)n;
    if (io->sent == io->unsent.len) {
        buf_deinit(&io->unsent); /* an idle connection holds no buffers */
        io->sent = 0;
    }
    return 0;
}

/* What does not go out at once is kept. */
static int send_new(struct io *io, const void *data, size_t len)
{
    ssize_t n = send_some(io, data, len);

    return n < 0 ? (int)n : buf_append(&io->unsent, (const char *)data + n, len - (size_t)n);
}

/* One chunk of the owner, or what TLS has to say by itself. 1: there was something. */
static int send_chunk(struct io *io)
{
    struct buf *out = &io->buffers->output;
    const uint8_t *pending;
    int rc = 0;

    buf_clear(out);
    if (io_ready(io))
        rc = io->ops->output(io->data, out);
    if (rc == 0 && out->failed)
        rc = PAWL_ENOMEM;
    if (rc < 0)
        return rc;
    if (io->tls == NULL) {
        rc = out->len > 0 ? send_new(io, out->data, out->len) : 0;
        return rc < 0 ? rc : out->len > 0;
    }
    if (out->len > 0)
        rc = tls_session_output(io->tls, out->data, out->len);
    size_t len = rc == 0 ? tls_session_pending(io->tls, &pending) : 0;

    if (len == 0)
        return rc;
    rc = send_new(io, pending, len);
    tls_session_sent(io->tls);
    return rc < 0 ? rc : 1;
}

int io_write(struct io *io, int chunks)
{
    for (int i = 0; i < chunks; i++) {
        int rc = send_unsent(io);

        if (rc == 0 && !io->blocked)
            rc = send_chunk(io);
        if (rc <= 0 || io->blocked)
            return rc < 0 ? rc : 0;
    }
    return 1;
}

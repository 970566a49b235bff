/* rogue: HTTP/2 by hand, for no decent library would do this. */
#include "bench/rogue.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <netdb.h>
#include <poll.h>

#include "base/buf.h"
#include "base/defer.h"
#include "base/rand.h"
#include "proto/pawl/v1/pawl.pb-c.h"

#define FLIGHT_MAX   (64 * 1024)
#define POLL_MS      50
#define SLOW_MS      1000
#define BEGIN_MS     10000
#define RECEIVE_SIZE 4096 /* what the machine keeps for one that does not read */
#define CREDITS      500
#define FRAMES       256 /* in one write of a flood */
#define PACE_MS \
    1 /* between them: a quarter of a million frames in a second, and no race for the processors */
#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

enum {
    FRAME_DATA = 0,
    FRAME_HEADERS = 1,
    FRAME_RESET = 3,
    FRAME_SETTINGS = 4,
    FRAME_PING = 6,
    END_STREAM = 1,
    END_HEADERS = 4,
};

const char *rogue_what(enum rogue_kind kind)
{
#define ROGUE_WHAT(name, what) what,
    static const char *const whats[] = {ROGUES(ROGUE_WHAT)};
#undef ROGUE_WHAT
    return whats[kind];
}

/* ── bytes ── */

static void
put_frame(struct buf *out, int type, int flags, uint32_t stream, const void *data, size_t len)
{
    const unsigned char head[] = {(unsigned char)(len >> 16),
                                  (unsigned char)(len >> 8),
                                  (unsigned char)len,
                                  (unsigned char)type,
                                  (unsigned char)flags,
                                  (unsigned char)(stream >> 24),
                                  (unsigned char)(stream >> 16),
                                  (unsigned char)(stream >> 8),
                                  (unsigned char)stream};

    buf_append(out, head, sizeof(head));
    buf_append(out, data, len);
}

/* Not indexed, not compressed; both are short. */
static void put_header(struct buf *out, const char *name, const char *value)
{
    buf_putc(out, '\0');
    buf_putc(out, (char)strlen(name));
    buf_puts(out, name);
    buf_putc(out, (char)strlen(value));
    buf_puts(out, value);
}

static void put_call(struct buf *out, uint32_t stream, const char *path)
{
    CLEANUP(buf_deinit)
    struct buf headers;

    buf_init(&headers, FLIGHT_MAX);
    put_header(&headers, ":method", "POST");
    put_header(&headers, ":scheme", "http");
    put_header(&headers, ":path", path);
    put_header(&headers, ":authority", "rogue");
    put_header(&headers, "content-type", "application/grpc");
    put_header(&headers, "te", "trailers");
    put_frame(out, FRAME_HEADERS, END_HEADERS, stream, headers.data, headers.len);
}

static void put_stream_jobs(struct buf *out)
{
    Pawl__V1__StreamJobsRequest request;
    char *queues[] = {(char *)(uintptr_t)ROGUE_QUEUE};
    char *kinds[] = {(char *)(uintptr_t)BENCH_KIND};
    struct uuid id = uuid_random();
    char id_text[UUID_TEXT_LEN + 1];
    unsigned char message[5 + 512] = {0};

    uuid_format(&id, id_text);
    pawl__v1__stream_jobs_request__init(&request);
    request.queues = queues;
    request.n_queues = 1;
    request.kinds = kinds;
    request.n_kinds = 1;
    request.worker_id = id_text;
    request.credits = CREDITS;
    size_t len = protobuf_c_message_pack(&request.base, message + 5);

    message[3] = (unsigned char)(len >> 8);
    message[4] = (unsigned char)len;
    put_call(out, 1, "/pawl.v1.WorkerService/StreamJobs");
    put_frame(out, FRAME_DATA, END_STREAM, 1, message, 5 + len);
}

/* What is said first on a connection. */
static void put_beginning(struct buf *out, enum rogue_kind kind)
{
    if (kind == ROGUE_GARBAGE)
        return;
    buf_puts(out, PREFACE);
    put_frame(out, FRAME_SETTINGS, 0, 0, NULL, 0);
    if (kind == ROGUE_SLOW || kind == ROGUE_FROZEN)
        put_stream_jobs(out);
}

/* What is said next, again and again. */
static void put_more(struct buf *out, enum rogue_kind kind, uint32_t *stream)
{
    static const unsigned char cancel[] = {0, 0, 0, 8};
    struct uuid noise = uuid_random(); /* once: what floods should not wait for randomness */

    for (size_t i = 0; i < FRAMES; i++) {
        if (kind == ROGUE_PINGS) {
            put_frame(out, FRAME_PING, 0, 0, noise.bytes, 8);
        } else if (kind == ROGUE_RESETS) {
            put_call(out, *stream, "/grpc.health.v1.Health/Check");
            put_frame(out, FRAME_RESET, 0, *stream, cancel, sizeof(cancel));
            *stream += 2;
        } else {
            buf_append(out, noise.bytes, sizeof(noise.bytes));
        }
    }
}

/* ── its thread ── */

static int connect_to(const struct address *server)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    struct addrinfo *address = NULL;
    int size = RECEIVE_SIZE;

    if (getaddrinfo(server->host, server->port, &hints, &address) != 0)
        return -1;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
        if (connect(fd, address->ai_addr, address->ai_addrlen) < 0 ||
            fcntl(fd, F_SETFL, O_NONBLOCK) < 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(address);
    return fd;
}

/* All of it; false: the connection is over, or it is time to stop. */
static bool write_all(struct rogue *rogue, int fd, const struct buf *bytes)
{
    for (size_t at = 0; at < bytes->len && !atomic_load(&rogue->stop);) {
        struct pollfd wait = {.fd = fd, .events = POLLOUT};
        ssize_t n = send(fd, bytes->data + at, bytes->len - at, MSG_NOSIGNAL);

        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        if (n > 0) {
            at += (size_t)n;
            atomic_fetch_add(&rogue->n_written, (size_t)n);
        } else {
            (void)poll(&wait, 1, POLL_MS);
        }
    }
    return !atomic_load(&rogue->stop);
}

/* A byte, and a long pause; or only the pause. */
static bool dawdle(struct rogue *rogue, int fd)
{
    struct pollfd over = {.fd = fd, .events = POLLRDHUP};
    char byte;

    for (int64_t ms = 0; ms < SLOW_MS && !atomic_load(&rogue->stop); ms += POLL_MS) {
        if (poll(&over, 1, POLL_MS) > 0 && (over.revents & (POLLERR | POLLHUP)) != 0)
            return false;
    }
    if (rogue->kind == ROGUE_SLOW)
        return recv(fd, &byte, 1, 0) != 0;
    return true;
}

static void misbehave(struct rogue *rogue, int fd)
{
    CLEANUP(buf_deinit)
    struct buf bytes;
    uint32_t stream = 1;
    bool alive = true;

    buf_init(&bytes, FLIGHT_MAX);
    put_beginning(&bytes, rogue->kind);
    alive = write_all(rogue, fd, &bytes);
    while (alive && !atomic_load(&rogue->stop)) {
        if (rogue->kind == ROGUE_SLOW || rogue->kind == ROGUE_FROZEN) {
            alive = dawdle(rogue, fd);
            continue;
        }
        struct pollfd over = {.fd = fd, .events = POLLRDHUP};

        /* The server has had enough of it. */
        if (poll(&over, 1, PACE_MS) > 0)
            break;
        bytes.len = 0;
        put_more(&bytes, rogue->kind, &stream);
        alive = write_all(rogue, fd, &bytes);
    }
}

static void *rogue_main(void *data)
{
    struct rogue *rogue = data;

    (void)setpriority(PRIO_PROCESS, 0, 19); /* of this thread alone */
    while (!atomic_load(&rogue->stop)) {
        AUTO_FD int fd = connect_to(rogue->server);

        if (fd < 0) {
            (void)poll(NULL, 0, POLL_MS);
            continue;
        }
        atomic_fetch_add(&rogue->n_connections, 1);
        misbehave(rogue, fd);
    }
    return NULL;
}

/* ── the caller's ── */

int rogue_start(struct bench *b,
                struct rogue *rogue,
                const struct address *server,
                enum rogue_kind kind,
                struct pawl_err *err)
{
    int64_t until_us = bench_now_us() + BEGIN_MS * US_PER_MS;

    *rogue = (struct rogue){.server = server, .kind = kind};
    int errnum = pthread_create(&rogue->thread, NULL, rogue_main, rogue);

    if (errnum != 0)
        return err_set_errno(err, errnum, "could not start a thread");
    int rc = 0;

    while (rc == 0 && atomic_load(&rogue->n_written) == 0) {
        rc = bench_go_on(b, err);
        if (rc == 0 && bench_now_us() > until_us)
            rc = err_set(err, PAWL_ETIMEOUT, "the server let nobody in");
        bench_sleep_ms(b, 1);
    }
    if (rc < 0)
        rogue_stop(rogue);
    return rc;
}

void rogue_stop(struct rogue *rogue)
{
    atomic_store(&rogue->stop, true);
    pthread_join(rogue->thread, NULL);
}

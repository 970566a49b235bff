/*
 * peer: when one connection is read, written and freed. Conserved: a live peer is on net->peers, a
 * dead one on net->dead until the end of the turn.
 */
#include "serve/net/peer.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rand.h"
#include "serve/net/listener.h"

#define LINGER_MS    1000
#define LINGER_READS 32 /* of IO_INPUT_SIZE: a client that sends more does not want to read */
#define READS_MAX    2  /* of IO_INPUT_SIZE for one peer, before the other peers get theirs */
#define WRITES_MAX   4  /* at most, of IO_CHUNK */

static const char preface[PEER_PREFACE_LEN + 1] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

static void poll_cb(uv_poll_t *poll, int status, int events);
static void peer_linger(struct peer *peer);

/* Polls for exactly the events that are wanted now. */
static void peer_poll(struct peer *peer)
{
    int events = 0;

    if (peer->lingering || (!peer->paused && !peer->eof && !peer->closing))
        events |= UV_READABLE;
    if (peer->watched && !peer->eof)
        events |= UV_DISCONNECT;
    if (peer->io.blocked)
        events |= UV_WRITABLE;
    if (events == peer->events)
        return;
    peer->events = events;
    if (events)
        uv_poll_start(&peer->poll, events, poll_cb);
    else
        uv_poll_stop(&peer->poll);
}

void peer_dirty(struct peer *peer)
{
    if (peer->dead || !list_empty(&peer->dirty_link))
        return;
    list_push(&peer->net->dirty, &peer->dirty_link);
}

void peer_pause(struct peer *peer, bool paused)
{
    peer->paused = paused;
    if (!peer->dead)
        peer_poll(peer);
}

void peer_watch(struct peer *peer, bool watched)
{
    peer->watched = watched;
    if (!peer->dead)
        peer_poll(peer);
}

void peer_kill(struct peer *peer)
{
    if (peer->dead)
        return;
    peer->dead = true;
    list_remove(&peer->dirty_link);
    list_remove(&peer->link);
    peer->net->n_peers--;
    list_push(&peer->net->dead, &peer->link);
    uv_poll_stop(&peer->poll);
    peer->events = 0;
}

void peer_close(struct peer *peer)
{
    if (peer->dead || peer->closing)
        return;
    peer->closing = true;
    peer_poll(peer);
    peer_dirty(peer);
}

static void peer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void peer_free(struct peer *peer)
{
    assert(peer->dead);
    if (peer->protocol != NULL)
        peer->protocol->close(peer);
    /* A callback during the protocol's close may have marked the peer dirty. */
    list_remove(&peer->dirty_link);
    uv_close((uv_handle_t *)&peer->poll, peer_closed);
    close(peer->io.fd);
    io_deinit(&peer->io);
}

/* Varies by a tenth: connections that were opened together do not close together. */
static int64_t peer_old_us(const struct net *net)
{
    int64_t age_us = net->options.limits->age_ms * US_PER_MS;

    if (age_us == 0)
        return INT64_MAX;
    return net->now_us + age_us - (int64_t)rand_below((uint64_t)age_us / 10 + 1);
}

static int peer_input(void *data, const uint8_t *bytes, size_t len);
static int peer_output(void *data, struct buf *out);

static const struct io_ops peer_io = {.input = peer_input, .output = peer_output};

void peer_accept(struct net *net, int fd, struct tls *tls, const char *address)
{
    struct peer *peer = calloc(1, sizeof(*peer));

    if (peer == NULL) {
        close(fd);
        return;
    }
    io_init(&peer->io, &peer_io, peer, &net->buffers);
    peer->io.fd = fd;
    if ((tls != NULL && (peer->io.tls = tls_session_new(tls)) == NULL) ||
        uv_poll_init(net->options.loop, &peer->poll, fd) < 0) {
        io_deinit(&peer->io);
        free(peer);
        close(fd);
        return;
    }
    peer->net = net;
    peer->poll.data = peer;
    peer->opened_us = peer->read_us = peer->progress_us = net->now_us;
    peer->close_by_us = INT64_MAX;
    peer->old_us = peer_old_us(net);
    list_init(&peer->dirty_link);
    snprintf(peer->address, sizeof(peer->address), "%s", address);
    list_push(&net->peers, &peer->link);
    net->n_peers++;
    net->counters.accepted++;
    net_tick_wanted(net);
    peer_poll(peer);
}

/* ── input ── */

static int peer_attach(struct peer *peer, bool http2)
{
    struct net *net = peer->net;
    int rc = net->options.attach(peer, http2, net->options.data);

    if (rc < 0)
        return rc;
    peer_dirty(peer);
    if (peer->draining)
        peer->protocol->drain(peer);
    return peer->preface_len > 0 ? peer->protocol->input(peer, peer->preface, peer->preface_len)
                                 : 0;
}

/* Takes plain bytes. With TLS the first call has none: the handshake is over. */
static int peer_input(void *data, const uint8_t *bytes, size_t len)
{
    struct peer *peer = data;

    if (peer->protocol == NULL && peer->io.tls != NULL && tls_session_alpn_h2(peer->io.tls)) {
        int rc = peer_attach(peer, true);
        if (rc < 0)
            return rc;
    }
    while (peer->protocol == NULL && len > 0) {
        bool same = *bytes == (uint8_t)preface[peer->preface_len];
        if (same) {
            peer->preface[peer->preface_len++] = *bytes++;
            len--;
        }
        if (same && peer->preface_len < PEER_PREFACE_LEN)
            continue;
        int rc = peer_attach(peer, same);
        if (rc < 0)
            return rc;
    }
    return len > 0 ? peer->protocol->input(peer, bytes, len) : 0;
}

/* One read. False: there is nothing more to read at present. */
static bool peer_read(struct peer *peer)
{
    struct net *net = peer->net;
    bool was_ready = io_ready(&peer->io);
    uint64_t before = peer->io.bytes_in;
    int rc = 0;
    enum io_read result = io_read(&peer->io, &rc);

    if (peer->io.bytes_in > before)
        peer->read_us = net->now_us;
    net->counters.bytes_received += peer->io.bytes_in - before;
    if (!was_ready || (peer->io.tls != NULL && result == IO_REFUSED))
        peer_dirty(peer);
    if (result == IO_REFUSED) {
        net->counters.tls_failed += !io_ready(&peer->io);
        peer_close(peer);
    } else if (result == IO_END) {
        peer->eof = true;
        if (peer->io.errnum != 0 || peer->protocol == NULL || !peer->protocol->answers_after_eof)
            peer_kill(peer);
        else
            peer_dirty(peer);
    }
    return result == IO_MORE;
}

static void peer_readable(struct peer *peer)
{
    for (int i = 0; i < READS_MAX && (peer->events & UV_READABLE); i++) {
        if (!peer_read(peer))
            return;
    }
}

static void poll_cb(uv_poll_t *poll, int status, int events)
{
    struct peer *peer = poll->data;

    if (status < 0 || (peer->watched && (events & UV_DISCONNECT))) {
        peer_kill(peer);
        return;
    }
    if (events & UV_WRITABLE) {
        peer->io.blocked = false;
        peer_dirty(peer);
    }
    if (peer->lingering)
        peer_linger(peer);
    else if (events & UV_READABLE)
        peer_readable(peer);
    if (!peer->dead)
        peer_poll(peer);
}

/* ── output ── */

static int peer_output(void *data, struct buf *out)
{
    struct peer *peer = data;

    return peer->protocol != NULL && !peer->said_goodbye ? peer->protocol->output(peer, out) : 0;
}

/* As io_write. */
static int peer_write(struct peer *peer)
{
    uint64_t before = peer->io.bytes_out;
    int rc = io_write(&peer->io, WRITES_MAX);

    if (peer->io.bytes_out > before)
        peer->progress_us = peer->net->now_us;
    peer->net->counters.bytes_sent += peer->io.bytes_out - before;
    return rc;
}

/* Everything was sent. TLS says goodbye before the end. A close while the client still sends
 * would reset the connection and lose the last bytes: the client gets a moment to read them. */
static void peer_last_words(struct peer *peer)
{
    if (peer->io.tls != NULL && io_ready(&peer->io) && !peer->said_goodbye) {
        peer->said_goodbye = peer->closing = true;
        tls_session_close(peer->io.tls);
        peer_dirty(peer);
        return;
    }
    if (peer->eof || peer->lingering || shutdown(peer->io.fd, SHUT_WR) < 0) {
        peer_kill(peer);
        return;
    }
    peer->lingering = peer->closing = true;
    int64_t by = peer->net->now_us + LINGER_MS * US_PER_MS;
    if (by < peer->close_by_us)
        peer->close_by_us = by;
}

/* Reads and drops input until the client has closed. */
static void peer_linger(struct peer *peer)
{
    ssize_t n = recv(peer->io.fd, peer->net->buffers.input, IO_INPUT_SIZE, 0);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR) || ++peer->lingered > LINGER_READS)
        peer_kill(peer);
}

void peer_flush(struct peer *peer)
{
    if (peer->dead || peer->io.blocked || peer->lingering)
        return;
    int rc = peer_write(peer);
    if (rc < 0) {
        peer_kill(peer);
        return;
    }
    if (rc > 0)
        peer_dirty(peer);
    else if (!peer->io.blocked) {
        bool finished = peer->protocol != NULL && peer->protocol->finished(peer);
        peer->progress_us = peer->net->now_us;
        if (peer->closing || finished || (peer->eof && peer->protocol == NULL))
            peer_last_words(peer);
    }
    if (!peer->dead)
        peer_poll(peer);
}

/* ── time ── */

void peer_drain(struct peer *peer, int64_t grace_ms)
{
    if (peer->dead)
        return;
    int64_t by = peer->net->now_us + grace_ms * US_PER_MS;
    if (by < peer->close_by_us)
        peer->close_by_us = by;
    if (peer->draining)
        return;
    peer->draining = true;
    if (peer->protocol != NULL)
        peer->protocol->drain(peer);
    else
        peer_kill(peer); /* the client has sent nothing yet */
}

void peer_quiesce(struct peer *peer)
{
    if (peer->dead || peer->draining || peer->protocol == NULL)
        return;
    if (peer->protocol->needed != NULL && peer->protocol->needed(peer))
        return;
    peer->draining = true;
    peer->protocol->drain(peer);
}

void peer_tick(struct peer *peer, int64_t now_us)
{
    const struct serve_limits *limits = peer->net->options.limits;
    bool late = now_us >= peer->close_by_us;

    if (peer->protocol == NULL && now_us - peer->opened_us > limits->handshake_ms * US_PER_MS)
        late = true;
    if (peer->io.blocked && now_us - peer->progress_us > limits->grace_ms * US_PER_MS)
        late = true;
    if (late) {
        peer->net->counters.timed_out += !peer->lingering;
        peer_kill(peer);
        return;
    }
    if (peer->lingering)
        return;
    if (now_us > peer->old_us)
        peer_drain(peer, limits->grace_ms);
    if (peer->net->quiet)
        peer_quiesce(peer);
    if (peer->protocol != NULL && !peer->dead)
        peer->protocol->tick(peer, now_us);
}

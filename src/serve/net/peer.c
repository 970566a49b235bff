/*
 * peer: reading, writing and dying of one connection. Conserved: a live peer is on net->peers, a dead one on
 * net->dead until the end of the turn; what a write left is in `unsent`, and while there is any nothing more is
 * pulled out of the protocol.
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
#define LINGER_READS 32 /* of NET_INPUT_SIZE at most: who sends more has no intention of reading */
#define READS_A_TURN 2  /* of NET_INPUT_SIZE, before others have their turn */

static const char preface[PEER_PREFACE_LEN + 1] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

static void poll_cb(uv_poll_t *poll, int status, int events);
static void peer_linger(struct peer *peer);

/* Waits for exactly what is wanted now. */
static void peer_poll(struct peer *peer)
{
    int events = 0;

    if (peer->lingering || (!peer->paused && !peer->eof && !peer->closing))
        events |= UV_READABLE;
    if (peer->watched && !peer->eof)
        events |= UV_DISCONNECT;
    if (peer->blocked)
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
    if (peer->protocol)
        peer->protocol->close(peer);
    /* What the protocol's end called back may have marked it. */
    list_remove(&peer->dirty_link);
    tls_session_free(peer->tls);
    buf_deinit(&peer->unsent);
    uv_close((uv_handle_t *)&peer->poll, peer_closed);
    close(peer->fd);
}

/* Not all at once: connections that were opened together do not go together. */
static int64_t peer_old_us(const struct net *net)
{
    int64_t age_us = net->options.limits->age_ms * US_PER_MS;

    if (age_us == 0)
        return INT64_MAX;
    return net->now_us + age_us - (int64_t)rand_below((uint64_t)age_us / 10 + 1);
}

void peer_accept(struct net *net, int fd, struct tls *tls, const char *address)
{
    struct peer *peer = calloc(1, sizeof(*peer));

    if (!peer || (tls && !(peer->tls = tls_session_new(tls))) ||
        uv_poll_init(net->options.loop, &peer->poll, fd) < 0) {
        if (peer)
            tls_session_free(peer->tls);
        free(peer);
        close(fd);
        return;
    }
    peer->net = net;
    peer->fd = fd;
    peer->poll.data = peer;
    peer->opened_us = peer->read_us = peer->progress_us = net->now_us;
    peer->close_by_us = INT64_MAX;
    peer->old_us = peer_old_us(net);
    list_init(&peer->dirty_link);
    buf_init(&peer->unsent, PEER_UNSENT_MAX);
    snprintf(peer->address, sizeof(peer->address), "%s", address);
    list_push(&net->peers, &peer->link);
    net->n_peers++;
    net->counters.accepted++;
    net_tick_wanted(net);
    peer_poll(peer);
}

/* --- input ------------------------------------------------------------------------------------------------------- */

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

/* Plain bytes. With TLS the first call has none: the handshake is over. */
static int peer_input(void *data, const uint8_t *bytes, size_t len)
{
    struct peer *peer = data;

    if (!peer->protocol && peer->tls && tls_session_alpn_h2(peer->tls)) {
        int rc = peer_attach(peer, true);
        if (rc < 0)
            return rc;
    }
    while (!peer->protocol && len > 0) {
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

static void peer_received(struct peer *peer, size_t len)
{
    struct net *net = peer->net;
    bool was_ready = !peer->tls || tls_session_ready(peer->tls);
    int rc;

    peer->read_us = net->now_us;
    net->counters.bytes_received += len;
    if (peer->tls)
        rc = tls_session_input(peer->tls, net->input, len, peer_input, peer);
    else
        rc = peer_input(peer, net->input, len);
    if (peer->tls && (!was_ready || rc < 0))
        peer_dirty(peer);
    if (rc < 0 && !was_ready && !tls_session_ready(peer->tls))
        net->counters.tls_failed++;
    if (rc < 0)
        peer_close(peer);
}

static void peer_readable(struct peer *peer)
{
    for (int i = 0; i < READS_A_TURN && (peer->events & UV_READABLE); i++) {
        ssize_t n = recv(peer->fd, peer->net->input, NET_INPUT_SIZE, 0);
        if (n > 0) {
            peer_received(peer, (size_t)n);
            if ((size_t)n < NET_INPUT_SIZE)
                return;
            continue;
        }
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        peer->eof = true;
        if (n < 0 || !peer->protocol || !peer->protocol->answers_after_eof)
            peer_kill(peer);
        else {
            peer_poll(peer);
            peer_dirty(peer);
        }
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
        peer->blocked = false;
        peer_dirty(peer);
    }
    if (peer->lingering)
        peer_linger(peer);
    else if (events & UV_READABLE)
        peer_readable(peer);
    if (!peer->dead)
        peer_poll(peer);
}

/* --- output ------------------------------------------------------------------------------------------------------ */

/* As much as the socket takes. Negative: the connection is broken. */
static ssize_t peer_write(struct peer *peer, const void *data, size_t len)
{
    ssize_t n = send(peer->fd, data, len, MSG_NOSIGNAL);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        n = 0;
    if (n > 0) {
        peer->progress_us = peer->net->now_us;
        peer->net->counters.bytes_sent += (size_t)n;
    }
    if (n >= 0 && (size_t)n < len)
        peer->blocked = true;
    return n;
}

static int send_unsent(struct peer *peer)
{
    if (peer->unsent.len == 0)
        return 0;
    ssize_t n = peer_write(peer, peer->unsent.data + peer->sent, peer->unsent.len - peer->sent);
    if (n < 0)
        return PAWL_ECONN;
    peer->sent += (size_t)n;
    if (peer->sent == peer->unsent.len) {
        buf_deinit(&peer->unsent); /* an idle connection holds no buffers */
        peer->sent = 0;
    }
    return 0;
}

/* What does not go out at once is kept. */
static int send_new(struct peer *peer, const void *data, size_t len)
{
    ssize_t n = peer_write(peer, data, len);

    if (n < 0)
        return PAWL_ECONN;
    return buf_append(&peer->unsent, (const char *)data + n, len - (size_t)n);
}

static int send_encrypted(struct peer *peer)
{
    const uint8_t *data;
    size_t len = tls_session_pending(peer->tls, &data);

    if (len == 0)
        return 0;
    int rc = send_new(peer, data, len);
    tls_session_sent(peer->tls);
    return rc;
}

/* One chunk from the protocol. 1: there was one. */
static int send_chunk(struct peer *peer)
{
    struct buf *out = &peer->net->output;

    if (!peer->protocol || peer->said_goodbye || (peer->tls && !tls_session_ready(peer->tls)))
        return 0;
    buf_clear(out);
    int rc = peer->protocol->output(peer, out);
    if (rc < 0 || out->failed)
        return rc < 0 ? rc : PAWL_ENOMEM;
    if (out->len == 0)
        return 0;
    if (peer->tls) {
        rc = tls_session_output(peer->tls, out->data, out->len);
        return rc < 0 ? rc : 1;
    }
    rc = send_new(peer, out->data, out->len);
    return rc < 0 ? rc : 1;
}

/* 1: there may be more to send. 0: all was sent, or the socket takes no more. */
static int send_all(struct peer *peer)
{
    for (int i = 0; i < PEER_WRITES_A_TURN; i++) {
        int rc = send_unsent(peer);
        if (rc == 0 && !peer->blocked && peer->tls)
            rc = send_encrypted(peer);
        if (rc < 0 || peer->blocked)
            return rc;
        rc = send_chunk(peer);
        if (rc < 0)
            return rc;
        if (rc == 0) {
            const uint8_t *data;
            return peer->tls && tls_session_pending(peer->tls, &data) > 0;
        }
    }
    return 1;
}

/* Everything was sent. TLS says goodbye before the end. Closing while the client still sends would reset the connection
 * and take our last words away from it: it gets a moment to read them. */
static void peer_last_words(struct peer *peer)
{
    if (peer->tls && tls_session_ready(peer->tls) && !peer->said_goodbye) {
        peer->said_goodbye = peer->closing = true;
        tls_session_close(peer->tls);
        peer_dirty(peer);
        return;
    }
    if (peer->eof || peer->lingering || shutdown(peer->fd, SHUT_WR) < 0) {
        peer_kill(peer);
        return;
    }
    peer->lingering = peer->closing = true;
    int64_t by = peer->net->now_us + LINGER_MS * US_PER_MS;
    if (by < peer->close_by_us)
        peer->close_by_us = by;
}

/* Reads and forgets, until the client has closed. */
static void peer_linger(struct peer *peer)
{
    ssize_t n = recv(peer->fd, peer->net->input, NET_INPUT_SIZE, 0);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR) || ++peer->lingered > LINGER_READS)
        peer_kill(peer);
}

void peer_flush(struct peer *peer)
{
    if (peer->dead || peer->blocked || peer->lingering)
        return;
    int rc = send_all(peer);
    if (rc < 0) {
        peer_kill(peer);
        return;
    }
    if (rc > 0)
        peer_dirty(peer);
    else if (!peer->blocked) {
        bool finished = peer->protocol && peer->protocol->finished(peer);
        peer->progress_us = peer->net->now_us;
        if (peer->closing || finished || (peer->eof && !peer->protocol))
            peer_last_words(peer);
    }
    if (!peer->dead)
        peer_poll(peer);
}

/* --- time -------------------------------------------------------------------------------------------------------- */

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
    if (peer->protocol)
        peer->protocol->drain(peer);
    else
        peer_kill(peer); /* it has said nothing yet */
}

void peer_quiesce(struct peer *peer)
{
    if (peer->dead || peer->draining || !peer->protocol)
        return;
    if (peer->protocol->needed && peer->protocol->needed(peer))
        return;
    peer->draining = true;
    peer->protocol->drain(peer);
}

void peer_tick(struct peer *peer, int64_t now_us)
{
    const struct serve_limits *limits = peer->net->options.limits;
    bool late = now_us >= peer->close_by_us;

    if (!peer->protocol && now_us - peer->opened_us > limits->handshake_ms * US_PER_MS)
        late = true;
    if (peer->blocked && now_us - peer->progress_us > limits->grace_ms * US_PER_MS)
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
    if (peer->protocol && !peer->dead)
        peer->protocol->tick(peer, now_us);
}

/*
 * peer: one connection of a client, from accept to close. The peer polls its socket and keeps time
 * (wire/io.h reads and writes); a protocol knows what the bytes mean. The first bytes choose the
 * protocol: HTTP/2 begins with a preface that no HTTP/1.1 request has. Loop's thread.
 *
 *     accepted ──(TLS handshake)─ DETECT ──preface──► HTTP/2 ──┐
 *                                   └───else──────► HTTP/1.1 ┴─► closing (sends the queue) ─► dead
 *
 * Callbacks only mark: net.c flushes dirty peers and frees dead ones once in each turn of the loop.
 * So nothing is sent or freed while the code of a protocol runs, and what several callbacks queued
 * goes out in one write.
 */
#ifndef SERVE_NET_PEER_H
#define SERVE_NET_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include "base/list.h"
#include "serve/net/net.h"
#include "wire/io.h"

#define PEER_ADDRESS_MAX 80
#define PEER_PREFACE_LEN 24

struct peer_protocol {
    /* Takes all bytes. Negative: the connection is closed after the queue was sent. */
    int (*input)(struct peer *peer, const uint8_t *data, size_t len);
    /* Adds bytes to be sent to out, about IO_CHUNK at most. Negative: the connection is broken. */
    int (*output)(struct peer *peer, struct buf *out);
    /* Nothing more will be sent or read: the connection may be closed once everything was sent. */
    bool (*finished)(const struct peer *peer);
    /* A call needs the connection until it ends (rpc_call_ops.keeps_connection). NULL: never. */
    bool (*needed)(const struct peer *peer);
    /* Called by the tick, for timeouts. */
    void (*tick)(struct peer *peer, int64_t now_us);
    /* The server stops, or the connection is too old: take nothing new, finish soon. */
    void (*drain)(struct peer *peer);
    /* Forgets the peer; calls on it are aborted. */
    void (*close)(struct peer *peer);
    bool answers_after_eof; /* a client that sends no more may still read */
};

struct peer {
    struct list link;       /* net->peers, or net->dead */
    struct list dirty_link; /* net->dirty */
    struct net *net;
    uv_poll_t poll;
    struct io io;
    int events;                           /* what the poll handle waits for */
    const struct peer_protocol *protocol; /* NULL while detecting */
    void *state;                          /* owned by the protocol */
    uint8_t preface[PEER_PREFACE_LEN];
    size_t preface_len;
    int64_t opened_us;
    int64_t old_us;      /* when the connection is too old; INT64_MAX: never */
    int64_t read_us;     /* when bytes came last */
    int64_t progress_us; /* when bytes went out last, or nothing had to */
    int64_t close_by_us; /* when the connection is closed by force; INT64_MAX: never */
    int lingered;        /* reads while lingering */
    bool watched;        /* a close by the client counts also while nothing is read */
    bool paused;         /* the protocol wants no input at present */
    bool eof;
    bool closing;      /* takes no input; dies when everything was sent */
    bool lingering;    /* everything was sent; waits for the client to close */
    bool said_goodbye; /* TLS: nothing more may be encrypted */
    bool dead;
    bool draining;
    char address[PEER_ADDRESS_MAX];
};

/* Takes the descriptor, also on failure. */
void peer_accept(struct net *net, int fd, struct tls *tls, const char *address);

/* There is something to send. */
void peer_dirty(struct peer *peer);
/* While paused, nothing is read. */
void peer_pause(struct peer *peer, bool paused);
/* While watched, a close by the client is noticed also when nothing is read. */
void peer_watch(struct peer *peer, bool watched);
/* Sends the queue, then closes. */
void peer_close(struct peer *peer);
/* Closes at the end of the turn, without sending the queue. */
void peer_kill(struct peer *peer);
/* Asks the protocol to finish within grace_ms. */
void peer_drain(struct peer *peer, int64_t grace_ms);
/* Asks the protocol to finish without a time limit, unless a call needs the connection. */
void peer_quiesce(struct peer *peer);

/* For net.c: the turn and the tick. */
void peer_flush(struct peer *peer);
void peer_tick(struct peer *peer, int64_t now_us);
void peer_free(struct peer *peer);

#endif

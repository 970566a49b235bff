/*
 * peer: one connection of a client, from accept to close. It reads, writes, encrypts and keeps time; what the bytes
 * mean is a protocol's business, chosen by the first bytes: HTTP/2 begins with a preface that no HTTP/1.1 request
 * has. Loop's thread.
 *
 *     accepted ──(TLS handshake)── DETECT ──preface──► HTTP/2 ─┐
 *                                     └────else──────► HTTP/1.1 ┴─► closing (what is queued goes out) ─► dead
 *
 * Callbacks only mark: dirty peers are flushed and dead ones freed once in each turn of the loop (net.c), so nothing
 * is sent or freed under the feet of a protocol's own code, and what several callbacks queued goes out in one write.
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
    /* All bytes are taken. Negative: the connection is to be closed after what is queued was sent. */
    int (*input)(struct peer *peer, const uint8_t *data, size_t len);
    /* Adds what is to be sent to out, about IO_CHUNK at most. Negative: the connection is broken. */
    int (*output)(struct peer *peer, struct buf *out);
    /* There is nothing more to be said or heard: it may be closed once everything was sent. */
    bool (*finished)(const struct peer *peer);
    /* It is needed until a call on it has ended (rpc_call_ops.keeps_connection). NULL: never. */
    bool (*needed)(const struct peer *peer);
    /* Now and then, for timeouts. */
    void (*tick)(struct peer *peer, int64_t now_us);
    /* The server stops, or the connection is too old: take nothing new, finish soon. */
    void (*drain)(struct peer *peer);
    /* Forget the peer; calls on it are aborted. */
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
    void *state;                          /* the protocol's, owned by it */
    uint8_t preface[PEER_PREFACE_LEN];
    size_t preface_len;
    int64_t opened_us;
    int64_t old_us;      /* when it is too old; INT64_MAX: never */
    int64_t read_us;     /* when something came last */
    int64_t progress_us; /* when something went out, or nothing had to */
    int64_t close_by_us; /* INT64_MAX, or when a drain ends by force */
    int lingered;        /* reads while lingering */
    bool watched;        /* a close of the client's counts while nothing is read */
    bool paused;         /* the protocol wants no input at present */
    bool eof;
    bool closing;      /* no input any more; dies when everything was sent */
    bool lingering;    /* everything is said; waits for the client to close */
    bool said_goodbye; /* TLS: nothing may be encrypted any more */
    bool dead;
    bool draining;
    char address[PEER_ADDRESS_MAX];
};

/* Takes the descriptor, also when it fails. */
void peer_accept(struct net *net, int fd, struct tls *tls, const char *address);

/* Something is to be sent. */
void peer_dirty(struct peer *peer);
/* Input is wanted or not; while it is not, nothing is read. */
void peer_pause(struct peer *peer, bool paused);
/* While nothing is read, a client that closes is noticed all the same. */
void peer_watch(struct peer *peer, bool watched);
/* Sends what is queued, then closes. */
void peer_close(struct peer *peer);
/* Closes at the end of the turn, whatever is queued. */
void peer_kill(struct peer *peer);
/* Asks the protocol to finish within grace_ms. */
void peer_drain(struct peer *peer, int64_t grace_ms);
/* Asks it to finish, however long that takes, unless it is still needed. */
void peer_quiesce(struct peer *peer);

/* For net.c: once a turn, and now and then. */
void peer_flush(struct peer *peer);
void peer_tick(struct peer *peer, int64_t now_us);
void peer_free(struct peer *peer);

#endif

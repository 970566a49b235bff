/*
 * channel_internal: what channel.c (which connection, and when), session.c (one connection: socket, TLS), http2.c (what
 * is said on it) and call.c (one call) share.
 *
 * Who holds what: the channel has at most one session that takes calls (`current`, or `next` while it is being made), and
 * a few that finish what they have (`leaving`). A session has its calls. A dead session is freed in the channel's turn.
 */
#ifndef REMOTE_CHANNEL_INTERNAL_H
#define REMOTE_CHANNEL_INTERNAL_H

#include <nghttp2/nghttp2.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/list.h"
#include "remote/channel.h"
#include "wire/frame.h"
#include "wire/io.h"
#include "wire/queue.h"

#define CHANNEL_LEAVING_MAX 4

enum session_state {
    SESSION_RESOLVING,
    SESSION_CONNECTING,
    SESSION_GREETING, /* TLS, and until the server's SETTINGS are here */
    SESSION_OPEN,     /* takes calls */
    SESSION_LEAVING,  /* the server said goodbye; what is under way may finish */
    SESSION_DEAD,
};

struct resolving;

struct session {
    struct list link; /* channel->leaving, or its own */
    struct channel *channel;
    enum session_state state;
    struct resolving *resolving; /* a lookup that is under way */
    struct addrinfo *addresses;  /* owned */
    const struct addrinfo *next; /* of them, to be tried */
    uv_poll_t *poll;             /* owned, closed with the socket */
    struct io io;                /* its fd: owned, -1 while there is none */
    int events;
    nghttp2_session *h2; /* owned; from the connection on */
    struct list calls;   /* owned */
    size_t n_calls;
    uint64_t made_ms;    /* loop's time when it was begun, then when it was open */
    uint64_t read_ms;    /* … when something came last */
    uint64_t asked_ms;   /* … of a PING without an answer; 0: none */
    bool heard;          /* anything at all came */
    bool more;           /* it had its share of this turn, and there is more to send */
    bool dirty;          /* something is to be sent */
    struct pawl_err err; /* why it is dead */
};

struct call {
    struct list link; /* session->calls */
    struct session *session;
    struct call_new options; /* request: not valid */
    int32_t id;
    struct queue out; /* the request */
    struct frame_reader reader;
    struct arena arena;   /* the message that is shown */
    uint64_t deadline_ms; /* UINT64_MAX: none */
    size_t n_messages;
    int http_status;
    int status; /* grpc-status; -1: not seen yet */
    bool not_grpc;
    enum call_done said_done; /* by the server */
    bool whole; /* the request was handed over to its end: a server runs nothing before that */
    bool gone;  /* nobody wants to hear of it any more */
    char message[RPC_MESSAGE_MAX + 1];
};

struct channel {
    struct channel_options options;
    struct session *current; /* open, or being made; NULL: none */
    struct list leaving;
    size_t n_leaving;
    struct list dead;
    uv_prepare_t turn;
    uv_timer_t retry;
    uv_timer_t tick; /* deadlines and keepalive */
    uint64_t tick_at;
    unsigned failures; /* in a row */
    struct io_buffers buffers;
    char authorization[512];
    unsigned
        inside; /* nghttp2, or an owner who hears of the end of his calls: nothing is sent or freed */
    bool closing;
    bool reported_down; /* the owner knows */
    size_t n_handles;   /* to be closed, those of sessions included */
    void (*closed)(void *data);
    void *closed_data;
};

/* channel.c */
void channel_session_open(struct channel *channel, struct session *session);
void channel_session_leaving(struct channel *channel, struct session *session);
void channel_session_dead(struct channel *channel, struct session *session);
void channel_tick_at(struct channel *channel, uint64_t at_ms);
void channel_handle_closed(struct channel *channel);

/* session.c */
struct session *session_new(struct channel *channel) MUST_CHECK;
void session_begin(struct session *session);
/* Marks it; calls end now. The first reason counts. */
void session_kill(struct session *session, const struct pawl_err *err);
void session_flush(struct session *session);
void session_free(struct session *session);
/* Keepalive and the time to connect. Gives the time of the next look. */
uint64_t session_tick(struct session *session, uint64_t now_ms);

/* http2.c */
int http2_new(struct session *session) MUST_CHECK;
int http2_input(struct session *session, const uint8_t *data, size_t len) MUST_CHECK;
int http2_output(struct session *session, struct buf *out) MUST_CHECK;
/* nghttp2 has given up the connection by itself: what came was not HTTP/2. */
bool http2_is_over(const struct session *session);
int http2_submit(struct session *session, struct call *call) MUST_CHECK;

/* call.c */
void call_header(
    struct call *call, const uint8_t *name, size_t name_len, const uint8_t *value, size_t len);
void call_data(struct call *call, const uint8_t *data, size_t len);
/* The stream is over. code: HTTP/2's reason. */
void call_closed(struct call *call, uint32_t code);
/* Ends it with our own words. */
void call_fail(struct call *call, enum rpc_status status, const char *message);
void call_free(struct call *call);

#endif

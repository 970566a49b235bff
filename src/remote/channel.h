/*
 * channel: a client's way to one server: an HTTP/2 connection that is made again when it is lost, and calls on it.
 *
 *     channel_new → channel_start ─► up ─► call_start … ended ─► down ─► (back-off) ─► up … channel_close → closed
 *
 * A call is started only while the channel is up, and ends with the connection it was started on: what shall survive that
 * is started again by its owner. A server that says goodbye (GOAWAY) keeps the calls it has, while new ones go out on a new
 * connection: `up` may come while such a call is still under way, and `down` when only the new connection failed. Everything on the loop's thread. Callbacks may start and cancel calls and close the channel; nothing is
 * sent or freed under their feet: that is the channel's turn, before the loop sleeps.
 */
#ifndef REMOTE_CHANNEL_H
#define REMOTE_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>
#include <uv.h>

#include "base/err.h"
#include "base/log.h"
#include "remote/address.h"
#include "wire/status.h"
#include "wire/tls.h"

struct channel;
struct call;

#define CHANNEL_MESSAGE_MAX ((size_t)20 * 1024 * 1024) /* of one message, either way */
#define CHANNEL_CALLS_MAX   2048                       /* at once on one connection */

/* All pointers are borrowed for the channel's life. */
struct channel_options {
    uv_loop_t *loop;
    struct log *log; /* NULL: silent */
    const struct address *server;
    const char *token;    /* sent with every call; NULL: none */
    struct tls *tls;      /* tls_client_new; NULL: plain */
    int64_t connect_ms;   /* for a connection to be usable; 0: 10 s */
    int64_t keepalive_ms; /* silence before the server is asked whether it is there; 0: 20 s */
    int64_t retry_ms;     /* first back-off, which doubles up to 5 s; 0: 100 ms */
    void (*up)(void *data);
    /* A connection was lost, or could not be made. It is tried again by itself. */
    void (*down)(void *data, const struct pawl_err *err);
    void *data;
};

struct channel *channel_new(const struct channel_options *options, struct pawl_err *err) MUST_CHECK;
void channel_start(struct channel *channel);
bool channel_is_up(const struct channel *channel);
/* As if the connection were lost: another is made. For a server that does not do what it should. */
void channel_reset(struct channel *channel);
/* Sends what is to be sent now, which is otherwise done before the loop sleeps. */
void channel_turn(struct channel *channel);
/* Calls are forgotten without a word. `closed` comes from the loop, when all is freed; may be NULL. */
void channel_close(struct channel *channel, void (*closed)(void *data), void *data);

/* --- calls --- */

/* What is known about the effects of a call that did not end with OK. */
enum call_done {
    CALL_UNSAID,    /* never in a call_end */
    CALL_UNTOUCHED, /* no server has looked at it: not done, and it may be made again */
    CALL_REFUSED,   /* not done, for the reason that the server gives */
    CALL_UNKNOWN,   /* a server had it, and nobody knows what became of it */
};

struct call_end {
    enum rpc_status status;
    const char
        *message; /* the server's words, or ours; "" for none. Lives for the call of `ended` */
    enum call_done done;
};

struct call_ops {
    /* One message. Lives until it returns. */
    void (*message)(void *data, const ProtobufCMessage *message);
    /* The call is over and freed when this returns. Exactly once, unless it was cancelled. */
    void (*ended)(void *data, const struct call_end *end);
};

struct call_new {
    const char *path; /* "/pawl.v1.WorkerService/Heartbeat"; borrowed */
    const ProtobufCMessage *request;
    const ProtobufCMessageDescriptor *response;
    bool streams;       /* any number of messages instead of one */
    int64_t timeout_ms; /* 0: none */
    const struct call_ops *ops;
    void *data;
};

/* PAWL_ECONN: the channel is not up. PAWL_EFULL: too many calls at once. PAWL_ELIMIT: the request is too large. PAWL_ENOMEM.
 * Then no callback comes. ret_call may be NULL. */
int call_start(struct channel *channel,
               const struct call_new *options,
               struct call **ret_call) MUST_CHECK;
/* The server is told, nothing is called back any more, and the pointer is invalid. */
void call_cancel(struct call *call);

/* Words for people: what could not be done, why, and what to do about it. Returns the code. */
int call_error(const struct call_end *end,
               const struct address *server,
               const char *what,
               struct pawl_err *err);

#endif

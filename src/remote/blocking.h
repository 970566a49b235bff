/*
 * blocking: one call to a server, made and waited for by a thread that has no loop: for commands.
 * Blocks.
 */
#ifndef REMOTE_BLOCKING_H
#define REMOTE_BLOCKING_H

#include "remote/channel.h"

#define BLOCKING_MS 30000

struct blocking_call {
    const struct address *server; /* borrowed, like all pointers */
    const char *token;            /* NULL: none */
    struct tls *tls;              /* NULL: plain */
    const char *what;             /* "enqueue": for "could not …" */
    const char *path;
    const ProtobufCMessage *request;
    const ProtobufCMessageDescriptor *response;
    int64_t timeout_ms; /* of all tries together; 0: BLOCKING_MS */
    bool
        repeatable; /* it has one effect however often it is made: a lost connection is no reason to give up */
    void (*answer)(void *data, const ProtobufCMessage *message);
    void *data;
};

/* PAWL_EUNKNOWN: the connection was lost, and it may or may not have happened. */
int call_blocking(const struct blocking_call *call, struct pawl_err *err) MUST_CHECK;

#endif

/*
 * callers: clients of a server that call the same method again and again, each on a connection of its own or several on one; on a
 * loop of the caller's thread.
 */
#ifndef BENCH_CALLERS_H
#define BENCH_CALLERS_H

#include <protobuf-c/protobuf-c.h>

#include "bench/bench.h"
#include "remote/channel.h"

struct callers_options {
    const struct address *server; /* borrowed, like all pointers */
    size_t connections;
    size_t at_once; /* calls on each */
    const char *path;
    const ProtobufCMessage *request;
    const ProtobufCMessageDescriptor *response;
    int64_t ms;
};

/* Calls a second that were answered with OK. Any other answer is an error. */
int callers_run(struct bench *b,
                const struct callers_options *options,
                double *ret_rate,
                struct pawl_err *err) MUST_CHECK;

#endif

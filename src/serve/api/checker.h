/*
 * checker: whether large payloads are JSON, on a thread of libuv's pool: 16 MiB take half a second, in which the loop would
 * stand still for all others. Works on copies, because a call's request goes when its client goes. Loop's thread, but for
 * the checking itself.
 */
#ifndef SERVE_API_CHECKER_H
#define SERVE_API_CHECKER_H

#include "proto/pawl/v1/pawl.pb-c.h"
#include "serve/rpc/rpc.h"

#define CHECKER_FROM_BYTES ((size_t)64 * 1024) /* less is checked at once: a millisecond or two */
#define CHECKER_BYTES_MAX  ((size_t)128 * 1024 * 1024) /* copies at a time; more calls are refused */

struct checker {
    uv_loop_t *loop;
    size_t n;     /* checks under way */
    size_t bytes; /* their copies */
    bool closing;
    void (*closed)(void *data);
    void *closed_data;
};

void checker_init(struct checker *checker, uv_loop_t *loop);
/* `closed` runs when none is under way any more. */
void checker_close(struct checker *checker, void (*closed)(void *data), void *data);

/* Its payloads together are so large that they belong here. */
bool checker_wants(const Pawl__V1__EnqueueRequest *request);

/* Takes the call: ends it with what is wrong, or goes on with `fine`. */
void checker_check(struct checker *checker,
                   struct rpc_call *call,
                   const Pawl__V1__EnqueueRequest *request,
                   rpc_handler *fine,
                   void *data);

#endif

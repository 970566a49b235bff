/*
 * checker: whether large payloads are JSON, on a thread of libuv's pool: 16 MiB take half a second,
 * during which the loop would serve nobody. The checker works on copies, because the request of a
 * call is freed when the client goes away. Loop's thread, except for the check itself.
 */
#ifndef SERVE_API_CHECKER_H
#define SERVE_API_CHECKER_H

#include "proto/pawl/v1/pawl.pb-c.h"
#include "serve/rpc/rpc.h"

/* smaller payloads are checked at once, in a millisecond or two */
#define CHECKER_FROM_BYTES ((size_t)64 * 1024)
#define CHECKER_BYTES_MAX  ((size_t)128 * 1024 * 1024) /* of all copies; more calls are refused */

struct checker {
    uv_loop_t *loop;
    size_t n;     /* checks under way */
    size_t bytes; /* of their copies */
    bool closing;
    void (*closed)(void *data);
    void *closed_data;
};

void checker_init(struct checker *checker, uv_loop_t *loop);
/* `closed` runs when no check is under way any more. */
void checker_close(struct checker *checker, void (*closed)(void *data), void *data);

/* The payloads together are large enough for a thread. */
bool checker_wants(const Pawl__V1__EnqueueRequest *request);

/* Takes the call: ends it with what is wrong, or calls `fine`. */
void checker_check(struct checker *checker,
                   struct rpc_call *call,
                   const Pawl__V1__EnqueueRequest *request,
                   rpc_handler *fine,
                   void *data);

#endif

/* echo: the test service on the seam of serve/rpc/rpc.h. One per process. */
#ifndef TESTS_SERVE_ECHO_H
#define TESTS_SERVE_ECHO_H

#include <stdint.h>

#include <uv.h>

#include "serve/rpc/reflection.h"
#include "serve/rpc/rpc.h"

struct echo_state {
    uv_loop_t *loop;
    int64_t held; /* calls that wait for their answer */
    int64_t gone; /* calls whose client went away first */
    int64_t refused_sends;
};

extern struct echo_state echo_state;
extern const struct rpc_service echo_service;
extern const struct reflection_file reflection_echo_files[];

#endif

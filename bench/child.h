/*
 * child: a process of our own that drains the queue (bench_worker), and what it has said so far.
 * Parent's side; its one thread.
 */
#ifndef BENCH_CHILD_H
#define BENCH_CHILD_H

#include <sys/types.h>

#include "bench/bench.h"

#define CHILD_LINE_MAX 128

/* A process writes lines: "ready" once, "settled LAST_US" with both numbers whenever they have
 * changed, and ends when its standard input does. */
struct child {
    pid_t pid; /* 0: none */
    int to;    /* closed: end */
    int from;
    char line[CHILD_LINE_MAX];
    size_t len;
    bool ready;
    bool over; /* said all it had to say */
    int64_t n_settled;
    int64_t last_us; /* when the last one was settled; the steady clock is the same for all */
};

/* Starts options.worker_argv. child_end is due for it. */
int child_spawn(struct bench *b, struct child *ret_child, struct pawl_err *err) MUST_CHECK;

/* It is to end. */
void child_tell(struct child *child);

/* Takes in what it has written; waits if that is nothing. Its end is an error unless it was told. */
int child_read(struct child *child, struct pawl_err *err) MUST_CHECK;

/* Nothing of it is left behind. Whether it had ended by itself, and well. One that was never started
 * (pid 0, to and from -1) did not. */
bool child_end(struct child *child);

#endif

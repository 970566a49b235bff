/*
 * spawn: starting `/bin/sh -c COMMAND` with four pipes, something to read and a pidfd, and looking
 * after its process group.
 *
 * posix_spawn, because it does not copy the page tables of a large process as fork does. The
 * parent's ends are non-blocking, everything is close-on-exec, and the command gets no descriptor
 * but its own five.
 */
#ifndef HANDS_SPAWN_H
#define HANDS_SPAWN_H

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "hands/ending.h"

/* Numbers that a command knows beside the standard three. */
#define SPAWN_SAYS_FD 3 /* it writes there how its job goes on */
#define SPAWN_TOLD_FD 4 /* it reads there where its job is */

/* What to start. Borrowed for the call. */
struct spawn_order {
    const char *command;
    char *const *env;
    const char *input; /* for stdin */
    size_t input_len;
    const char *told; /* for SPAWN_TOLD_FD: whole, whether it is read or not */
    size_t told_len;
};

struct spawned {
    pid_t pid; /* and the id of its process group */
    int pidfd; /* readable when the command has ended; -1 where the system has none, or a sandbox
                  forbids it */
    int out;   /* its stdout and stderr */
    int err;
    int says; /* what it writes to SPAWN_SAYS_FD */
    /*
     * Its stdin. What fits into a pipe is written before the command starts, mostly all of it; then
     * both are -1. Otherwise `in` takes the rest, and `in_reader`, the end that the command reads,
     * is kept open here for as long: while a reader exists a write can neither fail with EPIPE nor
     * raise SIGPIPE, whatever the command does.
     */
    int in;
    int in_reader;
    size_t written; /* of the input */
};

/*
 * On failure nothing runs and nothing is left open: PAWL_EFULL when this machine has no descriptors
 * or processes left, PAWL_ENOMEM, otherwise as err_set_errno says.
 */
int spawn(const struct spawn_order *order,
          struct spawned *ret_spawned,
          struct pawl_err *err) MUST_CHECK;

/*
 * How it ended, without reaping it: until spawn_reap its process id, and so the id of its group,
 * cannot be given to anybody else, and signals to the group cannot reach strangers.
 */
struct ending spawn_peek(const struct spawned *spawned);

/* To the whole group. A group without a living process is no error. 0 or a negative errno. */
int spawn_signal(const struct spawned *spawned, int signo);

/* Kills what is left of the group, and reaps. Waits only for a command that has not ended: for one
 * just killed. */
void spawn_reap(const struct spawned *spawned);

/* Closes a descriptor and forgets it; -1 is fine. */
void spawn_close_fd(int *fd);

#endif

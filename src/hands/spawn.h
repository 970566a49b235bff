/*
 * spawn: starts `/bin/sh -c COMMAND` with four pipes, a file to read and a pidfd, and signals its
 * process group.
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

/* Descriptors of a command beside the standard three. */
#define SPAWN_SAYS_FD 3 /* the command writes how its job goes on */
#define SPAWN_TOLD_FD 4 /* the command reads where its job is */

/* What to start. Borrowed for the call. */
struct spawn_order {
    const char *command;
    char *const *env;
    const char *input; /* for stdin */
    size_t input_len;
    const char *told; /* for SPAWN_TOLD_FD */
    size_t told_len;
};

struct spawned {
    pid_t pid; /* also the id of the process group */
    int pidfd; /* readable when the command has ended; -1: none (old kernel, sandbox) */
    int out;   /* stdout and stderr of the command */
    int err;
    int says; /* what the command writes to SPAWN_SAYS_FD */
    /*
     * stdin of the command. Input that fits into a pipe is written before the command starts,
     * mostly all of it; then both are -1. Otherwise `in` takes the rest, and `in_reader`, the end
     * that the command reads, stays open here for as long: while a reader exists a write can
     * neither fail with EPIPE nor raise SIGPIPE, whatever the command does.
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
 * How the command ended, without reaping it: until spawn_reap nobody else can get its process id,
 * and so the id of its group, and signals to the group cannot reach strangers.
 */
struct ending spawn_peek(const struct spawned *spawned);

/* Signals the whole group. A group without a living process is no error. 0 or a negative errno. */
int spawn_signal(const struct spawned *spawned, int signo);

/* Kills what is left of the group, and reaps the command. Waits only for a command that was just
 * killed. */
void spawn_reap(const struct spawned *spawned);

/* Closes a descriptor and sets it to -1; -1 is accepted. */
void spawn_close_fd(int *fd);

#endif

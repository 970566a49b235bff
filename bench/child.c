/* child: starting a process, listening to it, ending it. */
#include "bench/child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <spawn.h>

#define ARGS_MAX 16

extern char **environ;

int child_spawn(struct bench *b, struct child *ret_child, struct pawl_err *err)
{
    char *argv[ARGS_MAX + 1] = {NULL};
    posix_spawn_file_actions_t actions;
    int in[2];
    int out[2];

    for (size_t i = 0; i < ARGS_MAX && b->options.worker_argv[i] != NULL; i++) {
        const char *arg = b->options.worker_argv[i];

        argv[i] = arena_strdup(b->options.arena, strcmp(arg, BENCH_WORKER_DB) == 0 ? b->db : arg);
        if (argv[i] == NULL)
            return err_set(err, PAWL_ENOMEM, "out of memory");
    }
    if (pipe2(in, O_CLOEXEC) < 0)
        return err_set_errno(err, errno, "could not make a pipe");
    if (pipe2(out, O_CLOEXEC) < 0) {
        close(in[0]);
        close(in[1]);
        return err_set_errno(err, errno, "could not make a pipe");
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    struct child child = {.to = in[1], .from = out[0]};
    int errnum = posix_spawn(&child.pid, argv[0], &actions, NULL, argv, environ);

    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    if (errnum == 0) {
        *ret_child = child;
        return 0;
    }
    close(child.to);
    close(child.from);
    return err_set_errno(err, errnum, "could not start %s", argv[0]);
}

void child_tell(struct child *child)
{
    if (child->to >= 0)
        close(child->to);
    child->to = -1;
}

bool child_end(struct child *child)
{
    int status = -1;

    child_tell(child);
    if (child->from >= 0)
        close(child->from);
    child->from = -1;
    if (child->pid > 0) {
        if (!child->over)
            kill(child->pid, SIGKILL);
        while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
            ;
    }
    child->pid = 0;
    return status == 0;
}

static void child_heard(struct child *child, const char *line)
{
    char *rest;

    if (strcmp(line, "ready") == 0) {
        child->ready = true;
        return;
    }
    child->n_settled = strtoll(line, &rest, 10);
    child->last_us = strtoll(rest, NULL, 10);
}

int child_read(struct child *child, struct pawl_err *err)
{
    ssize_t n = read(child->from, child->line + child->len, sizeof(child->line) - child->len);
    char *end;

    if (n < 0 && errno == EINTR)
        return 0;
    if (n <= 0) {
        child->over = true;
        return child->to < 0 ? 0 : err_set(err, PAWL_EFAILED, "a process ended before its time");
    }
    child->len += (size_t)n;
    while ((end = memchr(child->line, '\n', child->len)) != NULL) {
        *end++ = '\0';
        child_heard(child, child->line);
        child->len -= (size_t)(end - child->line);
        memmove(child->line, end, child->len);
    }
    return 0;
}

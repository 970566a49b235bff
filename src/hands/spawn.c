/* spawn: posix_spawn, pipes and pidfd. This file knows neither jobs nor the loop. */
#include "hands/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <spawn.h>

#include "base/defer.h"

/* The pipes, [0] the end that is read, and the file for SPAWN_TOLD_FD. -1: closed. */
struct pipes {
    int in[2];
    int out[2];
    int err[2];
    int says[2];
    int told;
};

void spawn_close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void pipes_close(struct pipes *pipes)
{
    spawn_close_fd(&pipes->in[0]);
    spawn_close_fd(&pipes->in[1]);
    spawn_close_fd(&pipes->out[0]);
    spawn_close_fd(&pipes->out[1]);
    spawn_close_fd(&pipes->err[0]);
    spawn_close_fd(&pipes->err[1]);
    spawn_close_fd(&pipes->says[0]);
    spawn_close_fd(&pipes->says[1]);
    spawn_close_fd(&pipes->told);
}

/* Moves a descriptor above the five of the command. A host that closed its standard three would
 * give their numbers to our pipes, and what some library prints must not end up in a job's
 * stdin. And in the child, dup2 to a number that another descriptor still has would overwrite
 * that one. */
static int fd_above_own(int *fd)
{
    if (*fd > SPAWN_TOLD_FD)
        return 0;
    int moved = fcntl(*fd, F_DUPFD_CLOEXEC, SPAWN_TOLD_FD + 1);
    if (moved < 0)
        return -errno;
    close(*fd);
    *fd = moved;
    return 0;
}

/* ours: the end that stays here and is made non-blocking. The flag belongs to the end; the
 * command's end keeps blocking. */
static int pipe_open(int ret_pipe[2], int ours)
{
    if (pipe2(ret_pipe, O_CLOEXEC) < 0)
        return -errno;
    for (int i = 0; i < 2; i++) {
        int rc = fd_above_own(&ret_pipe[i]);
        if (rc < 0)
            return rc;
    }
    if (fcntl(ret_pipe[ours], F_SETFL, O_NONBLOCK) < 0)
        return -errno;
    return 0;
}

static int pipes_open(struct pipes *pipes)
{
    int rc = pipe_open(pipes->in, 1);
    if (rc == 0)
        rc = pipe_open(pipes->out, 0);
    if (rc == 0)
        rc = pipe_open(pipes->err, 0);
    if (rc == 0)
        rc = pipe_open(pipes->says, 0);
    return rc;
}

/* A file without a name, read from its beginning: it takes any size at once, and nothing waits
 * for a command that does not read it. */
static int told_open(const char *text, size_t len, int *ret_fd)
{
    int fd = memfd_create("told", MFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    for (size_t written = 0; written < len;) {
        ssize_t n = pwrite(fd, text + written, len - written, (off_t)written);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        written += (size_t)n;
    }
    return fd_above_own(ret_fd);
}

/* Writes as much as the empty pipe takes. This process has the reader open, so there is no
 * SIGPIPE. */
static int input_begin(int fd, const char *input, size_t len, size_t *ret_written)
{
    size_t written = 0;
    while (written < len) {
        ssize_t n = write(fd, input + written, len - written);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0)
            return -errno;
        written += (size_t)n;
    }
    *ret_written = written;
    return 0;
}

/* Returns a positive errno, as the posix_spawn family does. */
static int actions_fill(posix_spawn_file_actions_t *actions, const struct pipes *pipes)
{
    int rc = posix_spawn_file_actions_adddup2(actions, pipes->in[0], STDIN_FILENO);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(actions, pipes->out[1], STDOUT_FILENO);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(actions, pipes->err[1], STDERR_FILENO);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(actions, pipes->says[1], SPAWN_SAYS_FD);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(actions, pipes->told, SPAWN_TOLD_FD);
    /* Our descriptors are close-on-exec; those of the host may not be. */
    if (rc == 0)
        rc = posix_spawn_file_actions_addclosefrom_np(actions, SPAWN_TOLD_FD + 1);
    return rc;
}

static int attributes_fill(posix_spawnattr_t *attributes)
{
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    sigdelset(&all, SIGKILL);
    sigdelset(&all, SIGSTOP);
    int rc = posix_spawnattr_setflags(
        attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (rc == 0)
        rc = posix_spawnattr_setpgroup(attributes, 0);
    if (rc == 0)
        rc = posix_spawnattr_setsigmask(attributes, &none);
    if (rc == 0)
        rc = posix_spawnattr_setsigdefault(attributes, &all);
    return rc;
}

static int
shell_start(const char *command, char *const *env, const struct pipes *pipes, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    int rc = posix_spawn_file_actions_init(&actions);
    if (rc != 0)
        return -rc;
    posix_spawnattr_t attributes;
    rc = posix_spawnattr_init(&attributes);
    if (rc != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return -rc;
    }

    /* execve takes char *const[] for historical reasons and changes nothing. */
    union {
        const char *in;
        char *out;
    } unconst = {.in = command};

    char name[] = "sh";
    char flag[] = "-c";
    char *const argv[] = {name, flag, unconst.out, NULL};

    rc = actions_fill(&actions, pipes);
    if (rc == 0)
        rc = attributes_fill(&attributes);
    if (rc == 0)
        rc = posix_spawn(ret_pid, "/bin/sh", &actions, &attributes, argv, env);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return -rc;
}

static int spawn_failed(struct pawl_err *err, int errnum)
{
    if (errnum == EAGAIN) {
        err_set(err, PAWL_EFULL, "could not start a process");
        return err_detail(err, "The limit on the number of processes is reached.");
    }
    int rc = err_set_errno(err, errnum, "could not start a process");
    if (errnum == E2BIG)
        err_hint(err, "The environment and the command are too large together for this system.");
    return rc;
}

static int pidfd_get(struct spawned *spawned, struct pawl_err *err)
{
    spawned->pidfd = pidfd_open(spawned->pid, 0);
    if (spawned->pidfd >= 0 || errno == ENOSYS || errno == EPERM)
        return 0;
    if (errno == ESRCH) {
        err_set(
            err, PAWL_EFAILED, "could not watch a process: another part of this program reaped it");
        return err_hint(err, "SIGCHLD must not be ignored, nor any process be waited for.");
    }
    int errnum = errno;
    spawn_reap(spawned);
    return spawn_failed(err, errnum);
}

int spawn(const struct spawn_order *order, struct spawned *ret_spawned, struct pawl_err *err)
{
    CLEANUP(pipes_close)
    struct pipes pipes = {
        .in = {-1, -1}, .out = {-1, -1}, .err = {-1, -1}, .says = {-1, -1}, .told = -1};
    struct spawned spawned = {
        .pidfd = -1, .out = -1, .err = -1, .says = -1, .in = -1, .in_reader = -1};

    int rc = pipes_open(&pipes);
    if (rc == 0)
        rc = told_open(order->told, order->told_len, &pipes.told);
    if (rc == 0)
        rc = input_begin(pipes.in[1], order->input, order->input_len, &spawned.written);
    if (rc < 0)
        return spawn_failed(err, -rc);
    if (spawned.written == order->input_len)
        spawn_close_fd(&pipes.in[1]);

    /* Reserves the descriptor of the pidfd before the command starts: a full table must be
     * noticed before anything has happened. */
    int reserved = fcntl(pipes.out[0], F_DUPFD_CLOEXEC, SPAWN_TOLD_FD + 1);
    if (reserved < 0)
        return spawn_failed(err, errno);
    rc = shell_start(order->command, order->env, &pipes, &spawned.pid);
    close(reserved);
    if (rc < 0)
        return spawn_failed(err, -rc);

    rc = pidfd_get(&spawned, err);
    if (rc < 0)
        return rc;
    spawned.out = pipes.out[0];
    spawned.err = pipes.err[0];
    spawned.says = pipes.says[0];
    pipes.out[0] = pipes.err[0] = pipes.says[0] = -1;
    if (spawned.written < order->input_len) {
        spawned.in = pipes.in[1];
        spawned.in_reader = pipes.in[0];
        pipes.in[0] = pipes.in[1] = -1;
    }
    *ret_spawned = spawned;
    return 0;
}

struct ending spawn_peek(const struct spawned *spawned)
{
    bool has_pidfd = spawned->pidfd >= 0;
    idtype_t type = has_pidfd ? P_PIDFD : P_PID;
    id_t id = (id_t)(has_pidfd ? spawned->pidfd : spawned->pid);
    siginfo_t info;
    memset(&info, 0, sizeof(info));
    int rc;
    do
        rc = waitid(type, id, &info, WEXITED | WNOHANG | WNOWAIT);
    while (rc < 0 && errno == EINTR);

    if (rc < 0 && errno == EAGAIN)
        return (struct ending){.kind = ENDING_NONE};
    if (rc < 0)
        return (struct ending){.kind = ENDING_UNKNOWN};
    if (info.si_pid == 0)
        return (struct ending){.kind = ENDING_NONE};
    if (info.si_code == CLD_EXITED)
        return (struct ending){.kind = ENDING_EXITED, .status = info.si_status};
    return (struct ending){.kind = ENDING_SIGNALLED,
                           .status = info.si_status,
                           .core_dumped = info.si_code == CLD_DUMPED};
}

int spawn_signal(const struct spawned *spawned, int signo)
{
    if (kill(-spawned->pid, signo) == 0 || errno == ESRCH)
        return 0;
    return -errno;
}

void spawn_reap(const struct spawned *spawned)
{
    spawn_signal(spawned, SIGKILL);
    while (waitpid(spawned->pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

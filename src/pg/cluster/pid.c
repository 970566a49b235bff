/*
 * cluster_pid: does the server run? postmaster.pid says so, and may be wrong: after a power loss
 * its pid may belong to anybody. A pid counts only when it is a postgres whose working directory is
 * our data directory.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "pg/cluster/internal.h"

#define PID_FILE_MAX    8192 /* eight lines, two of them paths */
#define PID_LINE_STATUS 8
#define READY_POLL_MS   20
#define PROC_PATH_MAX   64

/* Line n (from 1) of a lock file, without its end; NULL when there are fewer. Cuts the text in
 * place. */
static char *line_of(char *text, int n)
{
    char *line = text;
    while (--n > 0) {
        line = strchr(line, '\n');
        if (!line)
            return NULL;
        line++;
    }
    line[strcspn(line, "\n")] = '\0';
    return line;
}

static pid_t parse_pid(const char *line)
{
    char *end = NULL;
    errno = 0;
    long value = strtol(line, &end, 10);
    /* A server in single-user mode writes its pid negative; somebody is at work there all the same.
     */
    if (errno != 0 || end == line || value == 0 || value == -1 || value > INT32_MAX ||
        value < -INT32_MAX)
        return 0;
    return (pid_t)(value < 0 ? -value : value);
}

/* Called with the server user's rights: the kernel shows a process's directory only to those. */
static bool pid_is_server(const struct cluster *cluster, pid_t pid)
{
    char path[PROC_PATH_MAX];
    struct stat data;
    struct stat cwd;
    if (stat("/proc/self", &cwd) < 0)
        return kill(pid, 0) == 0 ||
               errno == EPERM; /* no /proc: believe the file, as PostgreSQL does */
    snprintf(path, sizeof path, "/proc/%d/cwd", (int)pid);
    if (stat(cluster->data, &data) < 0 || stat(path, &cwd) < 0)
        return false;
    if (data.st_dev != cwd.st_dev || data.st_ino != cwd.st_ino)
        return false;
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    char comm[32] = "";
    bool is_postgres =
        fgets(comm, sizeof comm, file) && strncmp(comm, "postgres", strlen("postgres")) == 0;
    fclose(file);
    return is_postgres;
}

int server_status(const struct cluster *cluster,
                  struct server_status *ret_status,
                  struct pawl_err *err)
{
    AUTO_FS struct fs_rights rights;
    int rc = fs_enter(&rights, cluster, err);
    if (rc < 0)
        return rc;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/postmaster.pid", cluster->data);
    CLEANUP(buf_deinit)
    struct buf text;
    buf_init(&text, PID_FILE_MAX);
    rc = file_read(path, PID_FILE_MAX, false, &text);
    /* EACCES for root: a directory of root's that is not a home yet. */
    if (rc == -ENOENT || rc == -ENOTDIR || (rc == -EACCES && geteuid() == 0)) {
        *ret_status = (struct server_status){0};
        return 0;
    }
    if (rc < 0)
        return err_set_errno(err, -rc, "could not read %s", path);

    struct server_status status = {.phase = SERVER_STARTING};
    if (text.len > 0) {
        const char *line = line_of(text.data, PID_LINE_STATUS);
        if (line && strncmp(line, "ready", 5) == 0)
            status.phase = SERVER_READY;
        else if (line && strncmp(line, "stopping", 8) == 0)
            status.phase = SERVER_STOPPING;
        pid_t pid = parse_pid(line_of(text.data, 1));
        if (pid > 0 && pid_is_server(cluster, pid))
            status.pid = pid;
    }
    *ret_status = status;
    return 0;
}

/* A dead pid is left to PostgreSQL, which then also looks for leftover processes by the file's
 * other lines. A living one that is not our server would make it refuse to start. */
static int lock_file_clear(const struct cluster *cluster, const char *path, struct pawl_err *err)
{
    CLEANUP(buf_deinit)
    struct buf text;
    buf_init(&text, PID_FILE_MAX);
    int rc = file_read(path, PID_FILE_MAX, false, &text);
    if (rc == -ENOENT)
        return 0;
    if (rc < 0)
        return err_set_errno(err, -rc, "could not read %s", path);
    pid_t pid = text.len > 0 ? parse_pid(line_of(text.data, 1)) : 0;
    if (pid > 0 && ((kill(pid, 0) < 0 && errno == ESRCH) || pid_is_server(cluster, pid)))
        return 0;
    /* Also an empty file, which a full disk or a power loss leaves and which PostgreSQL does not
     * get over. */
    return tree_remove(path, err);
}

int server_clear_stale(const struct cluster *cluster, struct pawl_err *err)
{
    AUTO_FS struct fs_rights rights;
    int rc = fs_enter(&rights, cluster, err);
    if (rc < 0)
        return rc;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/postmaster.pid", cluster->data);
    rc = lock_file_clear(cluster, path, err);
    if (rc < 0)
        return rc;
    snprintf(path, sizeof path, "%s/.s.PGSQL." CLUSTER_PORT ".lock", cluster->run);
    return lock_file_clear(cluster, path, err);
}

int server_wait_ready(const struct cluster *cluster,
                      pid_t pid,
                      bool *ret_ready,
                      struct pawl_err *err)
{
    AUTO_FD int pidfd = pidfd_open(pid, 0);
    if (pidfd < 0 && errno != ESRCH)
        return err_set_errno(err, errno, "could not watch the server (pid %d)", (int)pid);
    int64_t deadline_us = clock_mono_us(&clock_system) + (int64_t)CLUSTER_START_MS * US_PER_MS;
    bool gone = pidfd < 0;
    while (!gone) {
        struct server_status status;
        int rc = server_status(cluster, &status, err);
        if (rc < 0)
            return rc;
        if (status.pid == pid && status.phase == SERVER_READY) {
            *ret_ready = true;
            return 0;
        }
        if (clock_mono_us(&clock_system) > deadline_us) {
            err_set(err,
                    PAWL_ETIMEOUT,
                    "PostgreSQL (pid %d) is not ready after %d s",
                    (int)pid,
                    CLUSTER_START_MS / MS_PER_S);
            err_detail(err,
                       "It may be recovering from a crash, or stopping. It was left to go on.");
            return err_hint(err, "Try again later, and look into %s.", cluster->log);
        }
        rc = wait_readable(pidfd, READY_POLL_MS);
        if (rc < 0)
            return err_set_errno(err, -rc, "could not wait for the server (pid %d)", (int)pid);
        gone = rc > 0;
    }
    *ret_ready = false;
    return 0;
}

int server_shut_down(const struct cluster *cluster, pid_t pid, struct pawl_err *err)
{
    AUTO_FD int pidfd = pidfd_open(pid, 0);
    if (pidfd < 0)
        return errno == ESRCH
                   ? 0
                   : err_set_errno(err, errno, "could not watch the server (pid %d)", (int)pid);
    /* Now that the descriptor holds on to the process, make sure once more that it is the right
     * one. */
    struct server_status status;
    int rc = server_status(cluster, &status, err);
    if (rc < 0)
        return rc;
    if (status.pid != pid)
        return 0;
    if (pidfd_send_signal(pidfd, SIGINT, NULL, 0) < 0)
        return errno == ESRCH
                   ? 0
                   : err_set_errno(err, errno, "could not stop the server (pid %d)", (int)pid);
    rc = wait_readable(pidfd, CLUSTER_STOP_MS);
    if (rc < 0)
        return err_set_errno(err, -rc, "could not wait for the server (pid %d)", (int)pid);
    if (rc == 0) {
        err_set(err,
                PAWL_ETIMEOUT,
                "PostgreSQL (pid %d) did not stop within %d s",
                (int)pid,
                CLUSTER_STOP_MS / MS_PER_S);
        err_detail(err, "It was asked to and goes on stopping; it was not killed.");
        return err_hint(err, "See what it is doing in %s, then try again.", cluster->log);
    }
    return 0;
}

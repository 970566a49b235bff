/*
 * cluster: the private PostgreSQL as a whole: start, stop, destroy. Every change happens under the
 * home's lock; the usual case, a server that is ready, is seen without it.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "pg/cluster/internal.h"

#define HOME_TRIES         5     /* to make a home that another process destroys at the same time */
#define ORPHANS_MS         10000 /* for processes that outlived a killed server to notice */
#define ORPHANS_POLL_MS    100
#define LOG_TAIL_MAX       8192
#define DATABASE_MARK      "pawl.database" /* in the data directory, once the database has been made */
#define PROGRAM_OUTPUT_MAX 16384

const char *cluster_state_name(enum cluster_state state)
{
    switch (state) {
    case CLUSTER_ABSENT:
        return "absent";
    case CLUSTER_STOPPED:
        return "stopped";
    case CLUSTER_RUNNING:
        return "running";
    }
    return "unknown";
}

int cluster_code_from_output(const char *text)
{
    if (strstr(text, "No space left on device") || strstr(text, "Disk quota exceeded") ||
        strstr(text, "Cannot allocate memory"))
        return PAWL_EFULL;
    if (strstr(text, "Permission denied") || strstr(text, "Operation not permitted"))
        return PAWL_EDENIED;
    return PAWL_EFAILED;
}

const char *cluster_last_lines(const char *text, size_t len, size_t max)
{
    if (len <= max)
        return text;
    const char *start = text + (len - max);
    const char *line = strchr(start, '\n');
    return line && line[1] ? line + 1 : start;
}

int cluster_state(const struct cluster *cluster,
                  enum cluster_state *ret_state,
                  pid_t *ret_pid,
                  struct pawl_err *err)
{
    int major = 0;
    int rc = data_major(cluster, &major, err);
    if (rc < 0)
        return rc;
    struct server_status status = {0};
    if (major > 0) {
        rc = server_status(cluster, &status, err);
        if (rc < 0)
            return rc;
    }
    *ret_state = major == 0 ? CLUSTER_ABSENT : status.pid > 0 ? CLUSTER_RUNNING : CLUSTER_STOPPED;
    if (ret_pid)
        *ret_pid = status.pid;
    return 0;
}

const char *cluster_conninfo(const struct cluster *cluster, struct arena *arena)
{
    CLEANUP(buf_deinit)
    struct buf text;
    buf_init(&text, 4 * PATH_MAX);
    buf_puts(&text, "host='");
    for (const char *c = cluster->run; *c; c++) {
        if (*c == '\'' || *c == '\\')
            buf_putc(&text, '\\');
        buf_putc(&text, *c);
    }
    buf_puts(&text, "' port=" CLUSTER_PORT " dbname=" CLUSTER_DATABASE " user=" CLUSTER_USER);
    return text.failed ? NULL : arena_strdup(arena, buf_str(&text));
}

/* What the server said last: its own log when it got as far as opening one, else what it printed.
 */
static void log_tail(const struct cluster *cluster, struct buf *text)
{
    AUTO_FS struct fs_rights rights;
    buf_clear(text);
    if (fs_enter(&rights, cluster, NULL) < 0)
        return;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/current_logfiles", cluster->data);
    if (file_read(path, LOG_TAIL_MAX, false, text) == 0 &&
        strncmp(buf_str(text), "stderr ", 7) == 0) {
        /* "stderr ../log/server.Mon.log", relative to the data directory */
        text->data[strcspn(text->data, "\n")] = '\0';
        const char *name = strrchr(text->data, '/');
        snprintf(path, sizeof path, "%s%s", cluster->log, name ? name : "/");
        if (name && file_read(path, LOG_TAIL_MAX, true, text) == 0 && text->len > 0)
            return;
    }
    snprintf(path, sizeof path, "%s/start.log", cluster->log);
    if (file_read(path, LOG_TAIL_MAX, true, text) < 0)
        buf_clear(text);
}

static int start_failed(const struct cluster *cluster, struct pawl_err *err)
{
    CLEANUP(buf_deinit)
    struct buf text;
    buf_init(&text, LOG_TAIL_MAX + 1);
    log_tail(cluster, &text);
    err_set(err,
            cluster_code_from_output(buf_str(&text)),
            "PostgreSQL did not start in %s",
            cluster->home);
    err_detail(err, "%s", cluster_last_lines(buf_str(&text), text.len, CLUSTER_TAIL_MAX));
    if (err && err->code == PAWL_EFULL)
        return err_hint(err, "Make room on the disk and try again; nothing is lost.");
    return err_hint(err, "All of the log is in %s.", cluster->log);
}

/* The socket must be where we say, in a directory that only the server's user can have made. */
static int run_check(const struct cluster *cluster, struct pawl_err *err)
{
    AUTO_FS struct fs_rights rights;
    int rc = fs_enter(&rights, cluster, err);
    if (rc == 0)
        rc = dir_own(cluster, cluster->run, err);
    if (rc < 0)
        return rc;
    char path[PATH_MAX];
    struct stat st;
    snprintf(path, sizeof path, "%s/.s.PGSQL." CLUSTER_PORT, cluster->run);
    if (lstat(path, &st) == 0)
        return 0;
    err_set(err, PAWL_ESTATE, "PostgreSQL runs, but its socket %s is gone", path);
    err_detail(err, "Something removed it, perhaps a cleaner of temporary files.");
    return err_hint(err, "Start it again: pawl db stop, then pawl db start.");
}

static bool database_marked(const struct cluster *cluster)
{
    AUTO_FS struct fs_rights rights;
    if (fs_enter(&rights, cluster, NULL) < 0)
        return false;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/" DATABASE_MARK, cluster->data);
    struct stat st;
    return lstat(path, &st) == 0;
}

/* Once per cluster, also when the first one to try was interrupted. */
static int database_make(struct cluster *cluster, struct arena *arena, struct pawl_err *err)
{
    if (database_marked(cluster))
        return 0;
    int rc = cluster->bindir ? 0 : cluster_find(cluster, arena, err);
    if (rc < 0)
        return rc;
    const char *program = arena_printf(arena, "%s/createdb", cluster->bindir);
    const char *mark = arena_printf(arena, "%s/" DATABASE_MARK, cluster->data);
    if (!program || !mark)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    const char *const argv[] = {
        program,
        "--host",
        cluster->run,
        "--port",
        CLUSTER_PORT,
        "--username",
        CLUSTER_USER,
        "--no-password",
        "--maintenance-db",
        "postgres",
        CLUSTER_DATABASE,
        NULL,
    };
    CLEANUP(buf_deinit)
    struct buf output;
    buf_init(&output, PROGRAM_OUTPUT_MAX);
    int status = 0;
    rc = process_run(cluster, argv, &output, &status, err);
    if (rc < 0)
        return rc;
    if (status != 0 && !strstr(buf_str(&output), "already exists")) {
        err_set(err,
                cluster_code_from_output(buf_str(&output)),
                "could not make the database " CLUSTER_DATABASE);
        return err_detail(
            err, "%s", cluster_last_lines(buf_str(&output), output.len, CLUSTER_TAIL_MAX));
    }
    AUTO_FS struct fs_rights rights;
    rc = fs_enter(&rights, cluster, err);
    return rc < 0 ? rc : file_write(mark, "The database was made.\n", false, err);
}

static int server_prepare(const struct cluster *cluster, struct pawl_err *err)
{
    AUTO_FS struct fs_rights rights;
    int rc = fs_enter(&rights, cluster, err);
    if (rc == 0)
        rc = dir_own(cluster, cluster->run, err);
    if (rc == 0)
        rc = dir_own(cluster, cluster->log, err);
    if (rc < 0)
        return rc;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/current_logfiles", cluster->data);
    rc = tree_remove(path, err); /* so that it tells of the coming start, not of an earlier one */
    fs_leave(&rights);
    return rc < 0 ? rc : server_clear_stale(cluster, err);
}

/* Processes of a server that was killed end by themselves when they notice; until then a new one
 * refuses. */
static bool orphans_left(const struct cluster *cluster)
{
    CLEANUP(buf_deinit)
    struct buf text;
    buf_init(&text, LOG_TAIL_MAX + 1);
    log_tail(cluster, &text);
    return strstr(cluster_last_lines(buf_str(&text), text.len, CLUSTER_TAIL_MAX),
                  "pre-existing shared memory block");
}

static int server_launch(const struct cluster *cluster, struct arena *arena, struct pawl_err *err)
{
    const char *program = arena_printf(arena, "%s/postgres", cluster->bindir);
    const char *log_path = arena_printf(arena, "%s/start.log", cluster->log);
    /* A list of directories, of which each may be quoted; a quote in it is doubled. */
    CLEANUP(buf_deinit)
    struct buf run;
    buf_init(&run, 2 * PATH_MAX);
    buf_puts(&run, "unix_socket_directories=\"");
    for (const char *c = cluster->run; *c; c++) {
        if (*c == '"')
            buf_putc(&run, '"');
        buf_putc(&run, *c);
    }
    buf_putc(&run, '"');
    if (!program || !log_path || run.failed)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    /* On the command line, so that no file can make it listen to the network or hide it from us. */
    const char *const argv[] = {
        program,
        "-D",
        cluster->data,
        "-c",
        "listen_addresses=",
        "-c",
        "port=" CLUSTER_PORT,
        "-c",
        buf_str(&run),
        NULL,
    };
    int64_t deadline_us = clock_mono_us(&clock_system) + (int64_t)ORPHANS_MS * US_PER_MS;
    for (;;) {
        int rc = server_prepare(cluster, err);
        if (rc < 0)
            return rc;
        pid_t pid = 0;
        rc = process_detach(cluster, argv, log_path, &pid, err);
        if (rc < 0)
            return rc;
        bool ready = false;
        rc = server_wait_ready(cluster, pid, &ready, err);
        if (rc < 0 || ready)
            return rc;
        if (clock_mono_us(&clock_system) > deadline_us || !orphans_left(cluster))
            return start_failed(cluster, err);
        nanosleep(&(struct timespec){.tv_nsec = (long)ORPHANS_POLL_MS * US_PER_MS * 1000}, NULL);
    }
}

static int
start_locked(struct cluster *cluster, struct arena *arena, bool *ret_started, struct pawl_err *err)
{
    struct server_status status;
    int rc = server_status(cluster, &status, err);
    if (rc < 0)
        return rc;
    bool ready = false;
    if (status.pid > 0) {
        /* Started or being stopped by other means than pawl. */
        rc = server_wait_ready(cluster, status.pid, &ready, err);
        if (rc < 0)
            return rc;
    }
    bool started = !ready;
    if (!ready) {
        rc = cluster_find(cluster, arena, err);
        if (rc < 0)
            return rc;
        int major = 0;
        rc = data_major(cluster, &major, err);
        if (rc == 0 && major == 0)
            rc = cluster_make(cluster, arena, err);
        if (rc == 0)
            rc = server_launch(cluster, arena, err);
        if (rc < 0)
            return rc;
    }
    rc = database_make(cluster, arena, err);
    if (rc == 0)
        *ret_started = started;
    return rc;
}

int cluster_start(struct cluster *cluster,
                  struct arena *arena,
                  bool *ret_started,
                  struct pawl_err *err)
{
    bool started = false;
    struct server_status status;
    int rc = server_status(cluster, &status, err);
    if (rc < 0)
        return rc;
    if (status.pid == 0 || status.phase != SERVER_READY || !database_marked(cluster)) {
        if (status.pid == 0) {
            /* Before anything is made: without PostgreSQL nothing is to be left behind. */
            rc = cluster_find(cluster, arena, err);
            if (rc < 0)
                return rc;
        }
        AUTO_FD int lock = -1;
        rc = PAWL_ENOTFOUND;
        for (int i = 0; rc == PAWL_ENOTFOUND && i < HOME_TRIES; i++) {
            rc = home_make(cluster, err);
            if (rc == 0)
                rc = home_lock(cluster, true, &lock, err);
        }
        if (rc == 0)
            rc = start_locked(cluster, arena, &started, err);
        if (rc < 0)
            return rc;
    }
    rc = run_check(cluster, err);
    if (rc == 0 && ret_started)
        *ret_started = started;
    return rc;
}

static int stop_locked(const struct cluster *cluster, struct pawl_err *err)
{
    struct server_status status;
    int rc = server_status(cluster, &status, err);
    if (rc < 0 || status.pid == 0)
        return rc;
    return server_shut_down(cluster, status.pid, err);
}

int cluster_stop(struct cluster *cluster, struct arena *arena, struct pawl_err *err)
{
    (void)arena;
    enum cluster_state state;
    int rc = cluster_state(cluster, &state, NULL, err);
    if (rc < 0 || state == CLUSTER_ABSENT)
        return rc;
    AUTO_FD int lock = -1;
    rc = home_lock(cluster, true, &lock, err);
    return rc < 0 ? rc : stop_locked(cluster, err);
}

/* With the lock held and the server stopped. */
static int remove_all(const struct cluster *cluster, struct arena *arena, struct pawl_err *err)
{
    const char *old = arena_printf(arena, "%s.new", cluster->data);
    const char *lock = arena_printf(arena, "%s/lock", cluster->home);
    if (!old || !lock)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    AUTO_FS struct fs_rights rights;
    int rc = fs_enter(&rights, cluster, err);
    if (rc == 0)
        rc = tree_remove(old, err);
    if (rc < 0)
        return rc;
    /* Renamed first: an interrupted removal must not leave what looks like a cluster. */
    if (rename(cluster->data, old) < 0 && errno != ENOENT)
        return err_set_errno(err, errno, "could not rename %s", cluster->data);
    const char *const paths[] = {old, cluster->log, lock};
    struct stat st;
    if (lstat(cluster->run, &st) == 0) {
        rc = dir_own(cluster, cluster->run, err);
        if (rc == 0)
            rc = tree_remove(cluster->run, err);
    }
    for (size_t i = 0; rc == 0 && i < sizeof paths / sizeof paths[0]; i++)
        rc = tree_remove(paths[i], err);
    return rc;
}

int cluster_destroy(struct cluster *cluster, struct arena *arena, struct pawl_err *err)
{
    struct stat st;
    if (lstat(cluster->home, &st) < 0 && errno == ENOENT)
        return 0;
    AUTO_FD int lock = -1;
    int rc = home_lock(cluster, false, &lock, err);
    if (rc < 0) {
        if (rc == PAWL_ENOTFOUND)
            err_hint(err, "Nothing was removed.");
        return rc;
    }
    rc = stop_locked(cluster, err);
    if (rc == 0)
        rc = remove_all(cluster, arena, err);
    if (rc < 0)
        return rc;
    /* Somebody else's files may be in it, or its parent closed to us: then it stays. */
    (void)rmdir(cluster->home);
    return 0;
}

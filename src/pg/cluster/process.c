/*
 * cluster_process: running PostgreSQL's programs: never through a shell, as the server's user, with
 * an environment of our own, no descriptors of ours, default signals. All that may fail or allocate
 * is done before the fork, because between fork and exec only async-signal-safe calls are allowed.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <grp.h>
#include <poll.h>

#include "base/clock.h"
#include "pg/cluster/internal.h"

#define GROUPS_MAX       256
#define OUTPUT_MAX       8192 /* kept of what a program prints */
#define OUTPUT_CHUNK     4096
#define REPORT_FD        3
#define TERMINATE_MS     5000 /* between asking a program that takes too long to end and killing it */
#define PROCESS_PATH_ENV "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

enum stage { STAGE_STARTED, STAGE_FORK, STAGE_USER, STAGE_EXEC };

/* What the child tells through the report pipe; an exec that works closes the pipe without a word.
 */
struct report {
    enum stage stage;
    int value; /* the pid at STAGE_STARTED, else errno */
};

struct plan {
    const struct cluster *cluster;
    const char *const *argv;
    char home_env[PATH_MAX + 8];
    gid_t groups[GROUPS_MAX];
    int n_groups;
    bool drop;   /* we are root */
    bool detach; /* a session of its own, not our child */
    int out_fd;
    int null_fd;
    int report_fd;
    pid_t parent;
};

int wait_readable(int fd, int64_t timeout_ms)
{
    int64_t deadline_us = clock_mono_us(&clock_system) + timeout_ms * US_PER_MS;
    for (;;) {
        int64_t left_ms = (deadline_us - clock_mono_us(&clock_system)) / US_PER_MS;
        struct pollfd pfd = {.fd = fd, .events = POLLIN};
        int n = poll(&pfd, 1, left_ms > 0 ? (int)left_ms : 0);
        if (n > 0)
            return 1;
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n == 0 && left_ms <= 0)
            return 0;
    }
}

static void child_report(int fd, enum stage stage, int value)
{
    struct report report = {.stage = stage, .value = value};
    ssize_t n;
    do {
        n = write(fd, &report, sizeof report);
    } while (n < 0 && errno == EINTR);
}

__attribute__((noreturn)) static void child_fail(int fd, enum stage stage)
{
    child_report(fd, stage, errno);
    _exit(127);
}

static void child_signals(void)
{
    /* initdb waits for children of its own: an inherited SIG_IGN for SIGCHLD would break that. */
    for (int sig = 1; sig < NSIG; sig++)
        signal(sig, SIG_DFL); /* fails harmlessly for SIGKILL and SIGSTOP */
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Standard streams, and the report pipe as descriptor 3; everything else is closed, locks above
 * all. */
static int child_descriptors(const struct plan *plan)
{
    int report = fcntl(plan->report_fd, F_DUPFD_CLOEXEC, REPORT_FD + 1);
    int out = fcntl(plan->out_fd, F_DUPFD_CLOEXEC, REPORT_FD + 1);
    int null = fcntl(plan->null_fd, F_DUPFD_CLOEXEC, REPORT_FD + 1);
    if (report < 0 || out < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0 ||
        dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0 ||
        dup3(report, REPORT_FD, O_CLOEXEC) < 0)
        return -1;
    close_range(REPORT_FD + 1, ~0U, 0);
    return 0;
}

__attribute__((noreturn)) static void child_main(const struct plan *plan)
{
    child_signals();
    if (child_descriptors(plan) < 0)
        child_fail(plan->report_fd, STAGE_FORK);
    if (plan->detach) {
        /* Away from the terminal, so that Ctrl-C there does not stop the server; and a second fork,
         * so that it is nobody's child who would have to wait for it. */
        setsid();
        pid_t pid = fork();
        if (pid < 0)
            child_fail(REPORT_FD, STAGE_FORK);
        if (pid > 0)
            _exit(0);
        child_report(REPORT_FD, STAGE_STARTED, (int)getpid());
    }
    const struct cluster *cluster = plan->cluster;
    if (plan->drop && (setgroups((size_t)plan->n_groups, plan->groups) < 0 ||
                       setresgid(cluster->gid, cluster->gid, cluster->gid) < 0 ||
                       setresuid(cluster->uid, cluster->uid, cluster->uid) < 0))
        child_fail(REPORT_FD, STAGE_USER);
    if (!plan->detach) {
        /* Whoever is killed while initdb runs lets go of the lock; initdb must not go on alone.
         * Asked for after the change of user, which forgets it. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != plan->parent)
            _exit(127);
    }
    umask(077);
    if (chdir("/") <
        0) /* the caller's directory may be closed to this user, or on a disk to be unmounted */
        child_fail(REPORT_FD, STAGE_FORK);
    const char *const env[] = {PROCESS_PATH_ENV, "LC_ALL=C", plan->home_env, NULL};
    /* execve takes char *const * for historical reasons and changes nothing. */
    execve(plan->argv[0], (char *const *)(uintptr_t)plan->argv, (char *const *)(uintptr_t)env);
    child_fail(REPORT_FD, STAGE_EXEC);
}

static void plan_init(struct plan *plan, const struct cluster *cluster, const char *const *argv)
{
    *plan = (struct plan){
        .cluster = cluster,
        .argv = argv,
        .drop = geteuid() == 0,
        .out_fd = -1,
        .null_fd = -1,
        .report_fd = -1,
        .parent = getpid(),
    };
    snprintf(plan->home_env, sizeof plan->home_env, "HOME=%s", cluster->home);
    plan->n_groups = GROUPS_MAX;
    if (plan->drop && getgrouplist(cluster->user, cluster->gid, plan->groups, &plan->n_groups) < 0)
        plan->n_groups =
            GROUPS_MAX; /* it belongs to more groups than that; the first ones will do */
}

static int reap(pid_t pid, int *ret_status)
{
    for (;;) {
        if (waitpid(pid, ret_status, 0) == pid)
            return 0;
        if (errno != EINTR)
            return -errno;
    }
}

static int report_error(const struct cluster *cluster,
                        const char *program,
                        struct report report,
                        struct pawl_err *err)
{
    switch (report.stage) {
    case STAGE_USER:
        err_set_errno(
            err, report.value, "could not become user %s to run %s", cluster->user, program);
        return err_hint(err, "PostgreSQL does not run as root. Run pawl as an ordinary user.");
    case STAGE_EXEC:
        err_set_errno(err, report.value, "could not run %s", program);
        return err_hint(err, "Install PostgreSQL again: apt-get install --reinstall postgresql.");
    case STAGE_STARTED:
    case STAGE_FORK:
        break;
    }
    return err_set_errno(err, report.value, "could not start %s", program);
}

/* Forks and waits until the program runs or could not be run. ret_child: ours to reap.
 * ret_detached: the pid of the detached one; 0 for an ordinary child. */
static int
plan_start(struct plan *plan, pid_t *ret_child, pid_t *ret_detached, struct pawl_err *err)
{
    const char *program = plan->argv[0];
    AUTO_FD int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null_fd < 0)
        return err_set_errno(err, errno, "could not open /dev/null");
    int report_pipe[2];
    if (pipe2(report_pipe, O_CLOEXEC) < 0)
        return err_set_errno(err, errno, "could not make a pipe");
    AUTO_FD int report_read = report_pipe[0];
    plan->null_fd = null_fd;
    plan->report_fd = report_pipe[1];

    pid_t child = fork();
    if (child == 0)
        child_main(plan);
    int errnum = errno;
    close(report_pipe[1]);
    if (child < 0)
        return err_set_errno(err, errnum, "could not start %s", program);

    pid_t detached = 0;
    for (;;) {
        struct report report;
        ssize_t n = read(report_read, &report, sizeof report);
        if (n < 0 && errno == EINTR)
            continue;
        if (n != (ssize_t)sizeof report)
            break; /* the end: the program runs */
        if (report.stage == STAGE_STARTED) {
            detached = (pid_t)report.value;
            continue;
        }
        (void)reap(child, &(int){0});
        return report_error(plan->cluster, program, report, err);
    }
    *ret_child = child;
    *ret_detached = detached;
    return 0;
}

int process_detach(const struct cluster *cluster,
                   const char *const *argv,
                   const char *log_path,
                   pid_t *ret_pid,
                   struct pawl_err *err)
{
    AUTO_FS struct fs_rights rights;
    int rc = fs_enter(&rights, cluster, err);
    if (rc < 0)
        return rc;
    AUTO_FD int log_fd =
        open(log_path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (log_fd < 0)
        return err_set_errno(err, errno, "could not write %s", log_path);
    fs_leave(&rights);

    struct plan plan;
    plan_init(&plan, cluster, argv);
    plan.detach = true;
    plan.out_fd = log_fd;
    pid_t child = 0;
    pid_t detached = 0;
    rc = plan_start(&plan, &child, &detached, err);
    if (rc < 0)
        return rc;
    (void)reap(child, &(int){0}); /* the one in between; it has ended already */
    if (detached == 0)
        return err_set(err, PAWL_EFAILED, "could not start %s", argv[0]);
    *ret_pid = detached;
    return 0;
}

/* Takes what is there; keeps the end when it is too much. Returns false at the end of the stream.
 */
static bool output_take(int fd, struct buf *output)
{
    char chunk[OUTPUT_CHUNK];
    ssize_t n = read(fd, chunk, sizeof chunk);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN;
    if (n == 0)
        return false;
    if (output->len + (size_t)n > OUTPUT_MAX)
        buf_consume(output, output->len + (size_t)n - OUTPUT_MAX);
    buf_append(output, chunk, (size_t)n);
    return true;
}

/* Until the program ends; false when the time was over first. */
static bool output_collect(int pipe_fd, int pidfd, int64_t timeout_ms, struct buf *output)
{
    int64_t deadline_us = clock_mono_us(&clock_system) + timeout_ms * US_PER_MS;
    bool open = true;
    for (;;) {
        int64_t left_ms = (deadline_us - clock_mono_us(&clock_system)) / US_PER_MS;
        if (left_ms <= 0)
            return false;
        struct pollfd pfds[2] = {{.fd = pidfd, .events = POLLIN},
                                 {.fd = open ? pipe_fd : -1, .events = POLLIN}};
        int n = poll(pfds, 2, (int)left_ms);
        if (n < 0 && errno != EINTR)
            return false;
        if (n > 0 && pfds[1].revents != 0)
            open = output_take(pipe_fd, output);
        else if (n > 0 && pfds[0].revents != 0)
            return true; /* it has ended, and the pipe holds nothing more */
    }
}

int process_run(const struct cluster *cluster,
                const char *const *argv,
                struct buf *output,
                int *ret_status,
                struct pawl_err *err)
{
    int out_pipe[2];
    if (pipe2(out_pipe, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_set_errno(err, errno, "could not make a pipe");
    AUTO_FD int out_read = out_pipe[0];
    int flags = fcntl(out_pipe[1], F_GETFL);
    fcntl(out_pipe[1], F_SETFL, flags & ~O_NONBLOCK); /* the program expects to be able to write */

    struct plan plan;
    plan_init(&plan, cluster, argv);
    plan.out_fd = out_pipe[1];
    pid_t child = 0;
    pid_t detached = 0;
    int rc = plan_start(&plan, &child, &detached, err);
    close(out_pipe[1]);
    if (rc < 0)
        return rc;

    buf_clear(output);
    AUTO_FD int pidfd = pidfd_open(child, 0);
    int errnum = errno;
    bool ended = pidfd >= 0 && output_collect(out_read, pidfd, CLUSTER_PROGRAM_MS, output);
    if (!ended) {
        kill(child, SIGTERM);
        if (pidfd < 0 || !output_collect(out_read, pidfd, TERMINATE_MS, output))
            kill(child, SIGKILL);
    }
    int status = 0;
    rc = reap(child, &status);
    if (rc < 0)
        return err_set_errno(err, -rc, "could not wait for %s", argv[0]);
    if (pidfd < 0)
        return err_set_errno(err, errnum, "could not watch %s", argv[0]);
    if (!ended) {
        err_set(err,
                PAWL_ETIMEOUT,
                "%s did not end within %d s",
                argv[0],
                CLUSTER_PROGRAM_MS / MS_PER_S);
        return err_detail(
            err, "%s", cluster_last_lines(buf_str(output), output->len, CLUSTER_TAIL_MAX));
    }
    *ret_status = status;
    return 0;
}

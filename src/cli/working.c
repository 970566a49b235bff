/* working: signals, ticks and counters around pawl_worker_run. */
#include "cli/working.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

#include "base/clock.h"

#define FIELDS_MAX 128

static const struct {
    int signum;
    const char *name;
} stop_signals[] = {{SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}, {SIGHUP, "SIGHUP"}};

#define N_STOP_SIGNALS (sizeof(stop_signals) / sizeof(*stop_signals))

/* ---- the log */

/* One write for a line, so that lines of different threads do not mix. One that is refused is lost. */
static void on_line(void *data, const char *line)
{
    const struct log *log = data;
    struct iovec parts[] = {{.iov_base = (void *)(uintptr_t)line, .iov_len = strlen(line)},
                            {.iov_base = (void *)(uintptr_t) "\n", .iov_len = 1}};

    while (writev(log->fd, parts, 2) < 0 && errno == EINTR)
        continue;
}

void working_log(struct log *log, struct pawl_worker_options *options)
{
    static const enum pawl_log_level levels[] = {[LOG_DEBUG] = PAWL_LOG_DEBUG,
                                                 [LOG_INFO] = PAWL_LOG_INFO,
                                                 [LOG_WARN] = PAWL_LOG_WARN,
                                                 [LOG_ERROR] = PAWL_LOG_ERROR,
                                                 [LOG_OFF] = PAWL_LOG_ERROR};

    options->log = log->level < LOG_OFF ? on_line : NULL;
    options->log_data = log;
    options->log_level = levels[log->level];
    options->log_format = log->format == LOG_JSON ? PAWL_LOG_JSON
                          : log->color            ? PAWL_LOG_COLOR
                                                  : PAWL_LOG_TEXT;
}

/* ---- counters */

struct fields {
    struct log_field at[FIELDS_MAX];
    size_t n;
};

static void add_field(void *data, const char *name, int64_t value)
{
    struct fields *fields = data;

    if (fields->n < FIELDS_MAX)
        fields->at[fields->n++] = LOG_INT(name, value);
}

/* One event with everything that was counted. */
static void log_stats(struct working *working)
{
    struct fields fields = {.n = 0};

    pawl_worker_stats_each(working->worker, add_field, &fields);
    if (fields.n > 0)
        log_write(working->log, LOG_INFO, "worker_stats", fields.at, fields.n);
}

/* ---- signals */

void working_stop(struct working *working)
{
    if (!atomic_exchange(&working->stopping, true))
        pawl_worker_stop(working->worker);
}

static void on_signal(struct working *working, int signum)
{
    if (signum == SIGUSR1) {
        log_stats(working);
        return;
    }
    bool again = atomic_exchange(&working->stopping, true);

    for (size_t i = 0; i < N_STOP_SIGNALS; i++) {
        if (stop_signals[i].signum == signum)
            log_info(
                working->log,
                "signal",
                LOG_STR("name", stop_signals[i].name),
                LOG_STR("then", again ? "ending now" : "finishing what runs; once more ends it"));
    }
    pawl_worker_stop(working->worker);
}

/* Of the thread that waits for signals. Between two of them it ticks. */
static void *wait_for_signals(void *data)
{
    struct working *working = data;
    const int64_t every_us = working->tick_ms * US_PER_MS;
    int64_t next_us = clock_mono_us(&clock_system);

    while (!atomic_load(&working->over)) {
        int64_t left_us = next_us - clock_mono_us(&clock_system);
        const struct timespec left = {
            .tv_sec = left_us > 0 ? left_us / US_PER_S : 0,
            .tv_nsec = left_us > 0 ? left_us % US_PER_S * 1000 : 0,
        };
        int signum = sigtimedwait(&working->signals, NULL, every_us > 0 ? &left : NULL);

        if (atomic_load(&working->over))
            break;
        if (signum > 0) {
            on_signal(working, signum);
        } else if (errno == EAGAIN) {
            next_us += every_us;
            working->tick(working->data);
        }
    }
    return NULL;
}

/* As nohup does, and a shell without job control for what it puts into the background. */
static bool is_ignored(int signum)
{
    struct sigaction action;

    return sigaction(signum, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/* Signals wait for the thread from here on. */
static int begin(struct working *working, sigset_t *ret_before, struct pawl_err *err)
{
    sigemptyset(&working->signals);
    sigaddset(&working->signals, SIGUSR1);
    for (size_t i = 0; i < N_STOP_SIGNALS; i++) {
        if (!is_ignored(stop_signals[i].signum))
            sigaddset(&working->signals, stop_signals[i].signum);
    }
    atomic_init(&working->stopping, false);
    atomic_init(&working->over, false);
    pthread_sigmask(SIG_BLOCK, &working->signals, ret_before);
    int errnum = pthread_create(&working->thread, NULL, wait_for_signals, working);

    if (errnum == 0)
        return 0;
    pthread_sigmask(SIG_SETMASK, ret_before, NULL);
    return err_set_errno(err, errnum, "could not start a thread");
}

/* Those that came too late to matter are taken off: they were meant for the worker. */
static void end(struct working *working, const sigset_t *before)
{
    const struct timespec now = {0};

    atomic_store(&working->over, true);
    pthread_kill(working->thread, SIGUSR1);
    pthread_join(working->thread, NULL);
    while (sigtimedwait(&working->signals, NULL, &now) > 0)
        continue;
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

int working_run(struct working *working, struct pawl_err *err)
{
    sigset_t before;
    int rc = begin(working, &before, err);

    if (rc < 0)
        return rc;
    rc = pawl_worker_run(working->worker, err);
    end(working, &before);
    if (working->stats)
        log_stats(working);
    return rc;
}

/*
 * process: polls of the pidfd and the pipes, one timer for whatever is waited for, and the end.
 */
#include "hands/process.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/defer.h"
#include "core/control.h"
#include "hands/ending.h"
#include "hands/spawn.h"
#include "hands/tail.h"

/* A state, a thousand signals and ten thousand children at their largest are more, but such a
 * job keeps its data elsewhere. */
#define PROCESS_TOLD_MAX ((size_t)256 * 1024 * 1024)

#define EXIT_LOOK_MS     20 /* without a pidfd: how often to check whether the command has ended */

enum phase { PHASE_RUNNING, PHASE_STOPPING, PHASE_KILLED, PHASE_DRAINING };

struct process {
    struct list link; /* in host->processes until reported */
    struct process_host *host;
    struct run *run; /* borrowed until reported */
    enum phase phase;
    struct spawned spawned;
    struct ending ending;

    bool stopped; /* a stop or the timeout came before the end */
    enum stop_reason reason;
    unsigned n_stops; /* calls of process_stop, without the job's own timeout */

    /* The phase gives the timer its meaning: the job's timeout, the grace after SIGTERM, or the
     * patience with pipes. */
    uv_timer_t timer;
    uv_poll_t exit_poll;
    uv_timer_t exit_timer; /* instead, where there is no pidfd */
    uv_poll_t in_poll;
    uv_poll_t out_poll;
    uv_poll_t err_poll;
    uv_poll_t says_poll;
    unsigned n_handles; /* initialised and not yet closed */

    struct buf out;
    int out_code; /* see struct ending_facts */
    struct tail err_tail;
    struct buf says;
    int says_code; /* likewise */
    int64_t started_us;
    int64_t run_us;
};

static void on_timer(uv_timer_t *timer);

/* ── memory and handles ── */

static void process_free(struct process *p)
{
    struct process_host *host = p->host;
    buf_deinit(&p->out);
    buf_deinit(&p->says);
    free(p);
    host->n_open--;
    host->released(host);
}

static void on_closed(uv_handle_t *handle)
{
    struct process *p = handle->data;
    if (--p->n_handles == 0)
        process_free(p);
}

/* Returns a positive errno. On success the handle counts, and fd is to be closed by poll_close. */
static int poll_open(struct process *p, uv_poll_t *poll, int fd, int events, uv_poll_cb callback)
{
    int rc = uv_poll_init(p->host->loop, poll, fd);
    if (rc < 0)
        return -rc;
    poll->data = p;
    p->n_handles++;
    rc = uv_poll_start(poll, events, callback);
    return rc < 0 ? -rc : 0;
}

/* Does nothing for a poll that is closed or was never opened: the memory was zeroed. */
static void poll_close(uv_poll_t *poll, int *fd)
{
    uv_handle_t *handle = (uv_handle_t *)poll;
    if (handle->data != NULL && !uv_is_closing(handle))
        uv_close(handle, on_closed);
    spawn_close_fd(fd);
}

/* Closes all handles and descriptors; the last closed handle frees the memory. */
static void process_close(struct process *p)
{
    poll_close(&p->exit_poll, &p->spawned.pidfd);
    poll_close(&p->in_poll, &p->spawned.in);
    spawn_close_fd(&p->spawned.in_reader);
    poll_close(&p->out_poll, &p->spawned.out);
    poll_close(&p->err_poll, &p->spawned.err);
    poll_close(&p->says_poll, &p->spawned.says);
    uv_close((uv_handle_t *)&p->timer, on_closed);
    if (p->exit_timer.data != NULL)
        uv_close((uv_handle_t *)&p->exit_timer, on_closed);
}

static void timer_arm(struct process *p, int64_t ms)
{
    /* The loop's time is as old as its turn, and starting fifty processes takes a while. */
    uv_update_time(p->host->loop);
    uv_timer_start(&p->timer, on_timer, (uint64_t)ms, 0);
}

/* ── the end ── */

static void process_report(struct process *p)
{
    struct process_host *host = p->host;
    struct run *run = p->run;

    /* Unless another part of this process reaped the command: then its id, and that of the
     * group, may belong to a stranger. */
    if (p->ending.kind != ENDING_UNKNOWN)
        spawn_reap(&p->spawned);

    char storage[ENDING_TEXT_MAX + 1]; /* reporting an end must not need memory */
    struct buf text;
    buf_init_fixed(&text, storage, sizeof(storage));
    struct ending_facts facts = {.ending = p->ending,
                                 .stopped = p->stopped,
                                 .reason = p->reason,
                                 .timeout_ms = run->job.timeout_ms,
                                 .out = &p->out,
                                 .out_code = p->out_code,
                                 .result_max = host->result_max,
                                 .says = &p->says,
                                 .says_code = p->says_code,
                                 .queue = run->job.queue,
                                 .err_tail = &p->err_tail};
    CLEANUP(ending_memory_free)
    struct ending_memory memory;
    struct outcome outcome = ending_outcome(&facts, &text, &memory);
    outcome.run_us = p->run_us;
    log_debug(host->log,
              "process_end",
              LOG_INT("job", run->job.id),
              LOG_INT("pid", p->spawned.pid),
              LOG_STR("outcome", outcome_text((int)outcome.kind)),
              LOG_INT("run_us", p->run_us));

    /* The outcome borrows from p, which outlives process_close: the loop frees it later. */
    process_close(p);
    list_remove(&p->link);
    p->run = NULL;
    run->hands_data = NULL;
    host->ended(host, run, &outcome);
}

static void report_when_drained(struct process *p)
{
    if (p->phase == PHASE_DRAINING && p->spawned.out < 0 && p->spawned.err < 0)
        process_report(p);
}

/* ── the pipes ── */

static void out_add(struct process *p, const char *data, size_t len)
{
    /* Output that does not fit is read and dropped, so that the command can finish its work;
     * endless output ends with the timeout. */
    if (p->out_code == 0)
        p->out_code = buf_append(&p->out, data, len);
}

static void log_line(void *context, const char *text)
{
    struct process *p = context;
    log_info(p->host->log,
             "job_stderr",
             LOG_INT("job", p->run->job.id),
             LOG_STR("kind", p->run->job.kind),
             LOG_STR("line", text));
}

static void err_add(struct process *p, const char *data, size_t len)
{
    tail_add(&p->err_tail, data, len);
    if (p->host->log_stderr)
        tail_lines(&p->err_tail, data, len, log_line, p);
}

static void out_close(struct process *p)
{
    poll_close(&p->out_poll, &p->spawned.out);
}

static void err_close(struct process *p)
{
    if (p->host->log_stderr)
        tail_flush(&p->err_tail, log_line, p);
    poll_close(&p->err_poll, &p->spawned.err);
}

/* One chunk. True: there may be more at once. */
static bool pipe_read(struct process *p, bool is_out)
{
    int fd = is_out ? p->spawned.out : p->spawned.err;
    if (fd < 0)
        return false;
    char *chunk = p->host->chunk;
    ssize_t n;
    do
        n = read(fd, chunk, PROCESS_CHUNK);
    while (n < 0 && errno == EINTR);

    if (n > 0) {
        (is_out ? out_add : err_add)(p, chunk, (size_t)n);
        return true;
    }
    if (n < 0 && errno == EAGAIN)
        return false;
    if (n < 0 && is_out && p->out_code == 0)
        p->out_code = PAWL_EFAILED;
    (is_out ? out_close : err_close)(p);
    return false;
}

static void on_out(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct process *p = poll->data;
    pipe_read(p, true);
    report_when_drained(p);
}

static void on_err(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct process *p = poll->data;
    pipe_read(p, false);
    report_when_drained(p);
}

/* As pipe_read. A line that is written after the command has ended does not count, so nothing
 * waits for the end of this pipe: a process that was left behind may keep it open. */
static bool says_read(struct process *p)
{
    if (p->spawned.says < 0)
        return false;
    ssize_t n;
    do
        n = read(p->spawned.says, p->host->chunk, PROCESS_CHUNK);
    while (n < 0 && errno == EINTR);

    if (n > 0) {
        if (p->says_code == 0)
            p->says_code = buf_append(&p->says, p->host->chunk, (size_t)n);
        return true;
    }
    if (n < 0 && errno == EAGAIN)
        return false;
    if (n < 0 && p->says_code == 0)
        p->says_code = PAWL_EFAILED;
    poll_close(&p->says_poll, &p->spawned.says);
    return false;
}

static void on_says(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    says_read(poll->data);
}

/* The pipe has everything that the command wrote before it ended; it is read now, so that a slow
 * loop cannot lose it. Bounded by the largest pipe of an ordinary user, because a process that
 * was left behind may go on writing. */
static void pipes_read_out(struct process *p)
{
    for (size_t n = 0; n < 1024 * 1024 && pipe_read(p, true); n += PROCESS_CHUNK)
        ;
    for (size_t n = 0; n < 1024 * 1024 && pipe_read(p, false); n += PROCESS_CHUNK)
        ;
    for (size_t n = 0; n < 1024 * 1024 && says_read(p); n += PROCESS_CHUNK)
        ;
    poll_close(&p->says_poll, &p->spawned.says);
}

static void in_close(struct process *p)
{
    poll_close(&p->in_poll, &p->spawned.in);
    spawn_close_fd(&p->spawned.in_reader);
}

static void on_in(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct process *p = poll->data;
    const struct job *job = &p->run->job;
    /* Our own reader (see spawn.h) keeps the pipe from breaking, so there is neither SIGPIPE nor
     * POLLERR here. */
    size_t *written = &p->spawned.written;
    ssize_t n;
    do
        n = write(p->spawned.in, job->payload + *written, job->payload_len - *written);
    while (n < 0 && errno == EINTR);

    if (n < 0 && errno == EAGAIN)
        return;
    if (n > 0)
        *written += (size_t)n;
    if (n < 0 || *written == job->payload_len)
        in_close(p);
}

/* ── ending early ── */

static void send_signal(struct process *p, int signo)
{
    /* Reaped by another part of this process: the id of the group may belong to a stranger. */
    if (spawn_peek(&p->spawned).kind == ENDING_UNKNOWN)
        return;
    int rc = spawn_signal(&p->spawned, signo);
    if (rc < 0)
        log_warn(p->host->log,
                 "process_signal",
                 LOG_INT("job", p->run->job.id),
                 LOG_INT("pid", p->spawned.pid),
                 LOG_INT("signal", signo),
                 LOG_STR("error", strerrordesc_np(-rc)));
}

static void process_kill(struct process *p)
{
    send_signal(p, SIGKILL);
    if (p->phase == PHASE_DRAINING) {
        timer_arm(p, PROCESS_DRAIN_MS);
        return;
    }
    p->phase = PHASE_KILLED;
    uv_timer_stop(&p->timer);
}

/* SIGCONT, because a halted process would sleep through its grace. */
static void process_term(struct process *p)
{
    p->phase = PHASE_STOPPING;
    send_signal(p, SIGTERM);
    send_signal(p, SIGCONT);
    timer_arm(p, p->host->term_grace_ms);
}

/* Notes the reason, unless the command has ended already: then its own ending counts, whether
 * the loop has seen it or not. */
static bool stop_reason_note(struct process *p, enum stop_reason reason)
{
    if (p->phase == PHASE_DRAINING || spawn_peek(&p->spawned).kind != ENDING_NONE)
        return false;
    if (!p->stopped || reason < p->reason)
        p->reason = reason;
    p->stopped = true;
    return true;
}

static void on_timer(uv_timer_t *timer)
{
    struct process *p = timer->data;
    switch (p->phase) {
    case PHASE_RUNNING:
        if (stop_reason_note(p, STOP_TIMEOUT))
            process_term(p);
        break;
    case PHASE_STOPPING:
        process_kill(p);
        break;
    case PHASE_KILLED:
        break;
    case PHASE_DRAINING:
        out_close(p);
        err_close(p);
        process_report(p);
        break;
    }
}

/*
 * The command has ended. Often the pipes have, too; otherwise a process that the command started
 * has them open. In a run that was told to stop, that process may do the work, under a shell that
 * ended sooner: it gets the rest of the grace.
 */
static void exit_look(struct process *p)
{
    p->ending = spawn_peek(&p->spawned);
    if (p->ending.kind == ENDING_NONE)
        return;
    p->run_us = clock_mono_us(p->host->clock) - p->started_us;
    if (p->exit_timer.data != NULL)
        uv_timer_stop(&p->exit_timer);
    else
        uv_poll_stop(&p->exit_poll);
    in_close(p);
    pipes_read_out(p);

    bool grace_runs = p->phase == PHASE_STOPPING;
    p->phase = PHASE_DRAINING;
    if (!grace_runs)
        timer_arm(p, PROCESS_DRAIN_MS);
    report_when_drained(p);
}

static void on_exit_ready(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    exit_look(poll->data);
}

static void on_exit_timer(uv_timer_t *timer)
{
    exit_look(timer->data);
}

void process_stop(struct run *run, enum stop_reason reason)
{
    struct process *p = run->hands_data;
    bool noted = stop_reason_note(p, reason);
    bool again = ++p->n_stops > 1;
    if (noted)
        log_info(p->host->log,
                 "process_stop",
                 LOG_INT("job", run->job.id),
                 LOG_INT("pid", p->spawned.pid),
                 LOG_BOOL("again", again));
    if (again)
        process_kill(p);
    else if (noted && p->phase == PHASE_RUNNING)
        process_term(p);
}

void process_kill_all(struct process_host *host)
{
    LIST_FOREACH(link, &host->processes) {
        struct process *p = LIST_ENTRY(link, struct process, link);
        stop_reason_note(p, STOP_SHUTDOWN);
        process_kill(p);
    }
}

/* ── the start ── */

static int exit_watch(struct process *p)
{
    if (p->spawned.pidfd >= 0)
        return poll_open(p, &p->exit_poll, p->spawned.pidfd, UV_READABLE, on_exit_ready);
    uv_timer_init(p->host->loop, &p->exit_timer);
    p->exit_timer.data = p;
    p->n_handles++;
    uv_timer_start(&p->exit_timer, on_exit_timer, EXIT_LOOK_MS, EXIT_LOOK_MS);
    return 0;
}

static int polls_open(struct process *p)
{
    int rc = exit_watch(p);
    if (rc == 0)
        rc = poll_open(p, &p->out_poll, p->spawned.out, UV_READABLE, on_out);
    if (rc == 0)
        rc = poll_open(p, &p->err_poll, p->spawned.err, UV_READABLE, on_err);
    if (rc == 0)
        rc = poll_open(p, &p->says_poll, p->spawned.says, UV_READABLE, on_says);
    if (rc == 0 && p->spawned.in >= 0)
        rc = poll_open(p, &p->in_poll, p->spawned.in, UV_WRITABLE, on_in);
    return rc;
}

static struct process *process_new(struct process_host *host, struct run *run)
{
    struct process *p = calloc(1, sizeof(*p));
    if (p == NULL)
        return NULL;
    p->host = host;
    p->run = run;
    p->spawned =
        (struct spawned){.pidfd = -1, .out = -1, .err = -1, .says = -1, .in = -1, .in_reader = -1};
    list_init(&p->link);
    /* One byte more than a result, for the newline that is removed. */
    buf_init(&p->out, host->result_max + 1);
    buf_init(&p->says, CONTROL_LINE_MAX + 1);
    uv_timer_init(host->loop, &p->timer);
    p->timer.data = p;
    p->n_handles = 1;
    host->n_open++;
    return p;
}

int process_start(struct process_host *host,
                  struct run *run,
                  const char *command,
                  char *const *env,
                  struct pawl_err *err)
{
    struct process *p = process_new(host, run);
    if (p == NULL)
        return err_set(err, PAWL_ENOMEM, "could not start a process");

    const struct job *job = &run->job;
    p->started_us = clock_mono_us(host->clock);
    CLEANUP(buf_deinit)
    struct buf told;
    buf_init(&told, PROCESS_TOLD_MAX);
    int rc = control_tell(job, &told);
    if (rc == 0)
        rc = buf_putc(&told, '\n');
    if (rc < 0)
        err_set(err, rc, "could not tell the step about its machine");
    else
        rc = spawn(&(struct spawn_order){.command = command,
                                         .env = env,
                                         .input = job->payload,
                                         .input_len = job->payload_len,
                                         .told = told.data,
                                         .told_len = told.len},
                   &p->spawned,
                   err);
    if (rc < 0) {
        process_close(p);
        return rc;
    }
    int errnum = polls_open(p);
    if (errnum != 0) {
        spawn_reap(&p->spawned);
        process_close(p);
        return err_set_errno(err, errnum, "could not watch a process");
    }
    if (job->timeout_ms > 0)
        timer_arm(p, job->timeout_ms);
    list_push(&host->processes, &p->link);
    run->hands_data = p;
    log_debug(host->log,
              "process_start",
              LOG_INT("job", job->id),
              LOG_STR("kind", job->kind),
              LOG_INT("pid", p->spawned.pid));
    return 0;
}

/*
 * soak_worker: a worker to be killed, frozen and cut off: a coordinator with thread hands whose
 * handlers take their time, fail, ask for another try, put off and, now and then, take the process
 * with them. What it does goes to its events file: calls to the database (calls.c), starts and ends
 * of handlers, and its counters at the end.
 *
 * usage: soak_worker EVENTS CONNINFO LEASE_MS THREADS QUEUE[,QUEUE] [pooled]
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/rand.h"
#include "engine/coordinator.h"
#include "fault/events.h"
#include "hands/threads.h"

#define DRAIN_MS   1000
#define QUEUES_MAX 4

struct program {
    uv_loop_t loop;
    struct hands *hands;
    struct coordinator *coordinator;
    uv_signal_t sigterm;
};

static void tell_start(const struct job *job)
{
    events_write("start %lld %d %s", (long long)job->id, (int)job->attempt, TOKEN(&job->token));
}

static void tell_finish(const struct job *job, const char *outcome)
{
    events_write(
        "end %lld %d %s %s", (long long)job->id, (int)job->attempt, TOKEN(&job->token), outcome);
}

/* As long as the payload's second word says, or until told to stop. */
static bool work_for_a_while(struct task *task)
{
    const struct job *job = task_job(task);
    const char *blank = memchr(job->payload, ' ', job->payload_len);
    long ms = 0;

    for (const char *p = blank + 1; blank != NULL && p < job->payload + job->payload_len; p++)
        ms = ms * 10 + (*p - '0');
    for (; ms > 0; ms -= 5) {
        if (task_should_stop(task))
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 5L * 1000 * 1000}, NULL);
    }
    return true;
}

static void on_plain(void *data, struct task *task)
{
    (void)data;
    tell_start(task_job(task));
    bool whole = work_for_a_while(task);

    if (whole)
        task_done(task, "ok", 2);
    else
        task_retry(task, "told to stop", 20);
    tell_finish(task_job(task), whole ? "done" : "retry");
}

/* Mostly soon; sometimes so late that the claim it came from has long expired, if its worker dies.
 */
static int64_t retry_delay_ms(void)
{
    switch (rand_below(8)) {
    case 0:
        return (int64_t)rand_below(3000);
    case 1:
    case 2:
        return -1;
    default:
        return (int64_t)rand_below(80);
    }
}

static void on_moody(void *data, struct task *task)
{
    const char *outcome = "done";

    (void)data;
    tell_start(task_job(task));
    work_for_a_while(task);
    switch (rand_below(8)) {
    case 0:
        task_fail(task, "not today");
        outcome = "fail";
        break;
    case 1:
        task_cancel(task);
        outcome = "cancel";
        break;
    case 2:
        task_snooze(task, (int64_t)rand_below(60));
        outcome = "snooze";
        break;
    case 3:
    case 4:
    case 5:
        task_retry(task, "once more", retry_delay_ms());
        outcome = "retry";
        break;
    default:
        break;
    }
    tell_finish(task_job(task), outcome);
}

/* Kills its worker, every time. */
static void on_poison(void *data, struct task *task)
{
    (void)data;
    tell_start(task_job(task));
    raise(SIGKILL);
}

static void on_sigterm(uv_signal_t *handle, int signum)
{
    struct program *program = handle->data;

    (void)signum;
    events_write("signal");
    coordinator_stop(program->coordinator);
}

static void on_hands_closed(void *data)
{
    struct program *program = data;

    uv_close((uv_handle_t *)&program->sigterm, NULL);
}

static void on_stopped(void *data, size_t left)
{
    struct program *program = data;

    events_write("stopped %zu", left);
    threads_close(program->hands, on_hands_closed, program);
}

static void tell_counters(const struct coordinator_stats *stats)
{
    struct items *items = calloc(1, sizeof(*items));

    if (items == NULL)
        abort();
    items_clear(items);
#define COUNTER(name, what) items_add(items, "%s:%llu", #name, (unsigned long long)stats->name);
    COORDINATOR_COUNTERS(COUNTER)
#undef COUNTER
    events_write("counters %s", items->text);
    free(items);
}

static int work(struct program *program, struct coordinator_options *options, size_t threads)
{
    static const struct threads_handler handlers[] = {
        {.kind = "plain", .fn = on_plain},
        {.kind = "moody", .fn = on_moody},
        {.kind = "poison", .fn = on_poison},
    };
    struct pawl_err err;

    program->hands = threads_new(&program->loop,
                                 &(struct threads_options){
                                     .handlers = handlers,
                                     .n_handlers = sizeof(handlers) / sizeof(*handlers),
                                     .threads = threads,
                                     .queue_max = threads,
                                     .log = options->log,
                                 },
                                 &err);
    options->hands = program->hands;
    if (program->hands != NULL)
        program->coordinator = coordinator_new(&program->loop, options, &err);
    if (program->coordinator == NULL) {
        fprintf(stderr, "soak_worker: %s\n", err.message);
        return 1;
    }
    uv_signal_init(&program->loop, &program->sigterm);
    program->sigterm.data = program;
    uv_signal_start(&program->sigterm, on_sigterm, SIGTERM);
    events_write("boot %d", (int)getpid());
    coordinator_start(program->coordinator);
    uv_run(&program->loop, UV_RUN_DEFAULT);
    tell_counters(coordinator_stats(program->coordinator));
    coordinator_free(program->coordinator);
    return uv_loop_close(&program->loop) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    static struct program program;
    const char *queues[QUEUES_MAX];
    size_t n_queues = 0;
    struct arena arena;
    struct target target;
    struct log log;
    struct pawl_err err;

    if (argc < 6) {
        fprintf(stderr,
                "usage: soak_worker EVENTS CONNINFO LEASE_MS THREADS QUEUE[,QUEUE] [pooled]\n");
        return 2;
    }
    /* Nobody outlives the conductor. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    events_open(argv[1]);
    log_init(&log, STDERR_FILENO, LOG_WARN);
    arena_init(&arena, 64UL * 1024);
    for (char *at = argv[5], *name; n_queues < QUEUES_MAX && (name = strsep(&at, ",")) != NULL;)
        queues[n_queues++] = name;
    if (target_set(&target, &arena, TARGET_OPTION, argv[2], &err) < 0) {
        fprintf(stderr, "soak_worker: %s\n", err.message);
        return 2;
    }
    size_t threads = strtoul(argv[4], NULL, 10);
    struct coordinator_options options = {
        .target = &target,
        .queues = queues,
        .n_queues = n_queues,
        .concurrency = threads,
        .prefetch = 2 * threads,
        .lease_ms = strtoll(argv[3], NULL, 10),
        .poll_ms = 50,
        .poll_max_ms = 500,
        .drain_ms = DRAIN_MS,
        .unprepared = argc > 6,
        .deaf = argc > 6,
        .clock = &clock_system,
        .log = &log,
        .stopped = on_stopped,
        .data = &program,
    };

    uv_loop_init(&program.loop);
    int status = work(&program, &options, threads);

    arena_deinit(&arena);
    return status;
}

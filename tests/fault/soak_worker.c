/*
 * soak_worker: a worker to be killed, frozen and cut off: a coordinator with thread hands. Its
 * handlers are in soak_handlers.c. What it does goes to its events file: calls to the database
 * (calls.c), starts and ends of handlers, and its counters at the end.
 *
 * usage: soak_worker EVENTS CONNINFO LEASE_MS THREADS QUEUE[,QUEUE] [pooled]
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/arena.h"
#include "engine/coordinator.h"
#include "fault/events.h"
#include "fault/soak_handlers.h"

#define DRAIN_MS   1000
#define SWEEP_MS   250 /* a sweep of five jobs while sweeps are slow (trace.sql) */
#define QUEUES_MAX 4

struct program {
    uv_loop_t loop;
    struct hands *hands;
    struct coordinator *coordinator;
    uv_signal_t sigterm;
};

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
    struct pawl_err err;

    program->hands = soak_hands(&program->loop, threads, options->log, &err);
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
        .sweep_ms = SWEEP_MS,
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

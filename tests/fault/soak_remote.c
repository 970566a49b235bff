/*
 * soak_remote: a worker without a database, to be killed, frozen and cut off: thread hands with the handlers of all
 * soak workers (soak_handlers.c), and a stream of a server in the place of a coordinator. Where a worker with a database
 * writes the token of its claim, it writes its ticket; and what a server answered to its reports.
 *
 * usage: soak_remote EVENTS ADDRESS LEASE_MS THREADS QUEUE[,QUEUE]
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "fault/events.h"
#include "fault/soak_handlers.h"
#include "remote/remote.h"

#define DRAIN_MS   1000
#define QUEUES_MAX 4
#define NOT_TAKEN  75 /* exit status: no server has taken it as a worker */

struct program {
    uv_loop_t loop;
    struct hands *hands;
    struct remote *remote;
    uv_signal_t sigterm;
    int status;
};

static void on_sigterm(uv_signal_t *handle, int signum)
{
    struct program *program = handle->data;

    (void)signum;
    events_write("signal");
    remote_stop(program->remote);
}

/* Of a machine that goes on under its claim, too: then its state is "running". */
static void on_settled(void *data, const struct settled *settled)
{
    (void)data;
    events_write("report %lld %s %s %s",
                 (long long)settled->job->id,
                 TOKEN(&settled->job->token),
                 outcome_text((int)settled->outcome->kind),
                 settled->state != NULL ? settled->state : "stale");
}

static void on_hands_closed(void *data)
{
    struct program *program = data;

    uv_close((uv_handle_t *)&program->sigterm, NULL);
}

static void on_stopped(void *data, size_t left, const struct pawl_err *err)
{
    struct program *program = data;

    events_write("stopped %zu", left);
    if (err != NULL) {
        fprintf(stderr, "soak_remote: %s\n", err->message);
        program->status = remote_is_taken(program->remote) ? 1 : NOT_TAKEN;
    }
    threads_close(program->hands, on_hands_closed, program);
}

static void tell_counters(const struct remote_stats *stats)
{
    struct items *items = calloc(1, sizeof(*items));

    if (items == NULL)
        abort();
    items_clear(items);
#define COUNTER(name, what) \
    items_add(items, "remote_%s:%llu", #name, (unsigned long long)stats->name);
    REMOTE_COUNTERS(COUNTER)
#undef COUNTER
    events_write("counters %s", items->text);
    free(items);
}

static int work(struct program *program, struct remote_options *options, size_t threads)
{
    struct pawl_err err;

    program->hands = soak_hands(&program->loop, threads, options->log, &err);
    options->hands = program->hands;
    if (program->hands != NULL)
        program->remote = remote_new(&program->loop, options, &err);
    if (program->remote == NULL) {
        fprintf(stderr, "soak_remote: %s\n", err.message);
        return 1;
    }
    uv_signal_init(&program->loop, &program->sigterm);
    program->sigterm.data = program;
    uv_signal_start(&program->sigterm, on_sigterm, SIGTERM);
    events_write("boot %d", (int)getpid());
    remote_start(program->remote);
    uv_run(&program->loop, UV_RUN_DEFAULT);
    tell_counters(remote_stats(program->remote));
    remote_free(program->remote);
    return uv_loop_close(&program->loop) == 0 ? program->status : 1;
}

int main(int argc, char **argv)
{
    static struct program program;
    const char *queues[QUEUES_MAX];
    size_t n_queues = 0;
    struct address address;
    struct log log;
    struct pawl_err err;

    if (argc != 6) {
        fprintf(stderr, "usage: soak_remote EVENTS ADDRESS LEASE_MS THREADS QUEUE[,QUEUE]\n");
        return 2;
    }
    /* Nobody outlives the conductor. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    events_open(argv[1]);
    log_init(&log, STDERR_FILENO, LOG_WARN);
    for (char *at = argv[5], *name; n_queues < QUEUES_MAX && (name = strsep(&at, ",")) != NULL;)
        queues[n_queues++] = name;
    if (address_parse(argv[2], &address, &err) < 0) {
        fprintf(stderr, "soak_remote: %s\n", err.message);
        return 2;
    }
    size_t threads = strtoul(argv[4], NULL, 10);
    struct remote_options options = {
        .server = &address,
        .queues = queues,
        .n_queues = n_queues,
        .concurrency = threads,
        .prefetch = 2 * threads,
        .lease_ms = strtoll(argv[3], NULL, 10),
        .drain_ms = DRAIN_MS,
        .clock = &clock_system,
        .log = &log,
        .settled = on_settled,
        .stopped = on_stopped,
        .data = &program,
    };

    uv_loop_init(&program.loop);
    return work(&program, &options, threads);
}

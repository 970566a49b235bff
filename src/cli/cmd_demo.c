/*
 * pawl demo: a small mixed workload on a real database, watched while it is worked off. Progress is
 * what the database says about the jobs this demo enqueued, so a second demo beside it, or jobs an
 * interrupted one left, do no harm.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/text.h"
#include "cli/cmds.h"
#include "cli/db.h"
#include "cli/demo_machines.h"
#include "cli/demo_view.h"
#include "cli/demo_work.h"
#include "cli/term.h"
#include "client/inspect.h"

#define TICK_MS     100
#define CONCURRENCY 4
#define JOBS_MAX    256

/* The workload: what the demo shows, and the commands that stand for real work. */
static const struct part {
    const char *queue;
    const char *about;
    const char *kind;
    const char *command;
    int64_t jobs;
    int64_t delay_ms;
} parts[] = {
    {"demo-fast", "done at once", "demo_fast", "echo '\"done\"'", 60, 0},
    {"demo-slow", "a second of work each", "demo_slow", "sleep 1; echo '\"slept\"'", 8, 0},
    {"demo-flaky",
     "fails at the first attempt",
     "demo_flaky",
     "[ \"$PAWL_JOB_ATTEMPT\" -gt 1 ] || { echo 'the first attempt always fails' >&2; exit 1; }",
     6,
     0},
    {"demo-later",
     "scheduled four seconds ahead",
     "demo_later",
     "date -u '+\"%H:%M:%S\"'",
     6,
     4000},
};

#define N_PARTS (sizeof(parts) / sizeof(*parts))

struct demo {
    struct cli *cli;
    PGconn *conn; /* for enqueueing and for looking; the worker has its own */
    struct working working;
    struct demo_view view;
    struct demo_queue queues[N_PARTS];
    int64_t ids[JOBS_MAX];
    size_t n_ids;
    int64_t begun_us;
    bool over; /* all jobs have ended, or the picture cannot be drawn any more */
    struct pawl_err err;
};

static int enqueue(struct demo *demo, struct pawl_err *err)
{
    struct pawl_job_new jobs[JOBS_MAX];

    demo->n_ids = 0;
    for (size_t p = 0; p < N_PARTS; p++) {
        for (int64_t i = 0; i < parts[p].jobs; i++) {
            struct pawl_job_new *job = &jobs[demo->n_ids++];

            *job = PAWL_JOB_NEW_INIT;
            job->queue = parts[p].queue;
            job->kind = parts[p].kind;
            job->delay_ms = parts[p].delay_ms;
        }
    }
    return pawl_enqueue_many(demo->conn, jobs, demo->n_ids, demo->ids, NULL, err);
}

static void count(void *data, const struct job_progress *progress)
{
    struct demo *demo = data;

    for (size_t p = 0; p < N_PARTS; p++) {
        struct demo_queue *queue = &demo->queues[p];
        enum job_state state;

        if (strcmp(queue->name, progress->queue) != 0 ||
            job_state_parse(progress->state, &state) < 0)
            continue;
        queue->attempts += progress->attempts;
        queue->done += state == JOB_DONE ? progress->jobs : 0;
        queue->failed += state == JOB_FAILED || state == JOB_CANCELLED ? progress->jobs : 0;
        queue->running += state == JOB_RUNNING ? progress->jobs : 0;
        queue->retrying += state == JOB_RETRYING ? progress->jobs : 0;
        queue->scheduled += state == JOB_SCHEDULED ? progress->jobs : 0;
    }
}

/* Where the demo's jobs are now. Returns how many have ended. */
static int look(struct demo *demo, size_t *ret_ended, struct pawl_err *err)
{
    size_t ended = 0;

    for (size_t p = 0; p < N_PARTS; p++) {
        demo->queues[p] = (struct demo_queue){
            .name = parts[p].queue,
            .about = parts[p].about,
            .jobs = parts[p].jobs,
        };
    }
    int rc = client_job_progress(demo->conn, demo->ids, demo->n_ids, count, demo, err);

    for (size_t p = 0; p < N_PARTS; p++)
        ended += (size_t)(demo->queues[p].done + demo->queues[p].failed);
    *ret_ended = ended;
    return rc;
}

static void on_tick(void *data)
{
    struct demo *demo = data;
    size_t ended = 0;

    if (demo->over)
        return;
    int rc = look(demo, &ended, &demo->err);

    if (rc == 0) {
        rc = demo_view_draw(&demo->view,
                            demo->queues,
                            N_PARTS,
                            clock_mono_us(&clock_system),
                            ended == demo->n_ids,
                            &demo->err);
    }
    if (rc < 0 || ended == demo->n_ids) {
        demo->over = true;
        working_stop(&demo->working);
    }
}

static int work(struct demo *demo, const struct target *target, struct pawl_err *err)
{
    struct demo_handler handlers[N_PARTS];
    const char *queues[N_PARTS];

    for (size_t p = 0; p < N_PARTS; p++) {
        handlers[p] = (struct demo_handler){parts[p].kind, parts[p].command};
        queues[p] = parts[p].queue;
    }
    demo->working.tick = on_tick;
    demo->working.tick_ms = TICK_MS;
    demo->working.data = demo;
    return demo_work(demo->cli,
                     &demo->working,
                     &(struct demo_plan){.target = target,
                                         .queues = queues,
                                         .n_queues = N_PARTS,
                                         .handlers = handlers,
                                         .n_handlers = N_PARTS,
                                         .concurrency = CONCURRENCY},
                     &demo->err,
                     err);
}

static int show_summary(struct demo *demo, struct pawl_err *err)
{
    static const struct out_column columns[] = {
        {"queue", "QUEUE", OUT_TEXT},
        {"about", "ITS JOBS", OUT_TEXT},
        {"jobs", "JOBS", OUT_INT},
        {"done", "DONE", OUT_INT},
        {"failed", "FAILED", OUT_INT},
        {"attempts", "ATTEMPTS", OUT_INT},
    };
    struct out *out = cli_out_new(demo->cli, columns, sizeof(columns) / sizeof(*columns));

    if (out == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    for (size_t p = 0; p < N_PARTS; p++) {
        const struct demo_queue *queue = &demo->queues[p];

        out_text(out, queue->name);
        out_text(out, queue->about);
        out_int(out, queue->jobs);
        out_int(out, queue->done);
        out_tone(out, queue->done == queue->jobs ? TONE_GOOD : TONE_BAD);
        out_int(out, queue->failed);
        out_int(out, queue->attempts);
        out_row(out);
    }
    int rc = out_end(out, clock_wall_us(&clock_system), err);

    out_free(out);
    return rc;
}

static int show_next(struct demo *demo, struct pawl_err *err)
{
    CLEANUP(buf_deinit)
    struct buf out;
    char pawl[PATH_MAX];
    char took[TEXT_DURATION_LEN];

    if (demo->cli->output != OUT_TABLE)
        return 0;
    buf_init(&out, 16 * 1024);
    cli_how_to_call(pawl, sizeof(pawl));
    text_format_duration(clock_mono_us(&clock_system) - demo->begun_us, took);
    buf_printf(&out,
               "\n%zu jobs in %s, each claimed, run and settled on PostgreSQL.\n\n",
               demo->n_ids,
               took);
    buf_printf(&out, "Try next:\n");
    /* The first job that fails at first is the most interesting one. */
    buf_printf(
        &out, "  %s job show %lld\n", pawl, (long long)demo->ids[parts[0].jobs + parts[1].jobs]);
    buf_printf(&out, "  %s enqueue hello '{\"n\":1}'\n", pawl);
    buf_printf(&out, "  %s work --exec 'hello=cat' --once\n", pawl);
    return out_write(buf_str(&out), out.len, err);
}

static int perform(struct demo *demo, const struct target *target, struct pawl_err *err)
{
    size_t ended = 0;
    int rc = cli_open(demo->cli, target, &demo->conn, err);

    if (rc == 0)
        rc = enqueue(demo, err);
    if (rc < 0)
        return rc;
    cli_note(demo->cli, "%zu jobs enqueued in %s", demo->n_ids, target->shown);
    demo->begun_us = clock_mono_us(&clock_system);
    rc = work(demo, target, err);
    if (rc == 0)
        rc = look(demo, &ended, err);
    if (rc == 0 && ended < demo->n_ids) {
        err_set(err, PAWL_EINTERRUPTED, "stopped with %zu of %zu jobs done", ended, demo->n_ids);
        rc = err_hint(err, "The others are safe in the database; the next demo runs them too.");
    }
    if (rc == 0 && demo->cli->output == OUT_TABLE)
        rc = out_write("\n", 1, err);
    if (rc == 0)
        rc = show_summary(demo, err);
    if (rc == 0)
        rc = show_next(demo, err);
    return rc;
}

static int run(struct cli *cli, struct pawl_err *err)
{
    struct demo *demo = arena_new(cli->arena, struct demo);
    struct target target;
    bool started = false;
    char pawl[PATH_MAX];

    if (demo == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    if (cli->n_args > 0 && strcmp(cli->args[0], "machines") != 0)
        return verb_usage(cli, err, "there is no demo of \"%s\"", cli->args[0]);
    demo->cli = cli;
    demo_view_init(
        &demo->view, term_width(STDOUT_FILENO) > 0 && cli->output == OUT_TABLE, cli->color);
    int rc = cli_target(cli, &target, &started, err);

    if (rc < 0)
        return rc;
    cli_how_to_call(pawl, sizeof(pawl));
    rc = cli->n_args > 0 ? demo_machines(cli, &target, pawl, err) : perform(demo, &target, err);
    cli_close(&demo->conn);
    return started ? cli_stop_private(cli, rc, err) : rc;
}

static const struct example examples[] = {
    {"pawl demo", "Takes about five seconds."},
    {"pawl demo machines", "Orders that wait for their payment, ship, and undo what failed."},
    {NULL, NULL},
};

const struct verb verb_demo = {
    .name = "demo",
    .summary = "Watch a small workload being worked off",
    .group = "Jobs",
    .description =
        "Enqueues some eighty jobs into four queues, some fast, some slow, some that fail at first and some that are due "
        "later, and runs them before your eyes. Ctrl-C stops it; jobs that are left stay in the database, and the next "
        "demo runs them. It may be run as often as you like. A private PostgreSQL that it had to start it also stops.\n\n"
        "With the argument machines it shows jobs of many steps instead: three orders that wait for a signal, for their "
        "children, and take back what they did when something fails.",
    .args = "[machines]",
    .max_args = 1,
    .examples = examples,
    .run = run,
};

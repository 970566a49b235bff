/* pawl work: runs jobs, each as a child process. Thin: the coordinator does the work. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/defer.h"
#include "base/text.h"
#include "cli/cells.h"
#include "cli/cmds.h"
#include "cli/db.h"
#include "cli/worker.h"
#include "client/inspect.h"
#include "pg/sync.h"
#ifdef PAWL_WITH_SERVE
#    include "cli/server.h"
#endif

#define STALL_MS     (30 * MS_PER_S)
#define LEASE_MIN_MS 100 /* a few renewals have to fit in */
#define LEASE_MAX_MS ((int64_t)24 * 60 * 60 * MS_PER_S)

struct work_options {
    struct option_list queues;
    struct option_list execs;
    int64_t concurrency;
    int64_t lease_ms;
    int64_t poll_ms;
    int64_t drain_ms;
    bool once;
    bool stderr_to_log;
    bool unprepared;
    int64_t prefetch;
    int64_t min_demand;
    int64_t jitter_ms;
    int64_t poll_max_ms;
    int64_t min_concurrency;
    int64_t rollout;
    int64_t rollout_ms;
    int64_t memory_max;
    bool memory_given;
    int64_t breaker;
    bool stats;
#ifdef PAWL_WITH_SERVE
    struct server_choice choice;
#endif
};

static const struct out_column columns[] = {
    {"id", "JOB", OUT_INT},
    {"kind", "KIND", OUT_TEXT},
    {"queue", "QUEUE", OUT_TEXT},
    {"attempt", "ATTEMPT", OUT_INT},
    {"state", "STATE", OUT_TEXT},
    {"run", "RAN", OUT_DURATION},
    {"error", "ERROR", OUT_TEXT},
    {"result", "RESULT", OUT_BYTES},
};

struct work {
    struct cli *cli;
    struct out *out; /* NULL for people: a line a job, as it happens */
    struct worker *worker;
    size_t n_settled;
    struct pawl_err err;
};

static void print_line(struct work *work, const struct settled *settled)
{
    CLEANUP(buf_deinit)
    struct buf line;
    char ran[TEXT_DURATION_LEN];
    const struct job *job = settled->job;

    buf_init(&line, 16 * 1024);
    text_format_duration(settled->outcome->run_us, ran);
    buf_printf(&line,
               "job %lld %s %s after %s",
               (long long)job->id,
               job->kind,
               settled->state != NULL ? settled->state : "was taken over by another worker",
               ran);
    if (job->attempt > 1 || settled->outcome->error != NULL)
        buf_printf(&line, " (attempt %d of %d)", job->attempt, job->max_attempts);
    if (settled->outcome->error != NULL) {
        buf_puts(&line, ": ");
        put_error_line(&line, settled->outcome->error);
    }
    buf_putc(&line, '\n');
    if (out_write(buf_str(&line), line.len, &work->err) < 0)
        worker_stop(work->worker);
}

static void on_settled(void *data, const struct settled *settled)
{
    struct work *work = data;
    const struct outcome *outcome = settled->outcome;

    work->n_settled++;
    if (work->out == NULL) {
        print_line(work, settled);
        return;
    }
    out_int(work->out, settled->job->id);
    out_text(work->out, settled->job->kind);
    out_text(work->out, settled->job->queue);
    out_int(work->out, settled->job->attempt);
    out_text(work->out, settled->state != NULL ? settled->state : "stale");
    out_int(work->out, outcome->run_us);
    out_text(work->out, outcome->error);
    cell_bytes(work->out, (struct bytes){outcome->result, outcome->result_len});
    out_row(work->out);
    if (out_failed(work->out))
        worker_stop(work->worker);
}

/* KIND=COMMAND */
static int split_execs(struct cli *cli, struct processes_handler *handlers, struct pawl_err *err)
{
    const struct work_options *options = cli->options;

    for (size_t i = 0; i < options->execs.n; i++) {
        const char *text = options->execs.items[i];
        const char *equals = strchr(text, '=');

        if (equals == NULL || equals == text || equals[1] == '\0')
            return verb_usage(cli, err, "--exec %s is not of the form KIND=COMMAND", text);
        handlers[i].kind = arena_strndup(cli->arena, text, (size_t)(equals - text));
        handlers[i].command = equals + 1;
        if (handlers[i].kind == NULL)
            return err_set(err, PAWL_ENOMEM, "out of memory");
    }
    return 0;
}

/* Which of our queues are held. */
struct held {
    const struct worker_options *options;
    bool all;
    bool queues[OPTION_LIST_MAX];
    size_t n;
};

static void note_held(void *data, const struct queue_view *queue)
{
    struct held *held = data;

    if (queue->paused_at == 0)
        return;
    held->all |= strcmp(queue->name, QUEUE_ALL) == 0;
    for (size_t i = 0; i < held->options->n_queues; i++) {
        if (!held->queues[i] && strcmp(queue->name, held->options->queues[i]) == 0) {
            held->queues[i] = true;
            held->n++;
        }
    }
}

/* Why there was nothing to do. Only a note: if the database does not answer, it is left out. */
static void say_why_nothing(struct cli *cli, const struct worker_options *options)
{
    CLEANUP(sync_close)
    PGconn *conn = NULL;
    struct held held = {.options = options};
    struct pawl_err ignored;

    if (options->target != NULL && cli_open(cli, options->target, &conn, &ignored) == 0 &&
        client_queue_list(conn, 1, note_held, &held, &ignored) < 0)
        held = (struct held){.options = options};
    if (held.all) {
        cli_note(cli, "nothing was run: all queues are paused (pawl queue resume --all)");
        return;
    }
    for (size_t i = 0; i < options->n_queues; i++) {
        if (held.queues[i])
            cli_note(cli,
                     "nothing was run: queue %s is paused (pawl queue resume %s)",
                     options->queues[i],
                     options->queues[i]);
    }
    if (held.n < options->n_queues)
        cli_note(cli,
                 "nothing was due for these kinds in %s; see pawl job list",
                 held.n > 0 ? "the other queues" : "these queues");
}

static int work_until_stopped(struct cli *cli,
                              struct work *work,
                              const struct worker_options *options,
                              struct pawl_err *err)
{
    int rc = 0;

    if (cli->output != OUT_TABLE) {
        work->out = cli_out_new(cli, columns, sizeof(columns) / sizeof(*columns));
        if (work->out == NULL)
            return err_set(err, PAWL_ENOMEM, "out of memory");
    }
    if (!options->until_empty)
        cli_note(cli, "waiting for jobs; Ctrl-C finishes what runs and ends");
    rc = worker_run(work->worker, options, err);
    if (rc == 0 && work->err.code < 0) {
        *err = work->err;
        rc = err->code;
    }
    if (work->out != NULL) {
        struct pawl_err end_err;
        int end_rc = out_end(work->out, clock_wall_us(&clock_system), &end_err);

        /* The document is ended whatever happened. */
        if (rc == 0 && end_rc < 0) {
            *err = end_err;
            rc = end_rc;
        }
        out_free(work->out);
    }
    if (rc == 0 && options->until_empty && work->n_settled == 0)
        say_why_nothing(cli, options);
    return rc;
}

#ifdef PAWL_WITH_SERVE
/* What only a worker with a database of its own can do. */
static int check_server_usage(struct cli *cli, struct pawl_err *err)
{
    const struct work_options *options = cli->options;

    const struct {
        bool given;
        const char *name;
    } local[] = {
        {options->unprepared, "--unprepared"},
        {options->min_concurrency > 0, "--min-concurrency"},
        {options->rollout > 0, "--rollout"},
        {options->memory_given, "--memory-max"},
        {options->breaker > 0, "--breaker"},
    };

    for (size_t i = 0; options->choice.server != NULL && i < sizeof(local) / sizeof(*local); i++) {
        if (local[i].given)
            return verb_usage(cli, err, "%s does not go with --server", local[i].name);
    }
    return server_choice_check(cli, &options->choice, err);
}
#endif

static int check_usage(struct cli *cli, struct pawl_err *err)
{
    const struct work_options *options = cli->options;

    if (options->execs.n == 0)
        return verb_usage(cli, err, "nothing to run jobs with: --exec KIND=COMMAND is missing");
    if (options->lease_ms < LEASE_MIN_MS || options->lease_ms > LEASE_MAX_MS)
        return verb_usage(cli, err, "--lease must be between 100ms and 1d");
    if (options->poll_ms < 1)
        return verb_usage(cli, err, "--poll must be at least 1ms");
    if (options->min_concurrency > options->concurrency)
        return verb_usage(cli, err, "--min-concurrency must not be above --concurrency");
    if (options->min_concurrency > 0 && options->rollout > 0)
        return verb_usage(cli, err, "--rollout and --min-concurrency do not go together");
    if (options->rollout > 0 && options->rollout <= options->concurrency)
        return verb_usage(cli, err, "--rollout must be above --concurrency");
#ifdef PAWL_WITH_SERVE
    int server_rc = check_server_usage(cli, err);

    if (server_rc < 0)
        return server_rc;
#endif
    for (size_t i = 0; i < options->queues.n; i++) {
        int rc = name_check("queue", options->queues.items[i], err);

        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Whatever is wrong with the database is said now and clearly; later troubles are waited out. */
static int find_database(struct cli *cli,
                         const struct worker_options *options,
                         struct target *ret_target,
                         struct pawl_err *err)
{
    CLEANUP(sync_close)
    PGconn *conn = NULL;
    int rc = cli_connect(cli, "pawl_worker", &conn, ret_target, err);

    if (rc == 0 && worker_check(conn, options, err) < 0)
        rc = cli_denied(ret_target, "pawl_worker", err);
    return rc;
}

#ifdef PAWL_WITH_SERVE
static int work_remotely(struct cli *cli,
                         struct work *work,
                         struct worker_options *worker_options,
                         struct pawl_err *err)
{
    const struct work_options *options = cli->options;
    struct server_access access = {0};
    int rc = server_access_init(&access, cli, &options->choice, err);

    worker_options->server = &access;
    worker_options->target = NULL;
    if (rc == 0)
        rc = work_until_stopped(cli, work, worker_options, err);
    server_access_deinit(&access);
    return rc;
}
#endif

static int run(struct cli *cli, struct pawl_err *err)
{
    const struct work_options *options = cli->options;
    struct processes_handler handlers[OPTION_LIST_MAX];
    static const char *const default_queue[] = {"default"};
    struct worker worker = {0};
    struct work work = {.cli = cli, .worker = &worker};
    struct target target;
    struct worker_options worker_options = {
        .target = &target,
        .queues = options->queues.n > 0 ? options->queues.items : default_queue,
        .n_queues = options->queues.n > 0 ? options->queues.n : 1,
        .handlers = handlers,
        .n_handlers = options->execs.n,
        .concurrency = (size_t)options->concurrency,
        .lease_ms = options->lease_ms,
        .poll_ms = options->poll_ms,
        .drain_ms = options->drain_ms,
        .until_empty = options->once,
        .unprepared = options->unprepared,
        .prefetch = (size_t)options->prefetch,
        .min_demand = (size_t)options->min_demand,
        .jitter_ms = options->jitter_ms,
        .poll_max_ms = options->poll_max_ms,
        .min_concurrency = (size_t)options->min_concurrency,
        .rollout = (size_t)options->rollout,
        .rollout_ms = options->rollout_ms,
        .memory_percent = options->memory_given ? (int)options->memory_max : MEMORY_GROUP_PERCENT,
        .memory_machine_percent =
            options->memory_given ? (int)options->memory_max : MEMORY_MACHINE_PERCENT,
        .breaker_percent = (int)options->breaker,
        .stall_ms = STALL_MS,
        .stats = options->stats,
        .log_stderr = options->stderr_to_log,
        .log = cli->log,
        .settled = on_settled,
        .data = &work,
    };
    int rc = check_usage(cli, err);

    if (rc == 0)
        rc = split_execs(cli, handlers, err);
#ifdef PAWL_WITH_SERVE
    if (rc == 0 && options->choice.server != NULL)
        return work_remotely(cli, &work, &worker_options, err);
#endif
    if (rc == 0)
        rc = find_database(cli, &worker_options, &target, err);
    return rc < 0 ? rc : work_until_stopped(cli, &work, &worker_options, err);
}

static void defaults(void *data)
{
    struct work_options *options = data;

    options->concurrency = 4;
    options->lease_ms = 30 * MS_PER_S;
    options->poll_ms = 200;
    options->drain_ms = 30 * MS_PER_S;
}

#define OPTION(k, field) .kind = (k), .offset = offsetof(struct work_options, field)

static const struct option_spec options[] = {
    {.name = "queue",
     .letter = 'Q',
     OPTION(OPTION_LIST, queues),
     .value = "QUEUE",
     .help = "Take jobs from QUEUE; several queues take turns (default: default)"},
    {.name = "exec",
     .letter = 'e',
     OPTION(OPTION_LIST, execs),
     .value = "KIND=COMMAND",
     .help =
         "Run jobs of KIND with COMMAND, by /bin/sh. May be given for several kinds; other kinds are left alone"},
    {.name = "concurrency",
     .letter = 'c',
     OPTION(OPTION_INT, concurrency),
     .value = "N",
     .help = "Run at most N jobs at a time (default 4)",
     .min = 1,
     .max = 1000},
    {.name = "min-concurrency",
     OPTION(OPTION_INT, min_concurrency),
     .value = "N",
     .help =
         "Begin with N at a time and find the best number up to --concurrency: more while that brings more "
         "throughput, fewer when memory, errors or the time that jobs take get out of hand (default: always "
         "--concurrency)",
     .min = 1,
     .max = 1000},
    {.name = "rollout",
     OPTION(OPTION_INT, rollout),
     .value = "N",
     .help =
         "Once it goes well with --concurrency, raise it to N and watch: with more than 5 % errors, memory above "
         "80 % or jobs that take twice as long, go back and say why (default: no)",
     .min = 1,
     .max = 1000},
    {.name = "rollout-for",
     OPTION(OPTION_DURATION, rollout_ms),
     .value = "TIME",
     .help = "How long a rollout is watched before it is kept (default 10m)"},
    {.name = "memory-max",
     OPTION(OPTION_INT, memory_max),
     .set_offset = offsetof(struct work_options, memory_given),
     .value = "PERCENT",
     .help =
         "Claim nothing while more memory than this is in use, of the control group's limit or, without one, of "
         "the machine's; running jobs go on. 0 never minds (default 80 of a group, 95 of a machine)",
     .min = 0,
     .max = 100},
    {.name = "breaker",
     OPTION(OPTION_INT, breaker),
     .value = "PERCENT",
     .help =
         "Leave a kind alone for a while when so many of its runs in 30 s fail, then try it with two jobs "
         "(default: never)",
     .min = 1,
     .max = 100},
    {.name = "once",
     OPTION(OPTION_FLAG, once),
     .help =
         "End when nothing is due and nothing runs; retries that are due later are not waited for"},
    {.name = "lease",
     OPTION(OPTION_DURATION, lease_ms),
     .value = "TIME",
     .help =
         "How long a silent worker is believed alive before its jobs are given to others (default 30s)"},
    {.name = "poll",
     OPTION(OPTION_DURATION, poll_ms),
     .value = "TIME",
     .help =
         "With --unprepared: how soon to look again when nothing was due; grows to a second (default 200ms)"},
    {.name = "drain",
     OPTION(OPTION_DURATION, drain_ms),
     .value = "TIME",
     .help = "How long running jobs may take to end after SIGTERM (default 30s)"},
    {.name = "log-stderr",
     OPTION(OPTION_FLAG, stderr_to_log),
     .help = "Log what commands write to their standard error"},
    {.name = "prefetch",
     OPTION(OPTION_INT, prefetch),
     .value = "N",
     .help = "Claim up to N jobs ahead of need: fewer, larger claims (default 0)",
     .min = 0,
     .max = 10000},
    {.name = "min-demand",
     OPTION(OPTION_INT, min_demand),
     .value = "N",
     .help = "While jobs run, claim only when there is room for N more (default 1)",
     .min = 0,
     .max = 10000},
    {.name = "jitter",
     OPTION(OPTION_DURATION, jitter_ms),
     .value = "TIME",
     .help =
         "After a notification wait up to this long, by chance, so that many workers do not claim at once "
         "(default 0; 10ms is plenty)"},
    {.name = "max-poll",
     OPTION(OPTION_DURATION, poll_max_ms),
     .value = "TIME",
     .help =
         "How long a sleeping worker goes without a look of its own (default 5s; 1s with --unprepared)"},
    {.name = "stats",
     OPTION(OPTION_FLAG, stats),
     .help = "Log what was counted when it ends; SIGUSR1 logs it at any time"},
#ifdef PAWL_WITH_SERVE
    SERVER_OPTIONS(struct work_options, "Take jobs from"),
#endif
    {.name = "unprepared",
     OPTION(OPTION_FLAG, unprepared),
     .help = "Use no prepared statements and no LISTEN: for a pooler in transaction mode"},
    {0},
};

static const struct example examples[] = {
    {"pawl work --exec 'hello=cat'", "Jobs of kind hello, from the queue default."},
    {"pawl work --queue mail -c 8 -e 'send=./send.py'", "Eight at a time."},
    {"pawl work -c 32 --min-concurrency 2 --breaker 50 -e 'render=./render'",
     "Between 2 and 32 at a time; stop claiming a kind of which half fails."},
#ifdef PAWL_WITH_SERVE
    {"pawl work --server jobs.example.com:7295 --tls-ca ca.pem -e 'hello=cat'",
     "Without a database: PAWL_TOKEN says who it is."},
#endif
    {"pawl work --once -e 'a=./a' -e 'b=./b'", "Two kinds; end when the queue is empty."},
    {NULL, NULL},
};

const struct verb verb_work = {
    .name = "work",
    .summary = "Run jobs",
    .group = "Jobs",
    .description =
        "Claims jobs and runs each as a process: the payload on standard input, what it prints is the result, and "
        "exit status 0 means done. Exit status 65 means that trying again is of no use; any other status means that "
        "the job is tried again later, with a delay that grows from a second to an hour, until its attempts are used "
        "up. The command finds PAWL_JOB_ID, PAWL_JOB_KIND, PAWL_JOB_QUEUE, PAWL_JOB_ATTEMPT, PAWL_JOB_MAX_ATTEMPTS "
        "and PAWL_JOB_TOKEN in its environment.\n\n"
        "A command may go on in steps: with exit status 0 a line of JSON on descriptor 3 says how, "
        "such as {\"next\":\"ship\"} or {\"await\":[\"paid\"],\"next\":\"ship\"}, and the next run finds PAWL_JOB_STEP and "
        "PAWL_JOB_STATE.\n\n"
        "A job belongs to this worker only as long as its lease is renewed. When the worker dies, another one gets "
        "the job after the lease has run out. A job may therefore run more than once: make it safe to run twice.\n\n"
        "With --server jobs come from a `pawl serve` and outcomes go there; the database is the server's alone. A "
        "connection that is lost is made again while jobs run on.\n\n"
        "SIGTERM or Ctrl-C stops claiming and waits for running jobs; a second one ends them at once.",
    .options = options,
    .options_size = sizeof(struct work_options),
    .defaults = defaults,
    .examples = examples,
    .run = run,
    .long_running = true,
};

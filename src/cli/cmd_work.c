/* pawl work: runs jobs, each as a child process. Thin: a worker of libpawl with commands for handlers. */
#include <string.h>

#include "base/clock.h"
#include "base/defer.h"
#include "base/text.h"
#include "cli/cells.h"
#include "cli/cmds.h"
#include "cli/db.h"
#include "cli/descriptors.h"
#include "cli/idle.h"
#include "cli/working.h"
#include "core/job.h"
#ifdef PAWL_WITH_SERVE
#    include "cli/server.h"
#endif

#define LEASE_MIN_MS           100 /* a few renewals have to fit in */
#define LEASE_MAX_MS           ((int64_t)24 * 60 * 60 * MS_PER_S)
#define MEMORY_GROUP_PERCENT   80 /* of a control group's limit: beyond it the kernel kills soon */
#define MEMORY_MACHINE_PERCENT 95 /* of a machine that may be full for reasons of its own */

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
    struct working working;
    const char *queues[OPTION_LIST_MAX]; /* each once */
    size_t n_queues;
    size_t n_settled;
    struct pawl_err err;
};

static void print_line(struct work *work, const struct pawl_settled *settled)
{
    CLEANUP(buf_deinit)
    struct buf line;
    char ran[TEXT_DURATION_LEN];

    buf_init(&line, 16 * 1024);
    text_format_duration(settled->run_us, ran);
    buf_printf(&line,
               "job %lld %s %s after %s",
               (long long)settled->id,
               settled->kind,
               settled->state != NULL ? settled->state : "was taken over by another worker",
               ran);
    if (settled->attempt > 1 || settled->error != NULL)
        buf_printf(&line, " (attempt %d of %d)", settled->attempt, settled->max_attempts);
    if (settled->error != NULL) {
        buf_puts(&line, ": ");
        put_error_line(&line, settled->error);
    }
    buf_putc(&line, '\n');
    if (out_write(buf_str(&line), line.len, &work->err) < 0)
        working_stop(&work->working);
}

static void on_settled(void *data, const struct pawl_settled *settled)
{
    struct work *work = data;

    work->n_settled++;
    if (work->out == NULL) {
        print_line(work, settled);
        return;
    }
    out_int(work->out, settled->id);
    out_text(work->out, settled->kind);
    out_text(work->out, settled->queue);
    out_int(work->out, settled->attempt);
    out_text(work->out, settled->state != NULL ? settled->state : "stale");
    out_int(work->out, settled->run_us);
    out_text(work->out, settled->error);
    cell_bytes(work->out, (struct bytes){settled->result, settled->result_len});
    out_row(work->out);
    if (out_failed(work->out))
        working_stop(&work->working);
}

/* KIND=COMMAND, each as a handler of the worker. */
static int add_execs(struct cli *cli, struct pawl_worker *worker, struct pawl_err *err)
{
    const struct work_options *options = cli->options;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < options->execs.n; i++) {
        const char *text = options->execs.items[i];
        const char *equals = strchr(text, '=');
        const char *kind = arena_strndup(cli->arena, text, (size_t)(equals - text));

        if (kind == NULL)
            return err_set(err, PAWL_ENOMEM, "out of memory");
        rc = pawl_worker_exec(worker, kind, equals + 1, err);
        if (rc == PAWL_EEXIST)
            rc = err_set(err, PAWL_EINVAL, "two commands given for kind %s", kind);
    }
    return rc;
}

static int check_execs(struct cli *cli, struct pawl_err *err)
{
    const struct work_options *options = cli->options;

    if (options->execs.n == 0)
        return verb_usage(cli, err, "nothing to run jobs with: --exec KIND=COMMAND is missing");
    for (size_t i = 0; i < options->execs.n; i++) {
        const char *text = options->execs.items[i];
        const char *equals = strchr(text, '=');

        if (equals == NULL || equals == text || equals[1] == '\0')
            return verb_usage(cli, err, "--exec %s is not of the form KIND=COMMAND", text);
    }
    return 0;
}

static int work_until_stopped(struct cli *cli, struct work *work, bool once, struct pawl_err *err)
{
    int rc = 0;

    if (cli->output != OUT_TABLE) {
        work->out = cli_out_new(cli, columns, sizeof(columns) / sizeof(*columns));
        if (work->out == NULL)
            return err_set(err, PAWL_ENOMEM, "out of memory");
    }
    if (!once)
        cli_note(cli, "waiting for jobs; Ctrl-C finishes what runs and ends");
    rc = working_run(&work->working, err);
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
    int exec_rc = check_execs(cli, err);

    if (exec_rc < 0)
        return exec_rc;
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

/* What the worker takes from the command line, wherever its jobs come from. */
static struct pawl_worker_options common_options(struct cli *cli, struct work *work)
{
    const struct work_options *options = cli->options;
    struct pawl_worker_options o = PAWL_WORKER_OPTIONS_INIT;

    o.queues = work->queues;
    o.n_queues = work->n_queues;
    o.until_empty = options->once;
    o.concurrency = (unsigned)options->concurrency;
    o.prefetch = (unsigned)options->prefetch;
    o.lease_ms = options->lease_ms;
    o.drain_ms = options->drain_ms > 0 ? options->drain_ms : 1;
    o.log_stderr = options->stderr_to_log;
    o.settled = on_settled;
    o.settled_data = work;
    working_log(cli->log, &o);
    return o;
}

/* … and what only a worker with a database of its own has. */
static void
local_options(struct cli *cli, const struct target *target, struct pawl_worker_options *o)
{
    const struct work_options *options = cli->options;
    int64_t poll_max_ms = options->poll_max_ms;

    o->conninfo = cli_conninfo(target);
    o->pooled = options->unprepared;
    o->min_demand = (unsigned)options->min_demand;
    o->jitter_ms = options->jitter_ms;
    o->poll_max_ms = poll_max_ms;
    o->poll_ms = poll_max_ms > 0 && poll_max_ms < options->poll_ms ? poll_max_ms : options->poll_ms;
    o->rollout = (unsigned)options->rollout;
    o->rollout_watch_ms = options->rollout_ms;
    o->breaker_percent = (unsigned)options->breaker;
    o->memory_max_percent =
        options->memory_given ? (unsigned)options->memory_max : MEMORY_GROUP_PERCENT;
    o->memory_machine_max_percent =
        options->memory_given ? (unsigned)options->memory_max : MEMORY_MACHINE_PERCENT;
    if (options->min_concurrency > 0) {
        o->max_concurrency = o->concurrency;
        o->concurrency = o->min_concurrency = (unsigned)options->min_concurrency;
    }
}

static int work_with(struct cli *cli,
                     struct work *work,
                     const struct pawl_worker_options *o,
                     struct pawl_err *err)
{
    const struct work_options *options = cli->options;
    struct working *working = &work->working;
    int rc = pawl_worker_new(o, &working->worker, err);

    working->log = cli->log;
    working->stats = options->stats;
    if (rc == 0)
        rc = add_execs(cli, working->worker, err);
    if (rc == 0)
        rc = work_until_stopped(cli, work, options->once, err);
    pawl_worker_free(working->worker);
    return rc;
}

#ifdef PAWL_WITH_SERVE
static int work_remotely(struct cli *cli, struct work *work, struct pawl_err *err)
{
    const struct work_options *options = cli->options;
    struct pawl_worker_options o = common_options(cli, work);

    o.server = options->choice.server;
    o.tls_ca = options->choice.tls_ca;
    o.tls_certificate = options->choice.tls_cert;
    o.tls_key = options->choice.tls_key;
    int rc = server_token(cli, &options->choice, &o.token, err);

    if (rc == 0)
        rc = work_with(cli, work, &o, err);
    if (rc == 0 && o.until_empty && work->n_settled == 0)
        idle_explain(cli, NULL, o.queues, o.n_queues);
    return rc;
}
#endif

/* The worker looks for itself whether it can work there. What it cannot do is make a private database, or a schema in it. */
static int work_locally(struct cli *cli, struct work *work, struct pawl_err *err)
{
    struct pawl_worker_options o = common_options(cli, work);
    PGconn *conn = NULL;
    struct target target;
    int rc = cli_connect(cli, "pawl_worker", &conn, &target, err);

    cli_close(&conn);
    if (rc < 0)
        return rc;
    local_options(cli, &target, &o);
    rc = work_with(cli, work, &o, err);
    if (rc == 0 && o.until_empty && work->n_settled == 0)
        idle_explain(cli, &target, o.queues, o.n_queues);
    return rc;
}

/* A queue that is named twice is one. */
static void take_queues(const struct option_list *from, struct work *work)
{
    for (size_t i = 0; i < from->n; i++) {
        size_t j = 0;

        while (j < work->n_queues && strcmp(work->queues[j], from->items[i]) != 0)
            j++;
        if (j == work->n_queues)
            work->queues[work->n_queues++] = from->items[i];
    }
    if (work->n_queues == 0)
        work->queues[work->n_queues++] = "default";
}

static int run(struct cli *cli, struct pawl_err *err)
{
    const struct work_options *options = cli->options;
    struct work work = {.cli = cli};
    int rc = check_usage(cli, err);

    if (rc == 0)
        rc = descriptors_ensure(
            options->rollout > options->concurrency ? options->rollout : options->concurrency, err);
    if (rc < 0)
        return rc;
    take_queues(&options->queues, &work);
#ifdef PAWL_WITH_SERVE
    if (options->choice.server != NULL)
        return work_remotely(cli, &work, err);
#endif
    return work_locally(cli, &work, err);
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

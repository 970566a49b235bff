/*
 * pawl enqueue: one job, the same job many times, or a file of jobs. Whatever it is, it is one
 * transaction: either all of it was accepted, or nothing was and the message says why.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/defer.h"
#include "cli/cmds.h"
#include "cli/db.h"
#include "cli/jobs_file.h"
#include "cli/lines.h"
#include "core/job_fields.h"
#include "core/json.h"
#include "pawl.h"
#ifdef PAWL_WITH_SERVE
#    include "cli/server.h"
#endif

#define GATHER_MAX       1000               /* jobs, and … */
#define GATHER_BYTES_MAX (32 * 1024 * 1024) /* … bytes that are sent together */

#define COUNT_MAX        10000000
#define NAMED_MAX        10   /* ids shown one by one to people */
#define LINE_SPARE       4096 /* what a line may hold besides the payload */

struct enqueue_options {
    struct pawl_job_new job;
    bool given[JOB_FIELDS_N]; /* which fields of it */
    struct option_list tags;
    int64_t count;
    bool count_set;
    const char *file;
    bool bytes;
#ifdef PAWL_WITH_SERVE
    struct server_choice choice;
#endif
};

/* Jobs on their way: gathered until there are enough to send them, ids kept until the commit. */
struct enqueuing {
    struct cli *cli;
    PGconn *conn; /* NULL: there is a server */
    const struct target *target;
    struct pawl_server *server; /* NULL: there is a database */
    struct pawl_job_new jobs[GATHER_MAX + 1];
    size_t n;
    size_t bytes;
    struct arena arena; /* of the gathered jobs */
    struct buf ids;     /* int64_t each */
};

static int flush(struct enqueuing *e, struct pawl_err *err)
{
    int64_t ids[GATHER_MAX + 1];
    int rc;

    if (e->n == 0)
        return 0;
    rc = e->server != NULL ? pawl_server_enqueue(e->server, e->jobs, e->n, ids, NULL, err)
                           : pawl_enqueue_many(e->conn, e->jobs, e->n, ids, NULL, err);
    if (rc == 0 && buf_append(&e->ids, ids, e->n * sizeof(*ids)) < 0)
        rc = err_set(err, PAWL_ELIMIT, "more than %d jobs at once", COUNT_MAX);
    e->n = 0;
    e->bytes = 0;
    arena_clear(&e->arena);
    return rc;
}

/* One call to a server is all or nothing, two are not: what is too much for one is sent nevertheless, and refused. The job's
 * strings must live until the next flush. */
static int add(struct enqueuing *e, const struct pawl_job_new *job, struct pawl_err *err)
{
    size_t jobs_max = e->server != NULL ? GATHER_MAX + 1 : GATHER_MAX;

    e->jobs[e->n++] = *job;
    e->bytes += job_new_bytes(job);
    if (e->n < jobs_max && e->bytes < GATHER_BYTES_MAX)
        return 0;
    return flush(e, err);
}

static bool is_blank(const char *line, size_t len)
{
    while (len > 0 && strchr(" \t\r", line[len - 1]) != NULL && line[len - 1] != '\0')
        len--;
    return len == 0;
}

static int enqueue_line(struct enqueuing *e,
                        const struct pawl_job_new *defaults,
                        const struct lines *lines,
                        const char *line,
                        size_t len,
                        struct pawl_err *err)
{
    struct pawl_job_new job;
    int rc = jobs_file_line(line, len, defaults, &e->arena, &job, err);

    if (rc == 0)
        rc = pawl_job_check(&job, err);
    if (rc < 0)
        return err_prefix(err, "%.80s, line %lld", lines->name, (long long)lines->number);
    /* The line is gone with the next one. */
    if (job.payload != NULL)
        job.payload = arena_memdup(&e->arena, job.payload, job.payload_len);
    if (job.payload == NULL && job.payload_len > 0)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    return add(e, &job, err);
}

static int enqueue_file(struct enqueuing *e,
                        const struct pawl_job_new *defaults,
                        const char *name,
                        struct pawl_err *err)
{
    struct lines lines;
    const char *line;
    size_t len;
    int rc = lines_open(&lines, name, PAWL_PAYLOAD_MAX + LINE_SPARE, err);

    if (rc < 0)
        return rc;
    while ((rc = lines_next(&lines, &line, &len, err)) > 0) {
        if (is_blank(line, len))
            continue;
        rc = enqueue_line(e, defaults, &lines, line, len, err);
        if (rc < 0)
            break;
    }
    lines_close(&lines);
    return rc < 0 ? rc : flush(e, err);
}

static int enqueue_same(struct enqueuing *e,
                        const struct pawl_job_new *job,
                        int64_t count,
                        struct pawl_err *err)
{
    int rc = 0;

    for (int64_t i = 0; rc == 0 && i < count; i++)
        rc = add(e, job, err);
    return rc == 0 ? flush(e, err) : rc;
}

/* From the arguments: the payload, or "-" for standard input. */
static int
take_payload(struct cli *cli, struct buf *input, struct pawl_job_new *job, struct pawl_err *err)
{
    const struct enqueue_options *options = cli->options;
    int rc = 0;

    if (cli->n_args < 2)
        return 0;
    job->payload = cli->args[1];
    job->payload_len = strlen(cli->args[1]);
    if (strcmp(cli->args[1], "-") == 0) {
        rc = read_all("-", PAWL_PAYLOAD_MAX, input, err);
        if (rc < 0)
            return rc;
        job->payload = buf_str(input);
        job->payload_len = input->len;
    }
    if (!options->bytes)
        rc = json_check(job->payload, job->payload_len, err);
    if (rc == PAWL_EINVAL)
        err_hint(
            err,
            "The payload is one JSON value, quoted for the shell: '{\"n\":1}'. Other bytes: --bytes.");
    return rc;
}

static int check_usage(struct cli *cli, struct pawl_err *err)
{
    const struct enqueue_options *options = cli->options;

    if (options->given[JOB_FIELD_delay] && options->given[JOB_FIELD_at])
        return verb_usage(cli, err, "--delay and --at exclude each other");
    if (options->file == NULL && cli->n_args == 0)
        return verb_usage(cli, err, "what should be enqueued? A KIND is missing");
    if (options->file != NULL && (options->count_set || cli->n_args > 1))
        return verb_usage(cli, err, "--from-file takes neither a payload nor --count");
    if (options->file != NULL && options->bytes)
        return verb_usage(cli, err, "--from-file takes JSON only, no --bytes");
#ifdef PAWL_WITH_SERVE
    return server_choice_check(cli, &options->choice, err);
#else
    return 0;
#endif
}

/* The job of the options, which is also what lines of a file leave out. */
static int read_options(const struct cli *cli, struct pawl_job_new *ret_job, struct pawl_err *err)
{
    const struct enqueue_options *options = cli->options;
    int rc = 0;

    *ret_job = options->job;
    ret_job->kind = cli->n_args > 0 ? cli->args[0] : NULL;
    ret_job->tags = options->tags.items;
    ret_job->n_tags = options->tags.n;
    for (size_t i = 0; rc == 0 && i < JOB_FIELDS_N; i++) {
        if (options->given[i])
            rc = job_field_check(&job_fields[i], ret_job, true, err);
    }
    return rc;
}

static int show_ids_as_rows(struct cli *cli, const int64_t *ids, size_t n, struct pawl_err *err)
{
    static const struct out_column columns[] = {{"id", "JOB", OUT_INT}};
    struct out *out = cli_out_new(cli, columns, 1);

    if (out == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        out_int(out, ids[i]);
        out_row(out);
    }
    int rc = out_end(out, clock_wall_us(&clock_system), err);

    out_free(out);
    return rc;
}

/* The bare id on a line, so that id=$(pawl enqueue ...) works; many are summed up for people. */
static int show_ids(struct cli *cli, const struct buf *buf, struct pawl_err *err)
{
    const int64_t *ids = (const void *)buf->data;
    size_t n = buf->len / sizeof(*ids);
    char text[128];
    int rc = 0;

    if (cli->output != OUT_TABLE)
        return show_ids_as_rows(cli, ids, n, err);
    if (n == 0)
        cli_note(cli, "the file holds no jobs");
    if (n > NAMED_MAX) {
        int len = snprintf(text,
                           sizeof(text),
                           "%zu jobs, from %lld to %lld\n",
                           n,
                           (long long)ids[0],
                           (long long)ids[n - 1]);

        return out_write(text, (size_t)len, err);
    }
    for (size_t i = 0; rc == 0 && i < n; i++) {
        int len = snprintf(text, sizeof(text), "%lld\n", (long long)ids[i]);

        rc = out_write(text, (size_t)len, err);
    }
    return rc;
}

/* Whoever sent half a file must not have to find out which half. Also when the connection was lost:
 * the commit had not been sent. */
static int nothing_enqueued(const struct enqueuing *e, struct pawl_err *err)
{
    cli_denied(e->target, "pawl_producer", err);
    const struct pawl_err was = *err;

    if (was.code == PAWL_ECONN)
        return err_hint(err, "Nothing was enqueued. Try again.");
    return err_hint(err, "%s%sNothing was enqueued.", was.hint, was.hint[0] != '\0' ? " " : "");
}

/* Begins, enqueues, commits; rolls back if anything fails. */
static int enqueue_all(struct cli *cli,
                       struct enqueuing *e,
                       const struct pawl_job_new *job,
                       struct pawl_err *err)
{
    const struct enqueue_options *options = cli->options;
    int rc = e->conn != NULL ? cli_begin(e->conn, err) : 0;

    if (rc < 0)
        return rc;
    rc = options->file != NULL ? enqueue_file(e, job, options->file, err)
                               : enqueue_same(e, job, options->count, err);
    if (e->conn == NULL)
        return rc;
    if (rc < 0) {
        cli_rollback(e->conn);
        return nothing_enqueued(e, err);
    }
    rc = cli_commit(e->conn, err);
    if (rc == PAWL_EUNKNOWN) {
        const int64_t *id = (const void *)e->ids.data;
        bool unconfirmed = strcmp(err->sqlstate, "01000") == 0;

        err_hint(err,
                 unconfirmed
                     ? "Do not enqueue again yet. When a standby confirms commits again, or "
                       "after a fail-over, see whether job %lld is there: pawl job show %lld"
                     : "Before you enqueue again, see whether job %lld is there: pawl job "
                       "show %lld",
                 (long long)(e->ids.len > 0 ? id[0] : 0),
                 (long long)(e->ids.len > 0 ? id[0] : 0));
    }
    return rc;
}

/* A server where there is one, else a connection. */
static int reach(struct cli *cli, struct enqueuing *e, struct target *target, struct pawl_err *err)
{
#ifdef PAWL_WITH_SERVE
    const struct enqueue_options *options = cli->options;
    struct pawl_server_options server = PAWL_SERVER_OPTIONS_INIT;

    server.address = options->choice.server;
    server.tls_ca = options->choice.tls_ca;
    server.tls_certificate = options->choice.tls_cert;
    server.tls_key = options->choice.tls_key;
    if (server.address != NULL) {
        int rc = server_token(cli, &options->choice, &server.token, err);

        return rc < 0 ? rc : pawl_server_new(&server, &e->server, err);
    }
#endif
    e->target = target;
    return cli_connect(cli, "pawl_producer", &e->conn, target, err);
}

static int enqueue_and_tell(struct cli *cli,
                            struct enqueuing *e,
                            const struct pawl_job_new *job,
                            struct pawl_err *err)
{
    int rc = enqueue_all(cli, e, job, err);

    if (rc < 0)
        return rc;
    rc = show_ids(cli, &e->ids, err);
    return rc < 0 ? err_hint(err, "The jobs were enqueued; only their ids could not be shown.") : 0;
}

static int run(struct cli *cli, struct pawl_err *err)
{
    CLEANUP(buf_deinit)
    struct buf input;
    const struct enqueue_options *options = cli->options;
    struct pawl_job_new job;
    struct enqueuing *e = arena_new(cli->arena, struct enqueuing);
    struct target target;
    int rc = e != NULL ? check_usage(cli, err) : err_set(err, PAWL_ENOMEM, "out of memory");

    buf_init(&input, PAWL_PAYLOAD_MAX + 1);
    if (rc == 0)
        rc = read_options(cli, &job, err);
    if (rc == 0)
        rc = take_payload(cli, &input, &job, err);
    /* What is wrong with the job itself is said before a database is bothered. */
    if (rc == 0 && options->file == NULL)
        rc = pawl_job_check(&job, err);
    if (rc < 0)
        return rc;
    e->cli = cli;
    arena_init(&e->arena, GATHER_BYTES_MAX + PAWL_PAYLOAD_MAX + GATHER_MAX * 1024);
    buf_init(&e->ids, COUNT_MAX * sizeof(int64_t));
    rc = reach(cli, e, &target, err);
    if (rc == 0)
        rc = enqueue_and_tell(cli, e, &job, err);
    cli_close(&e->conn);
    pawl_server_free(e->server);
    buf_deinit(&e->ids);
    arena_deinit(&e->arena);
    return rc;
}

static void defaults(void *data)
{
    struct enqueue_options *options = data;

    options->job = PAWL_JOB_NEW_INIT;
    options->count = 1;
}

#define OPTION(k, field) .kind = (k), .offset = offsetof(struct enqueue_options, field)

/* The options of the table of fields: what holds the value of each type, and where. */
#define OF_NAME(member)   OPTION(OPTION_TEXT, job.member)
#define OF_TEXT(member)   OPTION(OPTION_TEXT, job.member)
#define OF_SMALL(member)  OPTION(OPTION_INT32, job.member)
#define OF_INT(member)    OPTION(OPTION_INT32, job.member)
#define OF_ID(member)     OPTION(OPTION_INT, job.member)
#define OF_SPAN(member)   OPTION(OPTION_DURATION, job.member)
#define OF_SPAN32(member) OPTION(OPTION_DURATION, job.member)
#define OF_TIME(member)   OPTION(OPTION_TIME, job.member)
#define OF_WORD(member)   OPTION(OPTION_CHOICE, job.member)
#define OF_TEXTS(member)  OPTION(OPTION_LIST, member)

#define BARE(...)
#define OPT(id, type, home, member, wire, from, to, range, words, key, option, placeholder, text) \
    {.name = (option),                                                                            \
     .letter = (key),                                                                             \
     OF_##type(member),                                                                           \
     .set_offset = offsetof(struct enqueue_options, given) + JOB_FIELD_##id,                      \
     .value = (placeholder),                                                                      \
     .help = (text),                                                                              \
     .min = (from),                                                                               \
     .max = (to),                                                                                 \
     .choices = (words)},
#define FIELD(how, ...)        how(__VA_ARGS__)
#define LISTED(how, name, ...) " " #name ","

static const struct option_spec options[] = {
    /* clang-format off: each row brings its comma */
    JOB_FIELDS(FIELD)
    /* clang-format on */
    {.name = "count",
     .letter = 'n',
     OPTION(OPTION_INT, count),
     .set_offset = offsetof(struct enqueue_options, count_set),
     .value = "N",
     .help = "Enqueue the job N times (default 1)",
     .min = 1,
     .max = COUNT_MAX},
    {.name = "from-file",
     .letter = 'f',
     OPTION(OPTION_TEXT, file),
     .value = "FILE",
     .help = "Enqueue every line of FILE (- for standard input): a JSON object with" JOB_FIELDS(
         LISTED) " each as its option says. What a line leaves out is taken from the command line"},
#ifdef PAWL_WITH_SERVE
    SERVER_OPTIONS(struct enqueue_options, "Enqueue by"),
#endif
    {.name = "bytes",
     OPTION(OPTION_FLAG, bytes),
     .help = "The payload is not JSON; take it as it is"},
    {0},
};

static const struct example examples[] = {
    {"pawl enqueue hello '{\"n\":1}'", "One job, due now."},
    {"pawl enqueue report --queue slow --delay 1h", "Due in an hour, without a payload."},
    {"pawl enqueue resize --count 1000 '{\"w\":200}'", "The same job a thousand times."},
    {"pawl enqueue --from-file jobs.jsonl", "All of a file's jobs, or none."},
    {"pawl enqueue sync --unique-key account-7", "Once at a time for an account."},
    {"generate-report | pawl enqueue mail -", "The payload from standard input."},
    {NULL, NULL},
};

const struct verb verb_enqueue = {
    .name = "enqueue",
    .summary = "Add a job to a queue",
    .group = "Jobs",
    .args = "[KIND [JSON|-]]",
    .max_args = 2,
    .description =
        "Adds a job of KIND; a worker that has a handler for that kind will run it. The payload is one "
        "JSON value, {} when it is left out, and - reads it from standard input. Prints the job's id (a summary for more than ten).\n\n"
        "Everything one command enqueues is one transaction: all of it is accepted, or nothing. By a server that is "
        "1000 jobs at most, and a connection that is lost is made again: they are accepted once.",
    .options = options,
    .options_size = sizeof(struct enqueue_options),
    .defaults = defaults,
    .examples = examples,
    .run = run,
};

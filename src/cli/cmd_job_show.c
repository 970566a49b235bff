/* pawl job show: one job's whole story, told to people as a timeline and to programs as one object.
 */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/defer.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/cells.h"
#include "cli/cmds.h"
#include "cli/db.h"
#include "cli/steps.h"
#include "cli/term.h"
#include "client/inspect.h"
#include "core/json.h"
#include "pg/sync.h"

#define STORY_MAX (64 * 1024 * 1024) /* payload, result and twenty errors fit */
#define SHOWN_MAX 4000               /* bytes of a payload or result shown to people */

struct show_state {
    struct cli *cli;
    struct buf *out;
};

/* "2026-11-15T12:00:00.123Z  3 min ago" */
static void put_time(struct buf *out, int64_t us, int64_t now)
{
    char text[TEXT_TIME_LEN];
    char relative[OUT_RELATIVE_LEN];

    out_relative(us, now, relative);
    if (us == INT64_MAX) {
        buf_puts(out, relative);
        return;
    }
    text_format_time(us, text);
    buf_printf(out, "%s (%s)", text, relative);
}

static void put_label(const struct show_state *state, const char *label)
{
    bool color = state->cli->color;

    buf_printf(state->out, "%s%-10s%s", color ? TERM_DIM : "", label, color ? TERM_RESET : "");
}

static void put_bytes(const struct show_state *state, const char *label, struct bytes bytes)
{
    size_t shown = bytes.len < SHOWN_MAX ? bytes.len : SHOWN_MAX;

    if (bytes.data == NULL)
        return;
    put_label(state, label);
    if (bytes.len == 0)
        buf_puts(state->out, "(empty)");
    out_escape(state->out, bytes.data, shown, true);
    if (shown < bytes.len)
        buf_printf(state->out, " … (%zu bytes in all; -o json shows them)", bytes.len);
    buf_putc(state->out, '\n');
}

/* Why it is not running, or what it does. */
static void put_now(const struct show_state *state, const struct job_view *job)
{
    char wait[TEXT_DURATION_LEN];

    text_format_duration(job->due_at == INT64_MAX ? 0 : job->due_at - job->now, wait);
    put_label(state, "now");
    if (strcmp(job->state, "running") == 0) {
        text_format_duration(job->now - job->started_at, wait);
        buf_printf(state->out,
                   "runs on %s for %s",
                   job->worker != NULL ? job->worker : "an unknown worker",
                   wait);
    } else if (strcmp(job->state, "scheduled") == 0) {
        buf_printf(state->out, "waits until it is due in %s", wait);
    } else if (strcmp(job->state, "retrying") == 0) {
        buf_printf(
            state->out, "waits %s for attempt %d of %d", wait, job->attempt + 1, job->max_attempts);
    } else if (strcmp(job->state, "ready") == 0 && job->queue_paused) {
        buf_printf(state->out,
                   "waits because queue %s is paused (pawl queue resume %s)",
                   job->queue,
                   job->queue);
    } else if (strcmp(job->state, "ready") == 0) {
        buf_printf(
            state->out, "waits for a free worker of queue %s that runs %s", job->queue, job->kind);
    } else if (strcmp(job->state, "waiting") == 0) {
        put_wait(state->out, job);
    } else if (strcmp(job->state, "parked") == 0) {
        buf_puts(state->out, "waits for an operator");
    } else {
        buf_printf(state->out, "%s", job->state);
    }
    if (job->finished_at == 0 && job->queue_paused && strcmp(job->state, "ready") != 0)
        buf_printf(state->out, "; queue %s is paused", job->queue);
    buf_putc(state->out, '\n');
}

/* The first line goes on where we are, the others stand below it. */
static void put_lines(struct buf *out, const char *text)
{
    for (bool first = true; first || *text != '\0'; first = false) {
        size_t len = strcspn(text, "\n");

        if (!first)
            buf_puts(out, "      ");
        out_escape(out, text, len, false);
        buf_putc(out, '\n');
        text += len + (text[len] == '\n');
    }
}

/* "  2026-…Z  attempt 1 failed after 12 ms on host:17: exit status 1" */
static void put_error(const struct show_state *state, const json_t *error)
{
    const char *at = json_string_value(json_object_get(error, "at"));
    const char *worker = json_string_value(json_object_get(error, "worker"));
    const char *text = json_string_value(json_object_get(error, "error"));
    char ran[TEXT_DURATION_LEN];
    int64_t at_us;
    char when[TEXT_TIME_LEN] = "";

    if (at != NULL && text_parse_time(at, &at_us, NULL) == 0)
        text_format_time(at_us, when);
    text_format_duration(json_integer_value(json_object_get(error, "run_us")), ran);
    buf_printf(state->out,
               "  %s  attempt %lld failed after %s on %s: ",
               when,
               (long long)json_integer_value(json_object_get(error, "attempt")),
               ran,
               worker != NULL ? worker : "a worker that is gone");
    put_lines(state->out, text != NULL ? text : "");
}

static void put_event(const struct show_state *state, int64_t us, const char *what)
{
    char when[TEXT_TIME_LEN];

    text_format_time(us, when);
    buf_printf(state->out, "  %s  %s\n", when, what);
}

static void put_timeline(const struct show_state *state, const struct job_view *job)
{
    json_t *errors = job->errors != NULL ? json_loads(job->errors, 0, NULL) : NULL;
    const char *worker = job->worker != NULL ? job->worker : "a worker that is gone";
    char text[256];
    char ran[TEXT_DURATION_LEN];

    put_label(state, "story");
    buf_putc(state->out, '\n');
    put_event(state, job->created_at, "enqueued");
    for (size_t i = 0; i < json_array_size(errors); i++)
        put_error(state, json_array_get(errors, i));
    json_decref(errors);
    if (strcmp(job->state, "running") == 0) {
        snprintf(text, sizeof(text), "attempt %d claimed by %s", job->attempt, worker);
        put_event(state, job->started_at, text);
    }
    if (strcmp(job->state, "done") == 0) {
        snprintf(text, sizeof(text), "attempt %d started on %s", job->attempt, worker);
        put_event(state, job->started_at, text);
    }
    if (job->finished_at != 0) {
        text_format_duration(job->finished_at - job->started_at, ran);
        snprintf(text, sizeof(text), "%s after %s", job->state, ran);
        put_event(state, job->finished_at, text);
    } else if (strcmp(job->state, "retrying") == 0 || strcmp(job->state, "scheduled") == 0) {
        put_event(state, job->due_at, "due");
    }
}

static void put_text(const struct show_state *state, const char *label, const char *text)
{
    if (text == NULL)
        return;
    put_label(state, label);
    put_lines(state->out, text);
}

/* What only some jobs have. */
static void put_extras(const struct show_state *state, const struct job_view *job)
{
    put_text(state, "lane", job->lane);
    put_text(state, "tags", job->tags);
    put_text(state, "trace", job->trace);
    put_text(state, "about", job->correlation);
    if (job->deadline_at != 0) {
        put_label(state, "deadline");
        put_time(state->out, job->deadline_at, job->now);
        buf_putc(state->out, '\n');
    }
    put_text(state, "progress", job->progress);
    put_text(state, "cancel by", job->cancel_by);
    if (job->parent_id != 0) {
        put_label(state, "parent");
        buf_printf(state->out, "job %lld\n", (long long)job->parent_id);
    }
}

static void tell(const struct show_state *state, const struct job_view *job)
{
    bool color = state->cli->color;

    buf_printf(state->out,
               "%sjob %lld%s  %s\n",
               color ? TERM_BOLD : "",
               (long long)job->id,
               color ? TERM_RESET : "",
               job->kind);
    put_now(state, job);
    put_label(state, "queue");
    buf_printf(state->out, "%s, priority %d\n", job->queue, job->priority);
    put_label(state, "attempts");
    buf_printf(state->out, "%d of %d\n", job->attempt, job->max_attempts);
    put_label(state, "created");
    put_time(state->out, job->created_at, job->now);
    buf_putc(state->out, '\n');
    if (job->finished_at != 0) {
        put_label(state, "finished");
        put_time(state->out, job->finished_at, job->now);
    } else {
        put_label(state, "due");
        put_time(state->out, job->due_at, job->now);
    }
    buf_putc(state->out, '\n');
    put_extras(state, job);
    put_bytes(state, "payload", job->payload);
    put_bytes(state, "result", job->result);
    if (job->step != NULL && job->finished_at == 0) {
        put_label(state, "step");
        buf_printf(state->out, "%s\n", job->step);
    }
    put_bytes(state, "state", job->step_state);
    if (job->timeline != NULL) {
        put_label(state, "steps");
        put_steps(state->out, job->timeline);
    }
    put_timeline(state, job);
}

static const struct out_column columns[] = {
    {"id", "job", OUT_INT},
    {"state", "state", OUT_TEXT},
    {"queue", "queue", OUT_TEXT},
    {"queue_paused", "paused", OUT_BOOL},
    {"kind", "kind", OUT_TEXT},
    {"priority", "priority", OUT_INT},
    {"attempt", "attempt", OUT_INT},
    {"max_attempts", "of", OUT_INT},
    {"created_at", "created", OUT_TIME},
    {"due_at", "due", OUT_TIME},
    {"started_at", "started", OUT_TIME},
    {"finished_at", "finished", OUT_TIME},
    {"worker", "worker", OUT_TEXT},
    {"payload", "payload", OUT_BYTES},
    {"result", "result", OUT_BYTES},
    {"errors", "errors", OUT_BYTES},
    {"lane", "lane", OUT_TEXT},
    {"tags", "tags", OUT_BYTES},
    {"trace", "trace", OUT_TEXT},
    {"correlation", "about", OUT_TEXT},
    {"deadline_at", "deadline", OUT_TIME},
    {"progress", "progress", OUT_TEXT},
    {"cancel_by", "cancel by", OUT_TEXT},
    {"parent_id", "parent", OUT_INT},
    {"step", "step", OUT_TEXT},
    {"step_state", "state of the step", OUT_BYTES},
    {"waits_for", "waits for", OUT_TEXT},
    {"awaits", "awaits", OUT_TEXT},
    {"wait_since", "waits since", OUT_TIME},
    {"wait_until", "waits until", OUT_TIME},
    {"children_left", "children left", OUT_INT},
    {"steps", "steps", OUT_BYTES},
};

static void fill(struct out *out, const struct job_view *job)
{
    out_int(out, job->id);
    out_text(out, job->state);
    out_text(out, job->queue);
    out_int(out, job->queue_paused);
    out_text(out, job->kind);
    out_int(out, job->priority);
    out_int(out, job->attempt);
    out_int(out, job->max_attempts);
    out_int(out, job->created_at);
    out_int(out, job->due_at);
    cell_time(out, job->started_at);
    cell_time(out, job->finished_at);
    out_text(out, job->worker);
    cell_bytes(out, job->payload);
    cell_bytes(out, job->result);
    out_text(out, job->errors);
    out_text(out, job->lane);
    out_text(out, job->tags);
    out_text(out, job->trace);
    out_text(out, job->correlation);
    cell_time(out, job->deadline_at);
    out_text(out, job->progress);
    out_text(out, job->cancel_by);
    if (job->parent_id != 0)
        out_int(out, job->parent_id);
    else
        out_null(out);
    out_text(out, job->step);
    cell_bytes(out, job->step_state);
    out_text(out, wait_word(job));
    out_text(out, job->awaits);
    cell_time(out, job->wait_since);
    cell_time(out, job->wait_until);
    out_int(out, job->children_left);
    cell_steps(out, job->timeline);
    out_row(out);
}

struct show {
    struct cli *cli;
    struct out *out;   /* for programs */
    struct buf *story; /* for people */
    int64_t now;
};

static void on_job(void *data, const struct job_view *job)
{
    struct show *show = data;

    show->now = job->now;
    if (show->out != NULL)
        fill(show->out, job);
    else
        tell(&(struct show_state){show->cli, show->story}, job);
}

static int run(struct cli *cli, struct pawl_err *err)
{
    CLEANUP(sync_close)
    PGconn *conn = NULL;
    CLEANUP(buf_deinit)
    struct buf story;
    struct show show = {.cli = cli, .story = &story};
    struct target target;
    int64_t id;
    int rc = text_parse_int(cli->args[0], 1, INT64_MAX, &id, NULL);

    buf_init(&story, STORY_MAX);
    if (rc < 0)
        return verb_usage(cli, err, "\"%s\" is not the id of a job", cli->args[0]);
    rc = cli_connect(cli, "pawl_reader", &conn, &target, err);
    if (rc < 0)
        return rc;
    if (cli->output != OUT_TABLE) {
        show.out = cli_out_new(cli, columns, sizeof(columns) / sizeof(*columns));
        if (show.out == NULL)
            return err_set(err, PAWL_ENOMEM, "out of memory");
        out_single(show.out);
    }
    rc = client_job_show(conn, id, on_job, &show, err);
    if (rc < 0)
        rc = cli_denied(&target, "pawl_reader", err);
    else
        rc = show.out != NULL ? out_end(show.out, show.now, err)
                              : out_write(buf_str(&story), story.len, err);
    out_free(show.out);
    return rc;
}

static const struct example examples[] = {
    {"pawl job show 17", "Its state, its attempts and what they said."},
    {"pawl job show 17 -o json", "The same for a program."},
    {NULL, NULL},
};

const struct verb verb_job_show = {
    .name = "show",
    .summary = "Tell one job's whole story",
    .args = "ID",
    .min_args = 1,
    .max_args = 1,
    .examples = examples,
    .run = run,
};

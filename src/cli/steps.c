/* steps: reading the timeline of a machine, and the words for it. */
#include "cli/steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/defer.h"
#include "base/json.h"
#include "base/text.h"

#define STEPS_MAX   (1024 * 1024) /* a timeline has some 8000 bytes */
#define FIRST_STEP  "(first)"
#define OUTCOME_LEN 16

/* One line of a timeline. */
struct step {
    int64_t ended_us;
    char name[PAWL_NAME_MAX + 1]; /* empty: the first */
    int64_t attempt;
    char outcome[OUTCOME_LEN];
    int64_t run_us;
    int64_t state_bytes;
};

/* A field ends at a tab or at the end of its line. */
static const char *take_text(const char *at, char *ret_text, size_t size)
{
    size_t len = strcspn(at, "\t\n");

    snprintf(ret_text, size, "%.*s", (int)len, at);
    return at[len] == '\t' ? at + len + 1 : at + len;
}

static const char *take_int(const char *at, int64_t *ret_value)
{
    char text[24];

    at = take_text(at, text, sizeof(text));
    *ret_value = strtoll(text, NULL, 10);
    return at;
}

/* False at the end. A line that was cut in half by the bound of the timeline is skipped: it has no
 * six fields. */
static bool next_step(const char **at, struct step *ret_step)
{
    while (**at != '\0') {
        const char *line = *at;
        size_t len = strcspn(line, "\n");
        size_t tabs = 0;

        for (size_t i = 0; i < len; i++)
            tabs += line[i] == '\t';
        *at = line + len + (line[len] == '\n');
        if (tabs != 5)
            continue;
        line = take_int(line, &ret_step->ended_us);
        line = take_text(line, ret_step->name, sizeof(ret_step->name));
        line = take_int(line, &ret_step->attempt);
        line = take_text(line, ret_step->outcome, sizeof(ret_step->outcome));
        line = take_int(line, &ret_step->run_us);
        take_int(line, &ret_step->state_bytes);
        return true;
    }
    return false;
}

static void put_row(struct buf *out, size_t width, const struct step *step)
{
    char started[TEXT_TIME_LEN];
    char took[TEXT_DURATION_LEN];

    text_format_time(step->ended_us - step->run_us, started);
    text_format_duration(step->run_us, took);
    buf_printf(out,
               "  %s  %-*s  %7lld  %-8s  %8s  %lld bytes\n",
               started,
               (int)width,
               step->name[0] != '\0' ? step->name : FIRST_STEP,
               (long long)step->attempt,
               step->outcome,
               took,
               (long long)step->state_bytes);
}

void put_steps(struct buf *out, const char *timeline)
{
    size_t width = strlen(FIRST_STEP);
    const char *at = timeline;
    struct step step;

    while (next_step(&at, &step)) {
        if (strlen(step.name) > width)
            width = strlen(step.name);
    }
    buf_printf(out,
               "\n  %-24s  %-*s  attempt  %-8s  %8s  state\n",
               "started",
               (int)width,
               "step",
               "outcome",
               "took");
    at = timeline;
    while (next_step(&at, &step))
        put_row(out, width, &step);
}

int64_t count_steps(const char *timeline)
{
    struct step step;
    int64_t n = 0;

    while (next_step(&timeline, &step))
        n++;
    return n;
}

static void put_time(struct json_writer *w, const char *key, int64_t us)
{
    char text[TEXT_TIME_LEN];

    text_format_time(us, text);
    json_key(w, key);
    json_str(w, text);
}

void cell_steps(struct out *out, const char *timeline)
{
    CLEANUP(buf_deinit)
    struct buf text;
    struct json_writer w;
    struct step step;

    if (timeline == NULL) {
        out_null(out);
        return;
    }
    buf_init(&text, STEPS_MAX);
    json_init(&w, &text);
    json_array_begin(&w);
    while (next_step(&timeline, &step)) {
        json_object_begin(&w);
        json_key(&w, "step");
        json_str(&w, step.name[0] != '\0' ? step.name : NULL);
        put_time(&w, "started_at", step.ended_us - step.run_us);
        put_time(&w, "ended_at", step.ended_us);
        json_key(&w, "attempt");
        json_int(&w, step.attempt);
        json_key(&w, "outcome");
        json_str(&w, step.outcome);
        json_key(&w, "run_us");
        json_int(&w, step.run_us);
        json_key(&w, "state_bytes");
        json_int(&w, step.state_bytes);
        json_object_end(&w);
    }
    json_array_end(&w);
    if (text.failed)
        out_null(out);
    else
        out_textn(out, text.data, text.len);
}

/* ── what it waits for ── */

static bool waits_for(const struct job_view *job, const char *what)
{
    return job->waits_for != NULL && strcmp(job->waits_for, what) == 0;
}

const char *wait_word(const struct job_view *job)
{
    return waits_for(job, "operator") ? NULL : job->waits_for;
}

static void put_awaits(struct buf *out, const char *awaits)
{
    size_t n = 1;

    for (const char *at = awaits; *at != '\0'; at++)
        n += *at == ',';
    buf_puts(out, "waits for signal ");
    for (size_t i = 1; *awaits != '\0'; i++) {
        size_t len = strcspn(awaits, ",");

        if (i > 1)
            buf_puts(out, i == n ? " or " : ", ");
        out_escape(out, awaits, len, false);
        awaits += len + (awaits[len] == ',');
    }
}

static void put_children(struct buf *out, const struct job_view *job)
{
    int32_t needed = job->children_left - job->join_at;

    buf_printf(out,
               "waits for %s%d %s",
               job->join_at > 0 ? "any " : "",
               needed,
               needed == 1 ? "child" : "children");
    if (job->join_at > 0)
        buf_printf(out, " of %d", job->children_left);
}

void put_wait_for(struct buf *out, const struct job_view *job)
{
    if (job->due_at <= job->now)
        buf_puts(out, "was woken, and waits for a free worker");
    else if (waits_for(job, "signal") && job->awaits != NULL)
        put_awaits(out, job->awaits);
    else if (waits_for(job, "children"))
        put_children(out, job);
    else if (job->lane != NULL)
        buf_printf(out, "waits for its lane %s", job->lane);
    else
        buf_puts(out, "waits");
}

void put_wait(struct buf *out, const struct job_view *job)
{
    char duration[TEXT_DURATION_LEN];

    put_wait_for(out, job);
    if (job->due_at <= job->now)
        return;
    if (job->wait_since != 0) {
        text_format_duration(job->now - job->wait_since, duration);
        buf_printf(out, " since %s", duration);
    }
    if (job->wait_until > job->now) {
        text_format_duration(job->wait_until - job->now, duration);
        buf_printf(out, ", times out in %s", duration);
    }
}

/* job_step: how machines go on: their half of job_settle, job_settle_next, and what a claim says of
 * them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/machine.h"
#include "pg/result.h"
#include "store/job.h"
#include "store/job_internal.h"

#define LINE_MAX_LEN (PAWL_NAME_MAX + 96)

/* job_claim.sql */
#define COL_MACHINE 12

/* pawl.machine_view */
#define FLAG_WAITED    1
#define FLAG_TIMED_OUT 2
#define FLAG_EXPIRED   4
#define FLAG_CANCELLED 8
#define FLAG_KIDS_END  16
#define FLAG_JOINED    32

/* Columns of the machines, each an array of n. */
struct steps {
    int64_t *ids, *ms, *seen;
    struct uuid *tokens;
    const char **outcomes, **names, **awaits, **shown, **lines;
    struct bytes *states;
    bool *progress, *sticky, *fail_fast, *cancel_rest;
    int32_t *join_at, *n_kids;
};

/* Columns of their children. */
struct kids {
    int32_t *parents, *attempts;
    const char **queues, **kinds;
    struct bytes *payloads;
    int16_t *priorities;
    size_t n;
};

static void steps_alloc(struct steps *s, struct params *p, size_t n)
{
    s->ids = PARAM_ARRAY(p, n, int64_t);
    s->ms = PARAM_ARRAY(p, n, int64_t);
    s->seen = PARAM_ARRAY(p, n, int64_t);
    s->tokens = PARAM_ARRAY(p, n, struct uuid);
    s->outcomes = PARAM_ARRAY(p, n, const char *);
    s->fail_fast = PARAM_ARRAY(p, n, bool);
    s->cancel_rest = PARAM_ARRAY(p, n, bool);
    s->names = PARAM_ARRAY(p, n, const char *);
    s->awaits = PARAM_ARRAY(p, n, const char *);
    s->shown = PARAM_ARRAY(p, n, const char *);
    s->lines = PARAM_ARRAY(p, n, const char *);
    s->states = PARAM_ARRAY(p, n, struct bytes);
    s->progress = PARAM_ARRAY(p, n, bool);
    s->sticky = PARAM_ARRAY(p, n, bool);
    s->join_at = PARAM_ARRAY(p, n, int32_t);
    s->n_kids = PARAM_ARRAY(p, n, int32_t);
}

static void kids_alloc(struct kids *k, struct params *p, size_t n)
{
    k->n = 0;
    k->parents = PARAM_ARRAY(p, n, int32_t);
    k->attempts = PARAM_ARRAY(p, n, int32_t);
    k->queues = PARAM_ARRAY(p, n, const char *);
    k->kinds = PARAM_ARRAY(p, n, const char *);
    k->payloads = PARAM_ARRAY(p, n, struct bytes);
    k->priorities = PARAM_ARRAY(p, n, int16_t);
}

/* step, attempt, outcome, µs, bytes of state: as `pawl job show` takes it apart. */
const char *job_timeline_line(struct arena *a, const struct job_settle *item)
{
    const struct machine *machine = item->job->machine;
    const struct going_on *on = item->outcome.on;
    char *line = arena_alloc(a, LINE_MAX_LEN);

    if (line != NULL)
        snprintf(line,
                 LINE_MAX_LEN,
                 "%s\t%d\t%s\t%lld\t%zu",
                 machine != NULL && machine->step != NULL ? machine->step : "",
                 item->job->attempt,
                 outcome_text((int)item->outcome.kind),
                 (long long)item->outcome.run_us,
                 on != NULL && on->state != NULL ? on->state_len
                 : machine != NULL               ? machine->state_len
                                                 : 0);
    return line;
}

static bool is_progress(const struct job_settle *item)
{
    const struct machine *machine = item->job->machine;

    /* Waiting again for the same step is none: what it was shown, it is shown again. */
    return item->outcome.kind != OUTCOME_AWAIT || machine == NULL || machine->step == NULL ||
           strcmp(machine->step, item->outcome.on->step) != 0;
}

static void steps_set(struct steps *s, size_t i, const struct job_settle *item, struct params *p)
{
    const struct going_on *on = item->outcome.on;
    const struct machine *machine = item->job->machine;

    s->ids[i] = item->job->id;
    s->tokens[i] = item->job->token;
    s->outcomes[i] = outcome_text((int)item->outcome.kind);
    s->ms[i] = item->outcome.delay_ms;
    s->seen[i] = machine != NULL ? machine->seen : 0;
    s->names[i] = s->awaits[i] = s->shown[i] = s->lines[i] = NULL;
    s->states[i] = (struct bytes){NULL, 0};
    s->progress[i] = false;
    s->sticky[i] = item->sticky;
    s->join_at[i] = s->n_kids[i] = 0;
    s->fail_fast[i] = s->cancel_rest[i] = false;
    if (on == NULL) /* WAIT_ON: all as it was */
        return;
    s->names[i] = on->step;
    s->states[i] = (struct bytes){on->state, on->state_len};
    s->awaits[i] = on->awaits;
    s->shown[i] = machine != NULL ? machine->shown : NULL;
    s->progress[i] = is_progress(item);
    s->join_at[i] = on->join_at;
    s->n_kids[i] = (int32_t)on->n_children;
    s->fail_fast[i] = (on->join_flags & JOIN_FAIL_FAST) != 0;
    s->cancel_rest[i] = (on->join_flags & JOIN_CANCEL) != 0;
    s->lines[i] = job_timeline_line(p->arena, item);
    p->failed |= s->lines[i] == NULL;
}

static void kids_add(struct kids *k, size_t parent, const struct going_on *on)
{
    for (size_t i = 0; on != NULL && i < on->n_children; i++) {
        const struct child_new *child = &on->children[i];

        k->parents[k->n] = (int32_t)parent + 1;
        k->queues[k->n] = child->queue;
        k->kinds[k->n] = child->kind;
        k->payloads[k->n] = (struct bytes){child->payload, child->payload_len};
        k->priorities[k->n] = child->priority;
        k->attempts[k->n] = child->max_attempts;
        k->n++;
    }
}

static size_t count_children(const struct job_settle *const *items, size_t n)
{
    size_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += items[i]->outcome.on != NULL ? items[i]->outcome.on->n_children : 0;
    return sum;
}

void job_steps_bind(struct params *p, const struct job_settle *const *items, size_t n)
{
    struct steps s;
    struct kids k;

    steps_alloc(&s, p, n);
    kids_alloc(&k, p, count_children(items, n));
    if (p->failed)
        return;
    for (size_t i = 0; i < n; i++) {
        steps_set(&s, i, items[i], p);
        kids_add(&k, i, items[i]->outcome.on);
    }
    params_i64_array(p, s.ids, n);
    params_uuid_array(p, s.tokens, n);
    params_text_array(p, s.outcomes, n);
    params_text_array(p, s.names, n);
    params_bytes_array(p, s.states, n);
    params_i64_array(p, s.ms, n);
    params_text_array(p, s.awaits, n);
    params_i64_array(p, s.seen, n);
    params_text_array(p, s.shown, n);
    params_bool_array(p, s.progress, n);
    params_bool_array(p, s.sticky, n);
    params_text_array(p, s.lines, n);
    params_i32_array(p, s.n_kids, n);
    params_i32_array(p, s.join_at, n);
    params_bool_array(p, s.fail_fast, n);
    params_bool_array(p, s.cancel_rest, n);
    params_i32_array(p, k.parents, k.n);
    params_text_array(p, k.queues, k.n);
    params_text_array(p, k.kinds, k.n);
    params_bytes_array(p, k.payloads, k.n);
    params_i16_array(p, k.priorities, k.n);
    params_i32_array(p, k.attempts, k.n);
}

/* Ends a field at the next tab; an empty one is NULL. */
static const char *field(char **at)
{
    char *begin = *at;
    char *tab = strchr(begin, '\t');

    if (tab != NULL) {
        *tab = '\0';
        *at = tab + 1;
    } else {
        *at = begin + strlen(begin);
    }
    return *begin != '\0' ? begin : NULL;
}

static int64_t number(char **at)
{
    const char *text = field(at);

    return text != NULL ? strtoll(text, NULL, 10) : 0;
}

bool job_claim_has_machine(const PGresult *r, int row)
{
    return !result_is_null(r, row, COL_MACHINE);
}

void job_claim_machine(PGresult *r, int row, struct machine *ret_machine)
{
    struct bytes seen[2]; /* pawl.machine_seen: the state, the line */

    result_fields(r, row, COL_MACHINE, seen, 2);
    /* Written to: the result is ours alone by now. */
    char *at = (char *)(uintptr_t)seen[1].data;

    *ret_machine = (struct machine){.step = field(&at), .seen = number(&at)};
    int64_t flags = number(&at);

    ret_machine->waited = (flags & FLAG_WAITED) != 0;
    ret_machine->timed_out = (flags & FLAG_TIMED_OUT) != 0;
    ret_machine->expired = (flags & FLAG_EXPIRED) != 0;
    ret_machine->cancelled = (flags & FLAG_CANCELLED) != 0;
    ret_machine->children_cancel = (flags & FLAG_KIDS_END) != 0;
    ret_machine->joined = (flags & FLAG_JOINED) != 0;
    ret_machine->children_left = (int32_t)number(&at);
    ret_machine->shown = field(&at);
    ret_machine->signals = field(&at);
    ret_machine->children = field(&at);
    ret_machine->state = seen[0].data;
    ret_machine->state_len = seen[0].len;
}

void job_settle_next_bind(struct params *p, const struct job_settle *const *items, size_t n)
{
    int64_t *ids = PARAM_ARRAY(p, n, int64_t);
    struct uuid *tokens = PARAM_ARRAY(p, n, struct uuid);
    uint64_t *tids = PARAM_ARRAY(p, n, uint64_t);
    const char **names = PARAM_ARRAY(p, n, const char *);
    struct bytes *states = PARAM_ARRAY(p, n, struct bytes);
    const char **lines = PARAM_ARRAY(p, n, const char *);

    if (p->failed)
        return;
    for (size_t i = 0; i < n; i++) {
        const struct going_on *on = items[i]->outcome.on;

        ids[i] = items[i]->job->id;
        tokens[i] = items[i]->job->token;
        tids[i] = items[i]->job->tid;
        names[i] = on->step;
        states[i] = (struct bytes){on->state, on->state_len};
        lines[i] = job_timeline_line(p->arena, items[i]);
        p->failed |= lines[i] == NULL;
    }
    params_i64_array(p, ids, n);
    params_uuid_array(p, tokens, n);
    params_tid_array(p, tids, n);
    params_text_array(p, names, n);
    params_bytes_array(p, states, n);
    params_text_array(p, lines, n);
}

void job_settle_next_row(const PGresult *r, int row, struct job_settled *ret_settled)
{
    *ret_settled = (struct job_settled){
        .item = (size_t)result_i64(r, row, 0) - 1,
        .cancelled = result_bool(r, row, 1),
        .due_ms = INT64_MAX,
        .tid = result_tid(r, row, 2),
    };
}

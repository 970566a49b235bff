/*
 * calls: listens in on what the engine asks of the database, and writes each call down before it is
 * sent and after it ended. The linker puts these functions in front of the real ones (--wrap, see
 * meson.build), so the engine under test is the one that is shipped and has no hooks for it.
 * Loop thread only.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fault/events.h"
#include "fault/moments.h"
#include "pg/conn.h"
#include "store/claim.h"
#include "store/job.h"
#include "store/statements.h"

struct item {
    int64_t id;
    struct uuid token;
    const char *outcome;
};

/* Items of one statement of a settle, and where its answer is. */
struct part {
    size_t first;
    size_t n;
    size_t answer;
};

/* One transaction, from its first statement to its end. */
struct call {
    const struct batch *batch; /* only compared */
    uint64_t n;
    const char *op; /* NULL: nobody wants to know */
    struct uuid token;
    struct item *items; /* owned; of a settle */
    size_t n_items;
    size_t n_statements;
    struct part done;
    struct part any;
    struct part nexts; /* of machines that simply go on */
    struct items text;
    batch_fn fn;
    void *data;
};

static struct call *being_made;
static uint64_t n_calls;

/* clang-format off */
struct params *__real_batch_add(struct batch *batch, const struct stmt *stmt);
struct params *__wrap_batch_add(struct batch *batch, const struct stmt *stmt);
void __real_batch_free(struct batch *batch);
void __wrap_batch_free(struct batch *batch);
void __real_batch_submit(struct batch *batch, int64_t deadline_ms, batch_fn fn, void *data);
void __wrap_batch_submit(struct batch *batch, int64_t deadline_ms, batch_fn fn, void *data);
void __real_job_claim_bind(struct params *p, const struct job_claim *claim);
void __wrap_job_claim_bind(struct params *p, const struct job_claim *claim);
void __real_job_settle_bind(struct params *p, const struct job_settle *const *items, size_t n,
                            const char *worker, const struct uuid *ended, size_t n_ended);
void __wrap_job_settle_bind(struct params *p, const struct job_settle *const *items, size_t n,
                            const char *worker, const struct uuid *ended, size_t n_ended);
void __real_job_settle_done_bind(struct params *p, const struct job_settle *const *items, size_t n,
                                 const char *worker, const struct uuid *ended, size_t n_ended);
void __wrap_job_settle_done_bind(struct params *p, const struct job_settle *const *items, size_t n,
                                 const char *worker, const struct uuid *ended, size_t n_ended);
void __real_job_settle_next_bind(struct params *p, const struct job_settle *const *items, size_t n);
void __wrap_job_settle_next_bind(struct params *p, const struct job_settle *const *items, size_t n);
void __real_claim_renew_bind(struct params *p, const struct uuid *worker, const struct uuid *tokens,
                             size_t n_tokens, int64_t lease_ms, const struct worker_beat *beat);
void __wrap_claim_renew_bind(struct params *p, const struct uuid *worker, const struct uuid *tokens,
                             size_t n_tokens, int64_t lease_ms, const struct worker_beat *beat);

/* clang-format on */

static void call_free(struct call *call)
{
    if (call != NULL)
        free(call->items);
    free(call);
}

static const char *op_of(const struct stmt *stmt)
{
    switch (stmt->id) {
    case STMT_job_claim:
    case STMT_job_claim_lanes:
        return "claim";
    case STMT_job_settle:
    case STMT_job_settle_done:
    case STMT_job_settle_next:
        return "settle";
    case STMT_claim_renew:
        return "renew";
    case STMT_claim_sweep:
        return "sweep";
    default:
        return NULL;
    }
}

struct params *__wrap_batch_add(struct batch *batch, const struct stmt *stmt)
{
    if (being_made == NULL || being_made->batch != batch) {
        call_free(being_made);
        being_made = calloc(1, sizeof(*being_made));
        if (being_made == NULL)
            abort();
        being_made->batch = batch;
        items_clear(&being_made->text);
    }
    if (being_made->op == NULL)
        being_made->op = op_of(stmt);
    if (stmt->id == STMT_job_settle_done)
        being_made->done.answer = being_made->n_statements;
    else if (stmt->id == STMT_job_settle)
        being_made->any.answer = being_made->n_statements;
    else if (stmt->id == STMT_job_settle_next)
        being_made->nexts.answer = being_made->n_statements;
    being_made->n_statements++;
    return __real_batch_add(batch, stmt);
}

void __wrap_batch_free(struct batch *batch)
{
    if (being_made != NULL && being_made->batch == batch) {
        call_free(being_made);
        being_made = NULL;
    }
    __real_batch_free(batch);
}

void __wrap_job_claim_bind(struct params *p, const struct job_claim *claim)
{
    being_made->token = claim->token;
    items_add(&being_made->text, "%s", TOKEN(&claim->token));
    __real_job_claim_bind(p, claim);
}

static void note_settles(struct part *part, const struct job_settle *const *items, size_t n)
{
    struct call *call = being_made;
    struct item *more = realloc(call->items, (call->n_items + n) * sizeof(*more));

    if (more == NULL)
        abort();
    call->items = more;
    part->first = call->n_items;
    part->n = n;
    for (size_t i = 0; i < n; i++) {
        struct item *item = &call->items[call->n_items++];

        item->id = items[i]->job->id;
        item->token = items[i]->job->token;
        item->outcome = items[i]->sticky ? "stick" : outcome_text((int)items[i]->outcome.kind);
        items_add(
            &call->text, "%lld:%s:%s", (long long)item->id, TOKEN(&item->token), item->outcome);
    }
}

void __wrap_job_settle_bind(struct params *p,
                            const struct job_settle *const *items,
                            size_t n,
                            const char *worker,
                            const struct uuid *ended,
                            size_t n_ended)
{
    note_settles(&being_made->any, items, n);
    __real_job_settle_bind(p, items, n, worker, ended, n_ended);
}

void __wrap_job_settle_done_bind(struct params *p,
                                 const struct job_settle *const *items,
                                 size_t n,
                                 const char *worker,
                                 const struct uuid *ended,
                                 size_t n_ended)
{
    note_settles(&being_made->done, items, n);
    __real_job_settle_done_bind(p, items, n, worker, ended, n_ended);
}

void __wrap_job_settle_next_bind(struct params *p, const struct job_settle *const *items, size_t n)
{
    note_settles(&being_made->nexts, items, n);
    __real_job_settle_next_bind(p, items, n);
}

void __wrap_claim_renew_bind(struct params *p,
                             const struct uuid *worker,
                             const struct uuid *tokens,
                             size_t n_tokens,
                             int64_t lease_ms,
                             const struct worker_beat *beat)
{
    for (size_t i = 0; i < n_tokens; i++)
        items_add(&being_made->text, "%s", TOKEN(&tokens[i]));
    __real_claim_renew_bind(p, worker, tokens, n_tokens, lease_ms, beat);
}

static void tell_claimed(struct call *call, const PGresult *r)
{
    struct job_claim asked = {.token = call->token};

    bool more;
    int n = job_claim_count(r, &more);

    for (int row = 0; row < n; row++) {
        struct job job;

        job_claim_row(r, row, &asked, &job);
        items_add(&call->text, "%lld:%d", (long long)job.id, (int)job.attempt);
    }
}

static bool is_of(const struct part *part, size_t i)
{
    return i >= part->first && i - part->first < part->n;
}

static void tell_settled(struct call *call, const struct batch_end *end)
{
    const char **states = calloc(call->n_items + 1, sizeof(*states));
    const PGresult *done = call->done.n > 0 ? end->results[call->done.answer] : NULL;
    const PGresult *any = call->any.n > 0 ? end->results[call->any.answer] : NULL;
    const PGresult *nexts = call->nexts.n > 0 ? end->results[call->nexts.answer] : NULL;

    int64_t *ids = calloc(call->done.n + 1, sizeof(*ids));

    if (states == NULL || ids == NULL)
        abort();
    for (size_t i = 0; i < call->done.n; i++)
        ids[i] = call->items[call->done.first + i].id;
    for (int row = 0; done != NULL && row < PQntuples(done); row++)
        states[call->done.first + job_settle_done_row(done, row, ids, call->done.n)] = "done";
    for (int row = 0; any != NULL && row < PQntuples(any); row++) {
        struct job_settled settled;

        job_settle_row(any, row, &settled);
        size_t i = call->any.first + settled.item;

        states[i] = settled.state != NULL                          ? settled.state
                    : strcmp(call->items[i].outcome, "stick") == 0 ? "stuck"
                                                                   : "on";
    }
    for (int row = 0; nexts != NULL && row < PQntuples(nexts); row++) {
        struct job_settled settled;

        job_settle_next_row(nexts, row, &settled);
        states[call->nexts.first + settled.item] = "stuck";
    }
    for (size_t i = 0; i < call->n_items; i++) {
        /* Not where it was, or stale: the next settle tells. */
        if (states[i] == NULL && (is_of(&call->done, i) || is_of(&call->nexts, i)))
            continue;
        items_add(&call->text,
                  "%lld:%s:%s",
                  (long long)call->items[i].id,
                  TOKEN(&call->items[i].token),
                  states[i] != NULL ? states[i] : "stale");
    }
    free(ids);
    free(states);
}

static void tell_end(struct call *call, const struct batch_end *end)
{
    items_clear(&call->text);
    if (end->verdict != PG_VERDICT_OK) {
        events_write("ret %llu %s %s -",
                     (unsigned long long)call->n,
                     call->op,
                     end->verdict == PG_VERDICT_UNKNOWN ? "unknown" : "fail");
        return;
    }
    if (strcmp(call->op, "claim") == 0)
        tell_claimed(call, end->results[0]);
    else if (strcmp(call->op, "settle") == 0)
        tell_settled(call, end);
    for (int row = 0; strcmp(call->op, "renew") == 0 && row < PQntuples(end->results[0]); row++) {
        struct uuid token = claim_renew_row(end->results[0], row);

        if (claim_renew_renewed(end->results[0], row))
            items_add(&call->text, "%s", TOKEN(&token));
    }
    for (int row = 0; strcmp(call->op, "sweep") == 0 && row < PQntuples(end->results[0]); row++) {
        const char *state;
        int64_t id;

        claim_sweep_row(end->results[0], row, &id, &state);
        if (id != 0) /* 0: lanes are to be mended */
            items_add(&call->text, "%lld:%s", (long long)id, state);
    }
    events_write("ret %llu %s ok %s", (unsigned long long)call->n, call->op, call->text.text);
}

static void on_end(void *data, const struct batch_end *end)
{
    struct call *call = data;
    bool committed = end->verdict == PG_VERDICT_OK;
    bool claimed = committed && strcmp(call->op, "claim") == 0 && PQntuples(end->results[0]) > 0;

    tell_end(call, end);
    if (claimed)
        moments_pass(MOMENT_CLAIMED);
    else if (committed && strcmp(call->op, "settle") == 0)
        moments_pass(MOMENT_SETTLED);
    call->fn(call->data, end);
    if (claimed)
        moments_pass(MOMENT_SENT);
    call_free(call);
}

void __wrap_batch_submit(struct batch *batch, int64_t deadline_ms, batch_fn fn, void *data)
{
    struct call *call = being_made;

    assert(call != NULL && call->batch == batch);
    being_made = NULL;
    if (call->op == NULL) {
        call_free(call);
        __real_batch_submit(batch, deadline_ms, fn, data);
        return;
    }
    call->n = ++n_calls;
    call->fn = fn;
    call->data = data;
    events_write("call %llu %s %s", (unsigned long long)call->n, call->op, call->text.text);
    if (strcmp(call->op, "settle") == 0)
        moments_pass(MOMENT_SETTLING);
    __real_batch_submit(batch, deadline_ms, on_end, call);
}

/* job_rich: the statements about jobs that are more than plain, and about what people ask of a
 * job: cancel, retry, watch. */
#include <assert.h>
#include <string.h>

#include "pg/result.h"
#include "store/job.h"

bool job_new_is_plain(const struct job_new *job)
{
    return job->retry == NULL && job->retry_base_ms == 0 && job->retry_cap_ms == 0 &&
           job->unique_key == NULL && job->lane == NULL && job->parent_id == 0 &&
           job->meta == NULL && job->deadline_ms == 0;
}

bool job_new_is_same(const struct job_new *a, const struct job_new *b)
{
    return (a->queue == b->queue || strcmp(a->queue, b->queue) == 0) &&
           (a->kind == b->kind || strcmp(a->kind, b->kind) == 0) && a->priority == b->priority &&
           a->delay_ms == b->delay_ms && a->at_us == b->at_us &&
           a->max_attempts == b->max_attempts && a->timeout_ms == b->timeout_ms;
}

/* The twenty columns of job_enqueue_rich, each an array of n. */
struct columns {
    const char **queues, **kinds, **retries, **keys, **lanes, **metas, **scopes;
    struct bytes *payloads;
    int16_t *priorities;
    int64_t *delays, *times, *keeps, *parents, *deadlines;
    int32_t *attempts, *timeouts, *bases, *caps, *states, *modes;
};

static bool columns_alloc(struct columns *c, struct arena *arena, size_t n)
{
    const char ***texts[] = {
        &c->queues, &c->kinds, &c->retries, &c->keys, &c->lanes, &c->metas, &c->scopes};
    int64_t **longs[] = {&c->delays, &c->times, &c->keeps, &c->parents, &c->deadlines};
    int32_t **ints[] = {&c->attempts, &c->timeouts, &c->bases, &c->caps, &c->states, &c->modes};
    bool ok = true;

    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        ok = (*texts[i] = arena_new_array(arena, n, const char *)) != NULL && ok;
    for (size_t i = 0; i < sizeof(longs) / sizeof(*longs); i++)
        ok = (*longs[i] = arena_new_array(arena, n, int64_t)) != NULL && ok;
    for (size_t i = 0; i < sizeof(ints) / sizeof(*ints); i++)
        ok = (*ints[i] = arena_new_array(arena, n, int32_t)) != NULL && ok;
    ok = (c->payloads = arena_new_array(arena, n, struct bytes)) != NULL && ok;
    return (c->priorities = arena_new_array(arena, n, int16_t)) != NULL && ok;
}

static void columns_set(struct columns *c, size_t i, const struct job_new *job)
{
    c->queues[i] = job->queue;
    c->kinds[i] = job->kind;
    c->payloads[i] = job->payload;
    c->priorities[i] = job->priority;
    c->delays[i] = job->delay_ms;
    c->times[i] = job->at_us;
    c->attempts[i] = job->max_attempts;
    c->timeouts[i] = job->timeout_ms;
    c->retries[i] = job->retry;
    c->bases[i] = job->retry_base_ms;
    c->caps[i] = job->retry_cap_ms;
    c->keys[i] = job->unique_key;
    c->states[i] = job->unique_states;
    c->keeps[i] = job->unique_keep_ms;
    c->modes[i] = job->unique_mode;
    c->lanes[i] = job->lane;
    c->parents[i] = job->parent_id;
    c->metas[i] = job->meta;
    c->scopes[i] = job->unique_scope;
    c->deadlines[i] = job->deadline_ms;
}

void job_enqueue_rich_bind(struct params *p, const struct job_new *jobs, size_t n)
{
    struct columns c;

    assert(n > 0 && n <= JOB_ENQUEUE_MAX);
    if (!columns_alloc(&c, p->arena, n)) {
        p->failed = true;
        return;
    }
    for (size_t i = 0; i < n; i++)
        columns_set(&c, i, &jobs[i]);
    params_text_array(p, c.queues, n);
    params_text_array(p, c.kinds, n);
    params_bytes_array(p, c.payloads, n);
    params_i16_array(p, c.priorities, n);
    params_i64_array(p, c.delays, n);
    params_i64_array(p, c.times, n);
    params_i32_array(p, c.attempts, n);
    params_i32_array(p, c.timeouts, n);
    params_text_array(p, c.retries, n);
    params_i32_array(p, c.bases, n);
    params_i32_array(p, c.caps, n);
    params_text_array(p, c.keys, n);
    params_i32_array(p, c.states, n);
    params_i64_array(p, c.keeps, n);
    params_i32_array(p, c.modes, n);
    params_text_array(p, c.lanes, n);
    params_i64_array(p, c.parents, n);
    params_text_array(p, c.metas, n);
    params_text_array(p, c.scopes, n);
    params_i64_array(p, c.deadlines, n);
}

void job_enqueue_rich_read(const PGresult *r, int64_t *ret_ids, bool *ret_existed)
{
    for (int i = 0; i < PQntuples(r); i++) {
        ret_ids[i] = result_i64(r, i, 0);
        if (ret_existed != NULL)
            ret_existed[i] = result_bool(r, i, 1);
    }
}

void job_cancel_bind(struct params *p, int64_t id, const char *by)
{
    params_i64(p, id);
    params_text(p, by);
}

bool job_cancel_row(const PGresult *r)
{
    return strcmp(result_text(r, 0, 0), "cancelled") == 0;
}

void job_retry_bind(struct params *p, int64_t id)
{
    params_i64(p, id);
}

int64_t job_retry_row(const PGresult *r)
{
    return result_i64(r, 0, 0);
}

void job_watch_bind(struct params *p, int64_t id)
{
    params_i64(p, id);
}

bool job_watch_row(const PGresult *r)
{
    return result_bool(r, 0, 0);
}

void claim_assert_bind(struct params *p, int64_t id, const struct uuid *token)
{
    params_i64(p, id);
    params_uuid(p, token);
}

void job_note_bind(struct params *p, const struct job_note *notes, size_t n)
{
    int64_t *ids = arena_new_array(p->arena, n, int64_t);
    struct uuid *tokens = arena_new_array(p->arena, n, struct uuid);
    const char **texts = arena_new_array(p->arena, n, const char *);

    if (ids == NULL || tokens == NULL || texts == NULL) {
        p->failed = true;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        ids[i] = notes[i].id;
        tokens[i] = notes[i].token;
        texts[i] = notes[i].progress;
    }
    params_i64_array(p, ids, n);
    params_uuid_array(p, tokens, n);
    params_text_array(p, texts, n);
}

void lane_leave_bind(struct params *p,
                     const char *const *queues,
                     const char *const *lanes,
                     const int64_t *ids,
                     size_t n)
{
    params_text_array(p, queues, n);
    params_text_array(p, lanes, n);
    params_i64_array(p, ids, n);
}

void lanes_mend_bind(struct params *p, int32_t limit)
{
    params_i32(p, limit);
}

void children_let_go_bind(struct params *p,
                          const int64_t *parents,
                          const struct uuid *tokens,
                          const bool *cancel,
                          size_t n)
{
    params_i64_array(p, parents, n);
    params_uuid_array(p, tokens, n);
    params_bool_array(p, cancel, n);
}

int32_t lanes_called(const PGresult *r)
{
    return result_i32(r, 0, 0);
}

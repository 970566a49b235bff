/* job: binding and reading the statements that settle jobs. Column numbers are those of the SQL
 * files. */
#include "store/job.h"

#include <assert.h>
#include <string.h>

#include "pg/result.h"
#include "store/job_internal.h"

/* Those that do not go on come first. */
static size_t count_ends(const struct job_settle *const *items, size_t n)
{
    size_t ends = 0;

    while (ends < n && items[ends]->outcome.kind < OUTCOME_NEXT)
        ends++;
    return ends;
}

void job_settle_bind(struct params *p,
                     const struct job_settle *const *items,
                     size_t n_items,
                     const char *worker,
                     const struct uuid *ended,
                     size_t n_ended)
{
    size_t n = count_ends(items, n_items);
    int64_t *ids = PARAM_ARRAY(p, n, int64_t);
    struct uuid *tokens = PARAM_ARRAY(p, n, struct uuid);
    const char **outcomes = PARAM_ARRAY(p, n, const char *);
    int64_t *delays = PARAM_ARRAY(p, n, int64_t);
    struct bytes *results = PARAM_ARRAY(p, n, struct bytes);
    const char **errors = PARAM_ARRAY(p, n, const char *);
    int64_t *run_times = PARAM_ARRAY(p, n, int64_t);
    const char **lines = PARAM_ARRAY(p, n, const char *);

    if (p->failed)
        return;
    for (size_t i = 0; i < n; i++) {
        const struct outcome *outcome = &items[i]->outcome;

        ids[i] = items[i]->job->id;
        tokens[i] = items[i]->job->token;
        outcomes[i] = outcome_text((int)outcome->kind);
        delays[i] = outcome->delay_ms;
        results[i] = (struct bytes){outcome->result, outcome->result_len};
        errors[i] = outcome->error;
        run_times[i] = outcome->run_us;
        lines[i] = items[i]->job->is_machine ? job_timeline_line(p->arena, items[i]) : NULL;
    }
    params_i64_array(p, ids, n);
    params_uuid_array(p, tokens, n);
    params_text_array(p, outcomes, n);
    params_i64_array(p, delays, n);
    params_bytes_array(p, results, n);
    params_text_array(p, errors, n);
    params_i64_array(p, run_times, n);
    params_text(p, worker);
    params_uuid_array(p, ended, n_ended);
    params_text_array(p, lines, n);
    job_steps_bind(p, items + n, n_items - n);
}

void job_park_bind(struct params *p,
                   const struct job_settle *item,
                   const char *worker,
                   const struct uuid *ended,
                   size_t n_ended)
{
    params_i64(p, item->job->id);
    params_uuid(p, &item->job->token);
    params_text(p, item->outcome.error);
    params_text(p, worker);
    params_i64(p, item->outcome.run_us);
    params_uuid_array(p, ended, n_ended);
}

/* All results as one piece of bytes, and where each begins, from 1, and how long it is. When there
 * is none, which is common, nothing is sent for it. */
static void bind_results(struct params *p, const struct job_settle *const *items, size_t n)
{
    int32_t *begins = PARAM_ARRAY(p, n, int32_t);
    int32_t *lens = PARAM_ARRAY(p, n, int32_t);
    size_t n_results = 0;
    size_t len = 0;

    for (size_t i = 0; i < n; i++) {
        n_results += items[i]->outcome.result != NULL;
        len += items[i]->outcome.result_len;
    }
    char *all = len < INT32_MAX ? PARAM_ARRAY(p, len, char) : NULL;

    p->failed |= all == NULL;
    if (p->failed)
        return;
    len = 0;
    for (size_t i = 0; n_results > 0 && i < n; i++) {
        const struct outcome *outcome = &items[i]->outcome;

        begins[i] = outcome->result != NULL ? (int32_t)len + 1 : 0;
        lens[i] = (int32_t)outcome->result_len;
        if (outcome->result_len > 0)
            memcpy(all + len, outcome->result, outcome->result_len);
        len += outcome->result_len;
    }
    params_bytes(p, (struct bytes){all, len});
    params_i32_array(p, begins, n_results > 0 ? n : 0);
    params_i32_array(p, lens, n_results > 0 ? n : 0);
}

/* The queues of all of them, each once. There are few, and mostly one. */
static void bind_queues(struct params *p, const struct job_settle *const *items, size_t n)
{
    const char **queues = PARAM_ARRAY(p, n, const char *);
    size_t n_queues = 0;

    if (p->failed)
        return;
    for (size_t i = 0; i < n; i++) {
        const char *queue = items[i]->job->queue;
        size_t k = 0;

        while (k < n_queues && queues[k] != queue && strcmp(queues[k], queue) != 0)
            k++;
        if (k == n_queues)
            queues[n_queues++] = queue;
    }
    params_text_array(p, queues, n_queues);
}

void job_settle_done_bind(struct params *p,
                          const struct job_settle *const *items,
                          size_t n,
                          const char *worker,
                          const struct uuid *ended,
                          size_t n_ended)
{
    int64_t *ids = PARAM_ARRAY(p, n, int64_t);
    struct uuid *tokens = PARAM_ARRAY(p, n, struct uuid);
    int64_t *run_times = PARAM_ARRAY(p, n, int64_t);
    uint64_t *tids = PARAM_ARRAY(p, n, uint64_t);

    if (p->failed)
        return;
    for (size_t i = 0; i < n; i++) {
        assert(i == 0 || items[i]->job->id > items[i - 1]->job->id);
        ids[i] = items[i]->job->id;
        tokens[i] = items[i]->job->token;
        run_times[i] = items[i]->outcome.run_us;
        tids[i] = items[i]->job->tid;
    }
    params_i64_array(p, ids, n);
    params_uuid_array(p, tokens, n);
    params_i64_array(p, run_times, n);
    bind_results(p, items, n);
    params_text(p, worker);
    params_uuid_array(p, ended, n_ended);
    params_tid_array(p, tids, n);
    bind_queues(p, items, n);
}

size_t job_settle_done_row(const PGresult *r, int row, const int64_t *ids, size_t n)
{
    int64_t id = result_i64(r, row, 0);
    size_t low = (size_t)row;

    /* They lie in the table as they were enqueued, mostly, and are answered in that order. */
    if (low < n && ids[low] == id)
        return low;
    low = 0;
    for (size_t high = n; low + 1 < high;) {
        size_t mid = low + (high - low) / 2;

        if (ids[mid] <= id)
            low = mid;
        else
            high = mid;
    }
    assert(low < n && ids[low] == id);
    return low;
}

void job_settle_row(const PGresult *r, int row, struct job_settled *ret_settled)
{
    *ret_settled = (struct job_settled){
        .item = (size_t)result_i64(r, row, 0) - 1,
        .state = result_text(r, row, 1),
        .due_ms = result_is_null(r, row, 2) ? INT64_MAX : result_i64(r, row, 2),
        .cancelled = !result_is_null(r, row, 3) && result_bool(r, row, 3),
        .tid = result_is_null(r, row, 4) ? 0 : result_tid(r, row, 4),
    };
}

void job_locked_bind(struct params *p, const struct job_settle *const *items, size_t n)
{
    int64_t *ids = arena_new_array(p->arena, n, int64_t);
    struct uuid *tokens = arena_new_array(p->arena, n, struct uuid);

    if (ids == NULL || tokens == NULL) {
        p->failed = true;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        ids[i] = items[i]->job->id;
        tokens[i] = items[i]->job->token;
    }
    params_i64_array(p, ids, n);
    params_uuid_array(p, tokens, n);
}

size_t job_locked_row(const PGresult *r, int row)
{
    return (size_t)result_i64(r, row, 0) - 1;
}

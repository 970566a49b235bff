/* job: binding and reading the statements about jobs. Column numbers are those of the SQL files. */
#include "store/job.h"

#include <assert.h>
#include <string.h>

#include "core/machine.h"
#include "pg/result.h"
#include "store/job_internal.h"

/* Columns of job_claim beyond the first eight; those from COL_LANE on are only in job_claim_lanes. */
enum {
    COL_JOIN_OF = 8,
    COL_HAS_OPTIONS,
    COL_IS_MACHINE,
    COL_TRACE,
    COL_TID = 14,
    COL_LANE,
    COL_IN_LANE,
    COL_TOGETHER,
    COL_ALONG,
};

void job_enqueue_bind(struct params *p, const struct job_new *jobs, size_t n)
{
    const char **queues = PARAM_ARRAY(p, n, const char *);
    const char **kinds = PARAM_ARRAY(p, n, const char *);
    struct bytes *payloads = PARAM_ARRAY(p, n, struct bytes);
    int16_t *priorities = PARAM_ARRAY(p, n, int16_t);
    int64_t *delays = PARAM_ARRAY(p, n, int64_t);
    int64_t *times = PARAM_ARRAY(p, n, int64_t);
    int32_t *attempts = PARAM_ARRAY(p, n, int32_t);
    int32_t *timeouts = PARAM_ARRAY(p, n, int32_t);

    assert(n <= JOB_ENQUEUE_MAX);
    if (p->failed)
        return;
    for (size_t i = 0; i < n; i++) {
        queues[i] = jobs[i].queue;
        kinds[i] = jobs[i].kind;
        payloads[i] = jobs[i].payload;
        priorities[i] = jobs[i].priority;
        delays[i] = jobs[i].delay_ms;
        times[i] = jobs[i].at_us;
        attempts[i] = jobs[i].max_attempts;
        timeouts[i] = jobs[i].timeout_ms;
    }
    params_text_array(p, queues, n);
    params_text_array(p, kinds, n);
    params_bytes_array(p, payloads, n);
    params_i16_array(p, priorities, n);
    params_i64_array(p, delays, n);
    params_i64_array(p, times, n);
    params_i32_array(p, attempts, n);
    params_i32_array(p, timeouts, n);
}

void job_enqueue_one_bind(struct params *p, const struct job_new *job)
{
    params_text(p, job->queue);
    params_text(p, job->kind);
    params_bytes(p, job->payload);
    params_i16(p, job->priority);
    params_i64(p, job->delay_ms);
    params_i64(p, job->at_us);
    params_i32(p, job->max_attempts);
    params_i32(p, job->timeout_ms);
}

void job_enqueue_same_bind(struct params *p, const struct job_new *jobs, size_t n)
{
    struct bytes *payloads = arena_new_array(p->arena, n, struct bytes);

    assert(n > 0 && n <= JOB_ENQUEUE_MAX);
    if (payloads == NULL) {
        p->failed = true;
        return;
    }
    for (size_t i = 0; i < n; i++)
        payloads[i] = jobs[i].payload;
    params_text(p, jobs->queue);
    params_text(p, jobs->kind);
    params_bytes_array(p, payloads, n);
    params_i16(p, jobs->priority);
    params_i64(p, jobs->delay_ms);
    params_i64(p, jobs->at_us);
    params_i32(p, jobs->max_attempts);
    params_i32(p, jobs->timeout_ms);
}

void job_enqueue_read(const PGresult *r, int64_t *ret_ids)
{
    for (int i = 0; i < PQntuples(r); i++)
        ret_ids[i] = result_i64(r, i, 0);
}

/* Where a claim starts, for each priority and index. */
struct levels {
    const int64_t *due[2 * JOB_PRIORITIES];
    int64_t ids[2 * JOB_PRIORITIES];
    int16_t priorities[2 * JOB_PRIORITIES];
    bool in_lane[2 * JOB_PRIORITIES];
    size_t n;
};

/* The statements want the most urgent first. */
static void levels_fill(struct levels *levels, const struct job_claim *claim)
{
    levels->n = 0;
    for (int i = JOB_PRIORITIES - 1; i >= 0; i--) {
        for (int in_lane = claim->lanes; in_lane >= 0; in_lane--) {
            const struct job_watermark *from = in_lane ? &claim->lane_from[i] : &claim->from[i];

            levels->due[levels->n] = &from->due_us;
            levels->ids[levels->n] = from->id;
            levels->priorities[levels->n] = (int16_t)i;
            levels->in_lane[levels->n++] = in_lane;
        }
    }
}

/* The first and the last of them in the order of bytes. */
static void bind_kind_range(struct params *p, const char *const *kinds, size_t n)
{
    const char *first = n > 0 ? kinds[0] : "";
    const char *last = first;

    for (size_t i = 1; i < n; i++) {
        first = strcmp(kinds[i], first) < 0 ? kinds[i] : first;
        last = strcmp(kinds[i], last) > 0 ? kinds[i] : last;
    }
    params_text(p, first);
    params_text(p, last);
}

void job_claim_bind(struct params *p, const struct job_claim *claim)
{
    struct levels levels;

    levels_fill(&levels, claim);
    params_text(p, claim->queue);
    params_text_array(p, claim->kinds, claim->n_kinds);
    params_i32(p, claim->limit);
    params_uuid(p, &claim->token);
    params_uuid(p, &claim->worker);
    params_i64(p, claim->lease_ms);
    params_time_array(p, levels.due, levels.n);
    params_i64_array(p, levels.ids, levels.n);
    if (claim->lanes) {
        params_i16_array(p, levels.priorities, levels.n);
        params_bool_array(p, levels.in_lane, levels.n);
        params_i32(p, claim->together > 0 ? claim->together : 1);
    } else {
        bind_kind_range(p, claim->kinds, claim->n_kinds);
    }
}

void job_suspect_bind(struct params *p, const struct job_suspect *suspect)
{
    struct levels levels;

    levels_fill(&levels, suspect->claim);
    params_text(p, suspect->claim->queue);
    params_text_array(p, suspect->kinds, suspect->n_kinds);
    params_time_array(p, levels.due, levels.n);
    params_i64_array(p, levels.ids, levels.n);
    params_i16_array(p, levels.priorities, levels.n);
    params_bool_array(p, levels.in_lane, levels.n);
    params_i64(p, suspect->sure_id);
    params_text(p, suspect->why);
    params_text(p, suspect->worker);
}

bool job_suspect_row(const PGresult *r, int64_t *ret_id, const char **ret_why)
{
    if (PQntuples(r) == 0)
        return false;
    *ret_id = result_i64(r, 0, 0);
    *ret_why = result_is_null(r, 0, 1) ? NULL : result_text(r, 0, 1);
    return true;
}

int64_t job_claim_id(const PGresult *r, int row)
{
    return result_i64(r, row, 0);
}

int16_t job_claim_priority(const PGresult *r, int row)
{
    return result_i16(r, row, 2);
}

/* The jobs of job_claim are in no lane. */
static bool is_set(const PGresult *r, int row, int column)
{
    return PQnfields(r) > column && result_bool(r, row, column);
}

bool job_claim_in_lane(const PGresult *r, int row)
{
    return is_set(r, row, COL_IN_LANE);
}

bool job_claim_together(const PGresult *r, int row)
{
    return is_set(r, row, COL_TOGETHER);
}

bool job_claim_along(const PGresult *r, int row)
{
    return is_set(r, row, COL_ALONG);
}

int job_claim_count(const PGresult *r, bool *ret_more)
{
    int n = PQntuples(r);

    *ret_more = n > 0 && job_claim_id(r, n - 1) == 0;
    return *ret_more ? n - 1 : n;
}

int64_t job_claim_due(const PGresult *r, int row)
{
    return result_time(r, row, 7);
}

void job_claim_row(const PGresult *r, int row, const struct job_claim *claim, struct job *ret_job)
{
    struct bytes payload = result_bytes(r, row, 6);

    *ret_job = (struct job){
        .id = result_i64(r, row, 0),
        .queue = claim->queue,
        .kind = result_text(r, row, 1),
        .priority = job_claim_priority(r, row),
        .attempt = result_i32(r, row, 3),
        .max_attempts = result_i32(r, row, 4),
        .timeout_ms = result_is_null(r, row, 5) ? 0 : result_i32(r, row, 5),
        .payload = payload.data,
        .payload_len = payload.len,
        .token = claim->token,
        .is_child = !result_is_null(r, row, COL_JOIN_OF),
        .has_options = !result_is_null(r, row, COL_HAS_OPTIONS),
        .is_machine = !result_is_null(r, row, COL_IS_MACHINE),
        .trace = result_text(r, row, COL_TRACE),
        .lane = PQnfields(r) > COL_LANE ? result_text(r, row, COL_LANE) : NULL,
        .tid = result_tid(r, row, COL_TID),
    };
}

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

void job_show_bind(struct params *p, int64_t id)
{
    params_i64(p, id);
}

static int64_t time_or_0(const PGresult *r, int row, int col)
{
    return result_is_null(r, row, col) ? 0 : result_time(r, row, col);
}

/* The twelve columns that job_show and job_list begin with. */
static struct job_view view_begin(const PGresult *r, int row)
{
    return (struct job_view){
        .id = result_i64(r, row, 0),
        .state = result_text(r, row, 1),
        .queue = result_text(r, row, 2),
        .kind = result_text(r, row, 3),
        .priority = result_i16(r, row, 4),
        .attempt = result_i32(r, row, 5),
        .max_attempts = result_i32(r, row, 6),
        .created_at = result_time(r, row, 7),
        .due_at = result_time(r, row, 8),
        .started_at = time_or_0(r, row, 9),
        .finished_at = time_or_0(r, row, 10),
        .worker = result_text(r, row, 11),
    };
}

void job_show_row(const PGresult *r, int row, struct job_view *ret_job)
{
    *ret_job = view_begin(r, row);
    ret_job->payload = result_bytes(r, row, 12);
    ret_job->result = result_bytes(r, row, 13);
    ret_job->errors = result_text(r, row, 14);
    ret_job->now = result_time(r, row, 15);
    ret_job->queue_paused = result_bool(r, row, 16);
    ret_job->timeout_ms = result_is_null(r, row, 17) ? 0 : result_i32(r, row, 17);
    ret_job->lane = result_text(r, row, 18);
    ret_job->parent_id = result_is_null(r, row, 19) ? 0 : result_i64(r, row, 19);
    ret_job->tags = result_text(r, row, 20);
    ret_job->trace = result_text(r, row, 21);
    ret_job->cancel_by = result_text(r, row, 22);
    ret_job->progress = result_text(r, row, 23);
    ret_job->step = result_text(r, row, 24);
    ret_job->step_state = result_bytes(r, row, 25);
    ret_job->timeline = result_text(r, row, 26);
    ret_job->waits_for = result_text(r, row, 27);
    ret_job->awaits = result_text(r, row, 28);
    ret_job->wait_since = result_is_null(r, row, 29) ? 0 : result_time(r, row, 29);
    ret_job->wait_until = result_is_null(r, row, 30) ? 0 : result_time(r, row, 30);
    ret_job->children_left = result_is_null(r, row, 31) ? 0 : result_i32(r, row, 31);
    ret_job->join_at = result_is_null(r, row, 32) ? 0 : result_i32(r, row, 32);
    ret_job->correlation = result_text(r, row, 33);
    ret_job->deadline_at = time_or_0(r, row, 34);
}

void job_list_bind(struct params *p, const struct job_list *list)
{
    params_text(p, list->queue);
    params_text(p, list->kind);
    params_text_array(p, list->states, list->n_states);
    params_i64(p, list->before_id);
    params_i32(p, list->limit);
}

void job_list_row(const PGresult *r, int row, struct job_view *ret_job)
{
    *ret_job = view_begin(r, row);
    ret_job->error = result_text(r, row, 12);
    ret_job->now = result_time(r, row, 13);
}

void job_progress_bind(struct params *p, const int64_t *ids, size_t n)
{
    params_i64_array(p, ids, n);
}

void job_progress_row(const PGresult *r, int row, struct job_progress *ret_progress)
{
    *ret_progress = (struct job_progress){
        .queue = result_text(r, row, 0),
        .state = result_text(r, row, 1),
        .jobs = result_i64(r, row, 2),
        .attempts = result_i64(r, row, 3),
    };
}

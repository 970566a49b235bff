/* job_list: binding and reading the statements that show jobs: one, lists, pages and counts. */
#include "pg/result.h"
#include "store/job.h"

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

void job_page_bind(struct params *p,
                   const struct job_list *list,
                   const char *const *tags,
                   size_t n_tags)
{
    job_list_bind(p, list);
    params_text_array(p, tags, n_tags);
}

void job_page_row(const PGresult *r, int row, struct job_view *ret_job)
{
    job_list_row(r, row, ret_job);
    ret_job->lane = result_text(r, row, 14);
    ret_job->parent_id = result_is_null(r, row, 15) ? 0 : result_i64(r, row, 15);
    ret_job->tags = result_text(r, row, 16);
}

void job_queues_bind(struct params *p, const int64_t *ids, size_t n)
{
    params_i64_array(p, ids, n);
}

const char *job_queues_row(const PGresult *r, int row, int64_t *ret_id)
{
    *ret_id = result_i64(r, row, 0);
    return result_text(r, row, 1);
}

/* job_once: binding and reading the statements that only the server sends. */
#include "store/job_once.h"

#include "pg/result.h"

void enqueue_key_take_bind(struct params *p,
                           const struct uuid *keys,
                           const struct uuid *requests,
                           size_t n)
{
    params_uuid_array(p, keys, n);
    params_uuid_array(p, requests, n);
}

void job_enqueue_once_bind(struct params *p,
                           const struct job_new *jobs,
                           const struct uuid *const *once,
                           const char *const *steps,
                           const bool *plain,
                           size_t n)
{
    const char **texts = arena_new_array(p->arena, n, const char *);

    for (size_t i = 0; texts != NULL && i < n; i++) {
        char *text = once[i] != NULL ? arena_alloc(p->arena, UUID_TEXT_LEN + 1) : NULL;

        if (text != NULL)
            uuid_format(once[i], text);
        else if (once[i] != NULL)
            p->failed = true;
        texts[i] = text;
    }
    if (texts == NULL)
        p->failed = true;
    if (p->failed)
        return;
    job_enqueue_rich_bind(p, jobs, n);
    params_text_array(p, texts, n);
    params_text_array(p, steps, n);
    params_bool_array(p, plain, n);
}

void job_enqueue_once_row(const PGresult *r, int row, struct job_once *ret_once)
{
    *ret_once = (struct job_once){
        .i = (size_t)result_i64(r, row, 0) - 1,
        .id = result_i64(r, row, 1),
        .existed = result_bool(r, row, 2),
        .replay = !result_is_null(r, row, 3),
    };
    if (ret_once->replay) {
        ret_once->key = result_uuid(r, row, 3);
        ret_once->request = result_uuid(r, row, 4);
    }
}

void tx_lock_timeout_bind(struct params *p, const char *timeout)
{
    params_text(p, timeout);
}

void tx_work_mem_bind(struct params *p, const char *size)
{
    params_text(p, size);
}

void job_cancel_many_bind(struct params *p, const int64_t *ids, size_t n, const char *by)
{
    params_i64_array(p, ids, n);
    params_text(p, by);
}

void job_cancel_many_row(const PGresult *r, int row, struct job_cancelled *ret_cancelled)
{
    *ret_cancelled = (struct job_cancelled){
        .id = result_i64(r, row, 0),
        .result = result_text(r, row, 1),
        .state = result_text(r, row, 2),
    };
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

void signal_tell_bind(struct params *p, int64_t job_id, const struct signal_new *signal)
{
    signal_send_bind(p, job_id, signal);
}

bool signal_tell_row(const PGresult *r, bool *ret_waited)
{
    *ret_waited = result_bool(r, 0, 1);
    return result_bool(r, 0, 0);
}

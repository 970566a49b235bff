/* worker: binding and reading the statements about workers. */
#include "store/worker.h"

#include "pg/result.h"

void worker_start_bind(struct params *p, const struct worker_start *worker)
{
    params_uuid(p, &worker->id);
    params_text(p, worker->name);
    params_text(p, PAWL_VERSION);
    params_text_array(p, worker->queues, worker->n_queues);
    params_i32(p, worker->slots);
    params_text(p, worker->host);
    params_i32(p, worker->pid);
}

void worker_stop_bind(struct params *p, const struct uuid *worker)
{
    params_uuid(p, worker);
}

void server_probe_bind(struct params *p, const struct uuid *worker)
{
    params_uuid(p, worker);
}

void sleeper_set_bind(struct params *p,
                      const struct uuid *worker,
                      const char *const *queues,
                      size_t n_queues,
                      bool asleep)
{
    params_uuid(p, worker);
    params_text_array(p, queues, n_queues);
    params_bool(p, asleep);
}

void worker_list_row(const PGresult *r, int row, struct worker_view *ret_worker)
{
    *ret_worker = (struct worker_view){
        .id = result_text(r, row, 0),
        .name = result_text(r, row, 1),
        .via = result_text(r, row, 2),
        .queues = result_text(r, row, 3),
        .kinds = result_text(r, row, 4),
        .slots = result_i32(r, row, 5),
        .running = result_i32(r, row, 6),
        .ended = result_is_null(r, row, 7) ? -1 : result_i64(r, row, 7),
        .draining = result_bool(r, row, 8),
        .started_at = result_time(r, row, 9),
        .beat_at = result_time(r, row, 10),
        .host = result_text(r, row, 11),
        .version = result_text(r, row, 12),
        .rate_per_s = result_text(r, row, 13),
    };
}

void worker_ask_bind(struct params *p, const char *worker, const struct worker_wish *wish)
{
    params_text(p, worker);
    params_bool(p, wish->drain);
    params_i32(p, wish->credits);
    params_i64(p, wish->per_1000_s);
}

bool worker_ask_row(const PGresult *r)
{
    return result_bool(r, 0, 0);
}

void worker_wishes_row(const PGresult *r,
                       int row,
                       const char **ret_worker,
                       struct worker_wish *ret_wish)
{
    *ret_worker = result_text(r, row, 0);
    *ret_wish = (struct worker_wish){
        .drain = result_bool(r, row, 1),
        .credits = result_i32(r, row, 2),
        .per_1000_s = result_i64(r, row, 3),
    };
}

void worker_streams_bind(struct params *p, const struct uuid *server, const char *json)
{
    params_uuid(p, server);
    params_text(p, json);
}

void history_maintain_row(const PGresult *r, int32_t *ret_made, int32_t *ret_dropped)
{
    *ret_made = result_i32(r, 0, 0);
    *ret_dropped = result_i32(r, 0, 1);
}

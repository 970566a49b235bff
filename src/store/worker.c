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

void history_maintain_row(const PGresult *r, int32_t *ret_made, int32_t *ret_dropped)
{
    *ret_made = result_i32(r, 0, 0);
    *ret_dropped = result_i32(r, 0, 1);
}

/* signal: binding and reading the statements about signals and restarts. */
#include "store/signal.h"

#include "pg/result.h"

static void signal_bind(struct params *p, const struct signal_new *signal)
{
    params_text(p, signal->name);
    params_text(p, signal->payload);
    params_text(p, signal->key);
}

void signal_send_bind(struct params *p, int64_t job_id, const struct signal_new *signal)
{
    params_i64(p, job_id);
    signal_bind(p, signal);
}

bool signal_send_row(const PGresult *r)
{
    return result_bool(r, 0, 0);
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

void signal_broadcast_bind(struct params *p,
                           const char *correlation,
                           const struct signal_new *signal)
{
    params_text(p, correlation);
    signal_bind(p, signal);
}

int64_t signal_broadcast_row(const PGresult *r)
{
    return result_i64(r, 0, 0);
}

void signal_list_bind(struct params *p, int64_t job_id)
{
    params_i64(p, job_id);
    params_i32(p, SIGNAL_LIST_MAX);
}

void signal_list_row(const PGresult *r, int row, struct signal_view *ret_signal)
{
    *ret_signal = (struct signal_view){
        .id = result_i64(r, row, 0),
        .name = result_text(r, row, 1),
        .key = result_text(r, row, 2),
        .payload = result_text(r, row, 3),
        .sent_at = result_time(r, row, 4),
        .shown = result_bool(r, row, 5),
        .consumed = result_bool(r, row, 6),
        .now = result_time(r, row, 7),
    };
}

void machine_restart_bind(struct params *p, int64_t job_id, const char *step, struct bytes state)
{
    params_i64(p, job_id);
    params_text(p, step);
    params_bytes(p, state);
}

int64_t machine_restart_row(const PGresult *r)
{
    return result_i64(r, 0, 0);
}

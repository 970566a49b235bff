/* probe: commits a tiny transaction now and then. */
#include "serve/api/probe.h"

#include <string.h>

#include "base/clock.h"
#include "store/statements.h"
#include "store/tx.h"
#include "store/worker.h"

#define EVERY_MS    5000
#define AGAIN_MS    1000   /* between two probes while they fail */
#define DEADLINE_MS 5000   /* of one probe */
#define STALE_MS    15000  /* without a commit, although one was tried */
#define WORK_MEM    "64kB" /* the smallest value: the sort spills to disk */

/* Whether a refusal is about the database as a whole, not about the data or about the moment. */
static const char *why_of(const struct pawl_err *err)
{
    if (err->code == PAWL_EREADONLY)
        return "the database takes no writes (read-only)";
    if (strcmp(err->sqlstate, "53100") == 0)
        return "the database has no space left on its disk";
    if (strncmp(err->sqlstate, "58", 2) == 0)
        return "the database has trouble with its files";
    return NULL;
}

void probe_heard(struct probe *probe, const struct batch_end *end)
{
    if (end->verdict == PG_VERDICT_OK) {
        probe->committed_us = clock_mono_us(&clock_system);
        probe->why = NULL;
        return;
    }
    const char *why = why_of(end->err);

    if (why != NULL)
        probe->why = why;
}

static void on_timer(uv_timer_t *timer);

static void on_ended(void *data, const struct batch_end *end)
{
    struct probe *probe = data;
    const char *was = probe->why;

    probe_heard(probe, end);
    if (probe->why != NULL && probe->why != was)
        log_warn_err(probe->log, "probe", end->err, LOG_STR("then", "it is not ready"));
    if (!probe->closing)
        uv_timer_start(&probe->timer, on_timer, probe_why(probe) != NULL ? AGAIN_MS : EVERY_MS, 0);
}

static void on_timer(uv_timer_t *timer)
{
    struct probe *probe = timer->data;
    struct batch *batch = batch_new(probe->conn);
    struct params *memory = batch != NULL ? batch_add(batch, STMT(tx_work_mem)) : NULL;
    struct params *params = memory != NULL ? batch_add(batch, STMT(server_probe)) : NULL;

    if (params == NULL) {
        batch_free(batch);
        uv_timer_start(timer, on_timer, AGAIN_MS, 0);
        return;
    }
    tx_work_mem_bind(memory, WORK_MEM);
    server_probe_bind(params, &probe->worker);
    batch_submit(batch, DEADLINE_MS, on_ended, probe);
}

const char *probe_why(const struct probe *probe)
{
    int64_t age_us = clock_mono_us(&clock_system) - probe->committed_us;

    if (probe->why != NULL)
        return probe->why;
    if (probe->committed_us == 0)
        return "nothing was committed yet";
    return age_us > STALE_MS * US_PER_MS ? "the database did not commit in time" : NULL;
}

void probe_init(struct probe *probe,
                uv_loop_t *loop,
                struct conn *conn,
                const struct uuid *worker,
                struct log *log)
{
    *probe = (struct probe){.conn = conn, .worker = *worker, .log = log};
    uv_timer_init(loop, &probe->timer);
    probe->timer.data = probe;
    uv_timer_start(&probe->timer, on_timer, 0, 0);
}

static void timer_closed(uv_handle_t *handle)
{
    struct probe *probe = handle->data;

    probe->closed(probe->closed_data);
}

void probe_close(struct probe *probe, void (*closed)(void *data), void *data)
{
    probe->closing = true;
    probe->closed = closed;
    probe->closed_data = data;
    uv_close((uv_handle_t *)&probe->timer, timer_closed);
}

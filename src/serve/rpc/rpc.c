/*
 * rpc: the registry of services, what holds for all calls, and metrics. call.c has the life of a
 * call.
 */
#include "serve/rpc/rpc.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "serve/rpc/rpc_internal.h"

struct rpc *rpc_new(uv_loop_t *loop, const struct serve_limits *limits, struct log *log)
{
    struct rpc *rpc = calloc(1, sizeof(*rpc));

    if (rpc == NULL)
        return NULL;
    rpc->loop = loop;
    rpc->limits = limits;
    rpc->log = log;
    map_init(&rpc->by_path, RPC_METHODS_MAX);
    list_init(&rpc->active);
    list_init(&rpc->idle);
    return rpc;
}

void rpc_free(struct rpc *rpc)
{
    struct rpc_entry *entry;
    struct list *link;
    size_t pos = 0;

    if (rpc == NULL)
        return;
    assert(list_empty(&rpc->active));
    while ((link = list_shift(&rpc->idle)) != NULL) {
        struct rpc_call *call = LIST_ENTRY(link, struct rpc_call, link);
        rpc_call_free(call);
    }
    while ((entry = map_next(&rpc->by_path, &pos, NULL, NULL)) != NULL) {
        free(entry->path);
        free(entry);
    }
    map_deinit(&rpc->by_path);
    free(rpc);
}

static int register_method(struct rpc *rpc,
                           const struct rpc_service *service,
                           const struct rpc_method *method,
                           struct pawl_err *err)
{
    struct rpc_entry *entry = calloc(1, sizeof(*entry));
    size_t size = strlen(service->name) + strlen(method->name) + 3;

    if (entry != NULL)
        entry->path = malloc(size);
    if (entry == NULL || entry->path == NULL) {
        free(entry);
        return err_set(err, PAWL_ENOMEM, "no memory to register %s", service->name);
    }
    snprintf(entry->path, size, "/%s/%s", service->name, method->name);
    entry->service = service;
    entry->method = method;
    int rc = PAWL_EINVAL;
    if (map_get(&rpc->by_path, entry->path, size - 1) == NULL)
        rc = map_put(&rpc->by_path, entry->path, size - 1, entry);
    if (rc < 0) {
        err_set(err, rc, "could not register %s: taken already, or too many", entry->path);
        free(entry->path);
        free(entry);
    }
    return rc;
}

int rpc_register(struct rpc *rpc, const struct rpc_service *service, struct pawl_err *err)
{
    if (rpc->n_services == RPC_SERVICES_MAX)
        return err_set(err, PAWL_ELIMIT, "more than %d services", RPC_SERVICES_MAX);
    for (size_t i = 0; i < service->n_methods; i++) {
        int rc = register_method(rpc, service, &service->methods[i], err);
        if (rc < 0)
            return rc;
    }
    rpc->services[rpc->n_services++] = service;
    return 0;
}

const struct rpc_service *rpc_service_at(const struct rpc *rpc, size_t i)
{
    return i < rpc->n_services ? rpc->services[i] : NULL;
}

bool rpc_has(const struct rpc *rpc, const char *path)
{
    return map_get(&rpc->by_path, path, strlen(path)) != NULL;
}

size_t rpc_active(const struct rpc *rpc)
{
    return rpc->n_active;
}

/* A hook may end this call or any other, so each round starts over: a call that was told moves
 * to a list of its own. */
void rpc_drain(struct rpc *rpc)
{
    struct list todo;
    struct list *link;

    list_init(&todo);
    list_splice(&todo, &rpc->active);
    while ((link = list_shift(&todo)) != NULL) {
        struct rpc_call *call = LIST_ENTRY(link, struct rpc_call, link);
        list_push(&rpc->active, link);
        if (call->ops != NULL && call->ops->drain != NULL)
            call->ops->drain(call, call->data);
    }
}

void rpc_set_guard(struct rpc *rpc, rpc_guard *guard, void *data)
{
    rpc->guard = guard;
    rpc->guard_data = data;
}

static const char *why_stopped(const struct rpc_call *call)
{
    if (!call->handled)
        return "the server stops; nothing was done, connect again";
    if (call->entry->method->server_streams)
        return "the server stops; connect again";
    return "the server stopped before the answer was known: the call may have been done or not";
}

/* client NULL: all calls. message NULL: the server stops. */
static void
end_some(struct rpc *rpc, const void *client, enum rpc_status status, const char *message)
{
    /* Ending a call takes it off the list, unless a function here uses the call: then it stays
     * until that returns. */
    struct list todo;
    struct list *link;

    list_init(&todo);
    list_splice(&todo, &rpc->active);
    while ((link = list_shift(&todo)) != NULL) {
        struct rpc_call *call = LIST_ENTRY(link, struct rpc_call, link);
        list_push(&rpc->active, link);
        if (call->ended || (client != NULL && call->client != client))
            continue;
        rpc_call_end_by_force(call, status, message != NULL ? message : why_stopped(call));
    }
}

void rpc_end_all(struct rpc *rpc)
{
    end_some(rpc, NULL, RPC_UNAVAILABLE, NULL);
}

void rpc_end_client(struct rpc *rpc,
                    const void *client,
                    enum rpc_status status,
                    const char *message)
{
    end_some(rpc, client, status, message);
}

/* One sample of each family for every method. */
static void entry_metrics(const struct rpc_entry *entry, struct buf *out, int family)
{
    const char *path = entry->method != NULL ? entry->path + 1 : "unknown";
    const struct metrics_label label[] = {{"method", path}, {NULL, NULL}};

    switch (family) {
    case 0:
        metrics_int(out, "pawl_rpc_started_total", label, (int64_t)entry->started);
        break;
    case 1:
        for (int i = 0; i < RPC_STATUS_COUNT; i++) {
            const struct metrics_label labels[] = {
                {"method", path}, {"code", rpc_status_name(i)}, {NULL, NULL}};
            if (entry->ended[i] > 0)
                metrics_int(out, "pawl_rpc_ended_total", labels, (int64_t)entry->ended[i]);
        }
        break;
    case 2:
        metrics_int(out, "pawl_rpc_active", label, entry->active);
        break;
    case 3:
        metrics_int(out, "pawl_rpc_messages_received_total", label, (int64_t)entry->messages_in);
        break;
    case 4:
        metrics_int(out, "pawl_rpc_messages_sent_total", label, (int64_t)entry->messages_out);
        break;
    default:
        if (entry->method != NULL && !entry->method->server_streams)
            metrics_histogram(out, "pawl_rpc_seconds", label, &entry->latency);
    }
}

void rpc_metrics(const struct rpc *rpc, struct buf *out)
{
    static const struct {
        const char *name, *type, *help;
    } families[] = {
        {"pawl_rpc_started_total", "counter", "Calls that began."},
        {"pawl_rpc_ended_total", "counter", "Calls that ended, by status code."},
        {"pawl_rpc_active", "gauge", "Calls that are open."},
        {"pawl_rpc_messages_received_total", "counter", "Messages received."},
        {"pawl_rpc_messages_sent_total", "counter", "Messages put on their way."},
        {"pawl_rpc_seconds", "histogram", "From the head of a call to its end; streams left out."},
    };

    for (int i = 0; i < (int)(sizeof(families) / sizeof(families[0])); i++) {
        const struct rpc_entry *entry;
        size_t pos = 0;
        metrics_family(out, families[i].name, families[i].type, families[i].help);
        while ((entry = map_next(&rpc->by_path, &pos, NULL, NULL)) != NULL)
            entry_metrics(entry, out, i);
        entry_metrics(&rpc->unknown, out, i);
    }
    metrics_gauge(
        out, "pawl_rpc_memory_bytes", "Memory held by requests.", (int64_t)rpc->memory_used);
    metrics_counter(out,
                    "pawl_rpc_memory_refused_total",
                    "Calls refused because requests held too much memory.",
                    rpc->memory_refused);
}

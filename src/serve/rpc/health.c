/*
 * health: a small map of names, and the calls that watch. A watcher that does not read gets only
 * the newest status once it reads.
 */
#include "serve/rpc/health.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/map.h"
#include "proto/grpc/health/v1/health.pb-c.h"

typedef Grpc__Health__V1__HealthCheckRequest HealthRequest;
typedef Grpc__Health__V1__HealthCheckResponse HealthResponse;
typedef Grpc__Health__V1__HealthCheckResponse__ServingStatus HealthStatus;

#define STATUS(name) GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__##name

struct health {
    struct map names; /* health_name, owned */
    struct list watchers;
    size_t n_watchers;
    struct rpc_service service;
    bool shut_down;
};

struct health_name {
    bool serving;
};

struct watcher {
    struct list link;
    struct health *health;
    struct rpc_call *call;
    char *name; /* owned */
    int told;   /* the status that was sent last; -1: none */
};

static HealthStatus status_of(const struct health *health, const char *service)
{
    const struct health_name *name = map_get(&health->names, service, strlen(service));

    if (name == NULL)
        return STATUS(SERVICE_UNKNOWN);
    return name->serving && !health->shut_down ? STATUS(SERVING) : STATUS(NOT_SERVING);
}

static void handle_check(struct rpc_call *call, const ProtobufCMessage *message, void *data)
{
    const HealthRequest *request = (const HealthRequest *)(const void *)message;
    HealthResponse response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;

    response.status = status_of(data, request->service);
    if (response.status == STATUS(SERVICE_UNKNOWN))
        rpc_end(call, RPC_NOT_FOUND, "there is no service %s here", request->service);
    else
        rpc_reply(call, &response.base);
}

static void watcher_free(struct watcher *watcher)
{
    watcher->health->n_watchers--;
    list_remove(&watcher->link);
    free(watcher->name);
    free(watcher);
}

static void watcher_tell(struct watcher *watcher)
{
    HealthResponse response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;

    response.status = status_of(watcher->health, watcher->name);
    if ((int)response.status == watcher->told)
        return;
    if (rpc_send(watcher->call, &response.base) == 0)
        watcher->told = (int)response.status;
}

static void watch_gone(struct rpc_call *call, void *data)
{
    (void)call;
    watcher_free(data);
}

static void watch_writable(struct rpc_call *call, void *data)
{
    (void)call;
    watcher_tell(data);
}

static void watch_drain(struct rpc_call *call, void *data)
{
    watcher_tell(data);
    watcher_free(data);
    rpc_end(call, RPC_UNAVAILABLE, "the server stops; watch another one");
}

static const struct rpc_call_ops watch_ops = {
    .gone = watch_gone, .writable = watch_writable, .drain = watch_drain};

static void handle_watch(struct rpc_call *call, const ProtobufCMessage *message, void *data)
{
    const HealthRequest *request = (const HealthRequest *)(const void *)message;
    struct health *health = data;

    if (health->n_watchers >= HEALTH_WATCHERS_MAX) {
        rpc_end(call, RPC_RESOURCE_EXHAUSTED, "%d watch already; use Check", HEALTH_WATCHERS_MAX);
        return;
    }
    struct watcher *watcher = calloc(1, sizeof(*watcher));
    if (watcher != NULL)
        watcher->name = strdup(request->service);
    if (watcher == NULL || watcher->name == NULL) {
        free(watcher);
        rpc_end(call, RPC_RESOURCE_EXHAUSTED, "no memory to watch");
        return;
    }
    watcher->health = health;
    watcher->call = call;
    watcher->told = -1;
    list_push(&health->watchers, &watcher->link);
    health->n_watchers++;
    rpc_hold(call, &watch_ops, watcher);
    watcher_tell(watcher);
}

static const struct rpc_method methods[] = {
    {.name = "Check",
     .request = &grpc__health__v1__health_check_request__descriptor,
     .response = &grpc__health__v1__health_check_response__descriptor,
     .handle = handle_check},
    {.name = "Watch",
     .request = &grpc__health__v1__health_check_request__descriptor,
     .response = &grpc__health__v1__health_check_response__descriptor,
     .server_streams = true,
     .handle = handle_watch},
};

int health_new(struct rpc *rpc, struct health **ret_health, struct pawl_err *err)
{
    struct health *health = calloc(1, sizeof(*health));

    if (health == NULL)
        return err_set(err, PAWL_ENOMEM, "no memory for the health service");
    map_init(&health->names, HEALTH_NAMES_MAX);
    list_init(&health->watchers);
    health->service = (struct rpc_service){.name = "grpc.health.v1.Health",
                                           .methods = methods,
                                           .n_methods = sizeof(methods) / sizeof(methods[0]),
                                           .data = health};
    int rc = health_set(health, "", true);
    if (rc < 0)
        err_set(err, rc, "no memory for the health service");
    else
        rc = rpc_register(rpc, &health->service, err);
    if (rc < 0) {
        health_free(health);
        return rc;
    }
    *ret_health = health;
    return 0;
}

void health_free(struct health *health)
{
    struct health_name *name;
    size_t pos = 0;

    if (health == NULL)
        return;
    while ((name = map_next(&health->names, &pos, NULL, NULL)) != NULL)
        free(name);
    map_deinit(&health->names);
    free(health);
}

static void tell_all(struct health *health)
{
    LIST_FOREACH_SAFE(link, after, &health->watchers) {
        watcher_tell(LIST_ENTRY(link, struct watcher, link));
    }
}

int health_set(struct health *health, const char *service, bool serving)
{
    struct health_name *name = map_get(&health->names, service, strlen(service));

    if (name == NULL) {
        name = calloc(1, sizeof(*name));
        int rc =
            name != NULL ? map_put(&health->names, service, strlen(service), name) : PAWL_ENOMEM;
        if (rc < 0) {
            free(name);
            return rc;
        }
    }
    name->serving = serving;
    tell_all(health);
    return 0;
}

bool health_serving(const struct health *health, const char *service)
{
    return status_of(health, service) == STATUS(SERVING);
}

void health_shutdown(struct health *health)
{
    health->shut_down = true;
    tell_all(health);
}

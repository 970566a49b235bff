/*
 * health: the standard health service, grpc.health.v1. The owner sets the status of services;
 * clients ask or watch. The name "" is the server as a whole, and the answer of /ready. Loop's
 * thread.
 */
#ifndef SERVE_RPC_HEALTH_H
#define SERVE_RPC_HEALTH_H

#include <stdbool.h>

#include "serve/rpc/rpc.h"

#define HEALTH_NAMES_MAX    64
#define HEALTH_WATCHERS_MAX 1000

struct health;

/* Registers the service. "" is serving. */
int health_new(struct rpc *rpc, struct health **ret_health, struct pawl_err *err) MUST_CHECK;
/* No call may watch any more. */
void health_free(struct health *health);

/* service: copied. PAWL_ELIMIT, PAWL_ENOMEM. Watchers are told. */
int health_set(struct health *health, const char *service, bool serving) MUST_CHECK;
bool health_serving(const struct health *health, const char *service);
/* From now on every service is not serving, whatever is set. */
void health_shutdown(struct health *health);

#endif

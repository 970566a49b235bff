/*
 * health: the standard health service, grpc.health.v1. Somebody says how services are; clients ask, or watch. The name
 * "" is the server as a whole, and what /ready answers. Loop's thread.
 */
#ifndef SERVE_RPC_HEALTH_H
#define SERVE_RPC_HEALTH_H

#include <stdbool.h>

#include "serve/rpc/rpc.h"

#define HEALTH_NAMES_MAX    64
#define HEALTH_WATCHERS_MAX 1000

struct health;

/* Registers itself. "" is serving. */
int health_new(struct rpc *rpc, struct health **ret_health, struct pawl_err *err) MUST_CHECK;
/* Nobody may watch any more. */
void health_free(struct health *health);

/* service: copied. PAWL_ELIMIT, PAWL_ENOMEM. Watchers hear of it. */
int health_set(struct health *health, const char *service, bool serving) MUST_CHECK;
bool health_serving(const struct health *health, const char *service);
/* Everything is not serving from now on, whatever is set. */
void health_shutdown(struct health *health);

#endif

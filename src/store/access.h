/*
 * access: the statements about access tokens of the server, as pairs of _bind and _row. Pure but for memory; any thread.
 */
#ifndef STORE_ACCESS_H
#define STORE_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#include <libpq-fe.h>

#include "pg/params.h"

#define ACCESS_HASH_LEN   32 /* SHA-256 of the secret */
#define ACCESS_MAX        10000
#define ACCESS_QUEUES_MAX 64

/* One to be made. */
struct access_new {
    const char *name;
    struct bytes hash;
    const char *const *scopes;
    size_t n_scopes;
    const char *const *queues; /* n_queues 0: all */
    size_t n_queues;
    int64_t expires_ms; /* 0: never */
};

void access_create_bind(struct params *p, const struct access_new *access);
/* False: there are ACCESS_MAX already. */
bool access_create_row(const PGresult *r, int64_t *ret_id);

/* One as it is stored. Pointers live as long as the result. Times that are not known are 0. */
struct access_view {
    int64_t id;
    const char *name;
    struct bytes hash;
    const char *scopes; /* with commas */
    const char *queues; /* with commas; "": all */
    int64_t created_at;
    const char *created_by;
    int64_t expires_at;
    int64_t revoked_at;
    int64_t now; /* by the database's clock */
};

/* all: also those that are not valid any more. */
void access_list_bind(struct params *p, bool all);
void access_list_row(const PGresult *r, int row, struct access_view *ret_access);

/* By name or id. */
void access_revoke_bind(struct params *p, const char *which);

#endif

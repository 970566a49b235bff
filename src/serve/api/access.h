/*
 * access: the valid access tokens by the hash of their secret, as the last look at the database
 * found them. At most ACCESS_MAX. Loop's thread only.
 */
#ifndef SERVE_API_ACCESS_H
#define SERVE_API_ACCESS_H

#include <stdbool.h>

#include <libpq-fe.h>

#include "base/map.h"
#include "store/access.h"

struct access {
    int64_t id;
    unsigned char hash[ACCESS_HASH_LEN];
    unsigned scopes;    /* enum auth_scope */
    int64_t expires_us; /* by the steady clock; INT64_MAX: never */
    bool seen;          /* found by the present look */
    uint64_t calls;
    uint64_t denied;
    uint64_t jobs;
    char *texts; /* owned: name and queues, each ending with NUL */
    const char *name;
    const char *queues[ACCESS_QUEUES_MAX]; /* n_queues 0: all */
    size_t n_queues;
};

struct access_table {
    struct map by_hash; /* struct access, owned */
};

void access_table_init(struct access_table *table);
void access_table_deinit(struct access_table *table);

struct access *access_find(const struct access_table *table,
                           const unsigned char hash[ACCESS_HASH_LEN]);

/* Takes over what the database has now. `over` is called for each token that is not valid any
 * more, just before the entry is freed. PAWL_ENOMEM: some may be missing. */
int access_update(struct access_table *table,
                  const PGresult *rows,
                  int64_t now_us,
                  void (*over)(void *data, struct access *access),
                  void *data) MUST_CHECK;
/* Removes expired tokens, too. Returns when the next token expires; INT64_MAX: none does. */
int64_t access_expire(struct access_table *table,
                      int64_t now_us,
                      void (*over)(void *data, struct access *access),
                      void *data);

bool access_sees(const struct access *access, const char *queue);

#endif

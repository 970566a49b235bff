/*
 * signal: the statements about the inboxes of machines, as pairs of _bind and _row. Pure but for
 * memory; any thread.
 */
#ifndef STORE_SIGNAL_H
#define STORE_SIGNAL_H

#include <libpq-fe.h>

#include "pg/params.h"

/* A signal to be sent. */
struct signal_new {
    const char *name;
    const char *payload; /* JSON */
    const char *key;     /* NULL: none */
};

void signal_send_bind(struct params *p, int64_t job_id, const struct signal_new *signal);
bool signal_send_row(const PGresult *r); /* false: it was sent before */
void signal_tell_bind(struct params *p, int64_t job_id, const struct signal_new *signal);
/* ret_waited: the job waited for it. False: it was sent before. */
bool signal_tell_row(const PGresult *r, bool *ret_waited);
void signal_broadcast_bind(struct params *p,
                           const char *correlation,
                           const struct signal_new *signal);
int64_t signal_broadcast_row(const PGresult *r); /* how many jobs got it */

/* A signal in an inbox. Pointers live as long as the result. */
struct signal_view {
    int64_t id;
    const char *name;
    const char *key; /* or NULL */
    const char *payload;
    int64_t sent_at;
    bool shown;
    bool consumed;
    int64_t now; /* by the database's clock */
};

#define SIGNAL_LIST_MAX 1000

void signal_list_bind(struct params *p, int64_t job_id);
void signal_list_row(const PGresult *r, int row, struct signal_view *ret_signal);

/* state.data NULL: as it was left. */
void machine_restart_bind(struct params *p, int64_t job_id, const char *step, struct bytes state);
int64_t machine_restart_row(const PGresult *r);

#endif

/*
 * probe: whether the database commits, for /ready. A connection that is up says little: a database
 * whose disk is full, or that was made read-only, answers and refuses. The probe commits a tiny
 * transaction now and then, and more often while commits fail; the ends of Enqueue calls count as
 * well. Loop's thread only.
 */
#ifndef SERVE_API_PROBE_H
#define SERVE_API_PROBE_H

#include <uv.h>

#include "base/rand.h"
#include "pg/conn.h"

struct probe {
    struct conn *conn; /* borrowed */
    struct uuid worker;
    struct log *log; /* borrowed; may be NULL */
    uv_timer_t timer;
    bool closing;
    int64_t committed_us; /* steady clock; 0: never yet */
    const char *why;      /* static; why the last commit was refused. NULL: it was not */
    void (*closed)(void *data);
    void *closed_data;
};

void probe_init(struct probe *probe,
                uv_loop_t *loop,
                struct conn *conn,
                const struct uuid *worker,
                struct log *log);
/* Before the owner closes the connection. */
void probe_close(struct probe *probe, void (*closed)(void *data), void *data);

/* A transaction that accepts jobs ended. */
void probe_heard(struct probe *probe, const struct batch_end *end);

/* NULL: the database commits. Otherwise the reason in a few words; static. */
const char *probe_why(const struct probe *probe);

#endif

/* produce: what the functions share that take jobs, and those on a caller's own connection. The connection's thread. */
#ifndef LIB_PRODUCE_H
#define LIB_PRODUCE_H

#include <libpq-fe.h>

#include "base/arena.h"
#include "client/enqueue.h"

/* Whether something can be sent on it at all: it lives, is not busy, and its transaction has not
 * failed. function: its name, for the message. */
int produce_check(PGconn *conn, const char *function, struct pawl_err *err) MUST_CHECK;

/* A text that is not plain ASCII arrives as it was meant only on a connection that speaks UTF-8. */
int produce_encoding(const PGconn *conn, const char *text, struct pawl_err *err) MUST_CHECK;

/* Nothing was committed when the connection broke inside a transaction, so that much is known. */
int produce_lost(bool in_transaction, int rc, struct pawl_err *err);

/* The jobs of one call, read one after the other; the same twice, if need be: once to check them all, once to send them. */
struct reader {
    const PGconn *conn;      /* NULL: none */
    const unsigned char *at; /* structs of the caller's, `stride` apart */
    size_t stride;
    size_t n;
    size_t next;
    bool rich;                 /* one that is not plain has come by */
    struct arena arena;        /* of the texts of one chunk */
    struct pawl_job_new *jobs; /* of one chunk; owned; room for JOB_ENQUEUE_MAX or n */
};

/* n: at least one. */
int reader_init(struct reader *r,
                const PGconn *conn,
                const struct pawl_job_new *jobs,
                size_t n,
                struct pawl_err *err) MUST_CHECK;
void reader_deinit(struct reader *r);
/* The next ones that fit into a statement: how many, or an error that says which. They live until the next call. */
int reader_next(struct reader *r, size_t *ret_n, struct pawl_err *err) MUST_CHECK;
void reader_rewind(struct reader *r);

#endif

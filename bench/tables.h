/*
 * tables: what is in the database before a measurement, and what the server counted meanwhile.
 * Blocking.
 */
#ifndef BENCH_TABLES_H
#define BENCH_TABLES_H

#include <stdint.h>

#include <libpq-fe.h>

#include "bench/bench.h"

/* One or more statements without parameters. */
int tables_exec(PGconn *conn, struct pawl_err *err, const char *fmt, ...)
    PRINTF_LIKE(3, 4) MUST_CHECK;
/* One number. */
int tables_number(PGconn *conn, int64_t *ret_value, struct pawl_err *err, const char *fmt, ...)
    PRINTF_LIKE(4, 5) MUST_CHECK;
/* The settings that the engine's sessions have. */
int tables_session(PGconn *conn, struct pawl_err *err) MUST_CHECK;
int tables_prepare(PGconn *conn, const char *name, const char *sql, struct pawl_err *err)
    MUST_CHECK;
/* What a statement that failed had to say. */
int tables_failed(const PGconn *conn, const PGresult *r, struct pawl_err *err);

/* Empties all tables, once the sessions of those who have left are over, and says how long finished
 * jobs of the queue are kept. */
int tables_clear(struct bench *b, int keep_days, struct pawl_err *err) MUST_CHECK;
/* Jobs due since just now, a microsecond apart; or tomorrow. */
int tables_fill(struct bench *b, int64_t n, int priority, bool tomorrow, struct pawl_err *err)
    MUST_CHECK;
/* Vacuum, statistics, checkpoint: every measurement begins with the same state. */
int tables_tidy(struct bench *b, struct pawl_err *err) MUST_CHECK;

struct server_counts {
    int64_t commits;
    int64_t rollbacks;
    int64_t wal_bytes; /* since the server was made */
    int64_t cpu_us;    /* of all sessions that have ended; 0 when the server is elsewhere */
};

/* Waits until nobody else is connected to our database, because a session reports what it did when
 * it ends, at the latest. */
int tables_counts(struct bench *b,
                  struct server_counts *ret_counts,
                  struct pawl_err *err) MUST_CHECK;

#endif

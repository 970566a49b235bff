/* tables: setting the scene. */
#include "bench/tables.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/defer.h"
#include "pg/result.h"
#include "pg/sqlstate.h"
#include "store/statements.h"

/* proc(5) */
#define PROC_PPID   4
#define PROC_CUTIME 16
#define PROC_CSTIME 17

#define REAP_MS     50   /* for a session that nobody sees any more to be really gone */
#define LEAVE_MS    5000 /* for sessions that are closed already to be gone */

#define CLEAR_TRIES 5
#define CLEAR_LOCK  "2s" /* how long one of them waits for a lock */

int tables_failed(const PGconn *conn, const PGresult *r, struct pawl_err *err)
{
    pg_err_from_result(conn, r, true, err);
    return err->code;
}

static int exec(PGconn *conn, PGresult **ret_result, struct pawl_err *err, const char *sql)
{
    PGresult *r = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(r);

    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        int rc = tables_failed(conn, r, err);

        PQclear(r);
        return rc;
    }
    *ret_result = r;
    return 0;
}

int tables_exec(PGconn *conn, struct pawl_err *err, const char *fmt, ...)
{
    AUTO_FREE char *sql = NULL;
    PGresult *r = NULL;
    va_list ap;

    va_start(ap, fmt);
    int len = vasprintf(&sql, fmt, ap);
    va_end(ap);
    if (len < 0) {
        sql = NULL;
        return err_set(err, PAWL_ENOMEM, "out of memory");
    }
    int rc = exec(conn, &r, err, sql);

    PQclear(r);
    return rc;
}

int tables_number(PGconn *conn, int64_t *ret_value, struct pawl_err *err, const char *fmt, ...)
{
    AUTO_FREE char *sql = NULL;
    CLEANUP(result_cleanup)
    PGresult *r = NULL;
    va_list ap;

    va_start(ap, fmt);
    int len = vasprintf(&sql, fmt, ap);
    va_end(ap);
    if (len < 0) {
        sql = NULL;
        return err_set(err, PAWL_ENOMEM, "out of memory");
    }
    int rc = exec(conn, &r, err, sql);

    if (rc == 0 && (PQntuples(r) != 1 || PQnfields(r) != 1))
        rc = err_set(err, PAWL_EFAILED, "the server gave no number");
    if (rc == 0)
        *ret_value = strtoll(PQgetvalue(r, 0, 0), NULL, 10);
    return rc;
}

int tables_session(PGconn *conn, struct pawl_err *err)
{
    static const char *const lasting[] = {"false"};
    PGresult *r = PQexecParams(conn, STMT(session)->sql, 1, NULL, lasting, NULL, NULL, 0);
    int rc = PQresultStatus(r) == PGRES_TUPLES_OK ? 0 : tables_failed(conn, r, err);

    PQclear(r);
    return rc;
}

int tables_prepare(PGconn *conn, const char *name, const char *sql, struct pawl_err *err)
{
    CLEANUP(result_cleanup)
    PGresult *r = PQprepare(conn, name, sql, 0, NULL);

    return PQresultStatus(r) == PGRES_COMMAND_OK ? 0 : tables_failed(conn, r, err);
}

/* Until nobody else is connected to our database, or it takes too long: then what follows has to cope. */
static int wait_alone(struct bench *b, struct pawl_err *err)
{
    int64_t until_us = bench_now_us() + LEAVE_MS * US_PER_MS;
    int64_t others = 1;
    int rc = 0;

    while (rc == 0 && others > 0 && bench_now_us() < until_us) {
        rc =
            tables_number(b->admin,
                          &others,
                          err,
                          "SELECT count(*) FROM pg_stat_activity"
                          " WHERE datname = '%s' AND backend_type = 'client backend' AND pid <> %d",
                          b->db,
                          PQbackendPID(b->conn));
        if (rc == 0)
            rc = bench_go_on(b, err);
        if (rc == 0 && others > 0)
            bench_sleep_ms(b, 10);
    }
    return rc;
}

/* A deadlock, or a lock that was not to be had. */
static bool is_about_locks(const struct pawl_err *err)
{
    return strcmp(err->sqlstate, "40P01") == 0 || strcmp(err->sqlstate, "55P03") == 0;
}

/* A session outlives its client by as long as its last statement takes, and the last statement of a
 * worker may be the one that makes tomorrow's partitions: it locks the same tables in another
 * order. Autovacuum gives way to a lock, but not at once. */
int tables_clear(struct bench *b, int keep_days, struct pawl_err *err)
{
    int rc = wait_alone(b, err);

    for (int i = 0; rc == 0; i++) {
        /* One transaction, because it is one string of statements. */
        rc = tables_exec(
            b->conn,
            err,
            "SET LOCAL lock_timeout = '" CLEAR_LOCK "';"
            "TRUNCATE pawl.job, pawl.job_option, pawl.machine, pawl.signal, pawl.child, pawl.orphan,"
            " pawl.claim, pawl.history, pawl.queue, pawl.sleeper, pawl.worker;"
            "INSERT INTO pawl.queue (name, keep_days) VALUES ('" BENCH_QUEUE "', %d)",
            keep_days);
        if (rc == 0 || i + 1 >= CLEAR_TRIES || !is_about_locks(err))
            break;
        rc = bench_go_on(b, err);
    }
    return rc;
}

int tables_fill(struct bench *b, int64_t n, int priority, bool tomorrow, struct pawl_err *err)
{
    return tables_exec(b->conn,
                       err,
                       "INSERT INTO pawl.job (queue, kind, payload, priority, due_at)"
                       " SELECT '" BENCH_QUEUE "', '" BENCH_KIND "', '{}', %d,"
                       "        now() + interval '%s' + g * interval '1 microsecond'"
                       " FROM generate_series(1, %lld) AS g",
                       priority,
                       tomorrow ? "1 day" : "-1 minute",
                       (long long)n);
}

int tables_tidy(struct bench *b, struct pawl_err *err)
{
    int rc = tables_exec(b->conn, err, "VACUUM (ANALYZE) pawl.job");

    if (rc == 0)
        rc = tables_exec(b->conn, err, "VACUUM (ANALYZE) pawl.claim");
    if (rc == 0 && b->can_checkpoint) {
        rc = tables_exec(b->conn, err, "CHECKPOINT");
        if (rc == PAWL_EDENIED) {
            b->can_checkpoint = false;
            bench_note(b, "this user may not run CHECKPOINT: figures vary more than they need to");
            rc = 0;
        }
    }
    return rc;
}

/* Field n of /proc/PID/stat, counted as in proc(5). The name in field 2 may hold anything but its
 * own end. */
static int64_t proc_stat(int64_t pid, int n)
{
    AUTO_FREE char *path = NULL;
    AUTO_FREE char *line = NULL;
    size_t size = 0;
    int64_t value = -1;

    if (asprintf(&path, "/proc/%lld/stat", (long long)pid) < 0) {
        path = NULL;
        return -1;
    }
    FILE *file = fopen(path, "re");

    if (file == NULL)
        return -1;
    if (getline(&line, &size, file) > 0) {
        char *at = strrchr(line, ')');

        for (int field = 2; at != NULL && field < n; field++)
            at = strchr(at + 1, ' ');
        if (at != NULL)
            value = strtoll(at, NULL, 10);
    }
    fclose(file);
    return value;
}

/* A postmaster knows what its children used that it has seen end. */
static int64_t ended_sessions_cpu_us(const struct bench *b)
{
    int64_t ticks_per_s = sysconf(_SC_CLK_TCK);
    int64_t postmaster = proc_stat(PQbackendPID(b->conn), PROC_PPID);
    int64_t user = postmaster > 0 ? proc_stat(postmaster, PROC_CUTIME) : -1;
    int64_t system = postmaster > 0 ? proc_stat(postmaster, PROC_CSTIME) : -1;

    return user < 0 || system < 0 ? 0 : (user + system) * US_PER_S / ticks_per_s;
}

int tables_counts(struct bench *b, struct server_counts *ret_counts, struct pawl_err *err)
{
    int rc = wait_alone(b, err);

    if (rc == 0)
        rc = tables_number(b->admin,
                           &ret_counts->commits,
                           err,
                           "SELECT xact_commit FROM pg_stat_database WHERE datname = '%s'",
                           b->db);
    if (rc == 0)
        rc = tables_number(b->admin,
                           &ret_counts->rollbacks,
                           err,
                           "SELECT xact_rollback FROM pg_stat_database WHERE datname = '%s'",
                           b->db);
    if (rc == 0)
        rc = tables_number(
            b->admin, &ret_counts->wal_bytes, err, "SELECT pg_current_wal_lsn() - '0/0'::pg_lsn");
    bench_sleep_ms(b, REAP_MS);
    ret_counts->cpu_us = ended_sessions_cpu_us(b);
    return rc;
}

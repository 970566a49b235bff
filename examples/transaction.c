/*
 * transaction: a job that exists if and only if the business data does, and whose work is written down together with the
 * proof that it still owns the job.
 *
 * An order and the job that ships it are committed together; an order that is rolled back leaves no job. The handler marks
 * the order as shipped in a transaction of its own, with pawl_assert_claim in it: a worker that was believed dead and whose job
 * runs elsewhere by now cannot ship a second time.
 *
 *     cc transaction.c $(pkg-config --cflags --libs libpawl libpq)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libpq-fe.h>
#include <pawl.h>

static const char *conninfo;

static int run_sql(PGconn *conn, const char *sql)
{
    PGresult *r = PQexec(conn, sql);
    int ok = PQresultStatus(r) == PGRES_COMMAND_OK || PQresultStatus(r) == PGRES_TUPLES_OK;

    if (!ok)
        fprintf(stderr, "transaction: %s", PQerrorMessage(conn));
    PQclear(r);
    return ok ? 0 : -1;
}

/* One connection for a run; examples/pool.c shows how to keep them. */
static enum pawl_outcome ship(struct pawl_run *run, void *data)
{
    const char *order = pawl_run_payload(run, NULL);
    PGconn *conn = PQconnectdb(conninfo);
    struct pawl_err err = {0};
    char sql[200];

    (void)data;
    snprintf(sql, sizeof(sql), "UPDATE orders SET shipped = true WHERE id = %d", atoi(order));
    if (run_sql(conn, "BEGIN") < 0 ||
        pawl_assert_claim(conn, pawl_run_id(run), pawl_run_token(run), &err) < 0 ||
        run_sql(conn, sql) < 0 || run_sql(conn, "COMMIT") < 0) {
        enum pawl_outcome outcome =
            pawl_run_retry(run, -1, "%s", err.code != 0 ? err.message : PQerrorMessage(conn));

        PQfinish(conn); /* rolls back */
        return outcome;
    }
    PQfinish(conn);
    printf("order %s shipped\n", order);
    return pawl_run_done(run, NULL, 0);
}

static int take_order(PGconn *conn, int id, const char *end, struct pawl_err *err)
{
    struct pawl_job_new job = PAWL_JOB_NEW_INIT;
    char payload[16];
    char sql[100];
    int64_t job_id;

    snprintf(payload, sizeof(payload), "%d", id);
    snprintf(sql, sizeof(sql), "INSERT INTO orders (id) VALUES (%d)", id);
    job.kind = "ship";
    job.payload = payload;
    job.payload_len = strlen(payload);
    if (run_sql(conn, "BEGIN") < 0 || run_sql(conn, sql) < 0)
        return -1;
    if (pawl_enqueue(conn, &job, &job_id, NULL, err) < 0)
        return -1;
    return run_sql(conn, end);
}

int main(void)
{
    const char *url = getenv("PAWL_DATABASE_URL");
    struct pawl_worker_options options = PAWL_WORKER_OPTIONS_INIT;
    struct pawl_worker *worker = NULL;
    struct pawl_err err = {0};

    conninfo = url != NULL ? url : "";
    PGconn *conn = PQconnectdb(conninfo);
    int rc = run_sql(
        conn, "CREATE TABLE orders (id int PRIMARY KEY, shipped bool NOT NULL DEFAULT false)");

    if (rc == 0)
        rc = take_order(conn, 1, "COMMIT", &err);
    if (rc == 0)
        rc = take_order(
            conn, 2, "ROLLBACK", &err); /* neither the order nor its job was ever there */
    options.until_empty = true;
    if (rc == 0)
        rc = pawl_worker_new(&options, &worker, &err);
    if (rc == 0)
        rc = pawl_worker_handle(worker, "ship", ship, NULL, &err);
    if (rc == 0)
        rc = pawl_worker_run(worker, &err);
    if (err.code != 0)
        fprintf(stderr, "transaction: %s. %s %s\n", err.message, err.detail, err.hint);
    pawl_worker_free(worker);
    PQfinish(conn);
    return rc == 0 ? 0 : 1;
}

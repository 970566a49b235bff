/*
 * pool: handlers that share a few expensive things, here connections to a database. Eight handlers run at a time and two
 * connections do for them all; one that broke is replaced, and none is used for longer than a minute.
 *
 *     cc pool.c $(pkg-config --cflags --libs libpawl libpq)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libpq-fe.h>
#include <pawl.h>

static const char *conninfo;

static int create(void *data, void **ret_thing, struct pawl_err *err)
{
    PGconn *conn = PQconnectdb(conninfo);

    (void)data;
    if (PQstatus(conn) != CONNECTION_OK) {
        err->code = PAWL_ECONN;
        snprintf(err->message, sizeof(err->message), "could not connect: %s", PQerrorMessage(conn));
        PQfinish(conn);
        return PAWL_ECONN;
    }
    printf("connected\n");
    *ret_thing = conn;
    return 0;
}

static bool check(void *data, void *thing)
{
    (void)data;
    return PQstatus(thing) == CONNECTION_OK;
}

static bool reset(void *data, void *thing)
{
    PGresult *r = PQexec(thing, "DISCARD ALL");
    bool good = PQresultStatus(r) == PGRES_COMMAND_OK;

    (void)data;
    PQclear(r);
    return good;
}

static void destroy(void *data, void *thing)
{
    (void)data;
    PQfinish(thing);
}

static enum pawl_outcome square(struct pawl_run *run, void *data)
{
    struct pawl_pool *pool = data;
    struct pawl_err err = {0};
    void *conn;
    const char *values[] = {pawl_run_payload(run, NULL)};

    if (pawl_pool_take(pool, 10000, &conn, &err) < 0)
        return pawl_run_retry(run, -1, "%s", err.message);
    PGresult *r = PQexecParams(conn, "SELECT $1::int * $1::int", 1, NULL, values, NULL, NULL, 0);
    bool good = PQresultStatus(r) == PGRES_TUPLES_OK;
    enum pawl_outcome outcome =
        good ? pawl_run_done(run, PQgetvalue(r, 0, 0), (size_t)PQgetlength(r, 0, 0))
             : pawl_run_retry(run, -1, "%s", PQerrorMessage(conn));

    PQclear(r);
    pawl_pool_give(pool, conn, !good);
    return outcome;
}

static int enqueue(struct pawl_err *err)
{
    PGconn *conn = PQconnectdb(conninfo);
    struct pawl_job_new jobs[50];
    char payloads[50][16];

    for (int i = 0; i < 50; i++) {
        jobs[i] = PAWL_JOB_NEW_INIT;
        snprintf(payloads[i], sizeof(payloads[i]), "%d", i);
        jobs[i].kind = "square";
        jobs[i].payload = payloads[i];
        jobs[i].payload_len = strlen(payloads[i]);
    }
    int rc = pawl_enqueue_many(conn, jobs, 50, NULL, NULL, err);

    PQfinish(conn);
    return rc;
}

int main(void)
{
    const char *url = getenv("PAWL_DATABASE_URL");
    struct pawl_worker_options options = PAWL_WORKER_OPTIONS_INIT;
    struct pawl_pool_options things = PAWL_POOL_OPTIONS_INIT;
    struct pawl_stats stats = PAWL_STATS_INIT;
    struct pawl_worker *worker = NULL;
    struct pawl_pool *pool = NULL;
    struct pawl_err err = {0};

    conninfo = url != NULL ? url : "";
    things.max = 2;
    things.max_age_ms = 60000;
    things.create = create;
    things.check = check;
    things.reset = reset;
    things.destroy = destroy;
    options.concurrency = 8;
    options.until_empty = true;
    if (enqueue(&err) < 0 || pawl_pool_new(&things, &pool, &err) < 0 ||
        pawl_worker_new(&options, &worker, &err) < 0 ||
        pawl_worker_handle(worker, "square", square, pool, &err) < 0 ||
        pawl_worker_run(worker, &err) < 0)
        fprintf(stderr, "pool: %s. %s %s\n", err.message, err.detail, err.hint);
    pawl_worker_stats(worker, &stats);
    printf("%llu done\n", (unsigned long long)stats.done);
    pawl_worker_free(worker); /* before the pool its handlers use */
    pawl_pool_free(pool);
    return err.code == 0 ? 0 : 1;
}

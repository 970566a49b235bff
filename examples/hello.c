/* hello: a job goes into the database, and a worker runs it. cc hello.c $(pkg-config --cflags --libs libpawl libpq) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libpq-fe.h>
#include <pawl.h>

static enum pawl_outcome hello(struct pawl_run *run, void *data)
{
    (void)data;
    printf("hello, %s\n", (const char *)pawl_run_payload(run, NULL));
    return pawl_run_done(run, NULL, 0);
}

int main(void)
{
    const char *url = getenv("PAWL_DATABASE_URL");
    PGconn *conn = PQconnectdb(url != NULL ? url : "");
    struct pawl_job_new job = PAWL_JOB_NEW_INIT;
    struct pawl_worker_options options = PAWL_WORKER_OPTIONS_INIT;
    struct pawl_worker *worker = NULL;
    struct pawl_err err = {0};
    int64_t id;

    job.kind = "hello";
    job.payload = "{\"name\": \"world\"}";
    job.payload_len = strlen(job.payload);
    options.until_empty = true; /* without it, the worker waits for the next job */
    if (pawl_enqueue(conn, &job, &id, NULL, &err) < 0 ||
        pawl_worker_new(&options, &worker, &err) < 0 ||
        pawl_worker_handle(worker, "hello", hello, NULL, &err) < 0 ||
        pawl_worker_run(worker, &err) < 0)
        fprintf(stderr, "hello: %s. %s %s\n", err.message, err.detail, err.hint);
    pawl_worker_free(worker);
    PQfinish(conn);
    return err.code == 0 ? 0 : 1;
}

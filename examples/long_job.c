/*
 * long_job: a job that runs for long says how far it is, and ends when it is asked to. The worker runs in the background;
 * the main thread waits until the job has begun, cancels it, and waits for its end.
 *
 *     cc long_job.c $(pkg-config --cflags --libs libpawl libpq) -pthread
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <libpq-fe.h>
#include <pawl.h>
#include <stdatomic.h>

#define STEPS 100000

static atomic_bool begun;

static enum pawl_outcome count(struct pawl_run *run, void *data)
{
    (void)data;
    for (int i = 0; i < STEPS; i++) {
        char text[64];

        /* Asked often, so that nobody has to wait for it. */
        if (pawl_run_should_stop(run)) {
            printf("asked to end: %s\n", pawl_run_stop_reason(run));
            return pawl_run_retry(run, 0, "ended after %d of %d steps", i, STEPS);
        }
        snprintf(text, sizeof(text), "{\"done\": %d, \"of\": %d}", i, STEPS);
        if (pawl_run_progress(run, text, NULL) < 0)
            pawl_run_log(run, "nobody will know how far it is");
        atomic_store(&begun, true);
        usleep(10000); /* a step of the work */
    }
    return pawl_run_done(run, NULL, 0);
}

static int cancel_it(PGconn *conn, int64_t id, struct pawl_err *err)
{
    struct pawl_job_info *info = NULL;
    bool ended;

    while (!atomic_load(&begun))
        usleep(1000);
    int rc = pawl_job_cancel(conn, id, "long_job.c", &ended, err);

    if (rc == 0)
        rc = pawl_job_wait(conn, id, 30000, &info, err);
    if (rc == 0)
        printf("the job is %s\n", info->state);
    pawl_job_info_free(info);
    return rc;
}

int main(void)
{
    const char *url = getenv("PAWL_DATABASE_URL");
    PGconn *conn = PQconnectdb(url != NULL ? url : "");
    struct pawl_job_new job = PAWL_JOB_NEW_INIT;
    struct pawl_worker *worker = NULL;
    struct pawl_err err = {0};
    int64_t id;

    job.kind = "count";
    if (pawl_enqueue(conn, &job, &id, NULL, &err) < 0 || pawl_worker_new(NULL, &worker, &err) < 0 ||
        pawl_worker_handle(worker, "count", count, NULL, &err) < 0 ||
        pawl_worker_start(worker, &err) < 0 || cancel_it(conn, id, &err) < 0)
        fprintf(stderr, "long_job: %s. %s %s\n", err.message, err.detail, err.hint);
    pawl_worker_free(worker); /* stops it, and waits */
    PQfinish(conn);
    return err.code == 0 ? 0 : 1;
}

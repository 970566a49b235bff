/*
 * flat_load: full steady load for `./dev trial flat`: a worker with handlers that do nothing, and
 * producers that insert batches as long as few jobs wait. Prints a line a second: jobs that ran, and the longest time
 * between two of them; and a line for each job of the kind "late", with the time. Ends with its input.
 *
 * usage: flat_load CONNINFO PRODUCERS
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <libpq-fe.h>
#include <stdatomic.h>

#include "pawl.h"

#define WAITING_MAX   6000 /* jobs that wait at most */
#define PRODUCERS_MAX 8
#define BATCH \
    "INSERT INTO pawl.job (queue, kind, payload) SELECT 'flat', 'k', '' FROM generate_series(1, 100)"
#define BATCH_JOBS 100

static _Atomic long long n_run;
static _Atomic long long n_made;
static _Atomic long long last_us;
static _Atomic long long gap_us;
static _Atomic int over;
static const char *conninfo;

static long long now_us(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (long long)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static enum pawl_outcome handle(struct pawl_run *run, void *data)
{
    long long now = now_us(CLOCK_MONOTONIC);
    long long gap = now - atomic_exchange(&last_us, now);

    (void)data;
    atomic_fetch_add(&n_run, 1);
    if (gap > atomic_load(&gap_us))
        atomic_store(&gap_us, gap);
    return pawl_run_done(run, NULL, 0);
}

static enum pawl_outcome handle_late(struct pawl_run *run, void *data)
{
    size_t len;
    const char *payload = pawl_run_payload(run, &len);

    (void)data;
    printf("late %.*s %lld\n", (int)len, payload, now_us(CLOCK_REALTIME));
    fflush(stdout);
    return pawl_run_done(run, NULL, 0);
}

static void *produce(void *data)
{
    PGconn *conn = PQconnectdb(conninfo);

    (void)data;
    while (!atomic_load(&over)) {
        if (atomic_load(&n_made) - atomic_load(&n_run) > WAITING_MAX) {
            usleep(1000);
            continue;
        }
        PGresult *r = PQexec(conn, BATCH);

        if (PQresultStatus(r) != PGRES_COMMAND_OK) {
            fprintf(stderr, "flat_load: %s", PQerrorMessage(conn));
            exit(1);
        }
        PQclear(r);
        atomic_fetch_add(&n_made, BATCH_JOBS);
    }
    PQfinish(conn);
    return NULL;
}

static void *tell(void *data)
{
    long long before = 0;

    (void)data;
    while (!atomic_load(&over)) {
        sleep(1);
        long long n = atomic_load(&n_run);

        printf("second %lld %lld\n", n - before, atomic_exchange(&gap_us, 0));
        fflush(stdout);
        before = n;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static const char *const queues[] = {"flat"};
    struct pawl_worker_options options = pawl_worker_options_init();
    struct pawl_worker *worker;
    struct pawl_err err = {0};
    pthread_t threads[PRODUCERS_MAX + 1];
    int n_producers = argc > 2 ? atoi(argv[2]) : 0;
    char c;

    if (argc < 3 || n_producers < 0 || n_producers > PRODUCERS_MAX)
        return 2;
    conninfo = argv[1];
    options.conninfo = conninfo;
    options.queues = queues;
    options.n_queues = 1;
    options.concurrency = 4;
    options.prefetch = 2000;
    if (pawl_worker_new(&options, &worker, &err) < 0 ||
        pawl_worker_handle(worker, "k", handle, NULL, &err) < 0 ||
        pawl_worker_handle(worker, "late", handle_late, NULL, &err) < 0 ||
        pawl_worker_start(worker, &err) < 0) {
        fprintf(stderr, "flat_load: %s\n", err.message);
        return 1;
    }
    atomic_store(&last_us, now_us(CLOCK_MONOTONIC));
    for (int i = 0; i < n_producers; i++)
        pthread_create(&threads[i], NULL, produce, NULL);
    pthread_create(&threads[n_producers], NULL, tell, NULL);
    while (read(STDIN_FILENO, &c, 1) > 0)
        continue;
    atomic_store(&over, 1);
    for (int i = 0; i <= n_producers; i++)
        pthread_join(threads[i], NULL);
    pawl_worker_stop(worker);
    int rc = pawl_worker_wait(worker, 60000, &err);

    pawl_worker_free(worker);
    return rc < 0;
}

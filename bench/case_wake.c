/* wake: from the commit of a single job to the start of its handler, when everybody was asleep.
 * Against a bare loop of LISTEN and claim on one connection. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <math.h>
#include <poll.h>
#include <stdatomic.h>

#include "base/defer.h"
#include "bench/crew.h"
#include "bench/singles.h"
#include "bench/tables.h"
#include "pg/result.h"
#include "pg/sync.h"
#include "store/job.h"
#include "store/statements.h"

#define SINGLES        1000
#define BETWEEN_MS     5    /* until all is quiet again */
#define FALL_ASLEEP_MS 1500 /* the looks that follow the mark are over by then */
#define ARRIVE_MOST_MS 10000
#define ARENA_MAX      (256 * 1024)
#define LEASE_MS       30000

struct wake {
    atomic_int_least64_t started_us; /* of the job that was sent last; 0: not yet */
    double *pawl_ms;                 /* every single one */
    double *bare_ms;
    size_t n_pawl;
    size_t n_bare;
    size_t per_round;
};

static void note_start(void *data, struct task *task)
{
    struct wake *wake = data;

    (void)task;
    atomic_store(&wake->started_us, bench_now_us());
}

/* Sends one after the other and waits for each. */
static int send_singles(struct bench *b,
                        struct wake *wake,
                        struct single *single,
                        double *ret_ms,
                        size_t *n,
                        struct pawl_err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < wake->per_round; i++) {
        int64_t started_us;

        atomic_store(&wake->started_us, 0);
        rc = single_send(single, false, err);
        if (rc == 0)
            rc = single_finish(single, err);
        int64_t sent_us = bench_now_us();

        while (rc == 0 && (started_us = atomic_load(&wake->started_us)) == 0) {
            rc = bench_go_on(b, err);
            if (rc == 0 && bench_now_us() - sent_us > ARRIVE_MOST_MS * US_PER_MS)
                rc = err_set(err, PAWL_ETIMEOUT, "a job was not started in time");
            (void)poll(NULL, 0, 1); /* the handler's clock counts, not ours */
        }
        /* It may be faster than the answer to the COMMIT. */
        if (rc == 0)
            ret_ms[(*n)++] = fmax(0, (double)(started_us - sent_us) / US_PER_MS);
        bench_sleep_ms(b, BETWEEN_MS);
    }
    return rc;
}

static int
measure_pawl(struct bench *b, struct wake *wake, struct single *single, struct pawl_err *err)
{
    struct crew crew;
    struct crew_options options = crew_fast(&b->target, b->options.log);
    struct pawl_err stop_err;

    options.handler = note_start;
    options.data = wake;
    int rc = crew_start(&crew, &options, err);

    if (rc < 0)
        return rc;
    bench_sleep_ms(b, FALL_ASLEEP_MS);
    rc = send_singles(b, wake, single, wake->pawl_ms, &wake->n_pawl, err);
    if (crew_stop(&crew, &stop_err) < 0 && rc == 0) {
        *err = stop_err;
        rc = stop_err.code;
    }
    return rc;
}

/* The bare loop: LISTEN, wait, claim, wait. */
struct listener {
    struct bench *b;
    struct wake *wake;
    PGconn *conn;
    atomic_bool stop;
    pthread_t thread;
    struct pawl_err err;
};

static int claim_once(struct listener *l, int *ret_n, struct pawl_err *err)
{
    static const char *const kinds[] = {BENCH_KIND};
    CLEANUP(arena_deinit)
    struct arena arena;
    CLEANUP(result_cleanup)
    PGresult *r = NULL;
    struct params p;
    struct job_claim asked = {
        .queue = BENCH_QUEUE,
        .kinds = kinds,
        .n_kinds = 1,
        .limit = 1,
        .token = uuid_random(),
        .worker = uuid_random(),
        .lease_ms = LEASE_MS,
    };

    for (size_t i = 0; i < JOB_PRIORITIES; i++)
        asked.from[i].due_us = INT64_MIN;
    arena_init(&arena, ARENA_MAX);
    params_init(&p, &arena);
    job_claim_bind(&p, &asked);
    if (p.failed)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    r = PQexecPrepared(l->conn, "s", p.n, p.values, p.lengths, p.formats, 1);
    if (PQresultStatus(r) != PGRES_TUPLES_OK)
        return tables_failed(l->conn, r, err);
    *ret_n = PQntuples(r);
    return 0;
}

/* Claims for each notification that is here. */
static int listener_turn(struct listener *l, struct pawl_err *err)
{
    PGnotify *notify;
    int n = 0;
    int rc = PQconsumeInput(l->conn) == 1 ? 0 : tables_failed(l->conn, NULL, err);

    while (rc == 0 && (notify = PQnotifies(l->conn)) != NULL) {
        PQfreemem(notify);
        rc = claim_once(l, &n, err);
        if (rc == 0 && n > 0)
            atomic_store(&l->wake->started_us, bench_now_us());
        /* Takes in what is notified meanwhile: hence the loop, and no look at the socket before. */
        if (rc == 0)
            rc = tables_exec(l->conn, err, "DELETE FROM pawl.job WHERE token IS NOT NULL");
    }
    return rc;
}

static void *listener_main(void *data)
{
    struct listener *l = data;
    int rc = 0;

    while (rc == 0 && !atomic_load(&l->stop)) {
        struct pollfd fd = {.fd = PQsocket(l->conn), .events = POLLIN};

        if (poll(&fd, 1, 50) > 0)
            rc = listener_turn(l, &l->err);
    }
    return NULL;
}

static int
measure_bare(struct bench *b, struct wake *wake, struct single *single, struct pawl_err *err)
{
    struct listener l = {.b = b, .wake = wake};
    int rc = sync_connect(&b->target, &l.conn, err);

    if (rc == 0)
        rc = tables_prepare(l.conn, "s", STMT(job_claim)->sql, err);
    if (rc == 0)
        rc = tables_exec(l.conn,
                         err,
                         "LISTEN pawl_wake;"
                         "INSERT INTO pawl.sleeper (queue, worker, asleep)"
                         " VALUES ('" BENCH_QUEUE "', gen_random_uuid(), true)");
    if (rc == 0) {
        int errnum = pthread_create(&l.thread, NULL, listener_main, &l);

        if (errnum != 0)
            rc = err_set_errno(err, errnum, "could not start a thread");
    }
    if (rc == 0) {
        rc = send_singles(b, wake, single, wake->bare_ms, &wake->n_bare, err);
        atomic_store(&l.stop, true);
        pthread_join(l.thread, NULL);
        if (l.err.code < 0) {
            *err = l.err;
            rc = err->code;
        }
    }
    sync_close(&l.conn);
    return rc;
}

static int measure(struct bench *b, void *data, bool against, struct pawl_err *err)
{
    CLEANUP(single_deinit)
    struct single single = {0};
    int rc = tables_clear(b, 0, err);

    if (rc == 0)
        rc = single_init(&single, b, err);
    if (rc < 0)
        return rc;
    return against ? measure_bare(b, data, &single, err) : measure_pawl(b, data, &single, err);
}

static int by_size(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;

    return (a > b) - (a < b);
}

static struct series percentile(const double *sorted, size_t n, double share)
{
    struct series series = {0};
    size_t i = (size_t)ceil(share * (double)n);

    if (n > 0)
        series_add(&series, sorted[i > 0 ? i - 1 : 0]);
    return series;
}

int case_wake(struct bench *b, struct pawl_err *err)
{
    static const struct {
        const char *name;
        double share;
        double target_ms;
    } shown[] = {
        {"p50", 0.5, 0.7}, {"p90", 0.9, BENCH_NONE}, {"p99", 0.99, 2.5}, {"max", 1, BENCH_NONE}};
    struct wake wake = {.per_round = (size_t)(bench_ms(b, SINGLES) / b->options.rounds) + 1};
    size_t most = wake.per_round * (size_t)b->options.rounds;
    AUTO_FREE double *pawl_ms = calloc(most, sizeof(*pawl_ms));
    AUTO_FREE double *bare_ms = calloc(most, sizeof(*bare_ms));

    if (pawl_ms == NULL || bare_ms == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    wake.pawl_ms = pawl_ms;
    wake.bare_ms = bare_ms;
    int rc = bench_pairs(b, measure, &wake, err);

    if (rc < 0)
        return rc;
    qsort(pawl_ms, wake.n_pawl, sizeof(*pawl_ms), by_size);
    qsort(bare_ms, wake.n_bare, sizeof(*bare_ms), by_size);
    for (size_t i = 0; i < sizeof(shown) / sizeof(*shown); i++) {
        struct series pawl = percentile(pawl_ms, wake.n_pawl, shown[i].share);
        struct series bare = percentile(bare_ms, wake.n_bare, shown[i].share);
        char what[64];

        snprintf(what, sizeof(what), "commit to handler, %s / bare LISTEN", shown[i].name);
        bench_row_limit(b, what, "ms", &pawl, &bare, shown[i].target_ms);
    }
    return 0;
}

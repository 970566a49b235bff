/*
 * library: what the public API costs. Many jobs in one call, against a bare COPY of the same rows; one
 * job with one commit, against the same INSERT by hand; and handlers that do nothing, through
 * pawl_worker, against the engine's own drain.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <math.h>

#include "base/buf.h"
#include "base/defer.h"
#include "bench/crew.h"
#include "bench/tables.h"
#include "pawl.h"
#include "pg/sync.h"

#define MANY_SHARE     0.5  /* of --jobs, in one call */
#define SINGLES        250  /* of each side in one turn … */
#define SINGLES_TURNS  8    /* … and turns in a round */
#define LONGER_MOST    1.15 /* what one enqueue may take, by hand it takes 1 */
#define COPY_BYTES_MAX (1024L * 1024 * 1024)
#define COPY_PIECE     (64 * 1024)
#define CONNINFO_MAX   4096
#define WORKER_WAIT_MS 600000
#define PAYLOAD \
    "{\"to\":\"somebody@example.org\",\"template\":\"welcome\",\"language\":\"en\",\"n\":12345}"

/* ── many ── */

struct many {
    int64_t n;
    struct pawl_job_new *jobs; /* owned */
    struct buf copy;           /* the same rows in COPY's binary format */
    struct series pawl;        /* jobs/s */
    struct series bare;
};

static void put_16(struct buf *out, int value)
{
    const unsigned char bytes[2] = {(unsigned char)(value >> 8), (unsigned char)value};

    (void)buf_append(out, bytes, sizeof(bytes));
}

static void put_32(struct buf *out, size_t value)
{
    put_16(out, (int)(value >> 16));
    put_16(out, (int)(value & 0xffff));
}

static void put_field(struct buf *out, const char *text)
{
    put_32(out, strlen(text));
    (void)buf_puts(out, text);
}

static void put_rows(struct buf *out, int64_t n)
{
    (void)buf_append(out, "PGCOPY\n\377\r\n\0", 11);
    put_32(out, 0);
    put_32(out, 0);
    for (int64_t i = 0; i < n; i++) {
        put_16(out, 5);
        put_field(out, BENCH_QUEUE);
        put_field(out, BENCH_KIND);
        put_field(out, PAYLOAD);
        put_32(out, 2);
        put_16(out, PAWL_PRIORITY_DEFAULT);
        put_32(out, 4);
        put_32(out, 20);
    }
    put_16(out, -1);
}

static int copy_rows(PGconn *conn, const struct buf *rows, struct pawl_err *err)
{
    PGresult *r = PQexec(conn,
                         "COPY pawl.job (queue, kind, payload, priority, max_attempts)"
                         " FROM STDIN (FORMAT binary)");
    bool fine = PQresultStatus(r) == PGRES_COPY_IN;

    PQclear(r);
    for (size_t at = 0; fine && at < rows->len; at += COPY_PIECE) {
        size_t len = rows->len - at < COPY_PIECE ? rows->len - at : COPY_PIECE;

        fine = PQputCopyData(conn, rows->data + at, (int)len) == 1;
    }
    fine = fine && PQputCopyEnd(conn, NULL) == 1;
    r = PQgetResult(conn);
    fine = fine && PQresultStatus(r) == PGRES_COMMAND_OK;
    int rc = fine ? 0 : tables_failed(conn, r, err);

    PQclear(r);
    while ((r = PQgetResult(conn)) != NULL)
        PQclear(r);
    return rc;
}

static int measure_many(struct bench *b, void *data, bool against, struct pawl_err *err)
{
    struct many *m = data;
    int rc = tables_clear(b, 0, err);

    if (rc == 0)
        rc = tables_tidy(b, err);
    if (rc < 0)
        return rc;
    int64_t begun_us = bench_now_us();

    rc = against ? copy_rows(b->conn, &m->copy, err)
                 : pawl_enqueue_many(b->conn, m->jobs, (size_t)m->n, NULL, NULL, err);
    if (rc < 0)
        return rc;
    double rate = (double)m->n * US_PER_S / (double)(bench_now_us() - begun_us);

    bench_note(b, "  %s: %.0f jobs/s", against ? "bare COPY" : "pawl_enqueue_many", rate);
    series_add(against ? &m->bare : &m->pawl, rate);
    return 0;
}

static int many(struct bench *b, struct pawl_err *err)
{
    struct many m = {.n = bench_jobs(b, MANY_SHARE)};
    int rc = 0;

    bench_note(b, "library, many jobs in one call");
    buf_init(&m.copy, COPY_BYTES_MAX);
    put_rows(&m.copy, m.n);
    m.jobs = calloc((size_t)m.n, sizeof(*m.jobs));
    if (m.jobs == NULL || m.copy.failed)
        rc = err_set(err, PAWL_ENOMEM, "out of memory");
    for (int64_t i = 0; rc == 0 && i < m.n; i++) {
        m.jobs[i] = PAWL_JOB_NEW_INIT;
        m.jobs[i].queue = BENCH_QUEUE;
        m.jobs[i].kind = BENCH_KIND;
        m.jobs[i].payload = PAYLOAD;
        m.jobs[i].payload_len = strlen(PAYLOAD);
    }
    if (rc == 0)
        rc = bench_pairs(b, measure_many, &m, err);
    if (rc == 0)
        bench_row_ratio(b, "pawl_enqueue_many / bare COPY", "jobs/s", &m.pawl, &m.bare, 0.8);
    free(m.jobs);
    buf_deinit(&m.copy);
    return rc;
}

/* ── one ── */

struct one {
    struct series pawl; /* commits/s */
    struct series bare;
};

static int insert_by_hand(PGconn *conn, struct pawl_err *err)
{
    static const char *const values[] = {BENCH_QUEUE, BENCH_KIND, PAYLOAD, "4", "20"};
    static const int lengths[] = {0, 0, sizeof(PAYLOAD) - 1, 0, 0};
    static const int formats[] = {0, 0, 1, 0, 0};
    PGresult *r = PQexecParams(conn,
                               "INSERT INTO pawl.job (queue, kind, payload, priority, max_attempts)"
                               " VALUES ($1, $2, $3, $4, $5) RETURNING id",
                               5,
                               NULL,
                               values,
                               lengths,
                               formats,
                               0);
    int rc = PQresultStatus(r) == PGRES_TUPLES_OK ? 0 : tables_failed(conn, r, err);

    PQclear(r);
    return rc;
}

static int enqueue_one(PGconn *conn, struct pawl_err *err)
{
    struct pawl_job_new job = PAWL_JOB_NEW_INIT;
    int64_t id;

    job.queue = BENCH_QUEUE;
    job.kind = BENCH_KIND;
    job.payload = PAYLOAD;
    job.payload_len = sizeof(PAYLOAD) - 1;
    return pawl_enqueue(conn, &job, &id, NULL, err);
}

static int turn_of_one(struct bench *b, bool by_hand, double *total_us, struct pawl_err *err)
{
    int64_t begun_us = bench_now_us();
    int rc = bench_go_on(b, err);

    for (int i = 0; rc == 0 && i < SINGLES; i++)
        rc = by_hand ? insert_by_hand(b->conn, err) : enqueue_one(b->conn, err);
    *total_us += (double)(bench_now_us() - begun_us);
    return rc;
}

/* A commit takes what the disk takes, which changes from second to second: short turns. */
static int one(struct bench *b, struct pawl_err *err)
{
    struct one o = {0};
    int rc = tables_clear(b, 0, err);

    bench_note(b, "library, one job with one commit");
    if (rc == 0)
        rc = tables_tidy(b, err);
    for (int64_t round = 0; rc == 0 && round < b->options.rounds; round++) {
        double pawl_us = 0;
        double bare_us = 0;

        for (int i = 0; rc == 0 && i < 2 * SINGLES_TURNS; i++) {
            bool by_hand = (i + i / 2) % 2 == 0;

            rc = turn_of_one(b, by_hand, by_hand ? &bare_us : &pawl_us, err);
        }
        if (rc < 0)
            return rc;
        series_add(&o.pawl, SINGLES * SINGLES_TURNS * US_PER_S / pawl_us);
        series_add(&o.bare, SINGLES * SINGLES_TURNS * US_PER_S / bare_us);
        bench_note(b,
                   "  pawl_enqueue %.0f µs, INSERT by hand %.0f µs",
                   pawl_us / (SINGLES * SINGLES_TURNS),
                   bare_us / (SINGLES * SINGLES_TURNS));
    }
    if (rc == 0)
        bench_row_ratio(
            b, "pawl_enqueue / INSERT by hand", "commits/s", &o.pawl, &o.bare, 1 / LONGER_MOST);
    return rc;
}

/* ── drain ── */

struct drain {
    char conninfo[CONNINFO_MAX];
    struct series pawl; /* jobs/s */
    struct series engine;
    struct series cpu; /* µs of this process per job */
    struct series cpu_engine;
};

static int conninfo_of(const struct target *target, char *text, size_t size, struct pawl_err *err)
{
    struct buf out;

    buf_init_fixed(&out, text, size);
    for (size_t i = 0; target->keywords[i] != NULL; i++) {
        buf_printf(&out, "%s='", target->keywords[i]);
        for (const char *at = target->values[i]; at != NULL && *at != '\0'; at++) {
            if (*at == '\'' || *at == '\\')
                buf_putc(&out, '\\');
            buf_putc(&out, *at);
        }
        buf_puts(&out, "' ");
    }
    return out.failed ? err_set(err, PAWL_ELIMIT, "the connection string is too long") : 0;
}

static enum pawl_outcome noop(struct pawl_run *run, void *data)
{
    (void)data;
    return pawl_run_done(run, NULL, 0);
}

/* Both are timed to the commit of the last outcome. Only the worker's own thread writes, until it is over. */
struct finish {
    int64_t jobs;
    int64_t n;
    int64_t reached_us;
};

static void on_settled(void *data, const struct pawl_settled *settled)
{
    struct finish *finish = data;

    if (settled->state != NULL && ++finish->n == finish->jobs)
        finish->reached_us = bench_now_us();
}

static int
drain_by_worker(const struct drain *d, int64_t jobs, double *ret_rate, struct pawl_err *err)
{
    static const char *const queues[] = {BENCH_QUEUE};
    struct pawl_worker_options options = PAWL_WORKER_OPTIONS_INIT;
    struct pawl_worker *worker = NULL;
    struct finish finish = {.jobs = jobs};

    options.conninfo = d->conninfo;
    options.queues = queues;
    options.n_queues = 1;
    options.concurrency = CREW_THREADS;
    options.prefetch = CREW_AHEAD;
    options.until_empty = true;
    options.settled = on_settled;
    options.settled_data = &finish;
    int rc = pawl_worker_new(&options, &worker, err);

    if (rc == 0)
        rc = pawl_worker_handle(worker, BENCH_KIND, noop, NULL, err);
    int64_t begun_us = bench_now_us();

    if (rc == 0)
        rc = pawl_worker_start(worker, err);
    if (rc == 0)
        rc = pawl_worker_wait(worker, WORKER_WAIT_MS, err);
    if (rc == 0 && finish.n != jobs)
        rc = err_set(
            err, PAWL_EFAILED, "%lld of %lld jobs were done", (long long)finish.n, (long long)jobs);
    if (rc == 0)
        *ret_rate = (double)jobs * US_PER_S / (double)(finish.reached_us - begun_us);
    pawl_worker_free(worker);
    return rc;
}

static int measure_drain(struct bench *b, void *data, bool against, struct pawl_err *err)
{
    struct drain *d = data;
    int64_t jobs = b->options.jobs;
    struct crew crew;
    struct crew_options options = crew_fast(&b->target, b->options.log);
    double rate = BENCH_NONE;
    int rc = tables_clear(b, 0, err);

    if (rc == 0)
        rc = tables_fill(b, jobs, PAWL_PRIORITY_DEFAULT, false, err);
    if (rc == 0)
        rc = tables_tidy(b, err);
    int64_t cpu_us = crew_cpu_us();

    options.stop_after = jobs;
    if (rc == 0)
        rc = against ? crew_drain(b, &crew, &options, &rate, err)
                     : drain_by_worker(d, jobs, &rate, err);
    if (rc < 0)
        return rc;
    bench_note(b, "  %s: %.0f jobs/s", against ? "engine" : "pawl_worker", rate);
    series_add(against ? &d->engine : &d->pawl, rate);
    series_add(against ? &d->cpu_engine : &d->cpu, (double)(crew_cpu_us() - cpu_us) / (double)jobs);
    return 0;
}

static int drain(struct bench *b, struct pawl_err *err)
{
    struct drain d = {0};
    int rc = conninfo_of(&b->target, d.conninfo, sizeof(d.conninfo), err);

    bench_note(b, "library, drain through pawl_worker");
    if (rc == 0)
        rc = bench_pairs(b, measure_drain, &d, err);
    if (rc < 0)
        return rc;
    bench_row_ratio(b, "pawl_worker / the engine's drain", "jobs/s", &d.pawl, &d.engine, 0.95);
    bench_row_ratio(b, "client CPU per job", "µs", &d.cpu, &d.cpu_engine, BENCH_NONE);
    return 0;
}

int case_library(struct bench *b, struct pawl_err *err)
{
    int rc = many(b, err);

    if (rc == 0)
        rc = one(b, err);
    return rc == 0 ? drain(b, err) : rc;
}

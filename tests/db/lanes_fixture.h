/*
 * lanes_fixture: what the tests of lanes share: crews that note who is in which lane. They live on one
 * loop, so what is noted is exact. Header only: one program per area.
 */
#ifndef TESTS_LANES_FIXTURE_H
#define TESTS_LANES_FIXTURE_H

#include "core/machine.h"
#include "engine_fixture.h"

#define CREWS     8
#define LANES_MAX 16

/* What runs in each lane, over all crews: they live on one loop, so this is exact. */
static struct {
    int now[LANES_MAX];
    int peak[LANES_MAX];
    int64_t order[IDS_MAX];
    size_t n;
} seen;

static inline int lane_number(const struct job *job)
{
    return job->lane != NULL ? atoi(job->lane + 1) : 0; /* l1, l2, … */
}

static inline void note_entry(struct crew *crew, const struct job *job)
{
    int lane = lane_number(job);

    (void)crew;
    if (++seen.now[lane] > seen.peak[lane])
        seen.peak[lane] = seen.now[lane];
    if (seen.n < IDS_MAX)
        seen.order[seen.n++] = job->id;
}

static inline struct outcome leave_done(struct crew *crew, const struct job *job)
{
    (void)crew;
    seen.now[lane_number(job)]--;
    return outcome_done();
}

static inline struct outcome
leave_as(const struct job *job, enum outcome_kind kind, int64_t delay_ms)
{
    seen.now[lane_number(job)]--;
    return (struct outcome){.kind = kind, .error = "no", .delay_ms = delay_ms, .run_us = 1};
}

static inline int setup(void **state)
{
    memset(&seen, 0, sizeof(seen));
    return fixture_setup(state);
}

static inline void lane_crew(struct crew *crew, struct fixture *f)
{
    crew_init(crew, f);
    crew->on_run = note_entry;
    crew->outcome = leave_done;
    crew->options.poll_ms = 1000;
    crew->options.poll_max_ms = 1000;
}

/* n jobs in a lane, by the front door. */
static inline void enqueue_in(struct fixture *f, const char *lane, int n, int priority)
{
    char sql[300];

    snprintf(sql,
             sizeof(sql),
             "SELECT pawl.enqueue('k', queue => 'q', lane => '%s', priority => %d,"
             " max_attempts => 3) FROM generate_series(1, %d)",
             lane,
             priority,
             n);
    testdb_exec(&f->db, sql);
}

static inline size_t done_by(const struct crew *crews, size_t n)
{
    size_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += crews[i].settled;
    return sum;
}

/* Ids in the order of their starts. */
static inline void assert_order(const char *expected)
{
    char text[200];
    size_t len = 0;

    for (size_t i = 0; i < seen.n; i++)
        len += (size_t)snprintf(
            text + len, sizeof(text) - len, "%s%lld", i > 0 ? "," : "", (long long)seen.order[i]);
    assert_string_equal(text, expected);
}

#define lanes_test(name) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)

#endif

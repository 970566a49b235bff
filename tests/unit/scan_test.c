/*
 * Where the next claim of a queue starts: watermarks by priority, and full scans within their share
 * of the time. The answers of claims are made by hand, in the binary format of the real ones.
 */
#include "engine/scan.h"

#include <stdlib.h>

#include <endian.h>

#include "check.h"
#include "pg/oid.h"

#define MS 1000

struct row {
    int64_t id;
    int16_t priority;
    int64_t due_us;
};

static void set(PGresult *r, int row, int col, void *value, int len)
{
    if (PQsetvalue(r, row, col, value, len) == 0)
        fail_msg("out of memory");
}

/* What a claim comes back with; only the columns that a scan looks at have values. */
static PGresult *answer(const struct row *rows, int n)
{
    static char names[8][3] = {"c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"};
    PGresAttDesc columns[8] = {0};
    PGresult *r = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);

    assert_non_null(r);
    for (size_t i = 0; i < LEN(columns); i++)
        columns[i] = (PGresAttDesc){.name = names[i], .format = 1, .typid = OID_TEXT};
    columns[0].typid = OID_INT8;
    columns[2].typid = OID_INT2;
    columns[7].typid = OID_TIMESTAMPTZ;
    assert_true(PQsetResultAttrs(r, LEN(columns), columns));
    for (int row = 0; row < n; row++) {
        uint64_t id = htobe64((uint64_t)rows[row].id);
        uint16_t priority = htobe16((uint16_t)rows[row].priority);
        uint64_t due = htobe64((uint64_t)(rows[row].due_us - PG_EPOCH_UNIX_US));

        set(r, row, 0, &id, sizeof(id));
        set(r, row, 2, &priority, sizeof(priority));
        set(r, row, 7, &due, sizeof(due));
    }
    return r;
}

static bool with_lanes; /* as the last claim was */
static int32_t allowed; /* and at most for so many */

/* One claim: asked at now_us, answered at once with these rows. Returns whether it was full. */
static bool claim(struct scan *scan, int64_t now_us, int32_t limit, const struct row *rows, int n)
{
    struct job_watermark from[JOB_PRIORITIES];
    bool full = scan_from(scan, now_us, from);
    PGresult *r = answer(rows, n);

    allowed = limit;
    with_lanes = scan_with_lanes(scan, full, &allowed);
    for (size_t i = 0; i < JOB_PRIORITIES; i++) {
        assert_int_equal(from[i].due_us, full ? INT64_MIN : scan->mark[i].due_us);
        assert_int_equal(from[i].id, full ? 0 : scan->mark[i].id);
    }
    scan_claimed(scan, r, full, limit, 0, now_us);
    PQclear(r);
    return full;
}

#define ROWS(...) (const struct row[]){__VA_ARGS__}, LEN(((const struct row[]){__VA_ARGS__}))
#define DUE       (PG_EPOCH_UNIX_US + 7)
#define NOW       (50LL * 1000 * MS)

static struct scan scan_new(void)
{
    struct scan scan;

    scan_init(&scan, "q");
    return scan;
}

static void the_first_claim_starts_from_the_beginning(void **state)
{
    struct scan scan = scan_new();
    struct job_watermark from[JOB_PRIORITIES];

    (void)state;
    assert_true(scan_from(&scan, NOW, from));
    for (size_t i = 0; i < JOB_PRIORITIES; i++)
        assert_int_equal(from[i].due_us, INT64_MIN);
}

static void the_next_one_starts_where_it_ended_in_each_priority(void **state)
{
    struct scan scan = scan_new();

    (void)state;
    claim(&scan, NOW, 4, ROWS({5, 9, DUE + 2}, {9, 9, DUE + 1}, {1, 4, DUE}, {2, 4, DUE}));
    assert_int_equal(scan.mark[9].due_us, DUE + 2);
    assert_int_equal(scan.mark[9].id, 5);
    assert_int_equal(scan.mark[4].due_us, DUE);
    assert_int_equal(scan.mark[4].id, 2); /* of two that are due together the later id */
    assert_int_equal(scan.mark[0].due_us, INT64_MIN);
    assert_false(
        claim(&scan, NOW + 1, 4, ROWS({3, 4, DUE}, {4, 4, DUE}, {6, 4, DUE}, {7, 4, DUE})));
    assert_int_equal(scan.mark[4].id, 7);
    assert_int_equal(scan.mark[9].id, 5);
}

static void a_short_claim_makes_the_next_one_full(void **state)
{
    struct scan scan = scan_new();

    (void)state;
    claim(&scan, NOW, 2, ROWS({1, 4, DUE}, {2, 4, DUE}));
    assert_false(claim(&scan, NOW, 2, ROWS({3, 4, DUE})));
    assert_false(scan.empty); /* a short batch is not an empty one */
    assert_true(claim(&scan, NOW, 2, NULL, 0));
    assert_true(scan.empty);
}

static void nothing_ahead_of_the_marks_is_not_yet_empty(void **state)
{
    struct scan scan = scan_new();

    (void)state;
    claim(&scan, NOW, 1, ROWS({1, 4, DUE}));
    assert_false(claim(&scan, NOW, 1, NULL, 0));
    assert_false(scan.empty);
    assert_true(claim(&scan, NOW, 1, NULL, 0));
    assert_true(scan.empty);
    scan_wake(&scan);
    assert_false(scan.empty);
}

static void who_was_called_looks_ahead_of_the_marks_first_and_then_everywhere(void **state)
{
    struct scan scan = scan_new();

    (void)state;
    claim(&scan, NOW, 2, ROWS({1, 4, DUE}));
    assert_true(claim(&scan, NOW, 2, NULL, 0));
    assert_true(scan.empty);
    scan_called(&scan);
    assert_false(claim(&scan, NOW + 5000 * MS, 2, NULL, 0));
    assert_false(with_lanes);
    assert_false(scan.empty);
    /* Called again while it looks: it does not put off the full scan once more. */
    scan_called(&scan);
    assert_true(claim(&scan, NOW + 5000 * MS, 2, NULL, 0));
    assert_true(scan.empty);
    scan_wake(&scan); /* for any other reason: everywhere at once */
    assert_true(claim(&scan, NOW + 10000 * MS, 2, NULL, 0));
}

static void who_was_called_looks_into_lanes_though_a_full_scan_is_too_dear(void **state)
{
    struct scan scan = scan_new();

    (void)state;
    claim(&scan, NOW, 2, NULL, 0);
    assert_true(scan.empty);
    scan.full_cost_us = 1000 * MS;
    scan_called(&scan);
    assert_false(claim(&scan, NOW + 1 * MS, 2, NULL, 0));
    assert_false(with_lanes);
    assert_false(scan.empty);
    assert_false(claim(&scan, NOW + 1 * MS, 2, NULL, 0));
    assert_true(with_lanes);
    assert_true(scan.empty);
}

static void under_load_it_starts_at_the_marks_and_asks_for_lanes_once_a_second(void **state)
{
    struct scan scan = scan_new();
    int full = 0;
    int lanes = 0;

    (void)state;
    for (int64_t at = 0; at < 10000; at++) {
        full += claim(&scan, NOW + at * MS, 1, ROWS({at + 1, 4, DUE + at}));
        lanes += with_lanes;
    }
    assert_int_equal(full, 1); /* the first, which knows of no marks */
    assert_int_equal(lanes, 10);
}

static void a_dear_full_scan_comes_less_often(void **state)
{
    struct scan scan = scan_new();
    struct job_watermark from[JOB_PRIORITIES];
    PGresult *r = answer(ROWS({1, 4, DUE}));
    const int64_t cost_us = 100LL * MS;
    int full = 0;

    (void)state;
    for (int64_t at = 0; at < 60000; at += 50) {
        scan.want_full = true; /* nothing was left ahead of the marks */
        bool is_full = scan_from(&scan, NOW + at * MS, from);

        full += is_full;
        scan_claimed(&scan, r, is_full, 1, is_full ? cost_us : MS, NOW + at * MS);
    }
    PQclear(r);
    /* A thirtieth of the time, in 60 s at 100 ms each. */
    assert_int_equal(full, 20);
}

static void when_a_full_scan_is_too_dear_it_sleeps_and_the_next_look_does_it(void **state)
{
    struct scan scan = scan_new();
    struct job_watermark from[JOB_PRIORITIES];
    PGresult *none = answer(NULL, 0);

    (void)state;
    assert_true(scan_from(&scan, NOW, from));
    scan_claimed(&scan, none, true, 1, 10LL * MS, NOW);
    scan_wake(&scan);
    assert_false(scan_from(&scan, NOW + 20 * MS, from));
    scan_claimed(&scan, none, false, 1, 10, NOW + 20 * MS);
    assert_true(scan.empty); /* and does not ask again and again until it may */
    scan_wake(&scan);
    assert_true(scan_from(&scan, NOW + 300 * MS, from));
    PQclear(none);
}

/* What it did not get to is behind the old mark, and must not stay there. */
static void a_full_scan_that_hit_its_limit_takes_the_mark_back(void **state)
{
    struct scan scan = scan_new();

    (void)state;
    claim(&scan, NOW, 1, ROWS({100, 4, DUE + 100}));
    scan.want_full = true; /* nothing is left ahead of the marks */
    assert_true(claim(&scan, NOW + 1100 * MS, 1, ROWS({7, 4, DUE})));
    assert_int_equal(scan.mark[4].due_us, DUE);
    assert_false(claim(&scan, NOW + 1101 * MS, 1, ROWS({8, 4, DUE})));
    assert_int_equal(scan.mark[4].id, 8);
}

static void a_full_scan_that_saw_all_leaves_the_mark(void **state)
{
    struct scan scan = scan_new();

    (void)state;
    claim(&scan, NOW, 1, ROWS({100, 4, DUE + 100}));
    scan.want_full = true; /* nothing is left ahead of the marks */
    assert_true(claim(&scan, NOW + 1100 * MS, 2, ROWS({7, 4, DUE})));
    assert_int_equal(scan.mark[4].due_us, DUE + 100);
    assert_int_equal(scan.mark[4].id, 100);
}

static void a_job_that_is_put_back_is_behind_the_mark_no_more(void **state)
{
    struct scan scan;
    struct job_watermark from[JOB_PRIORITIES];
    const struct row rows[] = {{.id = 7, .priority = 4, .due_us = 50},
                               {.id = 9, .priority = 4, .due_us = 60}};

    (void)state;
    scan_init(&scan, "q");
    claim(&scan, 0, 2, rows, 2);
    assert_int_equal(scan.mark[4].id, 9);
    scan.empty = true;
    scan_put_back(&scan, 4, false, 50, 7);
    assert_false(scan.empty);
    assert_false(scan_from(&scan, 1, from));
    assert_int_equal(from[4].due_us, 50);
    assert_int_equal(from[4].id, 7);
    scan_put_back(&scan, 4, false, 70, 1); /* ahead of it: nothing to do */
    assert_int_equal(scan.mark[4].id, 7);
    scan_put_back(&scan, 3, true, 5, 5);
    assert_int_equal(scan.mark[3].due_us,
                     INT64_MIN); /* nothing was claimed there: from the beginning */
    assert_true(scan.lanes);
}

/* A full scan that found all it asked for. */
static void scan_full_of(struct scan *scan, int32_t n)
{
    struct row *rows = calloc((size_t)n, sizeof(*rows));
    PGresult *r;

    assert_non_null(rows);
    for (int32_t i = 0; i < n; i++)
        rows[i] = (struct row){.id = i + 1, .priority = 4, .due_us = DUE};
    r = answer(rows, n);
    scan_claimed(scan, r, true, n, 0, NOW);
    PQclear(r);
    free(rows);
}

static void where_no_lanes_are_known_a_look_for_them_is_a_small_claim(void **state)
{
    struct scan scan = scan_new();
    int32_t limit = 2000;

    (void)state;
    claim(&scan, NOW, 2000, ROWS({1, 4, DUE}));
    assert_int_equal(allowed, SCAN_PEEK_MIN);
    assert_true(scan_with_lanes(&scan, true, &limit));
    assert_int_equal(limit, SCAN_PEEK_MIN);
    /* It was all that it asked for, and a lane may be behind: more the next time. */
    scan_full_of(&scan, SCAN_PEEK_MIN);
    limit = 2000;
    assert_true(scan_with_lanes(&scan, true, &limit));
    assert_int_equal(limit, 2 * SCAN_PEEK_MIN);
    claim(&scan, NOW + 9000 * MS, 2000, ROWS({1, 4, DUE}));
    assert_int_equal(scan.peek, SCAN_PEEK_MIN);
    limit = 2000;
    assert_false(scan_with_lanes(&scan, false, &limit));
    assert_int_equal(limit, 2000);
    scan.lanes = true;
    assert_true(scan_with_lanes(&scan, true, &limit));
    assert_int_equal(limit, 2000);
}

static void only_large_claims_that_find_enough_take_turns(void **state)
{
    struct scan scan = scan_new();

    (void)state;
    assert_false(scan_takes_turn(&scan, false, 2000, NOW)); /* there may be nothing at all */
    claim(&scan, NOW, 2, ROWS({1, 4, DUE}, {2, 4, DUE}));
    assert_true(scan_takes_turn(&scan, false, SCAN_TURN_MIN, NOW));
    assert_false(scan_takes_turn(&scan, false, SCAN_TURN_MIN - 1, NOW));
    assert_false(scan_takes_turn(&scan, true, 2000, NOW));
    claim(&scan, NOW, 2, ROWS({3, 4, DUE}));
    assert_false(scan_takes_turn(&scan, false, 2000, NOW));
}

static void who_waits_for_a_turn_in_vain_does_without_for_longer_and_longer(void **state)
{
    struct scan scan = scan_new();

    (void)state;
    scan.want_full = false;
    scan_turn(&scan, false, NOW);
    assert_false(scan_takes_turn(&scan, false, 2000, NOW + SCAN_NO_TURNS_US - 1));
    assert_true(scan_takes_turn(&scan, false, 2000, NOW + SCAN_NO_TURNS_US));
    scan_turn(&scan, false, NOW);
    assert_false(scan_takes_turn(&scan, false, 2000, NOW + 2 * SCAN_NO_TURNS_US - 1));
    for (int i = 0; i < 100; i++)
        scan_turn(&scan, false, NOW);
    assert_false(scan_takes_turn(&scan, false, 2000, NOW + SCAN_NO_TURNS_MAX_US - 1));
    assert_true(scan_takes_turn(&scan, false, 2000, NOW + SCAN_NO_TURNS_MAX_US));
    scan_turn(&scan, true, NOW);
    assert_true(scan_takes_turn(&scan, false, 2000, NOW));
    scan_turn(&scan, false, NOW);
    assert_true(scan_takes_turn(&scan, false, 2000, NOW + SCAN_NO_TURNS_US));
}

/* A claim as it would be asked for next. */
static struct job_claim asked(struct scan *scan, int64_t now_us, int32_t limit, bool *ret_full)
{
    struct job_claim claim = {.limit = scan_most(scan, limit)};

    if (scan_repeat(scan, &claim, ret_full))
        return claim;
    *ret_full = scan_from(scan, now_us, claim.from);
    scan_lane_from(scan, *ret_full, claim.lane_from);
    claim.lanes = scan_with_lanes(scan, *ret_full, &claim.limit);
    return claim;
}

static void assert_same_rows(const struct job_claim *a, const struct job_claim *b)
{
    assert_int_equal(a->lanes, b->lanes);
    assert_memory_equal(a->from, b->from, sizeof(a->from));
    assert_memory_equal(a->lane_from, b->lane_from, sizeof(a->lane_from));
}

/* Full or not: right after a full scan the next one would not be affordable. */
static void a_claim_that_failed_is_repeated_for_the_same_rows_and_half_as_many(void **state)
{
    struct scan scan = scan_new();
    bool full;

    (void)state;
    scan.full_cost_us = 1000 * MS;
    struct job_claim first = asked(&scan, NOW, 100, &full);

    assert_true(full && first.lanes);
    scan_failed(&scan, &first, full, true);
    for (int32_t limit = 50; limit > 1; limit /= 2) {
        struct job_claim next = asked(&scan, NOW + limit, 100, &full);

        assert_true(full);
        assert_int_equal(next.limit, limit);
        assert_same_rows(&first, &next);
        scan_failed(&scan, &next, full, true);
    }
    struct job_claim one = asked(&scan, NOW + 60, 100, &full);

    assert_int_equal(one.limit, 1);
    scan_failed(&scan, &one, full, true);
    one = asked(&scan, NOW + 61, 100, &full);
    assert_int_equal(one.limit, 1);
    assert_same_rows(&first, &one);
    /* And from the marks. */
    struct scan marked = scan_new();

    claim(&marked, NOW, 2, ROWS({1, 4, DUE}, {2, 4, DUE}));
    first = asked(&marked, NOW + 1, 8, &full);
    assert_false(full);
    scan_failed(&marked, &first, full, true);
    scan_put_back(&marked, 4, false, DUE - 5, 1);
    one = asked(&marked, NOW + SCAN_LANES_EVERY_US, 8, &full);
    assert_false(full);
    assert_int_equal(one.limit, 4);
    assert_same_rows(&first, &one);
}

static void a_claim_that_failed_for_no_fault_of_its_own_is_repeated_as_it_was(void **state)
{
    struct scan scan = scan_new();
    bool full;

    (void)state;
    struct job_claim first = asked(&scan, NOW, 100, &full);

    scan_failed(&scan, &first, full, false);
    struct job_claim next = asked(&scan, NOW + 1, 300, &full);

    assert_int_equal(next.limit, 100);
    assert_same_rows(&first, &next);
    assert_int_equal(asked(&scan, NOW + 2, 300, &full).limit, 300);
}

static void after_each_that_succeeds_twice_as_many_are_asked_for(void **state)
{
    struct scan scan = scan_new();
    bool full;

    (void)state;
    scan_failed(&scan, &(struct job_claim){.limit = 1}, true, true);
    for (int32_t limit = 1; limit < 2000; limit *= 2) {
        assert_int_equal(asked(&scan, NOW, 2000, &full).limit, limit);
        scan.want_full = scan.lanes = false;
        scan_succeeded(&scan, 2000);
    }
    assert_int_equal(scan.again.most, 0);
    scan_succeeded(&scan, 2000);
    assert_int_equal(asked(&scan, NOW, 2000, &full).limit, 2000);
}

static void large_jobs_are_claimed_few_at_a_time(void **state)
{
    struct scan scan = scan_new();

    (void)state;
    assert_int_equal(scan_most(&scan, 2000), 2000);
    claim(&scan, NOW, 2, ROWS({1, 4, DUE}, {2, 4, DUE}));
    assert_in_range(scan.job_bytes, 1, SCAN_BYTES_MAX / 2000);
    assert_int_equal(scan_most(&scan, 2000), 2000);
    scan.job_bytes = SCAN_BYTES_MAX / 4;
    assert_int_equal(scan_most(&scan, 2000), 4);
    scan.job_bytes = 2 * SCAN_BYTES_MAX;
    assert_int_equal(scan_most(&scan, 2000), 1);
    /* As soon as they are smaller again. */
    claim(&scan, NOW, 1, ROWS({3, 4, DUE}));
    assert_int_equal(scan_most(&scan, 2000), 2000);
}

/* The head of a queue with lanes may be plain. */
static void a_smaller_full_scan_does_not_forget_lanes(void **state)
{
    struct scan scan = scan_new();

    (void)state;
    scan_lane_left(&scan);
    scan_smaller(&scan, 2);
    assert_true(claim(&scan, NOW, 1, ROWS({1, 4, DUE})));
    assert_true(scan.lanes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_claim_starts_from_the_beginning),
        cmocka_unit_test(the_next_one_starts_where_it_ended_in_each_priority),
        cmocka_unit_test(a_short_claim_makes_the_next_one_full),
        cmocka_unit_test(nothing_ahead_of_the_marks_is_not_yet_empty),
        cmocka_unit_test(who_was_called_looks_ahead_of_the_marks_first_and_then_everywhere),
        cmocka_unit_test(who_was_called_looks_into_lanes_though_a_full_scan_is_too_dear),
        cmocka_unit_test(under_load_it_starts_at_the_marks_and_asks_for_lanes_once_a_second),
        cmocka_unit_test(a_dear_full_scan_comes_less_often),
        cmocka_unit_test(when_a_full_scan_is_too_dear_it_sleeps_and_the_next_look_does_it),
        cmocka_unit_test(a_full_scan_that_hit_its_limit_takes_the_mark_back),
        cmocka_unit_test(a_full_scan_that_saw_all_leaves_the_mark),
        cmocka_unit_test(a_job_that_is_put_back_is_behind_the_mark_no_more),
        cmocka_unit_test(where_no_lanes_are_known_a_look_for_them_is_a_small_claim),
        cmocka_unit_test(only_large_claims_that_find_enough_take_turns),
        cmocka_unit_test(a_claim_that_failed_is_repeated_for_the_same_rows_and_half_as_many),
        cmocka_unit_test(a_claim_that_failed_for_no_fault_of_its_own_is_repeated_as_it_was),
        cmocka_unit_test(after_each_that_succeeds_twice_as_many_are_asked_for),
        cmocka_unit_test(large_jobs_are_claimed_few_at_a_time),
        cmocka_unit_test(a_smaller_full_scan_does_not_forget_lanes),
        cmocka_unit_test(who_waits_for_a_turn_in_vain_does_without_for_longer_and_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

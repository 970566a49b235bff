/*
 * Bad input through pawl.h: everything that is wrong with a job or a call is refused before anything
 * is sent, with a code, and with nothing written to the outputs.
 */
#include <stdio.h>
#include <string.h>

#include <pawl.h>

#include "support/cmocka.h"
#include "support/testdb.h"

static struct testdb db;
static struct pawl_err err;

static int setup(void **state)
{
    (void)state;
    return testdb_new(&db);
}

static int teardown(void **state)
{
    (void)state;
    testdb_free(&db);
    return 0;
}

#define lib_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static struct pawl_job_new plain(void)
{
    struct pawl_job_new job = PAWL_JOB_NEW_INIT;

    job.kind = "k";
    job.queue = "q";
    return job;
}

static int64_t enqueue(const struct pawl_job_new *job)
{
    int64_t id = 0;

    if (pawl_enqueue(db.conn, job, &id, NULL, &err) != 0)
        fail_msg("%s (%s)", err.message, err.detail);
    return id;
}

static int64_t count(const char *from)
{
    char sql[300];

    snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", from);
    return testdb_int(&db, sql);
}

/* ── bad input ── */

static char big[PAWL_KEY_MAX + 2];

struct bad {
    const char *what;
    void (*spoil)(struct pawl_job_new *job);
    int code;
};

#define BAD(name, code_, ...)                          \
    static void spoil_##name(struct pawl_job_new *job) \
    {                                                  \
        __VA_ARGS__;                                   \
    }                                                  \
    static const struct bad bad_##name = {#name, spoil_##name, code_}

BAD(kind_null, PAWL_EINVAL, job->kind = NULL);
BAD(kind_empty, PAWL_EINVAL, job->kind = "");
BAD(kind_blank, PAWL_EINVAL, job->kind = "a b");
BAD(kind_long, PAWL_ELIMIT, job->kind = big);
BAD(kind_bytes, PAWL_EINVAL, job->kind = "\xff");
BAD(queue_bad, PAWL_EINVAL, job->queue = "*");
BAD(lane_bad, PAWL_EINVAL, job->lane = "\xc3\xbc");
BAD(priority_low, PAWL_EINVAL, job->priority = -1);
BAD(priority_huge, PAWL_EINVAL, job->priority = 65540);
BAD(attempts_low, PAWL_EINVAL, job->max_attempts = -1);
BAD(attempts_high, PAWL_EINVAL, job->max_attempts = 1001);
BAD(delay_negative, PAWL_EINVAL, job->delay_ms = -1);
BAD(delay_huge, PAWL_EINVAL, job->delay_ms = INT64_MAX);
BAD(at_negative, PAWL_EINVAL, job->at_us = -1);
BAD(at_huge, PAWL_EINVAL, job->at_us = INT64_MAX);
BAD(timeout_negative, PAWL_EINVAL, job->timeout_ms = -1);
BAD(timeout_huge, PAWL_EINVAL, job->timeout_ms = 1LL << 40);
BAD(retry_unknown, PAWL_EINVAL, job->retry = (enum pawl_retry)7);
BAD(base_negative, PAWL_EINVAL, job->retry_base_ms = -1);
BAD(cap_huge, PAWL_EINVAL, job->retry_cap_ms = 1LL << 40);
BAD(payload_null, PAWL_EINVAL, job->payload_len = 1);
BAD(payload_big, PAWL_ELIMIT, job->payload = big; job->payload_len = PAWL_PAYLOAD_MAX + 1);
BAD(key_empty, PAWL_EINVAL, job->unique_key = "");
BAD(key_bytes, PAWL_EINVAL, job->unique_key = "\xc3");
BAD(key_nul, PAWL_EINVAL, job->unique_key = "a\0b"; job->unique_key_len = 3);
BAD(key_long, PAWL_ELIMIT, job->unique_key = big);
BAD(key_longer, PAWL_ELIMIT, job->unique_key = big; job->unique_key_len = SIZE_MAX);
BAD(states_unknown, PAWL_EINVAL, job->unique_key = "x"; job->unique_states = 8);
BAD(scope_unknown, PAWL_EINVAL, job->unique_key = "x";
    job->unique_scope = (enum pawl_unique_scope)9);
BAD(mode_unknown, PAWL_EINVAL, job->unique_key = "x"; job->unique_mode = (enum pawl_unique_mode)9);
BAD(for_negative, PAWL_EINVAL, job->unique_key = "x"; job->unique_for_ms = -1);
BAD(tags_null, PAWL_EINVAL, job->n_tags = 1);
BAD(tag_null, PAWL_EINVAL, static const char *const tags[] = {NULL}; job->tags = tags;
    job->n_tags = 1);
BAD(tag_bad, PAWL_EINVAL, static const char *const tags[] = {"a b"}; job->tags = tags;
    job->n_tags = 1);
BAD(tags_many, PAWL_ELIMIT, static const char *const tags[PAWL_TAGS_MAX + 1] = {0};
    job->tags = tags;
    job->n_tags = PAWL_TAGS_MAX + 1);
BAD(trace_bytes, PAWL_EINVAL, job->trace = "\xff");
BAD(trace_long, PAWL_ELIMIT, job->trace = big);
BAD(parent_negative, PAWL_EINVAL, job->parent_id = -1);

static void what_is_wrong_is_refused_before_it_is_sent(void **state)
{
    static const struct bad *const all[] = {
        &bad_kind_null,     &bad_kind_empty,    &bad_kind_blank,    &bad_kind_long,
        &bad_kind_bytes,    &bad_queue_bad,     &bad_lane_bad,      &bad_priority_low,
        &bad_priority_huge, &bad_attempts_low,  &bad_attempts_high, &bad_delay_negative,
        &bad_delay_huge,    &bad_at_negative,   &bad_at_huge,       &bad_timeout_negative,
        &bad_timeout_huge,  &bad_retry_unknown, &bad_base_negative, &bad_cap_huge,
        &bad_payload_null,  &bad_payload_big,   &bad_key_empty,     &bad_key_bytes,
        &bad_key_nul,       &bad_key_long,      &bad_key_longer,    &bad_states_unknown,
        &bad_scope_unknown, &bad_mode_unknown,  &bad_for_negative,  &bad_tags_null,
        &bad_tag_bad,       &bad_trace_bytes,   &bad_trace_long,    &bad_parent_negative,
        &bad_tag_null,      &bad_tags_many,
    };

    (void)state;
    memset(big, 'a', sizeof(big) - 1);
    testdb_exec(&db, "BEGIN");
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        struct pawl_job_new job = plain();
        int64_t id = 77;
        bool existed = true;

        all[i]->spoil(&job);
        int rc = pawl_enqueue(db.conn, &job, &id, &existed, &err);

        if (rc != all[i]->code || err.code != rc || err.message[0] == '\0')
            fail_msg("%s: %s: %s", all[i]->what, pawl_code_name(rc), err.message);
        assert_int_equal(id, 77);
        assert_true(existed);
        /* Without an err the code is the same. */
        assert_int_equal(pawl_enqueue(db.conn, &job, NULL, NULL, NULL), rc);
        /* And so it is without a database. */
        assert_int_equal(pawl_job_check(&job, &err), rc);
        assert_int_equal(pawl_job_check(&job, NULL), rc);
    }
    struct pawl_job_new fine = plain();

    assert_int_equal(pawl_job_check(&fine, &err), 0);
    assert_int_equal(pawl_job_check(NULL, &err), PAWL_EINVAL);
    /* Nothing went to the server: the transaction has not failed. */
    assert_int_equal(PQtransactionStatus(db.conn), PQTRANS_INTRANS);
    testdb_exec(&db, "COMMIT");
    assert_int_equal(count("pawl.job"), 0);
}

static void nothing_to_work_on_is_said(void **state)
{
    struct pawl_job_new job = plain();
    PGconn *lost = PQconnectdb("host=/nonexistent");
    struct pawl_job_info *info = NULL;

    (void)state;
    assert_int_equal(pawl_enqueue(NULL, &job, NULL, NULL, NULL), PAWL_EINVAL);
    assert_int_equal(pawl_enqueue(db.conn, NULL, NULL, NULL, NULL), PAWL_EINVAL);
    assert_int_equal(pawl_enqueue_many(db.conn, NULL, 2, NULL, NULL, NULL), PAWL_EINVAL);
    assert_int_equal(pawl_job_get(NULL, 1, &info, NULL), PAWL_EINVAL);
    assert_int_equal(pawl_job_get(db.conn, 1, NULL, NULL), PAWL_EINVAL);
    assert_int_equal(pawl_job_wait(NULL, 1, 0, NULL, NULL), PAWL_EINVAL);
    assert_int_equal(pawl_job_cancel(NULL, 1, NULL, NULL, NULL), PAWL_EINVAL);
    assert_int_equal(pawl_job_retry(NULL, 1, NULL, NULL), PAWL_EINVAL);
    assert_int_equal(pawl_assert_claim(NULL, 1, "x", NULL), PAWL_EINVAL);
    assert_int_equal(pawl_enqueue(lost, &job, NULL, NULL, NULL), PAWL_ECONN);
    assert_int_equal(pawl_job_get(lost, 1, &info, &err), PAWL_ECONN);
    PQfinish(lost);
    assert_int_equal(pawl_job_get(db.conn, 1, &info, &err), PAWL_ENOTFOUND);
    assert_int_equal(pawl_job_wait(db.conn, 1, 0, NULL, &err), PAWL_ENOTFOUND);
    assert_int_equal(pawl_job_cancel(db.conn, 1, NULL, NULL, &err), PAWL_ENOTFOUND);
    assert_int_equal(pawl_job_retry(db.conn, -1, NULL, &err), PAWL_ENOTFOUND);
    assert_int_equal(pawl_job_cancel(db.conn, 1, "\xff", NULL, &err), PAWL_EINVAL);
    assert_null(info);
}

static void a_text_that_the_connection_would_garble_is_refused(void **state)
{
    struct pawl_job_new job = plain();

    (void)state;
    PQsetClientEncoding(db.conn, "LATIN1");
    job.unique_key = "abc";
    enqueue(&job);
    job.unique_key = "\xc3\xbc";
    assert_int_equal(pawl_enqueue(db.conn, &job, NULL, NULL, &err), PAWL_EINVAL);
    PQsetClientEncoding(db.conn, "UTF8");
    enqueue(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        lib_test(what_is_wrong_is_refused_before_it_is_sent),
        lib_test(nothing_to_work_on_is_said),
        lib_test(a_text_that_the_connection_would_garble_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

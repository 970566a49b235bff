/* What a producer says of a whole machine: what it is about, and when it fails. */
#include "machine_fixture.h"

static int64_t new_about(struct fixture *f, const char *correlation)
{
    struct pawl_job_new job = PAWL_JOB_NEW_INIT;
    const char *tags[] = {"t"};
    int64_t id = 0;

    job.kind = "m";
    job.correlation = correlation;
    job.tags = tags;
    job.n_tags = 1;
    OK(pawl_enqueue(f->db.conn, &job, &id, NULL, &f->err));
    return id;
}

static enum pawl_outcome do_await(struct pawl_run *run, void *data)
{
    count_in(data);
    if (at_step(run, "heard"))
        return pawl_run_done(run, NULL, 0);
    return pawl_run_await(run, "n", "heard", NULL, 0, HOUR_MS);
}

static void a_signal_reaches_all_that_are_about_the_same(void **state)
{
    struct fixture *f = *state;
    int64_t first = new_about(f, "customer 7 \"ü\"");
    int64_t second = new_about(f, "customer 7 \"ü\"");
    int64_t other = new_about(f, "customer 8");
    int64_t none = new_about(f, NULL);

    work(f, "m", do_await);
    assert_int_equal(testdb_int(&f->db, "SELECT pawl.signal_all(E'customer 7 \"\\u00fc\"', 'n')"),
                     2);
    work(f, "m", do_await);
    assert_is(f, first, "done");
    assert_is(f, second, "done");
    assert_is(f, other, "waiting");
    assert_is(f, none, "waiting");
    assert_int_equal(count_of(f, "pawl.jobs WHERE meta @> '{\"tags\": [\"t\"]}'"), 4);
}

static void a_correlation_that_cannot_be_is_refused(void **state)
{
    struct fixture *f = *state;
    struct pawl_job_new job = PAWL_JOB_NEW_INIT;
    char text[PAWL_CORRELATION_MAX + 2];
    int64_t id = 77;

    memset(text, 'c', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    job.kind = "m";
    job.correlation = "";
    EXPECT(PAWL_EINVAL, pawl_enqueue(f->db.conn, &job, &id, NULL, &f->err));
    job.correlation = "\xff";
    EXPECT(PAWL_EINVAL, pawl_enqueue(f->db.conn, &job, &id, NULL, &f->err));
    job.correlation = text;
    EXPECT(PAWL_ELIMIT, pawl_enqueue(f->db.conn, &job, &id, NULL, &f->err));
    assert_int_equal(id, 77);
    text[PAWL_CORRELATION_MAX] = '\0';
    OK(pawl_enqueue(f->db.conn, &job, &id, NULL, &f->err));
}

/* ── deadlines ── */

static int64_t
new_bounded(struct fixture *f, const char *kind, int64_t deadline_ms, int64_t delay_ms)
{
    struct pawl_job_new job = PAWL_JOB_NEW_INIT;
    int64_t id = 0;

    job.kind = kind;
    job.deadline_ms = deadline_ms;
    job.delay_ms = delay_ms;
    OK(pawl_enqueue(f->db.conn, &job, &id, NULL, &f->err));
    return id;
}

/* As if so much time had passed that only deadlines are due. */
static void let_an_hour_pass(struct fixture *f)
{
    testdb_exec(&f->db,
                "UPDATE pawl.job SET due_at = due_at - interval '1 h',"
                " deadline_at = deadline_at - interval '1 h'");
}

#define JOB_LATE     "the deadline of the job has passed"
#define MACHINE_LATE "the deadline of the machine has passed"

static void a_wait_ends_with_the_deadline(void **state)
{
    struct fixture *f = *state;
    int64_t id = new_bounded(f, "m", HOUR_MS / 2, 0);

    assert_int_equal(
        count_of(f, "pawl.job WHERE deadline_at = created_at + '30 min' AND is_machine IS NULL"),
        1);
    work(f, "m", do_await);
    assert_is(f, id, "waiting");
    let_an_hour_pass(f);
    work(f, "m", do_await);
    assert_is(f, id, "failed: " MACHINE_LATE);
    assert_int_equal(atomic_load(&f->n_runs), 1);
}

static enum pawl_outcome do_put_off(struct pawl_run *run, void *data)
{
    const char *payload = pawl_run_payload(run, NULL);

    count_in(data);
    switch (payload[0]) {
    case '1':
        return pawl_run_retry(run, 48 * HOUR_MS, "later");
    case '2':
        return pawl_run_snooze(run, 48 * HOUR_MS);
    case '3':
        return pawl_run_next(run, "later", NULL, 0, 48 * HOUR_MS);
    default: {
        struct pawl_job_new child = PAWL_JOB_NEW_INIT;

        child.kind = "nobodys";
        return pawl_run_spawn(run, &child, 1, NULL, "later", NULL, 0);
    }
    }
}

/* Due when the deadline comes at the latest, whatever else they wait for. */
static void whatever_is_put_off_ends_with_the_deadline(void **state)
{
    struct fixture *f = *state;
    struct pawl_job_new job = PAWL_JOB_NEW_INIT;
    int64_t ids[4];

    job.kind = "m";
    job.deadline_ms = HOUR_MS / 2;
    for (size_t i = 0; i < LEN(ids); i++) {
        job.payload = &"1234"[i];
        job.payload_len = 1;
        OK(pawl_enqueue(f->db.conn, &job, &ids[i], NULL, &f->err));
    }
    work(f, "m", do_put_off);
    assert_int_equal(count_of(f, "pawl.job WHERE due_at = deadline_at"), 4);
    let_an_hour_pass(f);
    work(f, "m", do_put_off);
    for (size_t i = 0; i < LEN(ids); i++) /* the last two have gone on */
        assert_is(f, ids[i], i < 2 ? "failed: " JOB_LATE : "failed: " MACHINE_LATE);
    assert_int_equal(atomic_load(&f->n_runs), 4);
}

static void a_job_that_nobody_ran_in_time_fails_without_being_run(void **state)
{
    struct fixture *f = *state;
    int64_t late = new_bounded(f, "noop", HOUR_MS / 2, 0);
    int64_t delayed = new_bounded(f, "noop", HOUR_MS / 2, 48 * HOUR_MS);
    int64_t in_time = new_bounded(f, "noop", 2 * HOUR_MS, 0);

    let_an_hour_pass(f);
    work(f, NULL, NULL);
    assert_is(f, late, "failed: " JOB_LATE);
    assert_is(f, delayed, "failed: " JOB_LATE);
    assert_is(f, in_time, "done");
    assert_int_equal(atomic_load(&f->n_runs), 1);
}

/* What is parked is an operator's, who may give it another chance. */
static void a_deadline_that_has_passed_is_forgotten_on_request(void **state)
{
    struct fixture *f = *state;
    int64_t retried = new_bounded(f, "m", HOUR_MS / 2, 0);
    int64_t restarted = new_bounded(f, "m", HOUR_MS / 2, 0);
    char sql[100];

    testdb_exec(&f->db, "INSERT INTO pawl.kind (name, park) VALUES ('m', true)");
    let_an_hour_pass(f);
    work(f, "m", do_await);
    assert_is(f, retried, "parked: " JOB_LATE);
    OK(pawl_job_retry(f->db.conn, retried, NULL, &f->err));
    snprintf(sql, sizeof(sql), "SELECT pawl.machine_restart(%lld, 'heard')", (long long)restarted);
    testdb_exec(&f->db, sql);
    work(f, "m", do_await);
    assert_is(f, retried, "waiting: " JOB_LATE);
    assert_is(f, restarted, "done: " JOB_LATE);
}

static void a_deadline_that_cannot_be_is_refused(void **state)
{
    struct fixture *f = *state;
    struct pawl_job_new job = PAWL_JOB_NEW_INIT;
    int64_t id = 77;

    job.kind = "m";
    job.deadline_ms = -1;
    EXPECT(PAWL_EINVAL, pawl_enqueue(f->db.conn, &job, &id, NULL, &f->err));
    job.deadline_ms = INT64_MAX;
    EXPECT(PAWL_EINVAL, pawl_enqueue(f->db.conn, &job, &id, NULL, &f->err));
    assert_int_equal(id, 77);
    assert_int_equal(count_of(f, "pawl.job"), 0);
}

static void sql_takes_both(void **state)
{
    struct fixture *f = *state;

    testdb_exec(&f->db, "SELECT pawl.enqueue('m', correlation => 'c', deadline => '1 h')");
    testdb_exec(
        &f->db,
        "SELECT pawl.enqueue_many('[{\"kind\": \"m\", \"correlation\": \"c\", \"deadline\": \"1 h\"}]')");
    assert_int_equal(
        count_of(f,
                 "pawl.job WHERE deadline_at = created_at + '1 h' AND meta->>'correlation' = 'c'"),
        2);
    PGresult *r = PQexec(f->db.conn, "SELECT pawl.enqueue('m', deadline => '-1 h')");

    assert_string_equal(PQresultErrorField(r, PG_DIAG_SQLSTATE), "22023");
    PQclear(r);
    r = PQexec(f->db.conn, "SELECT pawl.enqueue('m', correlation => '')");
    assert_string_equal(PQresultErrorField(r, PG_DIAG_SQLSTATE), "22023");
    PQclear(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_signal_reaches_all_that_are_about_the_same),
        TEST(a_correlation_that_cannot_be_is_refused),
        TEST(a_wait_ends_with_the_deadline),
        TEST(whatever_is_put_off_ends_with_the_deadline),
        TEST(a_job_that_nobody_ran_in_time_fails_without_being_run),
        TEST(a_deadline_that_has_passed_is_forgotten_on_request),
        TEST(a_deadline_that_cannot_be_is_refused),
        TEST(sql_takes_both),
    };
    return cmocka_run_group_tests_name("lib machines: times", tests, NULL, NULL);
}

/*
 * A lease of its own for a running job (pawl.held), and the sweep: whichever comes first, a job whose lease holds is never
 * taken back, and a lease is never given for a job that was.
 */
#include "session_fixture.h"
#include "store/held.h"

static struct claimed one_expired(struct sessions *t)
{
    enqueue_plain(t->s, 1);
    struct claimed c = claim(t->s, 1);

    assert_int_equal(c.n, 1);
    testdb_exec(&t->s->db, "UPDATE pawl.claim SET lease_until = '-infinity'");
    return c;
}

/* The worker speaks to another server. */
static const struct stmt *takes(struct sessions *t, const struct claimed *c)
{
    struct held_job job = {.id = c->jobs[0].id, .worker = "w"};
    PGresult *r = PQexecParams(t->s->db.conn,
                               "SELECT pawl.ticket(token, id, step) FROM pawl.job"
                               " LEFT JOIN pawl.machine ON job_id = id WHERE token IS NOT NULL",
                               0,
                               NULL,
                               NULL,
                               NULL,
                               NULL,
                               1);

    if (PQntuples(r) == 1)
        memcpy(job.ticket.bytes + 3, PQgetvalue(r, 0, 0), TICKET_LEN - 3);
    PQclear(r);
    held_take_bind(begin(t->s), &job, 1, 60000);
    return STMT(held_take);
}

/* The server that claimed it lets go of it. */
static const struct stmt *lets_go(struct sessions *t, const struct claimed *c)
{
    const char *worker = "w";
    const int64_t left_ms = 60000;

    held_put_bind(begin(t->s), &c->jobs[0].id, &c->token, &worker, &left_ms, 1);
    return STMT(held_put);
}

static const struct stmt *gives(struct sessions *t, const struct claimed *c, int how)
{
    return how == 0 ? takes(t, c) : lets_go(t, c);
}

/*
 * Lets a sweep stop when it has its snapshot and no job yet: it reads pawl.worker by way of a function that waits for
 * whoever holds the advisory lock 1.
 */
static void sweeps_stop_halfway(struct sessions *t)
{
    char worker[UUID_TEXT_LEN + 1];
    char sql[800];

    uuid_format(&t->s->worker, worker);
    snprintf(sql,
             sizeof(sql),
             "CREATE FUNCTION pawl.halfway() RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$"
             " BEGIN PERFORM pg_advisory_xact_lock(1); RETURN true; END $$;"
             "INSERT INTO pawl.worker (id, name, version, queues, slots)"
             " VALUES ('%s', 'w', '1', '{q}', 1);"
             "ALTER TABLE pawl.worker RENAME TO worker_table;"
             /* OFFSET: whatever the plan, nobody looks for one row of it alone. */
             "CREATE VIEW pawl.worker AS SELECT * FROM pawl.worker_table WHERE pawl.halfway()"
             " OFFSET 0",
             worker);
    testdb_exec(&t->s->db, sql);
}

static void a_lease_that_came_after_the_snapshot_of_a_sweep_counts(void **state)
{
    struct sessions *t = *state;

    sweeps_stop_halfway(t);
    for (int how = 0; how <= 1; how++) {
        struct claimed c = one_expired(t);

        exec_on(t->a, "BEGIN; SELECT pg_advisory_xact_lock(1)");
        start(t, t->b, sweeps(t));
        assert_waits(t, t->b, t->a);
        assert_int_equal(step(t, t->c, gives(t, &c, how)), 1);
        exec_on(t->a, "COMMIT");
        assert_int_equal(rows_of(finish(t->b)), 0);
        assert_int_equal(count_of(t->s, "pawl.job WHERE token IS NOT NULL"), 1);
        assert_int_equal(count_of(t->s, "pawl.held"), 1);
        /* And it is swept when that lease is over, and its claim with it. */
        testdb_exec(&t->s->db, "UPDATE pawl.held SET lease_until = '-infinity'");
        assert_int_equal(step(t, t->b, sweeps(t)), 1);
        assert_int_equal(step(t, t->b, sweeps(t)), 0);
        assert_int_equal(count_of(t->s, "pawl.job WHERE token IS NULL"), 1);
        assert_int_equal(count_of(t->s, "pawl.claim") + count_of(t->s, "pawl.held"), 0);
        testdb_exec(&t->s->db, "DELETE FROM pawl.job");
    }
}

static void a_sweep_skips_what_is_being_given_a_lease(void **state)
{
    struct sessions *t = *state;

    for (int how = 0; how <= 1; how++) {
        struct claimed c = one_expired(t);

        exec_on(t->a, "BEGIN");
        assert_int_equal(step(t, t->a, gives(t, &c, how)), 1);
        assert_int_equal(step(t, t->b, sweeps(t)), 0);
        exec_on(t->a, "COMMIT");
        assert_int_equal(step(t, t->b, sweeps(t)), 0);
        assert_int_equal(count_of(t->s, "pawl.job WHERE token IS NOT NULL"), 1);
        testdb_exec(&t->s->db, "DELETE FROM pawl.job");
    }
}

static void no_lease_is_given_for_what_was_swept_meanwhile(void **state)
{
    struct sessions *t = *state;

    for (int how = 0; how <= 1; how++) {
        struct claimed c = one_expired(t);

        exec_on(t->a, "BEGIN");
        assert_int_equal(step(t, t->a, sweeps(t)), 1);
        /* Nothing is waited for, and nothing done: it is said that somebody else has the job. */
        assert_int_equal(step(t, t->b, gives(t, &c, how)), 1);
        assert_int_equal(count_of(t->s, "pawl.held"), 0);
        exec_on(t->a, "COMMIT");
        assert_int_equal(step(t, t->b, gives(t, &c, how)), 0);
        assert_int_equal(count_of(t->s, "pawl.held"), 0);
        testdb_exec(&t->s->db, "DELETE FROM pawl.job");
    }
}

/* One that sends a signal has the machine's row locked until its transaction ends, which may be long. */
static void a_lease_does_not_wait_for_who_changes_the_job(void **state)
{
    struct sessions *t = *state;

    for (int how = 0; how <= 1; how++) {
        struct claimed c = one_expired(t);

        exec_on(t->a, "BEGIN; UPDATE pawl.job SET due_at = now()");
        assert_int_equal(step(t, t->b, gives(t, &c, how)), 1);
        exec_on(t->a, "COMMIT");
        testdb_exec(&t->s->db, "DELETE FROM pawl.job");
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, sessions_setup, sessions_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_lease_that_came_after_the_snapshot_of_a_sweep_counts),
        TEST(a_sweep_skips_what_is_being_given_a_lease),
        TEST(no_lease_is_given_for_what_was_swept_meanwhile),
        TEST(a_lease_does_not_wait_for_who_changes_the_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

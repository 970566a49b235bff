/*
 * A worker whose own settle makes others due knows it, whether or not it said meanwhile that it sleeps: a statement that began before it said
 * so calls nobody. Here the settle is held up until the worker has looked for the last time, and no poll comes to its help.
 */
#include "engine_wake_fixture.h"
#include "machines_fixture.h"

#define GATE "4711"

/* Spawns two children and joins them. */
static struct outcome family(struct crew *crew, const struct job *job)
{
    (void)crew;
    if (strcmp(job->kind, "c") == 0)
        return outcome_result("1");
    return at_step(job, "") ? outcome_spawn(2, "c", "joined", 0, 0) : outcome_result("2");
}

/* What the settle does to such rows waits until the gate is open: asleep, because a settle waits for no
 * lock this long. Returns the session that keeps it shut. */
static PGconn *shut_gate(struct fixture *f, const char *when)
{
    char sql[400];

    testdb_exec(&f->db,
                "CREATE FUNCTION wait_at_gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " WHILE NOT pg_try_advisory_xact_lock_shared(" GATE ") LOOP PERFORM pg_sleep(0.01);"
                " END LOOP; RETURN NULL; END $$");
    snprintf(
        sql, sizeof(sql), "CREATE TRIGGER gate AFTER %s EXECUTE FUNCTION wait_at_gate()", when);
    testdb_exec(&f->db, sql);
    return session(f, "BEGIN; SELECT pg_advisory_xact_lock(" GATE ")");
}

static void goes_on_when_the_gate_opens(struct fixture *f, const char *when)
{
    struct crew crew;
    PGconn *gate = shut_gate(f, when);

    crew_init_machines(&crew, f, family);
    crew.options.poll_ms = crew.options.poll_max_ms = NEVER_MS;
    enqueue(f, 1);
    crew_start(&crew);
    run_until(f,
              count_of(f,
                       "pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE"
                       " '%pawl.job_settle%' AND datname = current_database()") == 1);
    run_until(f, all_asleep(f, 1));
    PQfinish(gate);
    run_until_over(f, 3);
    crew_stop(&crew);
    assert_text(f, RESULT, "done 2");
    assert_all_done(f, 3);
}

static void the_children_of_a_worker_that_fell_asleep_start(void **state)
{
    goes_on_when_the_gate_opens(*state,
                                "INSERT ON pawl.job FOR EACH ROW WHEN (NEW.parent_id IS NOT NULL)");
}

static void the_parent_joins_though_its_worker_fell_asleep(void **state)
{
    goes_on_when_the_gate_opens(*state, "INSERT ON pawl.child FOR EACH ROW");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        engine_test(the_children_of_a_worker_that_fell_asleep_start),
        engine_test(the_parent_joins_though_its_worker_fell_asleep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Members of pawl_enqueuer, who get into their own queues only, by whatever way; and the functions of
 * the schema as an API: nobody who puts look-alikes on the search path makes them call those.
 */
#include <stdio.h>
#include <string.h>

#include "store_fixture.h"

static void create_stranger(struct store *s)
{
    char sql[200];

    snprintf(sql, sizeof(sql), "CREATE ROLE %s", s->db.name);
    testdb_exec(&s->db, sql);
}

static void drop_stranger(struct store *s)
{
    char sql[200];

    snprintf(sql, sizeof(sql), "DROP ROLE %s", s->db.name);
    testdb_exec(&s->db, sql);
}

static void as(struct store *s, const char *role)
{
    char sql[100];

    snprintf(sql, sizeof(sql), "SET ROLE %s", role);
    testdb_exec(&s->db, sql);
}

/* A role of this test's own, which is named like its database: a member of pawl_enqueuer that may
 * enqueue into the queue mine. */
static void with_enqueuer(struct store *s)
{
    char sql[300];

    create_stranger(s);
    snprintf(sql,
             sizeof(sql),
             "GRANT pawl_enqueuer TO %s; INSERT INTO pawl.queue_producer VALUES ('mine', '%s')",
             s->db.name,
             s->db.name);
    testdb_exec(&s->db, sql);
}

/* What the database says to it: a SQLSTATE, empty when it does it. Nothing stays. */
static void tries(struct store *s, const char *role, const char *sql, const char *sqlstate)
{
    testdb_exec(&s->db, "BEGIN");
    as(s, role);
    PGresult *r = PQexec(s->db.conn, sql);
    const char *got = PQresultErrorField(r, PG_DIAG_SQLSTATE);

    if (strcmp(got != NULL ? got : "", sqlstate) != 0)
        fail_msg("%s: %s: %s", role, sql, got != NULL ? PQresultErrorMessage(r) : "not refused");
    PQclear(r);
    testdb_exec(&s->db, "ROLLBACK");
}

/* The statement with the queue in place of @. */
static void into(char *sql, size_t size, const char *way, const char *queue)
{
    size_t before = strcspn(way, "@");

    assert_true(before < size);
    memcpy(sql, way, before);
    snprintf(sql + before, size - before, "%s%s", queue, way + before + 1);
}

static void an_enqueuer_gets_into_its_queues_only(void **state)
{
    struct store *s = *state;
    static const char *const ways[] = {
        "INSERT INTO pawl.job (queue, kind, payload) VALUES ('@', 'k', '')",
        "INSERT INTO pawl.job (queue, kind, payload) VALUES ('@', 'k', '') RETURNING id",
        "SELECT pawl.enqueue('k', queue => '@')",
        "SELECT pawl.enqueue('k', queue => '@', unique_key => 'x', tags => '{t}')",
        "SELECT pawl.enqueue_many('k', '{1,2}'::jsonb[], '@')",
        "SELECT pawl.enqueue_many('[{\"kind\":\"k\", \"queue\":\"@\"}]')",
    };
    char sql[300];

    with_enqueuer(s);
    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
        into(sql, sizeof(sql), ways[i], "mine");
        tries(s, s->db.name, sql, "");
        tries(s, "pawl_producer", sql, "");
        tries(s, "pawl_enqueuer", sql, "42501"); /* the queue is not everybody's */
        into(sql, sizeof(sql), ways[i], "other");
        tries(s, s->db.name, sql, "42501");
        tries(s, "pawl_producer", sql, "");
    }
    tries(
        s,
        s->db.name,
        "INSERT INTO pawl.job (queue, kind, payload) VALUES ('mine', 'k', ''), ('other', 'k', '')",
        "42501");
    testdb_exec(&s->db, "DELETE FROM pawl.queue_producer");
    tries(s, s->db.name, "SELECT pawl.enqueue('k', queue => 'mine')", "42501");
    drop_stranger(s);
}

/* The statements of the library itself, by their own binders. */
static void an_enqueuer_can_use_every_statement_of_a_producer(void **state)
{
    struct store *s = *state;
    struct pawl_job_new job = job_plain();
    struct pawl_job_new jobs[2];

    job.queue = "mine";
    jobs[0] = jobs[1] = job;
    with_enqueuer(s);
    as(s, s->db.name);
    job_enqueue_one_bind(begin(s), &job);
    PQclear(run(s, STMT(job_enqueue_one)));
    job_enqueue_bind(begin(s), jobs, 2);
    PQclear(run(s, STMT(job_enqueue)));
    jobs[1].unique_key = "x";
    job_enqueue_options_bind(begin(s), jobs, 2);
    PQclear(run(s, STMT(job_enqueue_options)));
    jobs[1].queue = "other";
    job_enqueue_options_bind(begin(s), jobs, 2);
    assert_refused(s, STMT(job_enqueue_options), "42501");
    job_enqueue_bind(begin(s), jobs, 2);
    assert_refused(s, STMT(job_enqueue), "42501");
    job_enqueue_one_bind(begin(s), &jobs[1]);
    assert_refused(s, STMT(job_enqueue_one), "42501");
    testdb_exec(&s->db, "RESET ROLE");
    assert_int_equal(count_of(s, "pawl.job"), 5);
    drop_stranger(s);
}

/* It sees that its own jobs are there, and nothing of anybody else's. */
static void an_enqueuer_sees_its_queues_only(void **state)
{
    struct store *s = *state;

    with_enqueuer(s);
    testdb_exec(&s->db, "SELECT pawl.enqueue('k', queue => 'mine'); SELECT pawl.enqueue('k')");
    as(s, s->db.name);
    assert_text(s, "SELECT string_agg(queue, ' ') FROM (SELECT queue FROM pawl.job) j", "mine");
    testdb_exec(&s->db, "RESET ROLE");
    drop_stranger(s);
}

/* Keys of a queue belong to those who may enqueue into it. */
static void nobody_takes_keys_of_a_queue_that_is_not_his(void **state)
{
    struct store *s = *state;

    with_enqueuer(s);
    testdb_exec(
        &s->db,
        "INSERT INTO pawl.job (queue, kind, payload, has_options) VALUES ('q', 'k', '', true);"
        "INSERT INTO pawl.job_option (job_id, guard)"
        " VALUES (1, pawl.unique_hash('kind', 'q', 'k', 'displaced'))");
    /* Neither by writing the hash of another queue's key next to a row of his own … */
    tries(s,
          s->db.name,
          "INSERT INTO pawl.job (queue, kind, payload, has_options) VALUES ('mine', 'k', '', true);"
          "INSERT INTO pawl.job_option (job_id, guard)"
          " VALUES (2, pawl.unique_hash('kind', 'q', 'k', 'x'))",
          "42501");
    /* … nor for one that was not said to carry a key … */
    tries(s,
          s->db.name,
          "INSERT INTO pawl.job (queue, kind, payload) VALUES ('mine', 'k', '');"
          "SELECT pawl.guard_take(max(id), 'kind', 'x', 7, 0, 0) FROM (SELECT id FROM pawl.job) j",
          "PW001");
    /* … nor for somebody else's row, which would be gone if the key were taken. */
    tries(s, s->db.name, "SELECT pawl.guard_take(1, 'kind', 'displaced', 7, 0, 0)", "PW001");
    tries(s, "pawl_producer", "SELECT pawl.guard_take(1, 'kind', 'displaced', 7, 0, 0)", "PW001");
    /* A row of this transaction, also below a savepoint, is fine. */
    tries(s,
          s->db.name,
          "SAVEPOINT a; SELECT pawl.enqueue('k', queue => 'mine', unique_key => 'x');"
          "SAVEPOINT b; SELECT pawl.enqueue('k', queue => 'mine', unique_key => 'y');"
          "RELEASE b; SELECT pawl.enqueue('k', queue => 'mine', unique_key => 'z')",
          "");
    drop_stranger(s);
}

/* ── look-alikes ── */

/* Everything the functions use, shadowed by something that leaves a trace, in a schema that comes
 * first. Whoever calls them gets the real ones. */
static void the_functions_see_no_look_alikes(void **state)
{
    struct store *s = *state;

    testdb_exec(
        &s->db,
        "CREATE SCHEMA evil; CREATE TABLE evil.trap (who text);"
        "GRANT ALL ON SCHEMA evil TO PUBLIC; GRANT ALL ON evil.trap TO PUBLIC;"
        "CREATE FUNCTION evil.sprung(text) RETURNS text LANGUAGE plpgsql"
        " SET search_path = pg_catalog AS $$ BEGIN"
        " INSERT INTO evil.trap VALUES (current_user || ' ' || $1); RETURN $1; END $$;"
        "DO $do$ DECLARE f record; BEGIN"
        /* Same name and same arguments as the real ones, but not the same body. */
        " FOR f IN SELECT p.oid, p.proname, pg_get_function_identity_arguments(p.oid) AS args,"
        "   pg_get_function_result(p.oid) AS result FROM pg_proc AS p"
        "  WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind = 'f' AND NOT proretset"
        "   AND proname IN ('now', 'clock_timestamp', 'statement_timestamp', 'octet_length',"
        "    'convert_to', 'sha256', 'encode', 'length', 'left', 'array_position', 'array_append',"
        "    'pg_notify', 'pg_xact_status', 'pg_current_xact_id', 'date_part', 'isfinite',"
        "    'jsonb_typeof', 'jsonb_strip_nulls', 'num_nonnulls', 'to_jsonb', 'cardinality', 'pg_has_role', 'substr')"
        "   AND pg_get_function_identity_arguments(p.oid) !~ 'any|VARIADIC|internal' LOOP"
        "  EXECUTE format('CREATE FUNCTION evil.%I(%s) RETURNS %s LANGUAGE plpgsql AS"
        "   $$ BEGIN PERFORM evil.sprung(%L); RETURN%s; END $$',"
        "   f.proname, f.args, f.result, f.proname,"
        "   CASE f.result WHEN 'void' THEN '' ELSE ' NULL' END);"
        " END LOOP;"
        " FOR f IN SELECT o.oprname, o.oprleft::regtype AS l, o.oprright::regtype AS r,"
        "   o.oprresult::regtype AS result FROM pg_operator AS o"
        "  WHERE o.oprnamespace = 'pg_catalog'::regnamespace AND o.oprkind = 'b'"
        "   AND o.oprname IN ('=', '<>', '<', '<=', '>', '>=', '~', '||', '+', '-', '&', '|', '*', '!~', '->>')"
        "   AND o.oprleft::regtype::text IN ('text', 'integer', 'bigint', 'uuid', 'jsonb',"
        "    'interval', 'timestamp with time zone', 'smallint', 'double precision')"
        "   AND o.oprright = o.oprleft LOOP"
        "  EXECUTE format('CREATE FUNCTION evil.%I(%s, %s) RETURNS %s LANGUAGE plpgsql AS"
        "   $$ BEGIN PERFORM evil.sprung(%L); RETURN NULL; END $$', 'o' || md5(f.oprname),"
        "   f.l, f.r, f.result, f.oprname);"
        "  EXECUTE format('CREATE OPERATOR evil.%s (FUNCTION = evil.%I, LEFTARG = %s,"
        "   RIGHTARG = %s)', f.oprname, 'o' || md5(f.oprname), f.l, f.r);"
        " END LOOP; END $do$;"
        "GRANT ALL ON ALL FUNCTIONS IN SCHEMA evil TO PUBLIC;"
        "CREATE TEMP TABLE job AS SELECT * FROM pawl.job;"
        "CREATE TEMP TABLE job_option AS SELECT * FROM pawl.job_option;"
        "CREATE TEMP TABLE machine AS SELECT * FROM pawl.machine;"
        "CREATE TEMP TABLE guard AS SELECT * FROM pawl.guard;"
        "CREATE TEMP TABLE pg_class AS SELECT * FROM pg_catalog.pg_class;"
        "SET search_path = pg_temp, evil, pg_catalog");
    /* The trap works for those who fall for it. */
    testdb_exec(&s->db, "SELECT 1::int OPERATOR(evil.+) 1, now()");
    testdb_exec(&s->db,
                "DO $$ BEGIN ASSERT (SELECT count(*) FROM evil.trap) OPERATOR(pg_catalog.=)"
                " 2::bigint; END $$; DELETE FROM evil.trap");
    testdb_exec(&s->db, "SET ROLE pawl_producer");
    testdb_exec(
        &s->db,
        "SELECT pawl.enqueue('k', '{}', 'q', 4, '1 s', NULL, 3, '1 min', 'quadratic', '1 s',"
        " '1 min', 'x', 'kind', '{waiting}', '1 h', 'keep', NULL, '{t}', NULL, 'trace')");
    testdb_exec(&s->db, "SELECT pawl.enqueue('k', queue => 'q', unique_key => 'x')");
    testdb_exec(&s->db, "SELECT pawl.enqueue('k', '{\"a\": 1}', 'q')");
    testdb_exec(&s->db, "SELECT pawl.enqueue('k', NULL, delay => '1 s', timeout => '1 min')");
    testdb_exec(&s->db, "SELECT pawl.enqueue('k', due_at => '2030-01-01', bytes => 'x')");
    testdb_exec(
        &s->db,
        "SELECT pawl.enqueue('k', queue => 'q', unique_key => 'x', on_conflict => 'replace',"
        " due_at => '2030-01-01')");
    testdb_exec(&s->db, "SELECT pawl.enqueue_many('k', '{1,2}'::jsonb[], delay => '1 s')");
    testdb_exec(&s->db, "SELECT pawl.enqueue_many('[{\"kind\": \"k\", \"tags\": [\"a\"]}]')");
    testdb_exec(&s->db, "SELECT pawl.enqueue_many('[{\"kind\": \"k\", \"delay\": \"1 s\"}]')");
    testdb_exec(&s->db, "SELECT pawl.enqueue_plain('q', 'k', '1', 4::int2, 1000, 0, 3, 500)");
    testdb_exec(&s->db, "SELECT pawl.enqueue_plain('q', 'k', '1', 4::int2, 0, 1000, 3, 0)");
    testdb_exec(&s->db, "SELECT pawl.watch(1)");
    testdb_exec(&s->db, "SET ROLE pawl_server");
    testdb_exec(&s->db, "SELECT pawl.cancel(1, 'me')");
    testdb_exec(&s->db, "SELECT pawl.retry(1)");
    testdb_exec(&s->db, "SELECT pawl.retry_ms(3, 'quadratic', 1000, NULL, NULL, NULL, NULL, NULL)");
    testdb_exec(&s->db, "SET ROLE pawl_worker");
    testdb_exec(&s->db, "SELECT pawl.guard_maintain()");
    testdb_exec(&s->db, "RESET ROLE; RESET search_path");
    assert_text(
        s, "SELECT coalesce(string_agg(DISTINCT who, ', '), 'nobody') FROM evil.trap", "nobody");
    assert_int_equal(count_of(s, "pg_temp.job"), 0);
    assert_int_equal(count_of(s, "pawl.job"), 10);
    assert_text(s, "SELECT state || ' ' || cancel_by FROM pawl.history", "cancelled me");
}

/* Functions with the caller's rights pin their search_path as well. Exceptions: the functions that are
 * called for every job, which name everything in full, those that are an expression, whose names
 * were bound when they were made, and statements of the engine, which are written like those of
 * sql/query: nobody but workers may call them. */
#define OF_THE_ENGINE                                                              \
    "('jobs_end', 'claims_end', 'jobs_settle', 'claims_sweep', 'machines_settle'," \
    " 'machine_view', 'machine_waits_for')"

static void every_function_pins_its_search_path(void **state)
{
    struct store *s = *state;

    assert_int_equal(
        count_of(s,
                 "pg_proc WHERE pronamespace = 'pawl'::regnamespace AND prosqlbody IS NULL"
                 " AND proname NOT IN ('enqueue', 'enqueue_plain', 'due_time', 'interval_ms')"
                 " AND proname NOT IN " OF_THE_ENGINE " AND NOT"
                 " coalesce(proconfig, '{}') @> '{\"search_path=pg_catalog, pg_temp\"}'"),
        0);
    assert_int_equal(
        count_of(s,
                 "pg_proc, unnest('{pawl_producer,pawl_enqueuer,pawl_reader}'::text[]) AS role"
                 " WHERE pronamespace = 'pawl'::regnamespace AND proname IN " OF_THE_ENGINE
                 " AND (prosecdef OR has_function_privilege(role, oid, 'EXECUTE'))"),
        0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(an_enqueuer_gets_into_its_queues_only),
        store_test(an_enqueuer_can_use_every_statement_of_a_producer),
        store_test(an_enqueuer_sees_its_queues_only),
        store_test(nobody_takes_keys_of_a_queue_that_is_not_his),
        store_test(the_functions_see_no_look_alikes),
        store_test(every_function_pins_its_search_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

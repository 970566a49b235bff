/*
 * Somebody's transaction stays open, and holds whatever lock its role can take: by every function of
 * the schema that it may call, by every row that it may lock, by LOCK TABLE. One job is what the
 * transaction is about, and may wait for it. Twenty others, which end in the same settle, may not.
 */
#include "engine_fixture.h"

#define OTHERS 20
#define BOUND_MS \
    20000 /* without the bound on locks they wait for as long as the transaction does */

static const char *const roles[] = {
    "pawl_producer", "pawl_enqueuer", "pawl_reader", "pawl_worker", "pawl_server"};
#define ROLES   "('pawl_producer', 'pawl_enqueuer', 'pawl_reader', 'pawl_worker', 'pawl_server')"
#define N_ROLES (sizeof(roles) / sizeof(*roles))

/* Job 1 waits for its child, job 2, which is in a lane, has a unique key, a signal and the result of a
 * child of its own: its end touches all there is. The others are plain. */
static void enqueue_all(struct fixture *f)
{
    /* What the last worker and stranger had sent may still run in their sessions. */
    testdb_exec(
        &f->db,
        "DO $$ BEGIN"
        " FOR i IN 1 .. 4000 LOOP"
        "  PERFORM pg_stat_clear_snapshot();"
        "  EXIT WHEN NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()"
        "   AND pid <> pg_backend_pid() AND backend_type = 'client backend' AND state <> 'idle');"
        "  PERFORM pg_sleep(0.005);"
        " END LOOP; END $$");
    testdb_exec(
        &f->db,
        "TRUNCATE pawl.job, pawl.job_option, pawl.machine, pawl.claim, pawl.signal, pawl.child, pawl.guard, pawl.lane,"
        " pawl.lane_stir, pawl.held, pawl.stop, pawl.orphan, pawl.history, pawl.worker,"
        " pawl.sleeper RESTART IDENTITY;"
        "INSERT INTO pawl.job (queue, kind, payload, waits_for, due_at, is_machine, meta) VALUES"
        " ('other', 'k', '', 'children', 'infinity', true, '{\"correlation\": \"c\"}');"
        "INSERT INTO pawl.job (queue, kind, payload, lane, parent_id, join_of, meta, has_options,"
        "  is_machine)"
        " VALUES ('q', 'k', '', 'l', 1, 1, '{\"correlation\": \"c\"}', true, true);"
        "INSERT INTO pawl.machine (job_id, step, joins, children_left, join_at)"
        " VALUES (1, 's', 1, 1, 0), (2, NULL, 1, NULL, NULL);"
        "INSERT INTO pawl.job_option (job_id, guard)"
        " VALUES (2, pawl.unique_hash('kind', 'q', 'k', 'key'));"
        "INSERT INTO pawl.guard SELECT guard, job_id, 0 FROM pawl.job_option;"
        "INSERT INTO pawl.child VALUES (2, 1000, 'k', 'done');"
        "SELECT pawl.signal(2, 'go')");
    enqueue(f, OTHERS);
}

static void start_all(struct fixture *f, struct crew *crew, int64_t lease_ms)
{
    enqueue_all(f);
    crew_init(crew, f);
    crew->run_ms = HELD;
    crew->options.concurrency = OTHERS + 1;
    crew->options.lease_ms = lease_ms;
    crew->options.drain_ms = 200; /* when a test stops it, nothing is left or it is about that */
    crew_start(crew);
    run_until(f, crew->now == OTHERS + 1);
    testdb_exec(&f->db,
                "INSERT INTO pawl.held SELECT id, token, 'w', now(), 'infinity' FROM pawl.job"
                " WHERE id = 2");
}

static bool others_settled(struct fixture *f)
{
    return count_of(f, "pawl.history WHERE id > 2 AND state = 'done'") == OTHERS;
}

/* The SQLSTATE of what the stranger tries, and it stays in its transaction. */
static PGconn *
stranger(struct fixture *f, const char *role, const char *sql, char *sqlstate, size_t size)
{
    char begin[400];

    /* A role reads no token: it has the job's as its handler would. */
    snprintf(
        begin,
        sizeof(begin),
        "BEGIN; SELECT set_config('test.token', coalesce(token, gen_random_uuid())::text, true)"
        " FROM pawl.job WHERE id = 2;"
        "SET LOCAL ROLE %s; SET LOCAL lock_timeout = '20s'; SET CONSTRAINTS ALL IMMEDIATE",
        role);
    PGconn *conn = session(f, begin);
    PGresult *r = PQexec(conn, sql);
    const char *got = PQresultErrorField(r, PG_DIAG_SQLSTATE);

    snprintf(sqlstate, size, "%s", got != NULL ? got : "");
    PQclear(r);
    return conn;
}

/* Whether the role could do it, and then everything is settled as it must be. */
static bool holds_up_nobody_else(struct fixture *f, const char *role, const char *sql)
{
    struct crew crew;
    char sqlstate[6];

    start_all(f, &crew, 30000);
    PGconn *other = stranger(f, role, sql, sqlstate, sizeof(sqlstate));
    bool could = strcmp(sqlstate, "") == 0;

    if (!could && strcmp(sqlstate, "42501") != 0)
        fail_msg("%s: %s: %s", role, sql, sqlstate);
    crew_let_go(&crew);
    if (could) {
        uint64_t began_ms = uv_now(&f->loop);

        run_until(f, others_settled(f) || uv_now(&f->loop) - began_ms > BOUND_MS);
        if (!others_settled(f))
            fail_msg("%s: %s: %lld of %d settled",
                     role,
                     sql,
                     (long long)count_of(f, "pawl.history WHERE id > 2"),
                     OTHERS);
    }
    PQfinish(other);
    run_until(f, crew.settled == OTHERS + 1);
    assert_int_equal(crew.stale, 0);
    crew_stop(&crew);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done'"), OTHERS + 1);
    assert_int_equal(count_of(f, "pawl.job WHERE id > 1"), 0);
    assert_int_equal(testdb_int(&f->db, "SELECT children_left FROM pawl.machine WHERE job_id = 1"),
                     0);
    return could;
}

/* For each role that may do it; somebody must. A role without the right needs no worker to show it. */
static int for_each_role(struct fixture *f, const char *sql)
{
    char sqlstate[N_ROLES][6];
    int n = 0;

    enqueue_all(f);
    for (size_t i = 0; i < N_ROLES; i++)
        PQfinish(stranger(f, roles[i], sql, sqlstate[i], sizeof(sqlstate[i])));
    for (size_t i = 0; i < N_ROLES; i++) {
        if (strcmp(sqlstate[i], "42501") != 0)
            n += holds_up_nobody_else(f, roles[i], sql);
    }
    return n;
}

/* ── by a function ── */

#define TOKEN "current_setting('test.token')::uuid"

/* Every function that one of the roles may call. NULL: it only computes, or reads, or a call of it
 * is part of another one's that is here. */
static const struct {
    const char *name;
    const char *sql;
} functions[] = {
    {"watch", "SELECT pawl.watch(1), pawl.watch(2)"},
    {"signal", "SELECT pawl.signal(1, 'go'), pawl.signal(2, 'go', '1', 'key')"},
    {"signal_all", "SELECT pawl.signal_all('c', 'go')"},
    {"assert_claim", "SELECT pawl.assert_claim(2, " TOKEN ")"},
    {"enqueue",
     "SELECT pawl.enqueue('k', queue => 'q', unique_key => 'key', unique_states => '{waiting}',"
     " lane => 'l', parent => 1)"},
    {"cancel", "SELECT pawl.cancel(1), pawl.cancel(2)"},
    {"cancel_many", "SELECT FROM pawl.cancel_many('{1,2}', 'me')"},
    {"cancel_idle", "SELECT pawl.cancel_idle(1, 'me')"},
    {"jobs_end",
     "SELECT pawl.jobs_end('{1}', '{cancelled}', NULL, NULL, NULL, NULL, NULL, NULL, NULL)"},
    {"jobs_settle",
     "SELECT FROM pawl.jobs_settle('{2}', ARRAY[" TOKEN "], '{retry}', '{-1}', '{NULL}', '{e}',"
     " '{1}', 'w', '{}', '{NULL}')"},
    {"machines_settle",
     "SELECT FROM pawl.machines_settle('{2}', ARRAY[" TOKEN "], '{next}', '{s}', '{NULL}', '{0}',"
     " '{NULL}', '{0}', '{NULL}', '{true}', '{false}', '{NULL}', '{0}', '{0}', '{false}',"
     " '{false}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')"},
    {"claims_end", "SELECT pawl.claims_end(ARRAY[" TOKEN "])"},
    {"claims_sweep", "SELECT FROM pawl.claims_sweep(20, NULL, 0, 0)"},
    {"claim_lanes",
     "SELECT FROM pawl.claim_lanes('q', '{k}', 100, gen_random_uuid(), gen_random_uuid(), 60000,"
     " '{-infinity,-infinity}', '{0,0}', '{4,4}', '{true,false}', 1)"},
    {"lanes_clock", "SELECT pawl.lanes_clock('{q}', '{l}')"},
    {"machine_restart", "SELECT pawl.machine_restart(1, 's')"},
    {"lane_set", "SELECT pawl.lane_set('q', 'l', 5), pawl.lanes_mend(10)"},
    {"lanes_leave", "SELECT pawl.lanes_leave('{q}', '{l}', '{2}')"},
    {"children_let_go", "SELECT pawl.children_let_go(2, " TOKEN ", true)"},
    {"orphans_end", "SELECT pawl.orphans_end(10)"},
    {"lanes_maintain", "SELECT pawl.lanes_maintain()"},
    {"guard_maintain", "SELECT pawl.guard_maintain()"},
    {"stop_maintain", "SELECT pawl.stop_maintain()"},
    {"serve_maintain", "SELECT pawl.serve_maintain()"},
    {"history_maintain", "SELECT pawl.history_maintain()"},
    {"claim_turn", "SELECT pawl.claim_turn('q')"},
    {"job_park", "SELECT pawl.job_park(2, 'test', 'w')"},
    {"claim_try", NULL},
    {"retry_ms", NULL},
    {"bytes_text", NULL},
    {"signal_bytes", NULL},
    {"retry", NULL}, /* of a job that runs or waits for others it is refused */
    {"guard_take", NULL},
    {"enqueue_options", NULL},
    {"enqueue_row", NULL},
    {"enqueue_plain", NULL},
    {"enqueue_many", NULL},
    {"job_start_at", NULL},
    {"lanes_call", NULL},
    {"lanes_make", NULL},
    {"lanes_move", NULL},
    {"lanes_mend", NULL},
    {"lane_limits", NULL},
    {"machine_view", NULL},
    {"machine_waits_for", NULL},
    {"timeline_add", NULL},
    {"lane_tokens", NULL},
    {"lane_room", NULL},
    {"waits_behind", NULL},
    {"keeps_place", NULL},
    {"history_again", NULL},
    {"wake", NULL},
    {"retry_put", NULL},
    {"is_held", NULL},
    {"ticket", NULL},
    {"retry_delay_ms", NULL},
    {"errors_add", NULL},
    {"unique_hash", NULL},
    {"name_check", NULL},
    {"interval_ms", NULL},
    {"due_time", NULL},
    {"job_check", NULL},
    {"raise_not_live", NULL},
    {"raise_unseen", NULL},
    {"correlated", NULL},
};

static void every_function_of_every_role_is_here(void **state)
{
    struct fixture *f = *state;
    int unknown = 0;
    PGresult *r = PQexec(f->db.conn,
                         "SELECT DISTINCT p.proname FROM pg_proc AS p, pg_roles AS r"
                         " WHERE p.pronamespace = 'pawl'::regnamespace AND r.rolname IN " ROLES
                         " AND has_function_privilege(r.oid, p.oid, 'EXECUTE')");

    assert_true(PQntuples(r) > 30);
    for (int row = 0; row < PQntuples(r); row++) {
        bool known = false;

        for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++)
            known |= strcmp(functions[i].name, PQgetvalue(r, row, 0)) == 0;
        if (!known)
            print_error("pawl.%s: which locks does it keep?\n", PQgetvalue(r, row, 0));
        unknown += !known;
    }
    PQclear(r);
    assert_int_equal(unknown, 0);
}

static void a_function_holds_up_its_own_job_only(void **state)
{
    struct fixture *f = *state;

    testdb_exec(&f->db,
                "INSERT INTO pawl.queue_producer VALUES ('q', 'pawl_enqueuer'),"
                " ('other', 'pawl_enqueuer')");
    for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
        if (functions[i].sql == NULL)
            continue;
        if (for_each_role(f, functions[i].sql) == 0)
            fail_msg("nobody may do this: %s", functions[i].sql);
    }
}

/* As most do it: what touches jobs happens at the commit, and until then nothing is held. */
static void a_watch_in_an_open_transaction_holds_nothing(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    start_all(f, &crew, 30000);
    PGconn *other = session(f, "BEGIN; SET LOCAL ROLE pawl_reader; SELECT pawl.watch(2)");

    crew_let_go(&crew);
    run_until(f, crew.settled == OTHERS + 1);
    assert_int_equal(count_of(f, "pawl.history"), OTHERS + 1);
    PQfinish(other);
    crew_stop(&crew);
}

/* ── by a row ── */

/* Those of the one job, where the table has others; else all rows that there are. */
static void lock_rows(struct fixture *f, const char *table, const char *strength, int *ret_n)
{
    char sql[200];

    snprintf(sql,
             sizeof(sql),
             "SELECT FROM pawl.%s %s FOR %s",
             table,
             strcmp(table, "job") == 0 ? "WHERE id <= 2" : "",
             strength);
    *ret_n += for_each_role(f, sql);
}

/* Who may update or delete rows may lock them: the catalog knows. */
static PGresult *tables_with_locks(struct fixture *f)
{
    PGresult *r =
        PQexec(f->db.conn,
               "SELECT c.relname FROM pg_class AS c WHERE c.relnamespace = 'pawl'::regnamespace"
               " AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND EXISTS ("
               "  SELECT FROM pg_roles AS r WHERE r.rolname IN " ROLES
               "  AND (has_any_column_privilege(r.oid, c.oid, 'UPDATE')"
               "       OR has_table_privilege(r.oid, c.oid, 'DELETE'))) ORDER BY 1");

    assert_true(PQntuples(r) > 10);
    return r;
}

static void a_row_holds_up_its_own_job_only(void **state)
{
    static const char *const strengths[] = {"KEY SHARE", "SHARE", "NO KEY UPDATE"};
    struct fixture *f = *state;
    PGresult *tables = tables_with_locks(f);
    int n = 0;

    for (size_t i = 0; i < sizeof(strengths) / sizeof(*strengths); i++)
        lock_rows(f, "job", strengths[i], &n);
    for (int row = 0; row < PQntuples(tables); row++)
        lock_rows(f, PQgetvalue(tables, row, 0), "UPDATE", &n);
    PQclear(tables);
    assert_true(n > 20);
}

/* ── by a statement ── */

static void a_statement_of_an_operator_holds_up_nobody(void **state)
{
    static const char *const statements[] = {
        "INSERT INTO pawl.queue (name, paused_at) VALUES ('q', now())",
        "INSERT INTO pawl.kind (name) VALUES ('k')",
        "INSERT INTO pawl.queue_producer VALUES ('q', 'pawl_producer')",
        "INSERT INTO pawl.stop SELECT id, token, 'me' FROM pawl.job WHERE id = 2",
        "UPDATE pawl.worker SET beat_at = now()",
        "UPDATE pawl.claim SET lease_until = lease_until",
        "UPDATE pawl.lane SET max_running = 2",
        /* What job_locked cannot see: the settle's own insert waits for it. */
        "INSERT INTO pawl.child VALUES (1, 2, 'k', 'done')",
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(statements) / sizeof(*statements); i++)
        assert_true(for_each_role(f, statements[i]) > 0);
}

/* ── by a table ── */

static void a_weak_lock_of_a_table_holds_up_nobody(void **state)
{
    static const char *const modes[] = {
        "ACCESS SHARE", "ROW SHARE", "ROW EXCLUSIVE", "SHARE UPDATE EXCLUSIVE"};
    struct fixture *f = *state;
    PGresult *tables = tables_with_locks(f);
    char sql[3000];
    size_t len;

    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
        len = (size_t)snprintf(sql, sizeof(sql), "DO $$ BEGIN ");
        for (int row = 0; row < PQntuples(tables); row++)
            len += (size_t)snprintf(sql + len,
                                    sizeof(sql) - len,
                                    "BEGIN LOCK TABLE pawl.%s IN %s MODE;"
                                    " EXCEPTION WHEN insufficient_privilege THEN NULL; END; ",
                                    PQgetvalue(tables, row, 0),
                                    modes[i]);
        snprintf(sql + len, sizeof(sql) - len, "END $$");
        assert_int_equal(for_each_role(f, sql), N_ROLES);
    }
    PQclear(tables);
}

/* All wait, as they must; nothing is lost, and the log says why. */
static void a_table_that_is_locked_is_waited_for(void **state)
{
    struct fixture *f = *state;
    struct crew crew;
    char sqlstate[6];

    start_all(f, &crew, 30000);
    PGconn *other =
        stranger(f, "pawl_worker", "LOCK TABLE pawl.job IN EXCLUSIVE MODE", sqlstate, 6);

    assert_string_equal(sqlstate, "");
    crew_let_go(&crew);
    run_until(f, crew_stats(&crew)->settle_errors >= 2);
    assert_int_equal(crew.settled, 0);
    PQfinish(other);
    run_until(f, crew.settled == OTHERS + 1);
    assert_int_equal(crew.stale, 0);
    crew_stop(&crew);
}

/* ── what becomes of the one ── */

/* Its lease is renewed for as long as it takes. */
static void what_is_set_aside_is_kept(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    start_all(f, &crew, 1500);
    PGconn *other = session(f, "BEGIN; SELECT FROM pawl.job WHERE id = 2 FOR UPDATE");

    crew_let_go(&crew);
    run_until(f, others_settled(f));
    run_until(f, count_of(f, "pawl.claim WHERE lease_until > claimed_at + interval '3 s'") == 1);
    assert_int_equal(crew.settled, OTHERS);
    assert_int_equal(crew_stats(&crew)->settle_locked, 1);
    PQfinish(other);
    run_until(f, crew.settled == OTHERS + 1);
    assert_int_equal(crew.stale, 0);
    crew_stop(&crew);
    assert_int_equal(crew.left, 0);
    assert_int_equal(count_of(f, "pawl.claim"), 0);
}

/* What is aside is no sign that the database is behind: others are claimed. */
static void a_worker_whose_only_job_is_held_goes_on(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.run_ms = HELD;
    crew.options.lease_ms = 1500;
    enqueue(f, 1);
    crew_start(&crew);
    run_until(f, crew.now == 1);
    PGconn *other = session(f, "BEGIN; SELECT FROM pawl.job FOR UPDATE");

    crew_let_go(&crew);
    run_until(f, crew_stats(&crew)->settle_locked == 1);
    /* For longer than a third of the lease. */
    run_until(f, count_of(f, "pawl.claim WHERE lease_until > claimed_at + interval '3 s'") == 1);
    enqueue(f, 1);
    run_until(f, crew.now == 1);
    crew_let_go(&crew);
    run_until(f, crew.settled == 1);
    PQfinish(other);
    run_until(f, crew.settled == 2);
    crew_stop(&crew);
    assert_all_done(f, 2);
}

static void a_worker_that_stops_leaves_it_to_its_lease(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    start_all(f, &crew, 30000);
    PGconn *other = session(f, "BEGIN; SELECT FROM pawl.job WHERE id = 2 FOR UPDATE");

    crew_let_go(&crew);
    run_until(f, others_settled(f));
    crew_stop(&crew);
    assert_int_equal(crew.left, 1);
    PQfinish(other);
    assert_int_equal(count_of(f, "pawl.job AS j JOIN pawl.claim AS c USING (token) WHERE j.id = 2"),
                     1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        engine_test(every_function_of_every_role_is_here),
        engine_test(a_watch_in_an_open_transaction_holds_nothing),
        engine_test(a_function_holds_up_its_own_job_only),
        engine_test(a_row_holds_up_its_own_job_only),
        engine_test(a_statement_of_an_operator_holds_up_nobody),
        engine_test(a_weak_lock_of_a_table_holds_up_nobody),
        engine_test(a_table_that_is_locked_is_waited_for),
        engine_test(what_is_set_aside_is_kept),
        engine_test(a_worker_whose_only_job_is_held_goes_on),
        engine_test(a_worker_that_stops_leaves_it_to_its_lease),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

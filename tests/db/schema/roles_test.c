/*
 * Who may do what: each statement of sql/query under each role, compared with the line "-- Roles:"
 * of its file, so that a new statement is covered by its own header. And that nobody gets further
 * than that.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dirent.h>

#include "store_fixture.h"

#define STATEMENTS_MAX 128
#define PARAMETERS_MAX 32

/* The roles of the matrix. `stranger` has no grants at all; it belongs to this test's database. */
enum { PRODUCER, ENQUEUER, WORKER, READER, SERVER, OWNER, STRANGER, ROLES };

static const char *const words[ROLES] = {
    "producer", "enqueuer", "worker", "reader", "server", "owner", "stranger"};

struct statement {
    char name[64];
    char roles[128]; /* what follows "-- Roles:" */
    char sql[32768]; /* without comments */
};

static size_t load(struct statement *statements)
{
    const char *folder = getenv("PAWL_TEST_QUERIES");
    size_t n = 0;

    assert_non_null(folder);
    DIR *dir = opendir(folder);

    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
        const char *dot = strrchr(e->d_name, '.');
        struct statement *to = &statements[n];
        char path[1024];
        char line[1024];
        size_t len = 0;

        if (dot == NULL || strcmp(dot, ".sql") != 0)
            continue;
        assert_true(++n <= STATEMENTS_MAX);
        snprintf(to->name, sizeof(to->name), "%.*s", (int)(dot - e->d_name), e->d_name);
        snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
        FILE *file = fopen(path, "r");

        assert_non_null(file);
        to->roles[0] = '\0';
        while (fgets(line, sizeof(line), file) != NULL) {
            if (strncmp(line, "-- Roles: ", 10) == 0)
                snprintf(to->roles, sizeof(to->roles), "%.*s", 127, line + 10);
            if (strncmp(line, "--", 2) == 0)
                continue;
            len += (size_t)snprintf(to->sql + len, sizeof(to->sql) - len, "%s", line);
            assert_true(len < sizeof(to->sql));
        }
        fclose(file);
        if (to->roles[0] == '\0')
            fail_msg("%s.sql has no line \"-- Roles: ...\"", to->name);
    }
    closedir(dir);
    assert_true(n > 10);
    return n;
}

/* Whether the header lets the role in. A server does all that producers, workers and readers do,
 * and the owner everything; `all` means whoever may use the schema. */
static bool allowed(const struct statement *statement, int role)
{
    const char *roles = statement->roles;

    if (role == STRANGER)
        return false;
    if (role == OWNER || strncmp(roles, "all", 3) == 0 || strstr(roles, words[role]) != NULL)
        return true;
    return role == SERVER && strncmp(roles, "owner", 5) != 0;
}

static int parameters(const char *sql)
{
    int most = 0;

    for (const char *at = strchr(sql, '$'); at != NULL; at = strchr(at + 1, '$')) {
        int number = (int)strtol(at + 1, NULL, 10);

        if (number > most)
            most = number;
    }
    assert_true(most <= PARAMETERS_MAX);
    return most;
}

/* COPY and LOCK cannot be prepared; a COPY is begun, and given up. PostgreSQL knows none for those whose rows it checks (0A000). */
static bool may_copy(struct store *s, const struct statement *statement, const char *role)
{
    char sql[200];

    snprintf(sql, sizeof(sql), "BEGIN; SET LOCAL ROLE %s", role);
    testdb_exec(&s->db, sql);
    PGresult *r = PQexec(s->db.conn, statement->sql);
    bool copying = PQresultStatus(r) == PGRES_COPY_IN;
    bool fine = copying || PQresultStatus(r) == PGRES_COMMAND_OK;
    const char *sqlstate = PQresultErrorField(r, PG_DIAG_SQLSTATE);

    if (!fine && strcmp(sqlstate, "42501") != 0 && strcmp(sqlstate, "0A000") != 0)
        fail_msg("%s as %s: %s", statement->name, role, PQresultErrorMessage(r));
    PQclear(r);
    if (copying)
        PQputCopyEnd(s->db.conn, "only to see");
    while ((r = PQgetResult(s->db.conn)) != NULL)
        PQclear(r);
    testdb_exec(&s->db, "ROLLBACK");
    return fine;
}

/* VACUUM cannot be prepared, and only warns those who may not. */
static bool may_vacuum(struct store *s, const char *role)
{
    char sql[200];

    snprintf(
        sql, sizeof(sql), "pg_has_role('%s', 'pawl_owner', 'USAGE') AS f(may) WHERE may", role);
    return count_of(s, sql) == 1;
}

/* Planning and starting it checks every right without doing anything. False: permission denied. */
static bool may(struct store *s, const struct statement *statement, const char *role)
{
    static char sql[33000];
    char nulls[PARAMETERS_MAX * 6 + 3] = "";
    int n = parameters(statement->sql);

    /* BEGIN, COMMIT and LISTEN are nobody's to refuse, and cannot be prepared. */
    if (strncmp(statement->name, "tx_", 3) == 0 || strstr(statement->name, "listen") != NULL)
        return true;
    if (strcmp(statement->name, "job_copy") == 0 || strcmp(statement->name, "job_copy_lock") == 0)
        return may_copy(s, statement, role);
    if (strstr(statement->sql, "\nVACUUM") != NULL || strncmp(statement->sql, "VACUUM", 6) == 0)
        return may_vacuum(s, role);
    for (int i = 0; i < n; i++) {
        size_t len = strlen(nulls);

        snprintf(nulls + len, sizeof(nulls) - len, "%s", i > 0 ? ", NULL" : "(NULL");
    }
    testdb_exec(&s->db, "BEGIN; SET LOCAL plan_cache_mode = force_generic_plan");
    snprintf(sql, sizeof(sql), "SET LOCAL ROLE %s", role);
    testdb_exec(&s->db, sql);
    snprintf(sql,
             sizeof(sql),
             "PREPARE p AS %s; EXPLAIN EXECUTE p%s%s",
             statement->sql,
             nulls,
             n > 0 ? ")" : "");
    PGresult *r = PQexec(s->db.conn, sql);
    bool fine = PQresultStatus(r) == PGRES_TUPLES_OK;
    const char *sqlstate = PQresultErrorField(r, PG_DIAG_SQLSTATE);

    if (!fine && (sqlstate == NULL || strcmp(sqlstate, "42501") != 0))
        fail_msg("%s as %s: %s", statement->name, role, PQresultErrorMessage(r));
    PQclear(r);
    testdb_exec(&s->db, "ROLLBACK; DEALLOCATE ALL");
    return fine;
}

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

static void every_statement_is_for_the_roles_its_header_names(void **state)
{
    struct store *s = *state;
    struct statement *statements = calloc(STATEMENTS_MAX, sizeof(*statements));

    assert_non_null(statements);
    size_t n = load(statements);
    int wrong = 0;

    create_stranger(s);
    for (size_t i = 0; i < n; i++) {
        for (int role = 0; role < ROLES; role++) {
            char name[80];

            /* Whether it may use the schema at all is the next test's question. */
            if (role == STRANGER && strncmp(statements[i].roles, "all", 3) == 0)
                continue;
            snprintf(name, sizeof(name), "pawl_%s", words[role]);
            bool is = may(s, &statements[i], role == STRANGER ? s->db.name : name);

            if (is != allowed(&statements[i], role)) {
                print_error("%s is %s %s\n",
                            statements[i].name,
                            is ? "open to" : "refused to",
                            words[role]);
                wrong++;
            }
        }
    }
    drop_stranger(s);
    free(statements);
    assert_int_equal(wrong, 0);
}

static void as(struct store *s, const char *role)
{
    char sql[100];

    snprintf(sql, sizeof(sql), "SET ROLE %s", role);
    testdb_exec(&s->db, sql);
}

/* Not only planned: done. */
static void each_role_can_do_its_work(void **state)
{
    struct store *s = *state;
    static const char *const queues[] = {"q"};
    struct uuid token;
    char text[100];

    as(s, "pawl_producer");
    enqueue_plain(s, 3);
    as(s, "pawl_worker");
    worker_start_bind(
        begin(s),
        &(struct worker_start){.id = s->worker, .name = "w", .queues = queues, .n_queues = 1});
    PQclear(run(s, STMT(worker_start)));
    struct claimed c = claim(s, 2);
    struct job_settle items[2] = {
        item(&c, 0, (struct outcome){.kind = OUTCOME_DONE, .delay_ms = -1}),
        item(&c, 1, (struct outcome){.kind = OUTCOME_RETRY, .error = "e", .delay_ms = -1})};
    struct states states = settle(s, items, 2, &c.token);

    assert_string_equal(states.of[0], "done");
    assert_string_equal(states.of[1], "retrying");
    c = claim(s, 1);
    claim_renew_bind(begin(s), &s->worker, &c.token, 1, 1, &(struct worker_beat){.running = 1});
    PGresult *r = run(s, STMT(claim_renew));

    assert_int_equal(PQntuples(r), 1);
    token = claim_renew_row(r, 0);
    assert_memory_equal(&token, &c.token, sizeof(token));
    PQclear(r);
    testdb_exec(&s->db, "UPDATE pawl.claim SET lease_until = '-infinity'");
    sweep_on(s, s->db.conn, 10, text, sizeof(text));
    assert_string_equal(text, "3 retrying");
    begin(s);
    PQclear(run(s, STMT(history_maintain)));
    worker_stop_bind(begin(s), &s->worker);
    PQclear(run(s, STMT(worker_stop)));
    as(s, "pawl_reader");
    assert_int_equal(count_of(s, "pawl.jobs"), 3);
    as(s, "pawl_server");
    queue_pause_bind(begin(s), "q", "me");
    PQclear(run(s, STMT(queue_pause)));
    queue_resume_bind(begin(s), "q");
    PQclear(run(s, STMT(queue_resume)));
}

/* Statements that are functions are only entered when they are planned: here all of their ways are gone. */
#define CLAIM(token, most)                                                                      \
    "SELECT FROM pawl.claim_lanes('q', '{k}', " most ", '" token "', gen_random_uuid(), 60000," \
    " '{-infinity,-infinity}', '{0,0}', '{4,4}', '{true,false}', 8);"
#define A_TOKEN "a0000000-0000-4000-8000-000000000001"
#define B_TOKEN "a0000000-0000-4000-8000-000000000002"
#define C_TOKEN "a0000000-0000-4000-8000-000000000003"
#define STEP(id, token, outcome, children)                                                              \
    "SELECT FROM pawl.machines_settle('{" id "}', '{" token "}', '{" outcome                            \
    "}', '{s}', '{x}', '{0}',"                                                                          \
    " '{go}', '{9}', '{NULL}', '{true}', '{false}', '{s}', '{2}', '{1}', '{true}', '{true}', " children \
    ", '{}');"
#define NO_CHILDREN  "'{}', '{}', '{}', '{}', '{}', '{}'"
#define TWO_CHILDREN "'{1,1}', '{q,q}', '{k,k}', '{a,b}', '{4,4}', '{1,1}'"
#define SETTLE(ids, token, outcomes, over)                                                       \
    "SELECT FROM pawl.jobs_settle('{" ids "}', array_fill('" token "'::uuid, ARRAY[cardinality(" \
    " '{" ids "}'::int[])]), '{" outcomes "}', '{-1,-1}', '{NULL,r}', '{e,NULL}', '{1,1}', 'w'," \
    " '{" over "}', '{t,t}');"

static void each_role_can_do_what_functions_do(void **state)
{
    struct store *s = *state;

    as(s, "pawl_producer");
    testdb_exec(&s->db,
                "SELECT pawl.enqueue('k', queue => 'q', unique_key => 'x', retry => 'quadratic',"
                "  lane => 'l', correlation => 'c', deadline => '1 h')");
    testdb_exec(&s->db, "SELECT pawl.enqueue('k', queue => 'q'), pawl.watch(1)");
    testdb_exec(&s->db, "SELECT pawl.signal(2, 'go'), pawl.signal_all('c', 'go', '{}', 'key')");
    as(s, "pawl_worker");
    testdb_exec(&s->db, CLAIM(A_TOKEN, "2"));
    /* 1 goes on, is tried again, and fails; 2 spawns 3 and 4, of which one ends. */
    testdb_exec(&s->db, STEP("1", A_TOKEN, "next", NO_CHILDREN));
    testdb_exec(&s->db, STEP("2", A_TOKEN, "spawn", TWO_CHILDREN));
    testdb_exec(&s->db, "SELECT pawl.lanes_leave('{q}', '{l}', '{1}')");
    testdb_exec(&s->db, CLAIM(B_TOKEN, "1"));
    testdb_exec(&s->db, SETTLE("1", B_TOKEN, "retry", B_TOKEN));
    testdb_exec(&s->db, "UPDATE pawl.job SET due_at = now()");
    testdb_exec(&s->db, CLAIM(B_TOKEN, "4"));
    testdb_exec(&s->db, SETTLE("1,3", B_TOKEN, "fail,done", ""));
    assert_text(
        s, "SELECT string_agg(job_id || ' ' || children_left, ',') FROM pawl.machine", "2 1");
    /* 2 goes on without 4, which runs and is asked to end, and 4 ends with the sweep. */
    testdb_exec(&s->db,
                "SELECT pawl.children_let_go(2, token, true) FROM pawl.job WHERE id = 2;"
                "SELECT pawl.orphans_end(10), pawl.lanes_mend(10)");
    testdb_exec(&s->db, "UPDATE pawl.claim SET lease_until = '-infinity'");
    assert_int_equal(count_of(s, "pawl.claims_sweep(10, NULL, 0, 0) AS c WHERE c.id > 0"), 2);
    testdb_exec(&s->db, "UPDATE pawl.job SET due_at = now()");
    /* 5 is an orphan of 2, which ends. */
    testdb_exec(&s->db, CLAIM(C_TOKEN, "2"));
    testdb_exec(&s->db, STEP("2", C_TOKEN, "spawn", TWO_CHILDREN));
    testdb_exec(
        &s->db,
        "SELECT pawl.jobs_end('{2}', '{failed}', NULL, NULL, NULL, NULL, NULL, NULL, NULL)");
    assert_int_equal(count_of(s, "pawl.orphan"), 2);
    assert_int_equal(testdb_int(&s->db, "SELECT pawl.orphans_end(10)"), 2);
    assert_int_equal(count_of(s, "pawl.job"), 0);
    assert_int_equal(count_of(s, "pawl.machine"), 0);
    assert_int_equal(count_of(s, "pawl.job_option"), 0);
    testdb_exec(&s->db, "RESET ROLE");
    assert_text(s,
                "SELECT string_agg(id || ' ' || state, ', ' ORDER BY id) FROM pawl.history",
                "1 failed, 2 failed, 3 done, 4 cancelled, 5 cancelled, 6 cancelled");
    as(s, "pawl_server");
    testdb_exec(&s->db, "SELECT pawl.retry(1), pawl.machine_restart(2, 's', 'y')");
    testdb_exec(&s->db,
                "SELECT pawl.machine_restart(max(id), 't') FROM pawl.job;"
                "SELECT pawl.cancel(id, 'me') FROM pawl.job");
    testdb_exec(&s->db,
                "BEGIN; SELECT pawl.job_start_at(pawl.enqueue('k', queue => 'q'), 's'); COMMIT;"
                "SELECT pawl.cancel(id, 'me') FROM pawl.job");
    assert_int_equal(count_of(s, "pawl.history"), 9);
    assert_int_equal(count_of(s, "pawl.machine"), 0);
}

static void no_role_gets_further(void **state)
{
    struct store *s = *state;

    static const struct {
        const char *role;
        const char *sql;
    } tries[] = {
        {"pawl_producer",
         "INSERT INTO pawl.job (queue, kind, payload, attempt) VALUES ('q', 'k', '', 1)"},
        {"pawl_producer",
         "INSERT INTO pawl.job (id, queue, kind, payload) VALUES (1, 'q', 'k', '')"},
        {"pawl_producer", "SELECT payload FROM pawl.job"},
        {"pawl_producer", "SELECT FROM pawl.jobs"},
        {"pawl_producer", "SELECT pawl.history_maintain()"},
        {"pawl_producer",
         "INSERT INTO pawl.job (queue, kind, payload, token)"
         " VALUES ('q', 'k', '', gen_random_uuid())"},
        {"pawl_producer", "SELECT pawl.cancel(1)"},
        {"pawl_producer", "SELECT pawl.retry(1)"},
        {"pawl_producer",
         "SELECT pawl.jobs_end('{1}', '{done}', NULL, NULL, NULL, NULL, NULL, NULL, NULL)"},
        {"pawl_producer", "SELECT pawl.cancel_idle(1, 'me')"},
        {"pawl_producer", "SELECT pawl.job_start_at(1, 's')"},
        {"pawl_producer",
         "INSERT INTO pawl.job (queue, kind, payload, is_machine) VALUES ('q', 'k', '', true)"},
        {"pawl_producer", "INSERT INTO pawl.machine (job_id, step) VALUES (1, 's')"},
        {"pawl_producer", "INSERT INTO pawl.job_option (job_id, watched) VALUES (1, true)"},
        {"pawl_producer", "SELECT FROM pawl.job_option"},
        {"pawl_producer", "SELECT state FROM pawl.machine"},
        {"pawl_producer", "SELECT pawl.guard_maintain()"},
        {"pawl_producer", "INSERT INTO pawl.guard VALUES (gen_random_uuid(), 1, 0)"},
        {"pawl_producer", "DELETE FROM pawl.guard"},
        {"pawl_producer", "INSERT INTO pawl.queue_producer VALUES ('q', 'pawl_enqueuer')"},
        {"pawl_producer", "UPDATE pawl.job SET has_options = true"},
        {"pawl_producer", "UPDATE pawl.job_option SET watched = true"},
        {"pawl_enqueuer", "INSERT INTO pawl.job (queue, kind, payload) VALUES ('q', 'k', '')"},
        {"pawl_enqueuer", "SELECT pawl.enqueue('k')"},
        {"pawl_enqueuer", "SELECT pawl.enqueue('k', unique_key => 'x')"},
        {"pawl_enqueuer", "SELECT pawl.enqueue_many('k', '{1,2}'::jsonb[])"},
        {"pawl_enqueuer", "SELECT pawl.enqueue_many('[{\"kind\":\"k\"}]')"},
        {"pawl_enqueuer", "SELECT pawl.cancel(1)"},
        {"pawl_enqueuer", "INSERT INTO pawl.queue_producer VALUES ('q', 'pawl_enqueuer')"},
        {"pawl_enqueuer", "SELECT payload FROM pawl.job"},
        {"pawl_enqueuer", "SELECT FROM pawl.jobs"},
        {"pawl_enqueuer", "SELECT FROM pawl.job_option"},
        {"pawl_enqueuer", "SELECT FROM pawl.machine"},
        {"pawl_enqueuer", "INSERT INTO pawl.job_option (job_id) VALUES (1)"},
        {"pawl_enqueuer", "SELECT pawl.children_let_go(1, NULL, true)"},
        {"pawl_reader", "SELECT pawl.enqueue('k')"},
        {"pawl_reader", "SELECT pawl.cancel(1)"},
        {"pawl_reader", "SELECT pawl.assert_claim(1, gen_random_uuid())"},
        {"pawl_worker", "SELECT pawl.enqueue('k')"},
        {"pawl_worker", "SELECT pawl.cancel(1)"},
        {"pawl_worker", "SELECT pawl.cancel_idle(1, 'me')"},
        {"pawl_worker", "SELECT pawl.children_cancel('{1}')"},
        {"pawl_worker", "SELECT pawl.job_start_at(1, 's')"},
        {"pawl_worker", "SELECT pawl.retry_put(1, NULL, 1, 1)"},
        {"pawl_worker", "DELETE FROM pawl.orphan"},
        {"pawl_worker", "UPDATE pawl.job SET deadline_at = NULL"},
        {"pawl_worker", "UPDATE pawl.job SET parent_id = 1"},
        {"pawl_worker", "UPDATE pawl.job SET join_of = NULL"},
        {"pawl_server", "DELETE FROM pawl.orphan"},
        {"pawl_server", "SELECT pawl.children_cancel('{1}')"},
        {"pawl_reader", "SELECT pawl.claims_sweep(1, NULL, 0, 0)"},
        {"pawl_reader", "UPDATE pawl.machine SET step = 's'"},
        {"pawl_reader", "DELETE FROM pawl.job_option"},
        {"pawl_worker", "UPDATE pawl.job SET lane = 'l'"},
        {"pawl_server", "INSERT INTO pawl.guard VALUES (gen_random_uuid(), 1, 0)"},
        {"pawl_worker",
         "INSERT INTO pawl.job (queue, kind, payload, errors) VALUES ('q', 'k', '', '[]')"},
        {"pawl_worker", "UPDATE pawl.job SET payload = ''"},
        {"pawl_worker", "UPDATE pawl.job SET queue = 'other'"},
        {"pawl_worker", "SELECT FROM pawl.history"},
        {"pawl_worker", "DELETE FROM pawl.history"},
        {"pawl_worker", "UPDATE pawl.queue SET keep_days = 0"},
        {"pawl_reader", "UPDATE pawl.job SET token = NULL"},
        {"pawl_reader", "DELETE FROM pawl.claim"},
        {"pawl_reader", "SELECT FROM pawl.job FOR UPDATE"},
        {"pawl_server", "DELETE FROM pawl.history"},
        {"pawl_server", "DELETE FROM pawl.queue"},
        {"pawl_server", "UPDATE pawl.migration SET checksum = ''"},
        {"pawl_server", "CREATE TABLE pawl.mine ()"},
        {"pawl_server", "DROP TABLE pawl.history_default"},
        {"pawl_server", "SET ROLE pawl_owner"},
    };

    for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
        char sql[300];

        testdb_exec(&s->db, "RESET SESSION AUTHORIZATION");
        snprintf(sql, sizeof(sql), "SET SESSION AUTHORIZATION %s", tries[i].role);
        testdb_exec(&s->db, sql);
        PGresult *r = PQexec(s->db.conn, tries[i].sql);
        const char *sqlstate = PQresultErrorField(r, PG_DIAG_SQLSTATE);

        if (sqlstate == NULL || strcmp(sqlstate, "42501") != 0)
            fail_msg("%s: %s: not refused", tries[i].role, tries[i].sql);
        PQclear(r);
    }
    testdb_exec(&s->db, "RESET SESSION AUTHORIZATION");
}

static void nothing_is_granted_to_public(void **state)
{
    struct store *s = *state;

    /* NULL stands for the default, which for functions and types includes PUBLIC. */
    assert_int_equal(
        count_of(s,
                 "(SELECT coalesce(relacl, acldefault('r', relowner)) FROM pg_class"
                 "  WHERE relnamespace = 'pawl'::regnamespace"
                 " UNION ALL SELECT coalesce(proacl, acldefault('f', proowner)) FROM pg_proc"
                 "  WHERE pronamespace = 'pawl'::regnamespace"
                 " UNION ALL SELECT coalesce(typacl, acldefault('T', typowner)) FROM pg_type"
                 "  WHERE typnamespace = 'pawl'::regnamespace AND typtype IN ('e', 'd')"
                 " UNION ALL SELECT coalesce(nspacl, acldefault('n', nspowner)) FROM pg_namespace"
                 "  WHERE nspname = 'pawl') AS o(acl), aclexplode(o.acl) AS a"
                 " WHERE a.grantee = 0"),
        0);
    create_stranger(s);
    as(s, s->db.name);
    PGresult *r = PQexec(s->db.conn, "SELECT FROM pawl.migration");
    char sqlstate[6] = "";

    snprintf(sqlstate, sizeof(sqlstate), "%s", PQresultErrorField(r, PG_DIAG_SQLSTATE));
    PQclear(r);
    testdb_exec(&s->db, "RESET ROLE");
    drop_stranger(s);
    assert_string_equal(sqlstate, "42501");
}

static void functions_of_the_owner_pin_their_search_path(void **state)
{
    struct store *s = *state;

    assert_true(count_of(s, "pg_proc WHERE pronamespace = 'pawl'::regnamespace AND prosecdef") > 0);
    assert_int_equal(
        count_of(s,
                 "pg_proc WHERE pronamespace = 'pawl'::regnamespace AND prosecdef"
                 " AND NOT coalesce(proconfig, '{}') @> '{\"search_path=pg_catalog, pg_temp\"}'"),
        0);
}

/* Whoever may create objects puts look-alikes in front; the owner's function must not see them. */
static void look_alikes_are_not_called_with_the_owners_rights(void **state)
{
    struct store *s = *state;

    testdb_exec(
        &s->db,
        "CREATE TABLE public.trap (who text); GRANT ALL ON public.trap TO PUBLIC;"
        "GRANT CREATE ON SCHEMA public TO pawl_worker;"
        "SELECT pawl.history_maintain();"
        "INSERT INTO pawl.queue (name, keep_days) VALUES ('a', 30);"
        "SET ROLE pawl_worker;"
        "CREATE FUNCTION public.sprung(text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO public.trap VALUES (current_user); RETURN $1; END $$;"
        "CREATE FUNCTION public.to_regclass(text) RETURNS regclass LANGUAGE sql AS"
        " $$ SELECT public.sprung($1)::regclass $$;"
        "CREATE FUNCTION public.to_char(date, text) RETURNS text LANGUAGE sql AS"
        " $$ SELECT public.sprung('20300101') $$;"
        "CREATE FUNCTION public.format(text, text, date, date) RETURNS text LANGUAGE sql AS"
        " $$ SELECT public.sprung('SELECT 1') $$;"
        "CREATE FUNCTION public.cat(text, text) RETURNS text LANGUAGE sql AS"
        " $$ SELECT public.sprung($1) $$;"
        "CREATE OPERATOR public.|| (FUNCTION = public.cat, LEFTARG = text, RIGHTARG = text);"
        "CREATE FUNCTION public.day(date, integer) RETURNS date LANGUAGE sql AS"
        " $$ SELECT public.sprung('2030-01-01')::date $$;"
        "CREATE OPERATOR public.+ (FUNCTION = public.day, LEFTARG = date, RIGHTARG = integer);"
        "CREATE TEMP TABLE pg_inherits AS SELECT * FROM pg_catalog.pg_inherits;"
        "CREATE TEMP TABLE pg_class AS SELECT * FROM pg_catalog.pg_class;"
        "SET search_path = public, pg_temp, pg_catalog");
    /* The trap works for those who fall for it. */
    assert_int_equal(testdb_int(&s->db, "SELECT length('a'::text || 'b'::text)"), 1);
    assert_int_equal(testdb_int(&s->db, "SELECT made FROM pawl.history_maintain()"), 4);
    testdb_exec(&s->db, "RESET ROLE");
    assert_text(s, "SELECT string_agg(who, ' ') FROM public.trap", "pawl_worker");
    testdb_exec(&s->db, "RESET search_path; DROP FUNCTION public.to_char(date, text)");
    assert_int_equal(count_of(s,
                              "pg_catalog.pg_inherits JOIN pg_catalog.pg_class ON oid = inhrelid"
                              " WHERE inhparent = 'pawl.history'::regclass AND relname BETWEEN"
                              " 'history_' || to_char(current_date + 30, 'YYYYMMDD')"
                              " AND 'history_' || to_char(current_date + 33, 'YYYYMMDD')"),
                     4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(every_statement_is_for_the_roles_its_header_names),
        store_test(each_role_can_do_its_work),
        store_test(each_role_can_do_what_functions_do),
        store_test(no_role_gets_further),
        store_test(nothing_is_granted_to_public),
        store_test(functions_of_the_owner_pin_their_search_path),
        store_test(look_alikes_are_not_called_with_the_owners_rights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

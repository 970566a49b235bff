/*
 * What statements read that must cost the same whatever lies around: pages, counted by PostgreSQL, at two
 * sizes. No time is measured. Many jobs of a kind that a worker does not run; many dead rows that a snapshot
 * somewhere keeps from being removed.
 */
#include "plans_fixture.h"

#define SMALL 2000
#define LARGE 20000

static int setup(void **state)
{
    if (plans_setup(state) != 0)
        return -1;
    plans_listen();
    testdb_exec(&store.db,
                "SET auto_explain.log_nested_statements = off; SET auto_explain.log_analyze = on;"
                "SET auto_explain.log_timing = off; SET auto_explain.log_buffers = on");
    return 0;
}

/* Pages that the statement touched, heap and indexes, in functions too: the first line is that of the topmost node. */
static long pages_said(void)
{
    const char *at = strstr(buf_str(&plans), "Buffers: shared");
    const char *hit = at != NULL ? strstr(at, "hit=") : NULL;
    const char *read = at != NULL ? strstr(at, "read=") : NULL;
    const char *end = at != NULL ? strchrnul(at, '\n') : NULL;
    long n = 0;

    if (at == NULL)
        fail_msg("no buffers:\n%s", buf_str(&plans));
    if (hit != NULL && hit < end)
        n += strtol(hit + strlen("hit="), NULL, 10);
    if (read != NULL && read < end)
        n += strtol(read + strlen("read="), NULL, 10);
    return n;
}

/* The second time, when the session knows its plans and the catalogue. */
static long pages_of(const struct stmt *stmt)
{
    plan_of(stmt, "force_generic_plan");
    plan_of(stmt, "force_generic_plan");
    return pages_said();
}

/* The statement finds n as current_setting('test.n'). */
static void fill(int n, const char *sql)
{
    char set[64];

    snprintf(set, sizeof(set), "SET test.n = %d", n);
    testdb_exec(&store.db, set);
    testdb_exec(&store.db, sql);
}

#define N "generate_series(1, current_setting('test.n')::int) AS n"

/* ── jobs of other kinds ── */

static struct job_claim claim_of(const char *const *kinds, size_t n_kinds, const char *from)
{
    struct job_claim asked = {
        .queue = "q",
        .kinds = kinds,
        .n_kinds = n_kinds,
        .limit = 10,
        .token = uuid_random(),
        .worker = store.worker,
        .lease_ms = 60000,
    };
    int64_t from_us = from != NULL ? testdb_int(&store.db, from) : INT64_MIN;

    for (size_t i = 0; i < JOB_PRIORITIES; i++)
        asked.from[i].due_us = asked.lane_from[i].due_us = from_us;
    return asked;
}

/* n jobs of kind m, then twenty of kind z and of kind b. In another order than on the disk, so that a scan that
 * reads the rows reads a page for each. */
static void behind_others(int n)
{
    testdb_exec(&store.db, "TRUNCATE pawl.job");
    fill(n,
         "INSERT INTO pawl.job (queue, kind, payload, due_at)"
         " SELECT 'q', 'm', '{}', now() - interval '1 h' * (1 + random()) FROM " N);
    testdb_exec(
        &store.db,
        "INSERT INTO pawl.job (queue, kind, payload, due_at)"
        " SELECT 'q', k, '{}', now() - interval '1 min' FROM generate_series(1, 20), unnest('{z,b}'::text[]) AS k");
    testdb_exec(&store.db, "VACUUM ANALYZE pawl.job");
}

struct cost {
    long first; /* a claim from the beginning */
    long next;  /* from the mark */
    long look;  /* at all that is behind the mark */
};

static struct cost cost_behind(const char *const *kinds, size_t n_kinds, int n)
{
    static const char mark[] =
        "SELECT (extract(epoch FROM min(due_at)) * 1e6)::bigint FROM pawl.job WHERE kind <> 'm'";
    struct cost cost;
    struct job_claim asked;
    struct job_marks from;
    struct job_marks to;

    behind_others(n);
    session_of_a_worker(STMT(session));
    asked = claim_of(kinds, n_kinds, NULL);
    job_claim_bind(begin(&store), &asked);
    cost.first = pages_of(STMT(job_claim));
    asked = claim_of(kinds, n_kinds, mark);
    job_claim_bind(begin(&store), &asked);
    cost.next = pages_of(STMT(job_claim));
    for (size_t i = 0; i < JOB_LEVELS; i++) {
        from.at[i] = (struct job_watermark){.due_us = INT64_MIN};
        to.at[i] = asked.from[0];
    }
    job_look_bind(begin(&store), "q", kinds, n_kinds, &from, &to);
    cost.look = pages_of(STMT(job_look));
    session_of_anybody();
    print_message("# %zu kinds behind %d of another: first %ld, next %ld, look %ld pages\n",
                  n_kinds,
                  n,
                  cost.first,
                  cost.next,
                  cost.look);
    return cost;
}

/* More pages for each job of another kind. */
static double growth(long few, long many)
{
    return (double)(many - few) / (LARGE - SMALL);
}

/* Entries of an index: more than a hundred in a page. */
#define INDEX_ONLY 0.01
#define EACH_ROW   1.2

static void a_worker_with_one_kind_reads_no_jobs_of_another(void **state)
{
    static const char *const kinds[] = {"z"};
    struct cost few = cost_behind(kinds, 1, SMALL);
    struct cost many = cost_behind(kinds, 1, LARGE);

    (void)state;
    assert_true(growth(few.first, many.first) < INDEX_ONLY);
    assert_true(many.next <= few.next + 2);
    assert_true(growth(few.look, many.look) < INDEX_ONLY);
}

/* Others are between its first kind and its last: the first claim reads them, all later ones do not. */
static void a_worker_with_several_kinds_reads_others_once(void **state)
{
    static const char *const kinds[] = {"b", "z"};
    struct cost few = cost_behind(kinds, 2, SMALL);
    struct cost many = cost_behind(kinds, 2, LARGE);

    (void)state;
    assert_true(growth(few.first, many.first) < EACH_ROW);
    assert_true(many.next <= few.next + 2);
}

/* ── dead rows that a snapshot keeps ── */

#define TOKEN  "a0000000-0000-4000-8000-000000000001"
#define WORKER "b0000000-0000-4000-8000-000000000001"

/* n jobs were enqueued, claimed and settled, each with a claim of its own. */
static void work_off(int n)
{
    fill(n,
         "INSERT INTO pawl.job (queue, kind, payload, due_at) SELECT 'q', 'z', '{}',"
         "  now() - interval '1 h' * (1 + random()) FROM " N ";"
         "UPDATE pawl.job SET token = gen_random_uuid(), attempt = 1"
         "  WHERE due_at < now() - interval '1 h';"
         "DELETE FROM pawl.job WHERE due_at < now() - interval '1 h';"
         "INSERT INTO pawl.claim (token, worker, lease_until, job_ids) SELECT gen_random_uuid(),"
         "  gen_random_uuid(), now(), ARRAY[n] FROM " N ";"
         "DELETE FROM pawl.claim WHERE cardinality(job_ids) = 1");
}

struct upkeep {
    long sweep;
    long renewal;
    long mark;  /* of a worker that goes to sleep */
    long claim; /* from the safe marks */
};

static struct upkeep upkeep_now(const char *when)
{
    static const char *const kinds[] = {"z"};
    static const char *const queues[] = {"q"};
    struct worker_beat beat = {.running = 1, .slots = 4};
    struct upkeep cost;
    struct uuid token;
    struct uuid worker;
    struct job_claim asked;

    assert_true(uuid_parse(TOKEN, &token) && uuid_parse(WORKER, &worker));
    session_of_a_worker(STMT(session));
    /* First, as in a worker: a renewal moves an old claim to the end of the ledger. */
    claim_renew_bind(begin(&store), &worker, &token, 1, 60000, &beat);
    PQclear(run(&store, STMT(claim_renew)));
    cost.renewal = pages_of(STMT(claim_renew));
    claim_sweep_bind(
        begin(&store), 100, NULL, testdb_int(&store.db, "SELECT min(seq) FROM pawl.claim"));
    cost.sweep = pages_of(STMT(claim_sweep));
    sleeper_set_bind(begin(&store), &worker, queues, 1, true);
    cost.mark = pages_of(STMT(sleeper_set));
    /* Jobs of their own each time: one that was measured has left versions on its page. */
    testdb_exec(&store.db,
                "DELETE FROM pawl.job WHERE queue = 'q';"
                "INSERT INTO pawl.job (queue, kind, payload)"
                " SELECT 'q', 'z', '{}' FROM generate_series(1, 20)");
    asked = claim_of(kinds,
                     1,
                     "SELECT (extract(epoch FROM min(due_at)) * 1e6)::bigint FROM pawl.job"
                     " WHERE queue = 'q'");
    job_claim_bind(begin(&store), &asked);
    cost.claim = pages_of(STMT(job_claim));
    session_of_anybody();
    print_message("# %s: sweep %ld, renewal %ld, mark %ld, claim %ld pages\n",
                  when,
                  cost.sweep,
                  cost.renewal,
                  cost.mark,
                  cost.claim);
    return cost;
}

/* Not dearer: a page more where a table has got another level of its index, or a version that the measuring
 * itself leaves behind. */
static void assert_same(const char *what, long few, long many)
{
    if (many > few + 4)
        fail_msg("%s: %ld pages after %d jobs, %ld after %d", what, few, SMALL, many, LARGE);
}

/* Plans stay with a session, so those are measured that were made when there were many jobs. */
static void a_held_snapshot_makes_no_upkeep_dearer(void **state)
{
    PGconn *held = PQconnectdb(store.db.conninfo);

    (void)state;
    testdb_exec(&store.db,
                "TRUNCATE pawl.job, pawl.claim; INSERT INTO pawl.job (queue, kind, payload)"
                " SELECT 'other', 'z', '{}' FROM generate_series(1, 10000); ANALYZE pawl.job;"
                "INSERT INTO pawl.claim (token, worker, lease_until, job_ids)"
                " VALUES ('" TOKEN "', '" WORKER "', now() + interval '1 h', '{1,2}')");
    PQclear(PQexec(held, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pawl.job"));
    struct upkeep before = upkeep_now("before");

    work_off(SMALL);
    struct upkeep few = upkeep_now("after a few");

    work_off(LARGE);
    struct upkeep many = upkeep_now("after many");

    PQfinish(held);
    assert_same("sweep", few.sweep, many.sweep);
    assert_same("renewal", few.renewal, many.renewal);
    assert_same("mark", few.mark, many.mark);
    assert_same("claim", few.claim, many.claim);
    assert_true(few.sweep <= 2 * before.sweep && few.claim <= 2 * before.claim);
}

/* A worker plans its sweep when it starts, perhaps on an empty database, and keeps the plan. */
static void a_sweep_that_was_planned_without_jobs_does_not_read_them_all(void **state)
{
    long few;
    long many;

    (void)state;
    testdb_exec(&store.db,
                "DISCARD PLANS; TRUNCATE pawl.job, pawl.claim;"
                "DELETE FROM pg_statistic WHERE starelid = 'pawl.job'::regclass");
    session_of_a_worker(STMT(session));
    claim_sweep_bind(begin(&store), 100, NULL, 0);
    few = pages_of(STMT(claim_sweep));
    fill(LARGE, "INSERT INTO pawl.job (queue, kind, payload) SELECT 'other', 'z', '{}' FROM " N);
    claim_sweep_bind(begin(&store), 100, NULL, 0);
    many = pages_of(STMT(claim_sweep));
    session_of_anybody();
    print_message("# a sweep planned without jobs: %ld pages, %ld with %d\n", few, many, LARGE);
    if (many > few + 4)
        fail_msg("a sweep reads %ld pages without jobs and %ld with %d", few, many, LARGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_with_one_kind_reads_no_jobs_of_another),
        cmocka_unit_test(a_worker_with_several_kinds_reads_others_once),
        cmocka_unit_test(a_held_snapshot_makes_no_upkeep_dearer),
        cmocka_unit_test(a_sweep_that_was_planned_without_jobs_does_not_read_them_all),
    };
    return cmocka_run_group_tests(tests, setup, plans_teardown);
}

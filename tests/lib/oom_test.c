/*
 * Out of memory, everywhere: each scene of the public API is played with its first allocation failing,
 * then its second, and so on until it comes through, on whichever thread it happens. Whatever fails is a
 * defined error or a job that comes back; nothing crashes, and nothing leaks. The linker sends malloc,
 * calloc, realloc and strdup of our own code through here (--wrap).
 */
#include "lib_fixture.h"

#define NEVER INT64_MAX
#define QUIET_PLAYS \
    3 /* plays in a row without a failure: a scene with threads is not the same every time */
#define PLAYS_MAX 5000

static _Atomic int64_t countdown = NEVER;
static atomic_int n_failed;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__wrap_strdup(const char *text);

static bool fails_now(void)
{
    if (atomic_load(&countdown) == NEVER || atomic_fetch_sub(&countdown, 1) != 0)
        return false;
    atomic_fetch_add(&n_failed, 1);
    return true;
}

void *__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails_now() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    return fails_now() ? NULL : __real_realloc(p, size);
}

char *__wrap_strdup(const char *text)
{
    return fails_now() ? NULL : __real_strdup(text);
}

struct scene {
    void (*prepare)(struct fixture *f); /* may be NULL, like check; nothing fails in them */
    int (*play)(struct fixture *f);     /* 0 or the code with which it gave up */
    void (*check)(struct fixture *f);
};

static void torture(struct fixture *f, const struct scene *scene)
{
    int quiet = 0;

    for (int64_t n = 0; quiet < QUIET_PLAYS; n++) {
        int before = atomic_load(&n_failed);

        assert_true(n < PLAYS_MAX);
        f->err.code = 0;
        if (scene->prepare != NULL)
            scene->prepare(f);
        atomic_store(&countdown, n);
        int rc = scene->play(f);

        atomic_store(&countdown, NEVER);
        if (scene->check != NULL)
            scene->check(f);
        bool failed = atomic_load(&n_failed) > before;

        quiet = failed ? 0 : quiet + 1;
        if (!failed)
            OK(rc);
        else if (rc != 0)
            EXPECT(PAWL_ENOMEM, rc);
    }
    printf("# survived %d failed allocations so far\n", atomic_load(&n_failed));
}

static int play_new(struct fixture *f)
{
    const char *queues[] = {"one", "two", "three"};
    struct pawl_worker *worker = NULL;

    f->options.queues = queues;
    f->options.n_queues = LEN(queues);
    int rc = pawl_worker_new(&f->options, &worker, &f->err);

    for (int i = 0; rc == 0 && i < 100; i++) {
        char kind[16];

        snprintf(kind, sizeof(kind), "kind-%d", i);
        rc = pawl_worker_handle(worker, kind, do_nothing, f, &f->err);
    }
    pawl_worker_free(worker);
    return rc;
}

static void making_a_worker(void **state)
{
    torture(*state, &(struct scene){.play = play_new});
}

/* Nobody is there; until that is known all is made that a worker with a server has. */
static int play_remote(struct fixture *f)
{
    struct pawl_worker_options options = f->options;
    struct pawl_worker *worker = NULL;

    options.conninfo = NULL;
    options.until_empty = false;
    options.server = "127.0.0.1:1";
    options.token = "a-token";
    int rc = pawl_worker_new(&options, &worker, &f->err);

    if (rc == 0)
        rc = pawl_worker_handle(worker, "all", do_nothing, f, &f->err);
    if (rc == 0)
        rc = pawl_worker_run(worker, &f->err);
    pawl_worker_free(worker);
    return rc == PAWL_ECONN ? 0 : rc;
}

static void a_worker_with_a_server(void **state)
{
    struct fixture *f = *state;
    struct pawl_worker_options options = f->options;
    struct pawl_worker *worker = NULL;

    options.conninfo = NULL;
    options.until_empty = false;
    options.server = "127.0.0.1:1";
    if (pawl_worker_new(&options, &worker, &f->err) == PAWL_EINVAL &&
        strstr(f->err.message, "without the server") != NULL)
        skip();
    pawl_worker_free(worker);
    torture(f, &(struct scene){.play = play_remote});
}

static enum pawl_outcome do_all(struct pawl_run *run, void *data)
{
    char result[3000];

    (void)data;
    memset(result, 'x', sizeof(result));
    if (pawl_run_progress(run, "half way", NULL) < 0)
        return pawl_run_retry(run, 0, "no memory for its progress");
    switch (pawl_run_id(run) % 3) {
    case 0:
        return pawl_run_done(run, result, sizeof(result));
    case 1:
        return pawl_run_retry(run, 3600000, "%.2000s", result);
    default:
        return pawl_run_fail(run, "%.2000s", result);
    }
}

static void prepare_jobs(struct fixture *f)
{
    testdb_exec(&f->db, "DELETE FROM pawl.job; DELETE FROM pawl.claim; DELETE FROM pawl.history");
    enqueue(f, "all", 3);
}

static int play_jobs(struct fixture *f)
{
    struct pawl_worker *worker = NULL;
    int rc = pawl_worker_new(&f->options, &worker, &f->err);

    if (rc == 0)
        rc = pawl_worker_handle(worker, "all", do_all, f, &f->err);
    if (rc == 0)
        rc = pawl_worker_run(worker, &f->err);
    pawl_worker_free(worker);
    /* Left to their lease: as good as a crash. */
    return rc == PAWL_EINTERRUPTED ? 0 : rc;
}

/* None is lost, whatever happened. */
static void check_jobs(struct fixture *f)
{
    assert_int_equal(count_of(f, "pawl.jobs"), 3);
    assert_int_equal(count_of(f, "pawl.jobs WHERE id % 3 < 2 AND state = 'failed'"), 0);
}

static void working(void **state)
{
    struct fixture *f = *state;

    f->options.drain_ms = 100;
    torture(f, &(struct scene){prepare_jobs, play_jobs, check_jobs});
}

/* Commands beside functions: what could not be started is tried again, and nothing is lost. */
static void prepare_commands(struct fixture *f)
{
    testdb_exec(&f->db, "DELETE FROM pawl.job; DELETE FROM pawl.claim; DELETE FROM pawl.history");
    enqueue(f, "cat", 2);
    enqueue(f, "noop", 1);
}

static void ignore_settled(void *data, const struct pawl_settled *settled)
{
    (void)data;
    (void)settled;
}

static int play_commands(struct fixture *f)
{
    struct pawl_worker_options options = f->options;
    struct pawl_worker *worker = NULL;

    options.settled = ignore_settled;
    options.log_stderr = true;
    int rc = pawl_worker_new(&options, &worker, &f->err);

    if (rc == 0)
        rc = pawl_worker_handle(worker, "noop", do_nothing, f, &f->err);
    if (rc == 0)
        rc = pawl_worker_exec(worker, "cat", "cat; echo done >&2", &f->err);
    if (rc == 0)
        rc = pawl_worker_run(worker, &f->err);
    pawl_worker_free(worker);
    return rc == PAWL_EINTERRUPTED ? 0 : rc;
}

static void check_commands(struct fixture *f)
{
    assert_int_equal(count_of(f, "pawl.jobs"), 3);
    assert_int_equal(count_of(f, "pawl.jobs WHERE state = 'failed'"), 0);
}

static void commands(void **state)
{
    struct fixture *f = *state;

    f->options.drain_ms = 100;
    torture(f, &(struct scene){prepare_commands, play_commands, check_commands});
}

/* Nobody is there; until that is known all is made that a call has. */
static int play_server(struct fixture *f)
{
    struct pawl_server_options options = PAWL_SERVER_OPTIONS_INIT;
    struct pawl_job_new jobs[] = {PAWL_JOB_NEW_INIT, PAWL_JOB_NEW_INIT};
    struct pawl_server *server = NULL;

    options.address = "127.0.0.1:1";
    options.token = "a-token";
    options.timeout_ms = 100;
    jobs[0].kind = jobs[1].kind = "k";
    jobs[1].unique_key = "key";
    int rc = pawl_job_check(&jobs[1], &f->err);

    if (rc == 0)
        rc = pawl_server_new(&options, &server, &f->err);
    if (rc == 0)
        rc = pawl_server_enqueue(server, jobs, LEN(jobs), NULL, NULL, &f->err);
    pawl_server_free(server);
    return rc == PAWL_ECONN || (rc == PAWL_EINVAL && server == NULL) ? 0 : rc;
}

static void producing_by_a_server(void **state)
{
    torture(*state, &(struct scene){.play = play_server});
}

static int play_enqueue(struct fixture *f)
{
    const char *tags[] = {"a", "b"};
    struct pawl_job_new jobs[] = {PAWL_JOB_NEW_INIT, PAWL_JOB_NEW_INIT};
    struct pawl_job_info *info = NULL;
    int64_t ids[2] = {77, 77};
    bool existed;

    jobs[0].kind = jobs[1].kind = "k";
    jobs[1].unique_key = "key";
    jobs[1].tags = tags;
    jobs[1].n_tags = 2;
    jobs[1].lane = "lane";
    jobs[1].trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    int rc = pawl_enqueue(f->db.conn, &jobs[0], &ids[0], &existed, &f->err);

    if (rc < 0)
        assert_int_equal(ids[0], 77);
    if (rc == 0)
        rc = pawl_enqueue_many(f->db.conn, jobs, 2, ids, NULL, &f->err);
    if (rc == 0)
        rc = pawl_job_get(f->db.conn, ids[1], &info, &f->err);
    if (rc == 0)
        pawl_job_info_free(info);
    if (rc == 0)
        rc = pawl_job_cancel(f->db.conn, ids[1], "somebody", NULL, &f->err);
    if (rc == 0)
        rc = pawl_job_wait(f->db.conn, ids[1], -1, &info, &f->err);
    if (rc == 0)
        pawl_job_info_free(info);
    if (rc == 0)
        rc = pawl_job_retry(f->db.conn, ids[1], NULL, &f->err);
    return rc;
}

/* The connection is as good as before. */
static void check_conn(struct fixture *f)
{
    assert_int_equal(PQtransactionStatus(f->db.conn), PQTRANS_IDLE);
    testdb_exec(&f->db,
                "DELETE FROM pawl.job; DELETE FROM pawl.job_option; DELETE FROM pawl.guard");
}

static void producing(void **state)
{
    torture(*state, &(struct scene){NULL, play_enqueue, check_conn});
}

/* ── machines ── */

static enum pawl_outcome do_steps(struct pawl_run *run, void *data)
{
    const char *step = pawl_run_step(run);
    struct pawl_job_new children[] = {PAWL_JOB_NEW_INIT, PAWL_JOB_NEW_INIT};
    struct pawl_join join = PAWL_JOIN_INIT;

    (void)data;
    if (step == NULL)
        return pawl_run_next(run, "wait", "state", 5, 0);
    if (strcmp(step, "wait") == 0)
        return pawl_run_await(run, "a,b", "spawn", NULL, 0, 3600000);
    if (strcmp(step, "spawn") == 0) {
        children[0].kind = children[1].kind = "noop";
        join.cancel = true;
        return pawl_run_spawn(run, children, 2, &join, "end", "more state", 10);
    }
    if (strcmp(step, "end") == 0 && pawl_run_children(run) != NULL)
        return pawl_run_done(run, NULL, 0);
    return pawl_run_fail(run, "it is lost");
}

static void prepare_machines(struct fixture *f)
{
    testdb_exec(&f->db,
                "DELETE FROM pawl.job; DELETE FROM pawl.claim; DELETE FROM pawl.history;"
                "DELETE FROM pawl.machine; DELETE FROM pawl.signal; DELETE FROM pawl.child");
    enqueue(f, "steps", 1);
    testdb_exec(&f->db, "SELECT pawl.signal(id, 'a') FROM pawl.job");
}

static int play_machines(struct fixture *f)
{
    struct pawl_worker *worker = NULL;
    int rc = pawl_worker_new(&f->options, &worker, &f->err);

    if (rc == 0)
        rc = pawl_worker_handle(worker, "steps", do_steps, f, &f->err);
    if (rc == 0)
        rc = pawl_worker_handle(worker, "noop", do_nothing, f, &f->err);
    if (rc == 0)
        rc = pawl_worker_run(worker, &f->err);
    pawl_worker_free(worker);
    return rc == PAWL_EINTERRUPTED ? 0 : rc;
}

/* Not lost, not failed, and no child too many. */
static void check_machines(struct fixture *f)
{
    char *wrong =
        testdb_text(&f->db,
                    "SELECT coalesce(string_agg(state || errors::text, ','), 'none') FROM pawl.jobs"
                    " WHERE kind = 'steps' HAVING count(*) <> 1 OR bool_or(state = 'failed')");

    if (wrong != NULL)
        fail_msg("the machine: %s", wrong);
    free(wrong);
    assert_in_range(count_of(f, "pawl.jobs WHERE kind = 'noop'"), 0, 2);
    if (count_of(f, "pawl.history WHERE kind = 'steps'") == 1)
        assert_int_equal(count_of(f, "pawl.history WHERE kind = 'noop' AND state = 'done'"), 2);
}

static void machines(void **state)
{
    struct fixture *f = *state;

    f->options.drain_ms = 100;
    torture(f, &(struct scene){prepare_machines, play_machines, check_machines});
}

static int play_signal(struct fixture *f)
{
    struct pawl_job_new job = PAWL_JOB_NEW_INIT;
    bool sent = false;
    int64_t id;

    job.kind = "k";
    job.correlation = "c";
    job.deadline_ms = 1000;
    int rc = pawl_enqueue(f->db.conn, &job, &id, NULL, &f->err);

    if (rc == 0)
        rc = pawl_job_signal(f->db.conn, id, "n", "{\"a\": [1, 2]}", "key", &sent, &f->err);
    if (rc == 0)
        assert_true(sent);
    if (rc == 0)
        rc = pawl_signal_all(f->db.conn, "c", "n", NULL, NULL, NULL, &f->err);
    if (rc == 0)
        rc = pawl_job_restart(f->db.conn, id, "s", "{\"a\": 1}", NULL, &f->err);
    return rc;
}

static void signals(void **state)
{
    torture(*state, &(struct scene){NULL, play_signal, check_conn});
}

/* ── pools ── */

static int make_thing(void *data, void **ret_thing, struct pawl_err *err)
{
    (void)err;
    *ret_thing = data;
    return 0;
}

static void destroy_thing(void *data, void *thing)
{
    assert_ptr_equal(data, thing);
}

static int play_pool(struct fixture *f)
{
    struct pawl_pool_options options = PAWL_POOL_OPTIONS_INIT;
    struct pawl_pool *pool = NULL;
    void *things[3] = {NULL};

    options.max = 3;
    options.create = make_thing;
    options.destroy = destroy_thing;
    options.data = f;
    int rc = pawl_pool_new(&options, &pool, &f->err);

    for (size_t i = 0; rc == 0 && i < LEN(things); i++)
        rc = pawl_pool_take(pool, 0, &things[i], &f->err);
    for (size_t i = 0; i < LEN(things); i++) {
        if (things[i] != NULL)
            pawl_pool_give(pool, things[i], i == 1);
    }
    pawl_pool_free(pool);
    return rc;
}

static void pools(void **state)
{
    torture(*state, &(struct scene){.play = play_pool});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(making_a_worker),
        TEST(a_worker_with_a_server),
        TEST(working),
        TEST(commands),
        TEST(producing),
        TEST(producing_by_a_server),
        TEST(machines),
        TEST(signals),
        TEST(pools),
    };
    return cmocka_run_group_tests_name("lib out of memory", tests, NULL, NULL);
}

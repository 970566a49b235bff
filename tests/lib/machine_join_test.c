/* Machines through pawl.h: children and joins, and outcomes that are not possible. */
#include <stdalign.h>

#include "machine_fixture.h"

#define OLDER offsetof(struct pawl_job_new, correlation) /* as it was in the first version */

/* Its payload says what becomes of it: d(one), f(ailed), l(ater). */
static enum pawl_outcome do_child(struct pawl_run *run, void *data)
{
    const char *payload = pawl_run_payload(run, NULL);

    count_in(data);
    switch (payload[0]) {
    case 'd':
        return pawl_run_done(run, "{\"n\": 7}", 8);
    case 'f':
        return pawl_run_fail(run, "it broke");
    default:
        return pawl_run_snooze(run, HOUR_MS);
    }
}

/* How the parent of a test spawns, and what it found when it went on. */
static struct {
    const char *children; /* a letter each */
    struct pawl_join join;
    int left;
    char seen[4096];
} family;

static void family_init(const char *children)
{
    memset(&family, 0, sizeof(family));
    family.children = children;
    family.join = PAWL_JOIN_INIT;
    family.left = -1;
}

static enum pawl_outcome do_parent(struct pawl_run *run, void *data)
{
    struct pawl_job_new children[10];
    size_t n = strlen(family.children);

    (void)data;
    if (at_step(run, "joined")) {
        const char *seen = pawl_run_children(run);

        family.left = pawl_run_children_left(run);
        EXPECT_RUN(run, seen != NULL && strcmp(pawl_run_state(run, NULL), "s") == 0);
        snprintf(family.seen, sizeof(family.seen), "%s", seen);
        return go_on(run, "last", NULL);
    }
    if (at_step(run, "last")) {
        EXPECT_RUN(run, pawl_run_children(run) == NULL && pawl_run_children_left(run) == 0);
        return pawl_run_done(run, NULL, 0);
    }
    for (size_t i = 0; i < n; i++) {
        children[i] = PAWL_JOB_NEW_INIT;
        children[i].kind = "child";
        children[i].payload = family.children + i;
        children[i].payload_len = 1;
        children[i].max_attempts = 2;
        children[i].priority = 9;
    }
    return pawl_run_spawn(run, children, n, &family.join, "joined", "s", 1);
}

static int64_t run_family(struct fixture *f)
{
    int64_t id = new_job(f, "parent");

    make_worker(f, "parent", do_parent);
    OK(pawl_worker_handle(f->worker, "child", do_child, f, &f->err));
    OK(pawl_worker_run(f->worker, &f->err));
    pawl_worker_free(f->worker);
    f->worker = NULL;
    return id;
}

static int times(const char *text, const char *what)
{
    int n = 0;

    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        n++;
    return n;
}

static void a_parent_reads_what_its_children_came_to(void **state)
{
    struct fixture *f = *state;

    family_init("dfd");
    int64_t id = run_family(f);

    assert_is(f, id, "done");
    assert_int_equal(family.left, 0);
    assert_int_equal(times(family.seen, "\"kind\": \"child\""), 3);
    assert_int_equal(times(family.seen, "\"state\": \"done\""), 2);
    assert_int_equal(times(family.seen, "\"result\": {\"n\": 7}"), 2);
    assert_int_equal(times(family.seen, "\"state\": \"failed\""), 1);
    assert_int_equal(times(family.seen, "\"error\": \"it broke\""), 1);
    assert_int_equal(
        count_of(f, "pawl.history WHERE kind = 'child' AND priority = 9 AND max_attempts = 2"), 3);
}

static void a_join_of_nothing_goes_on_at_once(void **state)
{
    struct fixture *f = *state;

    family_init("");
    assert_is(f, run_family(f), "done");
    assert_string_equal(family.seen, "[]");
}

static void a_quorum_does_not_wait_for_the_rest(void **state)
{
    struct fixture *f = *state;

    family_init("ldld");
    family.join.quorum = 2;
    assert_is(f, run_family(f), "done");
    assert_int_equal(family.left, 2);
    assert_int_equal(times(family.seen, "\"state\": \"done\""), 2);
    /* They go on by themselves. */
    assert_int_equal(count_of(f, "pawl.job WHERE kind = 'child'"), 2);
}

static void what_is_left_is_cancelled_if_so_asked(void **state)
{
    struct fixture *f = *state;

    family_init("ldl");
    family.join.quorum = 1;
    family.join.cancel = true;
    assert_is(f, run_family(f), "done");
    assert_int_equal(family.left, 2);
    assert_int_equal(count_of(f, "pawl.history WHERE kind = 'child' AND state = 'cancelled'"), 2);
}

static void the_first_failure_ends_the_wait_if_so_asked(void **state)
{
    struct fixture *f = *state;

    family_init("llfl");
    int64_t patient = run_family(f);

    assert_is(f, patient, "waiting");
    family_init("llfl");
    family.join.fail_fast = true;
    assert_is(f, run_family(f), "done");
    assert_int_equal(family.left, 3);
    assert_int_equal(times(family.seen, "\"error\": \"it broke\""), 1);
}

#define MANY 10000

static enum pawl_outcome do_many(struct pawl_run *run, void *data)
{
    (void)data;
    if (at_step(run, "joined")) {
        EXPECT_RUN(run, times(pawl_run_children(run), "\"state\": \"done\"") == MANY);
        EXPECT_RUN(run, pawl_run_children_left(run) == 0);
        return pawl_run_done(run, NULL, 0);
    }
    struct pawl_job_new *children = calloc(MANY, sizeof(*children));

    EXPECT_RUN(run, children != NULL);
    for (size_t i = 0; i < MANY; i++) {
        children[i] = PAWL_JOB_NEW_INIT;
        children[i].kind = "noop";
    }
    enum pawl_outcome outcome = pawl_run_spawn(run, children, MANY, NULL, "joined", NULL, 0);

    free(children);
    return outcome;
}

static void ten_thousand_children_join_once(void **state)
{
    struct fixture *f = *state;
    int64_t id = new_job(f, "m");

    f->options.prefetch = 1000;
    work(f, "m", do_many);
    assert_is(f, id, "done");
    assert_int_equal(atomic_load(&f->n_runs), MANY);
    assert_int_equal(count_of(f, "pawl.child"), 0);
}

/* ── structs of other versions ── */

static enum pawl_outcome do_older(struct pawl_run *run, void *data)
{
    struct pawl_job_new child = PAWL_JOB_NEW_INIT;
    struct pawl_join join = PAWL_JOIN_INIT;
    alignas(8) unsigned char older[2 * OLDER];

    (void)data;
    if (at_step(run, "joined")) {
        EXPECT_RUN(run, pawl_run_children_left(run) == 0);
        return pawl_run_done(run, NULL, 0);
    }
    child.size = OLDER;
    child.kind = "noop";
    /* What an older program has behind its structs is not for us. */
    memcpy(older, &child, OLDER);
    memcpy(older + OLDER, &child, OLDER);
    join.size = offsetof(struct pawl_join, fail_fast);
    memset((char *)&join + join.size, 0xff, sizeof(join) - join.size);
    return pawl_run_spawn(run, (const void *)older, 2, &join, "joined", NULL, 0);
}

static void structs_of_an_older_program_are_understood(void **state)
{
    struct fixture *f = *state;
    struct pawl_job_new job = PAWL_JOB_NEW_INIT;
    alignas(8) unsigned char older[2 * OLDER];
    int64_t ids[3];

    job.size = OLDER;
    job.kind = "m";
    memcpy(older, &job, OLDER);
    memcpy(older + OLDER, &job, OLDER);
    OK(pawl_enqueue_many(f->db.conn, (const void *)older, 2, ids, NULL, &f->err));
    job.deadline_ms = -1; /* beyond its size */
    OK(pawl_enqueue(f->db.conn, &job, &ids[2], NULL, &f->err));
    work(f, "m", do_older);
    assert_is(f, ids[0], "done");
    assert_is(f, ids[1], "done");
    assert_is(f, ids[2], "done");
    assert_int_equal(count_of(f, "pawl.history WHERE kind = 'noop'"), 6);
}

/* ── outcomes that are not possible ── */

#define NAMES_8 "a,a,a,a,a,a,a,a"
#define NAMES_64 \
    NAMES_8 "," NAMES_8 "," NAMES_8 "," NAMES_8 "," NAMES_8 "," NAMES_8 "," NAMES_8 "," NAMES_8
#define NAME_32  "0123456789abcdefghijklmnopqrstuv"
#define NAME_129 NAME_32 NAME_32 NAME_32 NAME_32 "x"

/* As pawl_run_next (no names, no children), _await or _spawn, and a word of the error. */
struct impossible {
    const char *word;
    const char *step;
    const char *names;
    bool spawns;
    size_t state_len;
    struct pawl_job_new child; /* what differs from a good one */
    size_t n;                  /* 0: one */
    size_t quorum;
    size_t join_size;
    size_t second_size;
};

static const struct impossible impossible[] = {
    {"step", NULL, NULL, .spawns = false},
    {"step", "", NULL, .spawns = false},
    {"step", "a b", NULL, .spawns = false},
    {"step", NAME_129, NULL, .spawns = false},
    {"state has 1048577 bytes", "s", NULL, .state_len = PAWL_STATE_MAX + 1},
    {"signal", "s", "", .spawns = false},
    {"signal", "s", ",", .spawns = false},
    {"signal", "s", "a,,b", .spawns = false},
    {"signal", "s", "a, b", .spawns = false},
    {"signal", "s", NAME_129, .spawns = false},
    {"more than 64 signals", "s", NAMES_64 ",a", .spawns = false},
    {"step", NULL, "a", .spawns = false},
    {"state has 1048577 bytes", "s", "a", .state_len = PAWL_STATE_MAX + 1},
    {"step", NULL, .spawns = true},
    {"state has 1048577 bytes", "s", .spawns = true, .state_len = PAWL_STATE_MAX + 1},
    {"quorum of 2 of 1", "s", .spawns = true, .quorum = 2},
    {"pawl_join", "s", .spawns = true, .join_size = 3},
    {"kind", "s", .spawns = true, .child = {.kind = ""}},
    {"kind", "s", .spawns = true, .child = {.kind = "a b"}},
    {"version", "s", .spawns = true, .child = {.kind = "a@b"}},
    {"queue", "s", .spawns = true, .child = {.queue = "a b"}},
    {"priority", "s", .spawns = true, .child = {.priority = 10}},
    {"priority", "s", .spawns = true, .child = {.priority = 65540}},
    {"max attempts 1001", "s", .spawns = true, .child = {.max_attempts = 1001}},
    {"NULL and has a length", "s", .spawns = true, .child = {.payload_len = 1}},
    {"16777217 bytes", "s", .spawns = true, .child = {.payload = "", .payload_len = 16777217}},
    {"more than kind", "s", .spawns = true, .child = {.delay_ms = 1}},
    {"more than kind", "s", .spawns = true, .child = {.lane = "l"}},
    {"more than kind", "s", .spawns = true, .child = {.unique_key = "k"}},
    {"more than kind", "s", .spawns = true, .child = {.trace = "t"}},
    {"more than kind", "s", .spawns = true, .child = {.deadline_ms = 1}},
    {"child 1 of 1: struct pawl_job_new", "s", .spawns = true, .child = {.size = 3}},
    {"child 2 of 2: its size", "s", .spawns = true, .n = 2, .second_size = OLDER},
};

static char large[PAWL_STATE_MAX + 1];

/* Good but for what is given. */
static struct pawl_job_new child_of(const struct impossible *i)
{
    struct pawl_job_new child = i->child;

    child.size = child.size != 0 ? child.size : sizeof(child);
    child.kind = child.kind != NULL ? child.kind : "noop";
    child.priority = child.priority != 0 ? child.priority : PAWL_PRIORITY_DEFAULT;
    return child;
}

static enum pawl_outcome do_impossible(struct pawl_run *run, void *data)
{
    const struct impossible *i = &impossible[atoi(pawl_run_payload(run, NULL)) - 1];
    struct pawl_job_new children[2] = {child_of(i), child_of(i)};
    struct pawl_join join = PAWL_JOIN_INIT;
    const void *state = i->state_len > 0 ? large : NULL;

    count_in(data);
    if (!i->spawns && i->names == NULL)
        return pawl_run_next(run, i->step, state, i->state_len, 0);
    if (!i->spawns)
        return pawl_run_await(run, i->names, i->step, state, i->state_len, -1);
    join.size = i->join_size != 0 ? i->join_size : join.size;
    join.quorum = i->quorum;
    children[1].size = i->second_size != 0 ? i->second_size : children[1].size;
    return pawl_run_spawn(run, children, i->n != 0 ? i->n : 1, &join, i->step, state, i->state_len);
}

static void what_is_not_possible_fails_the_step_alone(void **state)
{
    struct fixture *f = *state;
    char sql[200];

    retry_late(f, "bad");
    enqueue(f, "bad", LEN(impossible));
    work(f, "bad", do_impossible);
    assert_int_equal(atomic_load(&f->n_runs), LEN(impossible));
    for (size_t i = 0; i < LEN(impossible); i++) {
        snprintf(sql,
                 sizeof(sql),
                 "SELECT state || ': ' || (errors->-1->>'error') FROM pawl.jobs"
                 " WHERE payload = convert_to('%zu', 'UTF8')",
                 i + 1);
        char *what = testdb_text(&f->db, sql);

        if (what == NULL || strncmp(what, "retrying: ", 10) != 0 ||
            strstr(what, impossible[i].word) == NULL)
            fail_msg("%zu: %s; no word of \"%s\"", i, what, impossible[i].word);
        free(what);
    }
    assert_int_equal(count_of(f, "pawl.job WHERE is_machine OR kind = 'noop'"), 0);
}

static enum pawl_outcome do_null(struct pawl_run *run, void *data)
{
    static struct pawl_job_new *crowd;
    size_t n = 100001;

    (void)data;
    switch (((const char *)pawl_run_payload(run, NULL))[0]) {
    case '1':
        return pawl_run_await(run, NULL, "s", NULL, 0, -1);
    case '2':
        return pawl_run_spawn(run, NULL, 1, NULL, "s", NULL, 0);
    default:
        crowd = calloc(n, sizeof(*crowd));
        EXPECT_RUN(run, crowd != NULL);
        for (size_t i = 0; i < n; i++) {
            crowd[i] = PAWL_JOB_NEW_INIT;
            crowd[i].kind = "noop";
        }
        enum pawl_outcome outcome = pawl_run_spawn(run, crowd, n, NULL, "s", NULL, 0);

        free(crowd);
        return outcome;
    }
}

static void nothing_and_too_much_fail_the_step_alone(void **state)
{
    struct fixture *f = *state;

    retry_late(f, "null");
    enqueue(f, "null", 3);
    work(f, "null", do_null);
    assert_int_equal(count_of(f, "pawl.jobs WHERE state = 'retrying'"), 3);
    assert_int_equal(count_of(f, "pawl.jobs WHERE errors::text LIKE '%await needs the name%'"), 1);
    assert_int_equal(count_of(f, "pawl.jobs WHERE errors::text LIKE '%children is NULL%'"), 1);
    assert_int_equal(
        count_of(f, "pawl.jobs WHERE errors::text LIKE '%100001 children, and the limit%'"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_parent_reads_what_its_children_came_to),
        TEST(a_join_of_nothing_goes_on_at_once),
        TEST(a_quorum_does_not_wait_for_the_rest),
        TEST(what_is_left_is_cancelled_if_so_asked),
        TEST(the_first_failure_ends_the_wait_if_so_asked),
        TEST(ten_thousand_children_join_once),
        TEST(structs_of_an_older_program_are_understood),
        TEST(what_is_not_possible_fails_the_step_alone),
        TEST(nothing_and_too_much_fail_the_step_alone),
    };
    return cmocka_run_group_tests_name("lib machines: children", tests, NULL, NULL);
}

/*
 * Children and joins, statement by statement: a parent goes on exactly once, when it should, knows
 * what its children came to, and its row is written once for a settle, not once for a child.
 */
#include "session_fixture.h"

#define MANY 10000

static struct child_new kids[MANY];

static struct sessions *with_kids(void **state)
{
    for (size_t i = 0; i < MANY; i++)
        kids[i] = (struct child_new){.queue = "q",
                                     .kind = "k",
                                     .payload = "{}",
                                     .payload_len = 2,
                                     .priority = 4,
                                     .max_attempts = 1};
    return *state;
}

/* Job 1 runs, and spawns. */
static void parent_spawns(struct sessions *t, size_t n, int32_t left, int16_t flags)
{
    struct taken m;
    struct going_on on = {.step = "sum",
                          .state = "{\"a\":1}",
                          .state_len = 7,
                          .children = kids,
                          .n_children = n,
                          .join_at = left,
                          .join_flags = flags};

    enqueue_plain(t->s, 1);
    take(t, &m, t->a, 1);
    assert_int_equal(m.jobs[0].id, 1);
    assert_int_equal(
        step(t,
             t->a,
             settles(t, &m, 0, (struct outcome){.kind = OUTCOME_SPAWN, .delay_ms = -1, .on = &on})),
        1);
    taken_clear(&m);
}

/* Claims n children and settles them in one statement, the i-th as kinds[i] (or all as kinds[0]). */
static void children_end_as(struct sessions *t, size_t n, const enum outcome_kind *each)
{
    struct taken c;
    struct job_settle items[JOBS_MAX];
    const struct job_settle *pointers[JOBS_MAX];

    take(t, &c, t->a, (int32_t)n);
    assert_int_equal(c.n, n);
    for (size_t i = 0; i < n; i++) {
        items[i] = (struct job_settle){.job = &c.jobs[i],
                                       .outcome = {.kind = each[i],
                                                   .result = "{\"n\": 7}",
                                                   .result_len = 8,
                                                   .error = "no luck",
                                                   .delay_ms = 0}};
        pointers[i] = &items[i];
    }
    job_settle_bind(begin(t->s), pointers, n, "host:1", &c.asked.token, 1);
    assert_int_equal(step(t, t->a, STMT(job_settle)), n);
    taken_clear(&c);
}

static void child_ends(struct sessions *t, enum outcome_kind kind)
{
    children_end_as(t, 1, &kind);
}

#define PARENT                                                                                    \
    "SELECT coalesce((SELECT children_left || CASE WHEN due_at <= clock_timestamp() THEN ' due' " \
    "ELSE '' END FROM pawl.job JOIN pawl.machine ON job_id = id WHERE id = 1), 'gone')"

/* The parent is claimed, at step sum, and no other. */
static struct taken *parent_runs(struct sessions *t, struct taken *p)
{
    take(t, p, t->b, 1);
    assert_int_equal(p->n, 1);
    assert_int_equal(p->jobs[0].id, 1);
    assert_string_equal(p->machines[0].step, "sum");
    assert_memory_equal(p->machines[0].state, "{\"a\":1}", 7);
    return p;
}

static void a_parent_joins_once_when_all_are_finished_failed_ones_included(void **state)
{
    struct sessions *t = with_kids(state);
    struct taken p;

    parent_spawns(t, 3, 0, 0);
    assert_text(t->s, PARENT, "3");
    child_ends(t, OUTCOME_DONE);
    child_ends(t, OUTCOME_FAIL);
    assert_text(t->s, PARENT, "1");
    child_ends(t, OUTCOME_REJECT);
    assert_text(t->s, PARENT, "0 due");
    parent_runs(t, &p);
    assert_int_equal(take_n(t, t->a, 5), 0);
    assert_int_equal(step(t, t->b, settles(t, &p, 0, as(OUTCOME_DONE))), 1);
    assert_text(t->s, PARENT, "gone");
    taken_clear(&p);
}

static void the_parent_reads_what_its_children_came_to(void **state)
{
    struct sessions *t = with_kids(state);
    struct taken p;

    const enum outcome_kind ends[] = {OUTCOME_DONE, OUTCOME_FAIL};

    parent_spawns(t, 2, 0, 0);
    children_end_as(t, 2, ends);
    parent_runs(t, &p);
    assert_int_equal(p.machines[0].children_left, 0);
    assert_string_equal(
        p.machines[0].children,
        "[{\"id\": 2, \"kind\": \"k\", \"error\": \"no luck\", \"state\": \"done\", \"result\": "
        "{\"n\": 7}}, {\"id\": 3, \"kind\": \"k\", \"error\": \"no luck\", \"state\": "
        "\"failed\", \"result\": {\"n\": 7}}]");
    /* A retry is shown them again, and going on forgets them. */
    assert_int_equal(step(t, t->b, settles(t, &p, 0, as(OUTCOME_RETRY))), 1);
    taken_clear(&p);
    parent_runs(t, &p);
    assert_non_null(p.machines[0].children);
    struct going_on on = {.step = "end"};

    assert_int_equal(
        step(t, t->b, settles(t, &p, 0, (struct outcome){.kind = OUTCOME_NEXT, .on = &on})), 1);
    assert_int_equal(count_of(t->s, "pawl.child"), 0);
    taken_clear(&p);
    take(t, &p, t->b, 1);
    assert_null(p.machines[0].children);
    taken_clear(&p);
}

static void the_first_that_fails_ends_the_wait_where_that_is_asked_for(void **state)
{
    struct sessions *t = with_kids(state);

    parent_spawns(t, 3, 0, JOIN_FAIL_FAST);
    child_ends(t, OUTCOME_DONE);
    assert_text(t->s, PARENT, "2");
    child_ends(t, OUTCOME_FAIL);
    assert_text(t->s, PARENT, "1 due");
}

static void a_quorum_ends_the_wait(void **state)
{
    struct sessions *t = with_kids(state);
    struct taken p;

    parent_spawns(t, 5, 2, 0); /* three of five */
    child_ends(t, OUTCOME_DONE);
    child_ends(t, OUTCOME_DONE);
    assert_text(t->s, PARENT, "3");
    child_ends(t, OUTCOME_DONE);
    assert_text(t->s, PARENT, "2 due");
    /* Due a moment ago, like the children that are left: the parent is no more urgent than they. */
    testdb_exec(&t->s->db, "UPDATE pawl.job SET due_at = now() + interval '1 h' WHERE id > 1");
    parent_runs(t, &p);
    assert_int_equal(p.machines[0].children_left, 2);
    taken_clear(&p);
}

/* What is left is cancelled when the parent goes on, in the order of the engine's statements. */
static void what_is_left_is_cancelled_where_that_is_asked_for(void **state)
{
    struct sessions *t = with_kids(state);
    struct taken p;
    struct taken running;
    struct going_on on = {.step = "end"};
    int64_t id = 1;
    const bool cancel = true;

    parent_spawns(t, 4, 3, JOIN_CANCEL);
    take(t, &running, t->a, 1); /* 2 runs on */
    child_ends(t, OUTCOME_DONE);
    testdb_exec(&t->s->db, "UPDATE pawl.job SET due_at = now() + interval '1 h' WHERE id > 1");
    parent_runs(t, &p);
    assert_true(p.machines[0].children_cancel);
    exec_on(t->b, "BEGIN");
    children_let_go_bind(begin(t->s), &id, &p.asked.token, &cancel, 1);
    step(t, t->b, STMT(children_let_go));
    assert_int_equal(
        step(t, t->b, settles(t, &p, 0, (struct outcome){.kind = OUTCOME_NEXT, .on = &on})), 1);
    exec_on(t->b, "COMMIT");
    assert_text(t->s,
                "SELECT string_agg(id || ' ' || state, ', ' ORDER BY id) FROM pawl.history",
                "3 done, 4 cancelled, 5 cancelled");
    assert_int_equal(count_of(t->s, "pawl.job WHERE id = 2 AND cancel_by = 'parent 1'"), 1);
    assert_int_equal(count_of(t->s, "pawl.child"), 0);
    assert_int_equal(step(t, t->a, settles(t, &running, 0, as(OUTCOME_RETRY))), 1);
    assert_int_equal(count_of(t->s, "pawl.history WHERE id = 2 AND state = 'cancelled'"), 1);
    taken_clear(&p);
    taken_clear(&running);
}

/* The parent cannot wait for them: each of them may be about to wait for it. */
static void what_is_left_and_locked_is_cancelled_by_the_sweep(void **state)
{
    struct sessions *t = with_kids(state);
    struct taken p;
    int64_t id = 1;
    const bool cancel = true;

    parent_spawns(t, 3, 2, JOIN_CANCEL);
    child_ends(t, OUTCOME_DONE);
    testdb_exec(&t->s->db, "UPDATE pawl.job SET due_at = now() + interval '1 h' WHERE id > 1");
    parent_runs(t, &p);
    taken_clear(&p);
    exec_on(t->c, "BEGIN; SELECT FROM pawl.job WHERE id = 3 FOR UPDATE");
    children_let_go_bind(begin(t->s), &id, &p.asked.token, &cancel, 1);
    step(t, t->b, STMT(children_let_go));
    assert_int_equal(count_of(t->s, "pawl.orphan WHERE child_id = 3 AND parent_id = 1"), 1);
    assert_int_equal(step(t, t->b, sweeps(t)), 1); /* it says that there is something to mend */
    step(t, t->b, mends(t));
    assert_int_equal(count_of(t->s, "pawl.orphan"), 1); /* still locked */
    exec_on(t->c, "ROLLBACK");
    step(t, t->b, mends(t));
    assert_text(t->s,
                "SELECT string_agg(id || ' ' || state, ', ' ORDER BY id) FROM pawl.history",
                "2 done, 3 cancelled, 4 cancelled");
    assert_int_equal(count_of(t->s, "pawl.orphan"), 0);
    assert_int_equal(step(t, t->b, sweeps(t)), 0);
}

/* One statement changes a row once: the parent's is changed for both reasons. */
static void a_child_that_ends_together_with_a_try_of_its_parent_is_shown_to_the_next(void **state)
{
    struct sessions *t = with_kids(state);
    struct taken child;
    struct taken p;

    parent_spawns(t, 2, 1, 0);
    child_ends(t, OUTCOME_DONE);
    testdb_exec(&t->s->db, "UPDATE pawl.job SET due_at = now() + interval '1 h' WHERE id > 1");
    parent_runs(t, &p);
    testdb_exec(&t->s->db, "UPDATE pawl.job SET due_at = now() WHERE id > 1");
    take(t, &child, t->a, 1);
    assert_int_equal(child.jobs[0].id, 3);
    const struct job_settle items[] = {
        {.job = &p.jobs[0], .outcome = {.kind = OUTCOME_RETRY, .error = "again", .delay_ms = 0}},
        {.job = &child.jobs[0], .outcome = {.kind = OUTCOME_FAIL, .error = "no luck"}}};
    const struct job_settle *pointers[] = {&items[0], &items[1]};

    job_settle_bind(begin(t->s), pointers, 2, "host:1", NULL, 0);
    assert_int_equal(step(t, t->a, STMT(job_settle)), 2);
    assert_text(t->s, PARENT, "0 due");
    taken_clear(&p);
    parent_runs(t, &p);
    assert_non_null(strstr(p.machines[0].children, "\"id\": 2"));
    assert_non_null(strstr(p.machines[0].children, "\"id\": 3"));
    taken_clear(&p);
    taken_clear(&child);
}

/* The step's statement alone would not see what was committed while it waited for the parent's row. */
static void a_child_that_ends_while_its_parent_goes_on_leaves_nothing_to_the_next_join(void **state)
{
    struct sessions *t = with_kids(state);
    struct taken p;
    struct going_on on = {.step = "end"};
    int64_t id = 1;
    const bool cancel = false;

    parent_spawns(t, 2, 1, 0);
    child_ends(t, OUTCOME_DONE);
    testdb_exec(&t->s->db, "UPDATE pawl.job SET due_at = now() + interval '1 h' WHERE id > 1");
    parent_runs(t, &p);
    testdb_exec(&t->s->db, "UPDATE pawl.job SET due_at = now() WHERE id > 1");
    exec_on(t->a, "BEGIN");
    child_ends(t, OUTCOME_DONE);
    exec_on(t->b, "BEGIN");
    children_let_go_bind(begin(t->s), &id, &p.asked.token, &cancel, 1);
    start(t, t->b, STMT(children_let_go));
    assert_waits(t, t->b, t->a);
    exec_on(t->a, "COMMIT");
    assert_int_equal(rows_of(finish(t->b)), 1);
    assert_int_equal(
        step(t, t->b, settles(t, &p, 0, (struct outcome){.kind = OUTCOME_NEXT, .on = &on})), 1);
    exec_on(t->b, "COMMIT");
    assert_int_equal(count_of(t->s, "pawl.child"), 0);
    taken_clear(&p);
}

/* A claim that was lost meanwhile cancels nobody's children. */
static void children_of_a_parent_that_another_worker_has_are_left_alone(void **state)
{
    struct sessions *t = with_kids(state);
    int64_t id = 1;
    const struct uuid other = uuid_random();
    const bool cancel = true;

    parent_spawns(t, 2, 0, JOIN_CANCEL);
    children_let_go_bind(begin(t->s), &id, &other, &cancel, 1);
    assert_int_equal(step(t, t->b, STMT(children_let_go)), 0);
    assert_text(t->s, "SELECT pawl.children_let_go(1, NULL, true)::text", "false");
    assert_int_equal(count_of(t->s, "pawl.job WHERE parent_id = 1 AND join_of = 1"), 2);
    assert_int_equal(count_of(t->s, "pawl.orphan"), 0);
}

static void a_parked_child_holds_the_join_open(void **state)
{
    struct sessions *t = with_kids(state);

    testdb_exec(&t->s->db, "INSERT INTO pawl.kind (name, park) VALUES ('k', true)");
    parent_spawns(t, 2, 0, 0);
    child_ends(t, OUTCOME_DONE);
    child_ends(t, OUTCOME_FAIL);
    assert_int_equal(count_of(t->s, "pawl.job WHERE waits_for = 'operator'"), 1);
    assert_text(t->s, PARENT, "1");
    testdb_exec(&t->s->db, "SELECT pawl.retry(3)");
    child_ends(t, OUTCOME_DONE);
    assert_text(t->s, PARENT, "0 due");
}

static void a_child_that_is_cancelled_counts(void **state)
{
    struct sessions *t = with_kids(state);
    struct taken p;

    parent_spawns(t, 1, 0, 0);
    testdb_exec(&t->s->db, "SELECT pawl.cancel(2, 'me')");
    assert_text(t->s, PARENT, "0 due");
    parent_runs(t, &p);
    assert_string_equal(
        p.machines[0].children,
        "[{\"id\": 2, \"kind\": \"k\", \"error\": \"cancelled by me\", \"state\": \"cancelled\"}]");
    taken_clear(&p);
}

static void a_child_whose_worker_died_for_the_last_time_counts(void **state)
{
    struct sessions *t = with_kids(state);

    parent_spawns(t, 1, 0, 0);
    assert_int_equal(take_n(t, t->a, 1), 1);
    testdb_exec(&t->s->db, "UPDATE pawl.claim SET lease_until = '-infinity'");
    assert_int_equal(step(t, t->b, sweeps(t)), 1);
    assert_text(t->s, PARENT, "0 due");
    assert_int_equal(count_of(t->s, "pawl.child WHERE state = 'failed'"), 1);
}

/* Only spawned ones are waited for. */
static void a_job_that_was_enqueued_with_a_parent_does_not_count(void **state)
{
    struct sessions *t = with_kids(state);

    parent_spawns(t, 1, 0, 0);
    testdb_exec(&t->s->db,
                "UPDATE pawl.job SET due_at = now() + interval '1 h' WHERE id = 2;"
                "SELECT pawl.enqueue('k', queue => 'q', parent => 1)");
    child_ends(t, OUTCOME_DONE);
    assert_text(t->s, PARENT, "1");
}

static void a_spawn_of_nobody_goes_on_at_once(void **state)
{
    struct sessions *t = with_kids(state);
    struct taken p;

    parent_spawns(t, 0, 0, 0);
    parent_runs(t, &p);
    assert_string_equal(p.machines[0].children, "[]");
    taken_clear(&p);
}

static void
ten_thousand_children_of_one_outcome_join_and_write_the_parent_once_a_settle(void **state)
{
    struct sessions *t = with_kids(state);
    struct taken p;

    parent_spawns(t, MANY, 0, 0);
    assert_text(t->s, PARENT, "10000");
    assert_int_equal(count_of(t->s, "pawl.job WHERE parent_id = 1"), MANY);
    testdb_exec(&t->s->db,
                "CREATE TABLE public.writes (of text);"
                "CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " INSERT INTO public.writes VALUES (tg_table_name); RETURN NULL; END $$;"
                "CREATE TRIGGER note AFTER UPDATE ON pawl.machine FOR EACH ROW"
                " WHEN (old.job_id = 1) EXECUTE FUNCTION public.note();"
                "CREATE TRIGGER note AFTER UPDATE ON pawl.job FOR EACH ROW WHEN (old.id = 1)"
                " EXECUTE FUNCTION public.note()");
    /* 156 settles of 64, and 16 more. */
    enum outcome_kind ends[JOBS_MAX];
    size_t n = 0;

    for (size_t i = 0; i < JOBS_MAX; i++)
        ends[i] = OUTCOME_DONE;
    for (; n + JOBS_MAX <= MANY; n += JOBS_MAX)
        children_end_as(t, JOBS_MAX, ends);
    assert_text(t->s, PARENT, "16");
    children_end_as(t, MANY - n, ends);
    assert_text(t->s, PARENT, "0 due");
    assert_int_equal(count_of(t->s, "public.writes WHERE of = 'machine'"), 157);
    assert_int_equal(count_of(t->s, "public.writes WHERE of = 'job'"), 1); /* when it is due */
    parent_runs(t, &p);
    assert_true(strlen(p.machines[0].children) > 50 * (size_t)MANY);
    taken_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        session_test(a_parent_joins_once_when_all_are_finished_failed_ones_included),
        session_test(the_parent_reads_what_its_children_came_to),
        session_test(the_first_that_fails_ends_the_wait_where_that_is_asked_for),
        session_test(a_quorum_ends_the_wait),
        session_test(what_is_left_is_cancelled_where_that_is_asked_for),
        session_test(what_is_left_and_locked_is_cancelled_by_the_sweep),
        session_test(a_child_that_ends_together_with_a_try_of_its_parent_is_shown_to_the_next),
        session_test(a_child_that_ends_while_its_parent_goes_on_leaves_nothing_to_the_next_join),
        session_test(children_of_a_parent_that_another_worker_has_are_left_alone),
        session_test(a_parked_child_holds_the_join_open),
        session_test(a_child_that_is_cancelled_counts),
        session_test(a_child_whose_worker_died_for_the_last_time_counts),
        session_test(a_job_that_was_enqueued_with_a_parent_does_not_count),
        session_test(a_spawn_of_nobody_goes_on_at_once),
        session_test(ten_thousand_children_of_one_outcome_join_and_write_the_parent_once_a_settle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

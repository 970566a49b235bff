/*
 * Thread hands on a real loop: what handlers say is what is reported, once for each run and on the
 * loop's thread; what was not started can be called back; handlers are asked to stop, never killed.
 */
#include "threads_fixture.h"

static void what_a_handler_says_is_what_is_reported(void **state)
{
    struct fixture *f = *state;

    open_with(f, 2, 10, NULL);
    struct record *quiet = told(f, "-", 1);
    struct record *done = told(f, "dresult", 7);
    struct record *retry = told(f, "r", 1);
    struct record *fail = told(f, "f", 1);
    struct record *reject = told(f, "j", 1);
    struct record *snooze = told(f, "s", 1);
    struct record *cancel = told(f, "c", 1);
    struct record *last = told(f, "l", 1);

    run_all(f);
    assert_outcome(quiet, OUTCOME_DONE, NULL);
    assert_outcome(done, OUTCOME_DONE, "result");
    assert_outcome(retry, OUTCOME_RETRY, "not now");
    assert_int_equal(retry->delay_ms, 1234);
    assert_outcome(fail, OUTCOME_FAIL, "never");
    assert_outcome(reject, OUTCOME_REJECT, "against the rules");
    assert_outcome(snooze, OUTCOME_SNOOZE, NULL);
    assert_int_equal(snooze->delay_ms, 77);
    assert_outcome(cancel, OUTCOME_CANCEL, NULL);
    assert_outcome(last, OUTCOME_DONE, ""); /* empty is not none */
    assert_int_equal(last->len, 0);
}

static void results_with_nul_bytes_come_back_exactly(void **state)
{
    struct fixture *f = *state;
    const char payload[] = "da\0b\0\0\xff";

    open_with(f, 1, 0, NULL);
    struct record *record = told(f, payload, sizeof(payload) - 1);

    run_all(f);
    assert_int_equal(record->len, sizeof(payload) - 2);
    assert_memory_equal(record->text, payload + 1, sizeof(payload) - 2);
}

static void stop_reaches_its_run_and_no_other(void **state)
{
    struct fixture *f = *state;

    open_with(f, 2, 0, NULL);
    struct record *stopped = start(f, "until");
    struct record *other = start(f, "gate");

    await_inside(&f->gate, 2);
    f->hands->ops->stop(f->hands, &stopped->run, STOP_CANCELLED);
    f->hands->ops->stop(f->hands, &stopped->run, STOP_SHUTDOWN); /* again, harsher */
    open_gate(&f->gate);
    run_all(f);
    assert_outcome(stopped, OUTCOME_CANCEL, NULL); /* it is not to be tried again */
    assert_outcome(other, OUTCOME_DONE, NULL);
    assert_false(atomic_load(&f->saw_stop));
}

/* It may be another worker's by now. */
static void one_that_was_stopped_before_its_start_is_not_started(void **state)
{
    struct fixture *f = *state;

    open_with(f, 1, 2, NULL);
    start(f, "gate");
    await_inside(&f->gate, 1);
    struct record *lost = start(f, "gate");
    struct record *after = start(f, "noop");

    f->hands->ops->stop(f->hands, &lost->run, STOP_LOST);
    open_gate(&f->gate);
    run_all(f);
    assert_outcome(lost, OUTCOME_RELEASE, NULL);
    assert_outcome(after, OUTCOME_DONE, NULL);
    assert_int_equal(f->gate.inside, 1);
}

static int64_t mono_us(const struct clock *clock)
{
    return atomic_load(
        (const _Atomic int64_t *)(const void *)&((const struct clock_fake *)clock)->mono_us);
}

static void a_handler_sees_that_its_time_is_over(void **state)
{
    struct fixture *f = *state;

    f->clock.clock.mono_us = mono_us;
    open_with(f, 1, 0, &f->clock.clock);
    struct record *record = next(f, "until");

    record->run.job.timeout_ms = 50;
    start_record(f, record);
    open_gate(&f->gate);
    await_inside(&f->gate, 1);
    assert_int_equal(record->n_finished, 0);
    atomic_fetch_add((_Atomic int64_t *)&f->clock.mono_us, 51 * US_PER_MS);
    run_all(f);
    assert_outcome(record, OUTCOME_RETRY, "ran longer than its timeout of 50 ms; asked to stop");
    assert_int_equal(record->run_us, 51 * US_PER_MS);
}

static void recall_gives_back_what_was_not_started_and_only_that(void **state)
{
    struct fixture *f = *state;
    struct record *waiting[5];

    open_with(f, 2, 5, NULL);
    struct record *first = start(f, "gate");
    struct record *second = start(f, "gate");

    await_inside(&f->gate, 2);
    for (size_t i = 0; i < LEN(waiting); i++)
        waiting[i] = start(f, "noop");
    f->hands->ops->recall(f->hands);
    assert_int_equal(f->n_finished, 5); /* before it returns */
    for (size_t i = 0; i < LEN(waiting); i++)
        assert_outcome(waiting[i], OUTCOME_RELEASE, NULL);
    f->hands->ops->recall(f->hands);
    assert_int_equal(f->n_finished, 5);
    open_gate(&f->gate);
    run_all(f);
    assert_outcome(first, OUTCOME_DONE, NULL);
    assert_outcome(second, OUTCOME_DONE, NULL);
    start(f, "noop"); /* and they go on */
    run_all(f);
}

static void a_slow_job_does_not_hold_up_the_others(void **state)
{
    struct fixture *f = *state;

    open_with(f, 2, 50, NULL);
    struct record *slow = start(f, "gate");

    await_inside(&f->gate, 1);
    for (int i = 0; i < 50; i++)
        start(f, "noop");
    while (f->n_finished < 50)
        uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(slow->n_finished, 0);
    open_gate(&f->gate);
    run_all(f);
}

static void on_noop(void *data, struct run *run, const struct outcome *outcome)
{
    struct fixture *f = data;

    assert_int_equal(outcome->kind, OUTCOME_DONE);
    assert_int_equal(run->job.attempt++, 0); /* once */
    f->n_noop++;
}

static void ten_thousand_runs_are_reported_once_each(void **state)
{
    struct fixture *f = *state;
    size_t n = 10000;
    struct run *runs = calloc(n, sizeof(*runs));
    struct pawl_err err;

    assert_non_null(runs);
    open_with(f, 2, 100, NULL);
    f->hands->finished = on_noop;
    for (size_t i = 0; i < n; i++) {
        runs[i].job.kind = "noop";
        while (i - f->n_noop == 102)
            uv_run(&f->loop, UV_RUN_ONCE);
        assert_int_equal(f->hands->ops->run(f->hands, &runs[i], &err), 0);
        f->hands->ops->flush(f->hands);
    }
    while (f->n_noop < n)
        uv_run(&f->loop, UV_RUN_ONCE);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(runs[i].job.attempt, 1);
    free(runs);
}

/* However fast the threads are: what was not collected counts too. */
static void it_takes_no_more_than_it_has_room_for(void **state)
{
    struct fixture *f = *state;
    struct pawl_err err;

    open_with(f, 2, 3, NULL);
    for (int i = 0; i < 5; i++)
        start(f, "gate");
    open_gate(&f->gate);
    await_inside(&f->gate, 5); /* all have run, none was collected */
    assert_int_equal(f->hands->ops->run(f->hands, &next(f, "noop")->run, &err), PAWL_EFULL);
    run_all(f);
    start(f, "noop");
    run_all(f);
}

static void closing_waits_for_handlers_and_gives_back_the_rest(void **state)
{
    struct fixture *f = *state;

    open_with(f, 1, 4, NULL);
    struct record *running = start(f, "until");

    open_gate(&f->gate);
    await_inside(&f->gate, 1);
    struct record *waiting = start(f, "noop");

    f->hands->ops->stop(f->hands, &running->run, STOP_SHUTDOWN);
    close_hands(f);
    assert_outcome(running, OUTCOME_RETRY, "asked to stop");
    assert_outcome(waiting, OUTCOME_RELEASE, NULL);
}

static void closing_at_once_is_fine(void **state)
{
    open_with(*state, 4, 0, NULL);
    close_hands(*state);
}

static void an_unknown_kind_is_refused(void **state)
{
    struct fixture *f = *state;
    struct pawl_err err;

    open_with(f, 1, 0, NULL);
    assert_int_equal(f->hands->ops->run(f->hands, &next(f, "other")->run, &err), PAWL_ENOTFOUND);
    assert_has(err.message, "other");
}

static void the_kinds_are_those_of_the_handlers(void **state)
{
    struct fixture *f = *state;

    open_with(f, 1, 7, NULL);
    const char *const *kinds = f->hands->ops->kinds(f->hands);

    for (size_t i = 0; i < LEN(handlers); i++)
        assert_string_equal(kinds[i], handlers[i].kind);
    assert_null(kinds[LEN(handlers)]);
    assert_int_equal(f->hands->queue_max, 7);
}

static void assert_refused(struct fixture *f, const struct threads_handler *wrong, const char *part)
{
    struct pawl_err err;

    assert_null(threads_new(
        &f->loop,
        &(struct threads_options){.handlers = wrong, .n_handlers = 2, .threads = 1, .queue_max = 0},
        &err));
    assert_int_equal(err.code, PAWL_EINVAL);
    assert_has(err.message, part);
}

static void a_kind_given_twice_or_badly_named_is_refused(void **state)
{
    const struct threads_handler twice[] = {{"a", do_nothing, NULL}, {"a", do_gate, NULL}};
    const struct threads_handler bad[] = {{"a", do_nothing, NULL}, {"b b", do_gate, NULL}};

    assert_refused(*state, twice, "kind a has two handlers");
    assert_refused(*state, bad, "kind");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_a_handler_says_is_what_is_reported),
        TEST(results_with_nul_bytes_come_back_exactly),
        TEST(stop_reaches_its_run_and_no_other),
        TEST(one_that_was_stopped_before_its_start_is_not_started),
        TEST(a_handler_sees_that_its_time_is_over),
        TEST(recall_gives_back_what_was_not_started_and_only_that),
        TEST(a_slow_job_does_not_hold_up_the_others),
        TEST(ten_thousand_runs_are_reported_once_each),
        TEST(it_takes_no_more_than_it_has_room_for),
        TEST(closing_waits_for_handlers_and_gives_back_the_rest),
        TEST(closing_at_once_is_fine),
        TEST(an_unknown_kind_is_refused),
        TEST(the_kinds_are_those_of_the_handlers),
        TEST(a_kind_given_twice_or_badly_named_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * The streams of dispatch (runs.c, sources.c), linked with a coordinator and a dispatch that are a few
 * arrays: which stream gets which job, what is counted, and where a run goes when its stream ends.
 * Conserved in all tests: every run is reported exactly once, and every credit comes back.
 */
#include <stdio.h>
#include <stdlib.h>

#include "serve/dispatch/dispatch_internal.h"
#include "support/cmocka.h"

#define RUNS_MAX   64
#define LEN(array) (sizeof(array) / sizeof((array)[0]))

static struct {
    int64_t now_us;
    struct dispatch d;
    struct streams *streams; /* of d */
    struct hands *hands;
    size_t n_sources;
    char sources[8][64]; /* "queue:kind,kind" */
    struct run runs[RUNS_MAX];
    size_t n_runs;
    enum outcome_kind finished[RUNS_MAX]; /* by job id; 0: not yet */
    struct stream *sent_to[RUNS_MAX];
    size_t n_messages;
    uint64_t left; /* bytes that have left every stream */
    bool full;     /* nobody reads */
    size_t n_stopped;
    size_t n_looks;
    bool empty;
} the;

static int64_t fake_now(const struct clock *clock)
{
    (void)clock;
    return the.now_us;
}

static const struct clock fake_clock = {.mono_us = fake_now, .wall_us = fake_now};

/* What the streams call: the coordinator, and the files of dispatch that speak to workers. */

int coordinator_set_source(struct coordinator *c,
                           size_t source,
                           const char *queue,
                           const char *const *kinds,
                           size_t n_kinds)
{
    (void)c;
    assert_true(source <= the.n_sources && source < LEN(the.sources));
    if (source == the.n_sources)
        the.n_sources++;
    int len = snprintf(the.sources[source], sizeof(the.sources[source]), "%s:", queue);

    for (size_t i = 0; i < n_kinds; i++)
        len += snprintf(the.sources[source] + len,
                        sizeof(the.sources[source]) - (size_t)len,
                        "%s%s",
                        i > 0 ? "," : "",
                        kinds[i]);
    return 0;
}

int stream_assign(struct stream *stream, struct stream_run *const *runs, size_t n)
{
    if (the.full)
        return PAWL_EFULL;
    for (size_t i = 0; i < n; i++) {
        the.sent_to[runs[i]->job_id] = stream;
        runs[i]->at = (uint64_t)the.n_messages;
    }
    the.n_messages++;
    return 0;
}

uint64_t stream_left(const struct stream *stream)
{
    (void)stream;
    return the.left;
}

void stream_stop_run(struct stream_run *run, enum stop_reason reason)
{
    (void)run;
    (void)reason;
    the.n_stopped++;
}

void coordinator_wake_source(struct coordinator *c, size_t source)
{
    (void)c;
    assert_true(source < the.n_sources);
    the.n_looks++;
    the.empty = false;
}

bool coordinator_source_empty(const struct coordinator *c, size_t source)
{
    (void)c;
    (void)source;
    return the.empty;
}

void report_settled(struct dispatch *d, struct stream_run *run, const char *state)
{
    (void)d;
    (void)run;
    (void)state;
}

void report_forget(struct stream_run *run)
{
    (void)run;
}

static void on_finished(void *data, struct run *run, const struct outcome *outcome)
{
    (void)data;
    assert_int_equal(the.finished[run->job.id], 0); /* once */
    the.finished[run->job.id] = outcome->kind;
}

static int setup(void **state)
{
    (void)state;
    memset(&the, 0, sizeof(the));
    the.left = UINT64_MAX;
    the.d.options.lease_ms = 1000;
    the.streams = &the.d.streams;
    streams_init(the.streams, &the.d, &fake_clock);
    the.hands = &the.streams->hands;
    the.hands->finished = on_finished;
    return 0;
}

static int teardown(void **state)
{
    struct stream *stream;

    (void)state;
    the.hands->finished = on_finished;
    while ((stream = streams_next(the.streams, NULL)) != NULL)
        streams_close(stream);
    streams_deinit(the.streams);
    return 0;
}

static struct stream *
open_as(const char *queue, const char *kind, uint32_t credits, bool until_empty)
{
    struct stream *stream;
    struct pawl_err err = {0};

    assert_int_equal(streams_open(the.streams,
                                  &(struct stream_options){.worker = "w",
                                                           .name = "",
                                                           .queues = &queue,
                                                           .n_queues = 1,
                                                           .kinds = &kind,
                                                           .n_kinds = 1,
                                                           .credits = credits,
                                                           .until_empty = until_empty},
                                  &stream,
                                  &err),
                     0);
    streams_begin(stream);
    return stream;
}

static struct stream *open_for(const char *queue, const char *kind, uint32_t credits)
{
    return open_as(queue, kind, credits, false);
}

static size_t room(size_t source)
{
    return the.hands->ops->room(the.hands, source);
}

/* As the coordinator does: runs, then one flush. The ids go on from those before. */
static void claim(size_t source, size_t n)
{
    struct pawl_err err;

    for (size_t i = 0; i < n; i++) {
        struct run *run = &the.runs[the.n_runs];

        *run = (struct run){.job = {.id = (int64_t)the.n_runs, .kind = "k", .queue = "q"},
                            .source = source};
        the.n_runs++;
        assert_int_equal(the.hands->ops->run(the.hands, run, &err), 0);
    }
    the.hands->ops->flush(the.hands);
}

static void report_and_settle(int64_t id, enum outcome_kind kind)
{
    struct stream_run *run = streams_find(the.streams, id);

    assert_non_null(run);
    streams_report(the.streams, run, &(struct outcome){.kind = kind});
    the.hands->ops->settled(the.hands, &the.runs[id], "done", false);
    assert_null(streams_find(the.streams, id));
}

static uint32_t held(const struct stream *stream)
{
    return stream->used;
}

static void the_room_of_a_source_is_the_credits_of_its_streams(void **state)
{
    struct stream *a = open_for("q", "k", 3);
    struct stream *b = open_for("q", "k", 2);

    (void)state;
    struct stream *other = open_for("q", "other", 7);

    assert_int_equal(the.n_sources, 2);
    assert_string_equal(the.sources[0], "q:k");
    assert_int_equal(room(0), 5);
    assert_int_equal(room(1), 7);
    assert_int_equal(room(2), 0); /* nobody knows it */
    streams_set_credits(a, 1);
    assert_int_equal(room(0), 3);
    streams_drain(b);
    assert_int_equal(room(0), 1);
    streams_close(a);
    assert_int_equal(room(0), 0);
    streams_drain(other);
    assert_int_equal(room(1), 0);
}

static void a_source_is_shared_whatever_the_order_of_its_kinds(void **state)
{
    const char *queues[] = {"b", "a"};
    const char *kinds[2][3] = {{"x", "y", "x"}, {"y", "x", "y"}};
    struct stream *stream;
    struct pawl_err err;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(streams_open(the.streams,
                                      &(struct stream_options){.worker = "w",
                                                               .name = "",
                                                               .queues = queues,
                                                               .n_queues = 2,
                                                               .kinds = kinds[i],
                                                               .n_kinds = 3,
                                                               .credits = 1},
                                      &stream,
                                      &err),
                         0);
        streams_begin(stream);
    }
    assert_int_equal(the.n_sources, 2);
    assert_string_equal(the.sources[0], "a:x,y");
    assert_string_equal(the.sources[1], "b:x,y");
    assert_int_equal(room(0), 2);
    claim(0, 1); /* a credit that is used is missing in both */
    assert_int_equal(room(0), 1);
    assert_int_equal(room(1), 1);
}

static void the_least_loaded_is_next_and_equals_take_turns(void **state)
{
    struct stream *small = open_for("q", "k", 2);
    struct stream *large = open_for("q", "k", 4);

    (void)state;
    claim(0, 3);
    assert_int_equal(held(small), 1); /* half of what it may hold, as the other */
    assert_int_equal(held(large), 2);
    claim(0, 3);
    assert_int_equal(held(small), 2);
    assert_int_equal(held(large), 4);
    for (int64_t id = 0; id < 6; id++)
        report_and_settle(id, OUTCOME_DONE);
    assert_int_equal(held(small) + held(large), 0);
    for (int i = 0; i < 4; i++) { /* one at a time */
        claim(0, 1);
        report_and_settle((int64_t)the.n_runs - 1, OUTCOME_DONE);
    }
    assert_ptr_not_equal(the.sent_to[6], the.sent_to[7]);
    assert_ptr_equal(the.sent_to[6], the.sent_to[8]);
}

static void jobs_of_one_flush_are_one_message_for_each_stream(void **state)
{
    (void)state;
    open_for("q", "k", 8);
    open_for("q", "k", 8);
    claim(0, 16);
    assert_int_equal(the.n_messages, 2);
}

static void what_nobody_has_room_for_any_more_is_released(void **state)
{
    (void)state;
    open_for("q", "k", 2);
    claim(0, 3);
    assert_int_equal(the.finished[2], OUTCOME_RELEASE);
    assert_int_equal(the.finished[0], 0);
    assert_int_equal(room(0), 0);
}

static void a_worker_that_does_not_read_gets_nothing_until_it_does(void **state)
{
    struct stream *stream = open_for("q", "k", 4);

    (void)state;
    the.full = true;
    claim(0, 2);
    assert_int_equal(room(0), 0);
    the.full = false;
    streams_writable(stream); /* what was claimed for it has waited */
    assert_ptr_equal(the.sent_to[0], stream);
    assert_ptr_equal(the.sent_to[1], stream);
    assert_int_equal(room(0), 2);
    the.full = true;
    claim(0, 2);
    the.now_us = 500 * US_PER_MS;
    streams_tick(the.streams);
    assert_int_equal(the.finished[2], 0);
    streams_find(the.streams, 0)->seen_us = streams_find(the.streams, 1)->seen_us = 6 * US_PER_S;
    the.now_us = 6 * US_PER_S; /* but not for ever */
    streams_tick(the.streams);
    assert_int_equal(the.finished[2], OUTCOME_RELEASE);
    assert_int_equal(the.finished[3], OUTCOME_RELEASE);
    assert_int_equal(held(stream), 2);
}

static void a_stream_that_ends_releases_what_never_left_and_no_more(void **state)
{
    struct stream *stream = open_for("q", "k", 4);

    (void)state;
    claim(0, 2);  /* message 0 */
    claim(0, 2);  /* message 1 */
    the.left = 1; /* the first has left, the second has not */
    streams_close(stream);
    assert_int_equal(the.finished[0], 0);
    assert_int_equal(the.finished[1], 0);
    assert_int_equal(the.finished[2], OUTCOME_RELEASE);
    assert_int_equal(the.finished[3], OUTCOME_RELEASE);
    assert_int_equal(streams_find(the.streams, 0)->state, RUN_LEAVING);
    assert_string_equal(streams_find(the.streams, 0)->worker, "w");
    assert_true(!list_empty(&the.streams->leaving));
    /* One is reported after all, the other has left. */
    report_and_settle(0, OUTCOME_DONE);
    assert_int_equal(the.finished[0], OUTCOME_DONE);
    streams_left(the.streams, streams_find(the.streams, 1));
    assert_true(list_empty(&the.streams->leaving));
}

static void a_worker_that_comes_back_has_its_run_again(void **state)
{
    struct stream *first = open_for("q", "k", 1);
    struct stream *second;

    (void)state;
    claim(0, 1);
    streams_close(first);
    second = open_for("q", "k", 1);
    streams_move(the.streams, streams_find(the.streams, 0), second);
    assert_int_equal(held(second), 1);
    assert_int_equal(room(0), 0);
    report_and_settle(0, OUTCOME_DONE);
    assert_int_equal(room(0), 1);
}

static void a_step_that_goes_on_comes_back_to_its_stream_and_keeps_its_credit(void **state)
{
    struct stream *stream = open_for("q", "k", 1);
    struct pawl_err err;

    (void)state;
    open_for("q", "k", 1);
    claim(0, 1);
    stream = the.sent_to[0];
    streams_report(
        the.streams, streams_find(the.streams, 0), &(struct outcome){.kind = OUTCOME_NEXT});
    assert_int_equal(held(stream), 1);
    the.hands->ops->settled(the.hands, &the.runs[0], "running", false);
    the.sent_to[0] = NULL;
    the.finished[0] = 0;
    assert_int_equal(the.hands->ops->run(the.hands, &the.runs[0], &err), 0);
    the.hands->ops->flush(the.hands);
    assert_ptr_equal(the.sent_to[0], stream);
    assert_int_equal(streams_find(the.streams, 0)->steps, 1);
    /* Its stream is gone when the next one comes: others have no claim to it. */
    streams_report(
        the.streams, streams_find(the.streams, 0), &(struct outcome){.kind = OUTCOME_NEXT});
    streams_close(stream);
    the.hands->ops->settled(the.hands, &the.runs[0], "running", false);
    the.finished[0] = 0;
    assert_int_equal(the.hands->ops->run(the.hands, &the.runs[0], &err), 0);
    the.hands->ops->flush(the.hands);
    assert_ptr_not_equal(the.sent_to[0], stream); /* or anybody else with room */
}

static void silence_for_a_lease_loses_a_run_and_a_sign_of_life_keeps_it(void **state)
{
    struct stream *stream = open_for("q", "k", 4);

    (void)state;
    claim(0, 4);
    the.now_us = 900 * US_PER_MS;
    streams_find(the.streams, 1)->seen_us = the.now_us;
    the.now_us = 1001 * US_PER_MS;
    streams_tick(the.streams);
    assert_int_equal(streams_find(the.streams, 0)->state, RUN_LEAVING);
    assert_int_equal(streams_find(the.streams, 1)->state, RUN_SENT);
    /* Its worker may have spoken to another server: it is not told before that is known. */
    assert_int_equal(the.n_stopped, 0);
    assert_int_equal(room(0), 0);
    streams_lost(the.streams, streams_find(the.streams, 0));
    assert_int_equal(the.n_stopped, 1);
    assert_int_equal(room(0), 1);
    assert_null(streams_find(the.streams, 0));
    /* It has: from now on that lease counts, and the job takes its credit as before. */
    streams_left(the.streams, streams_find(the.streams, 2));
    assert_int_equal(the.n_stopped, 1);
    assert_int_equal(room(0), 1);
    assert_int_equal(streams_find(the.streams, 2)->state, RUN_AWAY);
    streams_close(stream); /* while it is not known of the last one */
    assert_int_equal(streams_find(the.streams, 3)->state, RUN_LEAVING);
    streams_lost(the.streams, streams_find(the.streams, 3));
    assert_int_equal(the.n_stopped, 1);
    assert_null(streams_find(the.streams, 2));
}

static void what_another_server_claimed_takes_a_credit_until_it_is_reported(void **state)
{
    struct stream *stream = open_for("q", "k", 2);
    const struct ticket ticket = {.bytes = {1}};
    struct run run = {.job = {.id = 7}};
    struct stream_run *away;

    (void)state;
    streams_add_away(the.streams, 7, stream, &ticket);
    away = streams_find(the.streams, 7);
    assert_non_null(away);
    assert_memory_equal(&away->ticket, &ticket, sizeof(ticket));
    assert_int_equal(room(0), 1);
    assert_ptr_equal(streams_adopt(the.streams, away, &run), away);
    assert_int_equal(room(0), 2);
    the.hands->ops->settled(the.hands, &run, "done", false);
    assert_null(streams_find(the.streams, 7));
    streams_add_away(the.streams, 8, stream, &ticket);
    away = streams_find(the.streams, 8);
    assert_non_null(away);
    streams_forget_away(the.streams, away);
    assert_int_equal(room(0), 2);
    /* Nobody has spoken of it for a lease: it was reported elsewhere. */
    streams_add_away(the.streams, 9, stream, &ticket);
    the.now_us = 1001 * US_PER_MS;
    streams_tick(the.streams);
    assert_null(streams_find(the.streams, 9));
    assert_int_equal(room(0), 2);
}

static void a_rate_is_room_that_comes_with_time(void **state)
{
    struct stream *stream = open_for("q", "k", 10);

    (void)state;
    assert_int_equal(the.streams->n_paced, 0);
    streams_set_rate(stream, 5 * 1000);
    assert_int_equal(the.streams->n_paced, 1);
    assert_int_equal(room(0), 1);
    claim(0, 1);
    assert_int_equal(room(0), 0);
    report_and_settle(0, OUTCOME_DONE); /* its credit is free, and it gets nothing sooner */
    assert_int_equal(room(0), 0);
    the.now_us = 199 * US_PER_MS;
    streams_pace(the.streams);
    assert_int_equal(room(0), 0);
    the.now_us = 201 * US_PER_MS;
    streams_pace(the.streams);
    assert_int_equal(room(0), 1);
    the.now_us = 60 * US_PER_S; /* a pause is not made up for */
    streams_pace(the.streams);
    assert_int_equal(room(0), 1);
    streams_set_rate(stream, 100 * 1000);
    the.now_us += US_PER_S;
    streams_pace(the.streams);
    assert_int_equal(streams_burst(100 * 1000), 10);
    assert_int_equal(room(0), 10);
    streams_set_credits(stream, 3); /* the smaller of both */
    assert_int_equal(room(0), 3);
    streams_set_rate(stream, 0);
    assert_int_equal(room(0), 3);
    streams_set_rate(stream, 1);
    streams_close(stream);
    assert_int_equal(the.streams->n_paced, 0);
    assert_int_equal(room(0), 0);
}

static void a_stream_until_empty_is_over_when_all_is_settled_and_looked_at_again(void **state)
{
    struct stream *stream = open_as("q", "k", 2, true);
    struct stream *other = open_for("q", "k", 1);

    (void)state;
    assert_int_equal(the.n_looks, 1);
    assert_false(streams_is_over(stream));
    the.empty = true;
    assert_true(streams_is_over(stream));
    assert_false(streams_is_over(other));
    claim(0, 3);
    assert_false(streams_is_over(stream));
    for (int64_t id = 0; id < 3; id++) {
        streams_report(
            the.streams, streams_find(the.streams, id), &(struct outcome){.kind = OUTCOME_DONE});
        assert_false(streams_is_over(stream)); /* it holds less and less, but nothing is settled */
    }
    for (int64_t id = 0; id < 3; id++) {
        the.empty = true;
        the.hands->ops->settled(the.hands, &the.runs[id], "done", false);
        assert_false(the.sent_to[id] == stream && streams_is_over(stream));
    }
    assert_int_equal(the.n_looks, 3);
    the.empty = true;
    assert_true(streams_is_over(stream));
    /* It may end while what it reported is being settled. */
    streams_close(other);
    claim(0, 1);
    streams_report(
        the.streams, streams_find(the.streams, 3), &(struct outcome){.kind = OUTCOME_DONE});
    streams_close(stream);
    the.hands->ops->settled(the.hands, &the.runs[3], "done", false);
    assert_null(streams_find(the.streams, 3));
}

static void opening_words_that_ask_for_too_much_or_nothing_are_refused(void **state)
{
    const char *names[STREAM_QUEUES_MAX + 1];
    struct stream *stream = NULL;
    struct pawl_err err;
    struct stream_options options = {
        .worker = "w", .name = "", .queues = names, .kinds = names, .credits = 1};

    (void)state;
    for (size_t i = 0; i < LEN(names); i++)
        names[i] = "a";
    options.n_queues = 1;
    assert_int_equal(streams_open(the.streams, &options, &stream, &err), PAWL_EINVAL);
    options.n_kinds = 1;
    options.n_queues = STREAM_QUEUES_MAX + 1;
    assert_int_equal(streams_open(the.streams, &options, &stream, &err), PAWL_ELIMIT);
    options.n_queues = 0;
    assert_int_equal(streams_open(the.streams, &options, &stream, &err), PAWL_ELIMIT);
    assert_null(stream);
}

#define streams_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        streams_test(the_room_of_a_source_is_the_credits_of_its_streams),
        streams_test(a_source_is_shared_whatever_the_order_of_its_kinds),
        streams_test(the_least_loaded_is_next_and_equals_take_turns),
        streams_test(jobs_of_one_flush_are_one_message_for_each_stream),
        streams_test(what_nobody_has_room_for_any_more_is_released),
        streams_test(a_worker_that_does_not_read_gets_nothing_until_it_does),
        streams_test(a_stream_that_ends_releases_what_never_left_and_no_more),
        streams_test(a_worker_that_comes_back_has_its_run_again),
        streams_test(a_step_that_goes_on_comes_back_to_its_stream_and_keeps_its_credit),
        streams_test(silence_for_a_lease_loses_a_run_and_a_sign_of_life_keeps_it),
        streams_test(what_another_server_claimed_takes_a_credit_until_it_is_reported),
        streams_test(a_rate_is_room_that_comes_with_time),
        streams_test(a_stream_until_empty_is_over_when_all_is_settled_and_looked_at_again),
        streams_test(opening_words_that_ask_for_too_much_or_nothing_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* job_fields: what each field may be, in the same words for everybody, and what follows from them. */
#include "core/job_fields.h"

#include <string.h>

#include "check.h"

static struct pawl_job_new job_of(const char *kind)
{
    struct pawl_job_new job = PAWL_JOB_NEW_INIT;

    job.kind = kind;
    return job;
}

static void assert_refused(const struct pawl_job_new *job, enum job_field_id id, const char *words)
{
    const struct job_field *wrong = NULL;
    struct pawl_err err;

    assert_true(job_new_check(job, &wrong, &err) < 0);
    assert_ptr_equal(wrong, &job_fields[id]);
    assert_string_equal(err.message, words);
}

static void a_job_with_a_kind_is_enough(void **state)
{
    struct pawl_job_new job = job_of("k");
    const struct job_field *wrong = NULL;

    (void)state;
    assert_int_equal(job_new_check(&job, &wrong, NULL), 0);
    assert_true(job_new_is_plain(&job) && job_new_is_child(&job));
    job_new_fill(&job);
    assert_string_equal(job.queue, "default");
    assert_int_equal(job.payload_len, 2);
    assert_int_equal(job.max_attempts, 20);
}

static void a_refusal_names_the_field_and_its_range(void **state)
{
    struct pawl_job_new job = job_of(NULL);

    (void)state;
    assert_refused(&job, JOB_FIELD_kind, "a job has no kind");
    job = job_of("k");
    job.timeout_ms = -1;
    assert_refused(&job, JOB_FIELD_timeout, "timeout must be between 1 ms and 24 days");
    job = job_of("k");
    job.deadline_ms = JOB_DELAY_MAX_MS + 1;
    assert_refused(&job, JOB_FIELD_deadline, "deadline must be between 0 and ten years");
    job = job_of("k");
    job.max_attempts = 1001;
    assert_refused(&job, JOB_FIELD_max_attempts, "max_attempts 1001 is not between 1 and 1000");
    job = job_of("k");
    job.parent_id = -1;
    assert_refused(&job, JOB_FIELD_parent, "parent -1 is not at least 1");
    job = job_of("k");
    job.correlation = "";
    assert_refused(&job, JOB_FIELD_correlation, "correlation is empty");
    job = job_of("k");
    job.retry = (enum pawl_retry)3;
    assert_refused(&job, JOB_FIELD_retry, "retry 3 is none of auto, exponential, quadratic");
    job = job_of("k");
    job.unique_states = 8;
    assert_refused(&job,
                   JOB_FIELD_unique_states,
                   "unique_states 8 is not a valid combination; use waiting, running, parked");
    job = job_of("k");
    job.n_tags = 1;
    assert_refused(&job, JOB_FIELD_tags, "tags is NULL and has a length");
}

/* 0 is left out, unless somebody has written it down. */
static void a_zero_that_was_given_is_checked(void **state)
{
    struct pawl_job_new job = job_of("k");
    struct pawl_err err;

    (void)state;
    assert_int_equal(job_field_check(&job_fields[JOB_FIELD_timeout], &job, false, &err), 0);
    assert_true(job_field_check(&job_fields[JOB_FIELD_timeout], &job, true, &err) < 0);
    assert_int_equal(job_field_check(&job_fields[JOB_FIELD_delay], &job, true, &err), 0);
}

static void words_find_their_place(void **state)
{
    struct pawl_job_new job = job_of("k");
    struct pawl_err err;

    (void)state;
    assert_int_equal(job_field_word(&job_fields[JOB_FIELD_on_conflict], "refuse", &job, &err), 0);
    assert_int_equal(job.unique_mode, PAWL_UNIQUE_REFUSE);
    assert_int_equal(job_field_word(&job_fields[JOB_FIELD_unique_states], "parked", &job, &err), 0);
    assert_int_equal(job_field_word(&job_fields[JOB_FIELD_unique_states], "waiting", &job, &err),
                     0);
    assert_int_equal(job.unique_states, PAWL_UNIQUE_WAITING | PAWL_UNIQUE_PARKED);
    assert_true(job_field_word(&job_fields[JOB_FIELD_unique_scope], "all", &job, &err) < 0);
    assert_string_equal(err.message, "unique_scope \"all\" is none of kind, queue, global");
}

/* Any field that is not plain, set to whatever is not nothing. */
static void a_job_with_an_option_is_not_plain(void **state)
{
    (void)state;
    for (size_t i = 0; i < JOB_FIELDS_N; i++) {
        struct pawl_job_new job = job_of("k");

        if (job_fields[i].home == FIELD_PLAIN)
            continue;
        memset(job_field_to(&job_fields[i], &job), 1, sizeof(int));
        if (job_fields[i].type == FIELD_TEXTS)
            job.n_tags = 1;
        assert_false(job_new_is_plain(&job) || job_new_is_child(&job));
    }
}

static void what_has_no_column_goes_into_meta(void **state)
{
    static const char *const tags[] = {"a", "b"};
    struct pawl_job_new job = job_of("k");
    struct arena arena;
    const char *meta = "";

    (void)state;
    arena_init(&arena, 1 << 16);
    assert_true(job_new_meta(&job, &arena, &meta));
    assert_null(meta);
    job.tags = tags;
    job.n_tags = 2;
    job.correlation = "\x01\x01";
    assert_true(job_new_meta(&job, &arena, &meta));
    assert_string_equal(meta, "{\"tags\":[\"a\",\"b\"],\"correlation\":\"\\u0001\\u0001\"}");
    /* What is counted is enough for it. */
    assert_true(job_new_bytes(&job) >= strlen(meta) - strlen("{\"tags\":[],\"correlation\":}"));
    arena_deinit(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_with_a_kind_is_enough),
        cmocka_unit_test(a_refusal_names_the_field_and_its_range),
        cmocka_unit_test(a_zero_that_was_given_is_checked),
        cmocka_unit_test(words_find_their_place),
        cmocka_unit_test(a_job_with_an_option_is_not_plain),
        cmocka_unit_test(what_has_no_column_goes_into_meta),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * control: every outcome that a step may say, every way to say it wrong, and that values pass through
 * byte for byte.
 */
#include "core/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/defer.h"
#include "check.h"
#include "core/json.h"

struct fixture {
    struct arena arena;
    struct control control;
    struct pawl_err err;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    arena_init(&f->arena, CONTROL_ARENA_MAX);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    arena_deinit(&f->arena);
    free(f);
    return 0;
}

static int parse(struct fixture *f, const char *text)
{
    return control_parse(text, strlen(text), "home", &f->arena, &f->control, &f->err);
}

static const struct outcome *said(struct fixture *f, const char *text)
{
    int rc = parse(f, text);

    if (rc < 0)
        fail_msg("%s was refused: %s", text, f->err.message);
    return &f->control.outcome;
}

static void refused(struct fixture *f, const char *text, int code, const char *message)
{
    memset(&f->err, 0, sizeof(f->err));
    memset(&f->control, 0x5a, sizeof(f->control));
    struct control before = f->control;

    if (parse(f, text) != code)
        fail_msg("%s came to %d and not to %d: %s", text, f->err.code, code, f->err.message);
    if (strstr(f->err.message, message) == NULL)
        fail_msg("%s said \"%s\" and not \"%s\"", text, f->err.message, message);
    assert_memory_equal(&before, &f->control, sizeof(before));
}

static void assert_bytes(const char *bytes, size_t len, const char *expected)
{
    assert_int_equal(len, strlen(expected));
    assert_memory_equal(bytes, expected, len);
}

static void next_goes_on_at_once_or_later(void **state)
{
    struct fixture *f = *state;
    const struct outcome *outcome = said(f, "{\"next\":\"pay\"}\n");

    assert_int_equal(outcome->kind, OUTCOME_NEXT);
    assert_int_equal(outcome->delay_ms, 0);
    assert_ptr_equal(outcome->on, &f->control.on);
    assert_string_equal(outcome->on->step, "pay");
    assert_null(outcome->on->state);
    outcome = said(f, " {\"delay_ms\":5000,\"state\":null,\"next\":\"p\\u0061y\"}  ");
    assert_int_equal(outcome->delay_ms, 5000);
    assert_string_equal(outcome->on->step, "pay");
    assert_bytes(outcome->on->state, outcome->on->state_len, "null");
}

static void values_pass_byte_for_byte(void **state)
{
    struct fixture *f = *state;
    const struct outcome *outcome = said(
        f,
        "{\"next\":\"b\" , \"state\" : {\"n\": 9007199254740993, \"f\":1.0, \"s\":\"}\\\"],\"} }");

    assert_bytes(outcome->on->state,
                 outcome->on->state_len,
                 "{\"n\": 9007199254740993, \"f\":1.0, \"s\":\"}\\\"],\"}");
    outcome = said(f, "{\"done\":[1e999, 1.10,-0]}");
    assert_int_equal(outcome->kind, OUTCOME_DONE);
    assert_bytes(outcome->result, outcome->result_len, "[1e999, 1.10,-0]");
    assert_null(outcome->on);
    outcome = said(f, "{\"done\":null}");
    assert_bytes(outcome->result, outcome->result_len, "null");
}

static void await_names_signals_and_may_time_out(void **state)
{
    struct fixture *f = *state;
    const struct outcome *outcome = said(f, "{\"await\":[\"paid\",\"refused\"],\"next\":\"ship\"}");

    assert_int_equal(outcome->kind, OUTCOME_AWAIT);
    assert_int_equal(outcome->delay_ms, -1);
    assert_string_equal(outcome->on->awaits, "paid,refused");
    assert_string_equal(outcome->on->step, "ship");
    outcome = said(f, "{\"await\":[\"x\"],\"next\":\"a\",\"timeout_ms\":0,\"state\":[]}");
    assert_int_equal(outcome->delay_ms, 0);
}

static void spawn_makes_children_with_defaults(void **state)
{
    struct fixture *f = *state;
    const struct outcome *outcome = said(
        f,
        "{\"spawn\":[{\"kind\":\"pack\"},{\"kind\":\"send@2\",\"payload\":[1.0],\"queue\":\"far\","
        "\"priority\":9,\"max_attempts\":1}],\"next\":\"joined\"}");
    const struct child_new *children = outcome->on->children;

    assert_int_equal(outcome->kind, OUTCOME_SPAWN);
    assert_int_equal(outcome->on->n_children, 2);
    assert_int_equal(outcome->on->join_at, 0);
    assert_int_equal(outcome->on->join_flags, 0);
    assert_string_equal(children[0].queue, "home");
    assert_string_equal(children[0].kind, "pack");
    assert_bytes(children[0].payload, children[0].payload_len, "{}");
    assert_int_equal(children[0].priority, PAWL_PRIORITY_DEFAULT);
    assert_int_equal(children[0].max_attempts, JOB_MAX_ATTEMPTS_DEFAULT);
    assert_string_equal(children[1].queue, "far");
    assert_string_equal(children[1].kind, "send@2");
    assert_bytes(children[1].payload, children[1].payload_len, "[1.0]");
    assert_int_equal(children[1].priority, 9);
    assert_int_equal(children[1].max_attempts, 1);
}

static void a_join_has_options(void **state)
{
    struct fixture *f = *state;
    const struct outcome *outcome =
        said(f,
             "{\"join\":{\"cancel\":true,\"quorum\":1,\"fail_fast\":false},"
             "\"spawn\":[{\"kind\":\"a\"},{\"kind\":\"a\"},{\"kind\":\"a\"}],\"next\":\"x\"}");

    assert_int_equal(outcome->on->join_at, 2);
    assert_int_equal(outcome->on->join_flags, JOIN_CANCEL);
    outcome =
        said(f, "{\"spawn\":[],\"next\":\"x\",\"join\":{\"fail_fast\":true,\"cancel\":true}}");
    assert_int_equal(outcome->on->n_children, 0);
    assert_int_equal(outcome->on->join_flags, JOIN_FAIL_FAST | JOIN_CANCEL);
}

static void the_other_outcomes(void **state)
{
    struct fixture *f = *state;
    const struct outcome *outcome = said(f, "{\"retry\":\"busy\\nstill\"}");

    assert_int_equal(outcome->kind, OUTCOME_RETRY);
    assert_int_equal(outcome->delay_ms, -1);
    assert_string_equal(outcome->error, "busy\nstill");
    assert_int_equal(said(f, "{\"retry\":\"\",\"delay_ms\":7}")->delay_ms, 7);
    assert_int_equal(said(f, "{\"stop\":\"no\"}")->kind, OUTCOME_FAIL);
    assert_int_equal(said(f, "{\"reject\":\"no\"}")->kind, OUTCOME_REJECT);
    outcome = said(f, "{\"snooze_ms\":250}");
    assert_int_equal(outcome->kind, OUTCOME_SNOOZE);
    assert_int_equal(outcome->delay_ms, 250);
    assert_int_equal(said(f, "{\"cancel\":true}")->kind, OUTCOME_CANCEL);
}

static void what_is_wrong_is_named(void **state)
{
    static const struct {
        const char *text;
        int code;
        const char *message;
    } wrong[] = {
        {"", PAWL_EINVAL, ""},
        {"{", PAWL_EINVAL, ""},
        {"[]", PAWL_EINVAL, "not an object"},
        {"\"next\"", PAWL_EINVAL, "not an object"},
        {"{}", PAWL_EINVAL, "no outcome"},
        {"{\"state\":1}", PAWL_EINVAL, "no outcome"},
        {"{\"next\":\"a\"}\n{\"next\":\"b\"}", PAWL_EINVAL, "more than one line"},
        {"{\"next\":\n\"a\"}", PAWL_EINVAL, "more than one line"},
        {"{\"next\":\"a\",\"next\":\"b\"}", PAWL_EINVAL, ""},
        {"{\"nxt\":\"a\"}", PAWL_EINVAL, "unknown member \"nxt\""},
        {"{\"\\u001b[2J\":\"a\"}", PAWL_EINVAL, "an unknown member"},
        {"{\"next\":\"a\",\"done\":1}", PAWL_EINVAL, "both \"done\" and \"next\""},
        {"{\"retry\":\"a\",\"stop\":\"b\"}", PAWL_EINVAL, "both \"retry\" and \"stop\""},
        {"{\"await\":[\"a\"],\"spawn\":[],\"next\":\"b\"}",
         PAWL_EINVAL,
         "both \"await\" and \"spawn\""},
        {"{\"await\":[\"a\"]}", PAWL_EINVAL, "\"await\" needs \"next\""},
        {"{\"spawn\":[]}", PAWL_EINVAL, "\"spawn\" needs \"next\""},
        {"{\"done\":1,\"state\":2}", PAWL_EINVAL, "\"state\" does not go with \"done\""},
        {"{\"next\":\"a\",\"timeout_ms\":2}",
         PAWL_EINVAL,
         "\"timeout_ms\" does not go with \"next\""},
        {"{\"next\":\"a\",\"join\":{}}", PAWL_EINVAL, "\"join\" does not go with"},
        {"{\"next\":5}", PAWL_EINVAL, "\"next\" must be a text"},
        {"{\"next\":\"a\\u0000b\"}", PAWL_EINVAL, "\"next\" must be a text"},
        {"{\"next\":\"\"}", PAWL_EINVAL, "step"},
        {"{\"next\":\"two words\"}", PAWL_EINVAL, "step"},
        {"{\"next\":\"a\",\"delay_ms\":-1}", PAWL_EINVAL, "\"delay_ms\" must be a whole number"},
        {"{\"next\":\"a\",\"delay_ms\":1.5}", PAWL_EINVAL, "\"delay_ms\" must be a whole number"},
        {"{\"next\":\"a\",\"delay_ms\":\"5\"}", PAWL_EINVAL, "\"delay_ms\" must be a whole number"},
        {"{\"next\":\"a\",\"delay_ms\":99999999999999999999999999}", PAWL_EINVAL, "whole number"},
        {"{\"await\":\"a\",\"next\":\"b\"}", PAWL_EINVAL, "\"await\" must be a list"},
        {"{\"await\":[],\"next\":\"b\"}", PAWL_EINVAL, "an await needs"},
        {"{\"await\":[\"a,b\"],\"next\":\"b\"}", PAWL_EINVAL, "signal"},
        {"{\"await\":[7],\"next\":\"b\"}", PAWL_EINVAL, "\"await\" must be a text"},
        {"{\"spawn\":{},\"next\":\"b\"}", PAWL_EINVAL, "\"spawn\" must be a list"},
        {"{\"spawn\":[1],\"next\":\"b\"}", PAWL_EINVAL, "\"spawn\" must be a list of objects"},
        {"{\"spawn\":[{}],\"next\":\"b\"}", PAWL_EINVAL, "no \"kind\""},
        {"{\"spawn\":[{\"kind\":\"a\",\"lane\":\"x\"}],\"next\":\"b\"}", PAWL_EINVAL, "\"lane\""},
        {"{\"spawn\":[{\"kind\":\"a b\"}],\"next\":\"b\"}", PAWL_EINVAL, "kind"},
        {"{\"spawn\":[{\"kind\":\"a\",\"priority\":10}],\"next\":\"b\"}",
         PAWL_EINVAL,
         "\"priority\""},
        {"{\"spawn\":[{\"kind\":\"a\"}],\"next\":\"b\",\"join\":{\"quorum\":2}}",
         PAWL_EINVAL,
         "\"quorum\""},
        {"{\"spawn\":[{\"kind\":\"a\"}],\"next\":\"b\",\"join\":{\"fail_fast\":1}}",
         PAWL_EINVAL,
         "true or false"},
        {"{\"spawn\":[{\"kind\":\"a\"}],\"next\":\"b\",\"join\":7}",
         PAWL_EINVAL,
         "\"join\" must be an object"},
        {"{\"retry\":null}", PAWL_EINVAL, "\"retry\" must be a text"},
        {"{\"snooze_ms\":\"soon\"}", PAWL_EINVAL, "\"snooze_ms\" must be a whole number"},
        {"{\"cancel\":false}", PAWL_EINVAL, "\"cancel\" must be true"},
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        refused(*state, wrong[i].text, wrong[i].code, wrong[i].message);
}

static void an_unknown_member_is_guessed(void **state)
{
    struct fixture *f = *state;

    refused(f, "{\"nextt\":\"a\"}", PAWL_EINVAL, "\"nextt\"");
    assert_string_equal(f->err.detail, "Is \"next\" meant?");
}

/* A text of `len` bytes around which everything is right. */
static char *with_long(const char *before, size_t len, const char *after)
{
    char *text = calloc(1, strlen(before) + len + strlen(after) + 1);

    memcpy(text, before, strlen(before));
    memset(text + strlen(before), 'a', len);
    memcpy(text + strlen(before) + len, after, strlen(after));
    return text;
}

static void limits_are_kept(void **state)
{
    static const struct {
        const char *before;
        size_t len;
        const char *after;
        const char *message;
    } wrong[] = {
        {"{\"next\":\"", PAWL_NAME_MAX + 1, "\"}", "longer than"},
        {"{\"next\":\"a\",\"state\":\"", PAWL_STATE_MAX - 1, "\"}", "the state has"},
        {"{\"done\":\"", PAWL_RESULT_MAX - 1, "\"}", "the result has"},
        {"{\"retry\":\"", CONTROL_LINE_MAX, "\"}", "more than"},
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        char *text = with_long(wrong[i].before, wrong[i].len, wrong[i].after);

        refused(*state, text, PAWL_ELIMIT, wrong[i].message);
        free(text);
    }
    char *fits = with_long("{\"next\":\"a\",\"state\":\"", PAWL_STATE_MAX - 2, "\"}");

    said(*state, fits);
    free(fits);
}

static void ten_thousand_children_fit(void **state)
{
    struct fixture *f = *state;
    CLEANUP(buf_deinit)
    struct buf text;

    buf_init(&text, CONTROL_LINE_MAX);
    buf_puts(&text, "{\"next\":\"joined\",\"spawn\":[");
    for (int i = 0; i < 10000; i++)
        buf_printf(&text, "%s{\"kind\":\"part\",\"payload\":{\"n\":%d}}", i > 0 ? "," : "", i);
    buf_puts(&text, "]}\n");
    assert_false(text.failed);
    const struct outcome *outcome = said(f, buf_str(&text));

    assert_int_equal(outcome->on->n_children, 10000);
    assert_bytes(outcome->on->children[9999].payload,
                 outcome->on->children[9999].payload_len,
                 "{\"n\":9999}");
}

/* A small generator of our own: the same bytes in every run. */
static unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 16;
}

/* Whatever is written to the descriptor, it is an outcome or an error, and nothing is read that is
 * not there: every text stands in memory of exactly its size. */
static void any_bytes_are_an_outcome_or_an_error(void **state)
{
    static const char *const seeds[] = {
        "{\"next\":\"a\",\"state\":{\"x\":[1,2,{\"y\":\"\\\"\"}]},\"delay_ms\":5}",
        "{\"await\":[\"a\",\"b\"],\"next\":\"c\",\"timeout_ms\":10}",
        "{\"spawn\":[{\"kind\":\"a\",\"payload\":[]},{\"kind\":\"b\"}],\"next\":\"c\",\"join\":{\"quorum\":1}}",
        "{\"done\":1}",
        "{\"retry\":\"x\",\"delay_ms\":1}",
        "",
    };
    static const char bytes[] = "{}[]\",:\\ \n\t019-.eEaunltrs";
    struct fixture *f = *state;
    unsigned seed = 20261116;
    size_t accepted = 0;

    for (int round = 0; round < 30000; round++) {
        const char *from = seeds[next_random(&seed) % (sizeof(seeds) / sizeof(*seeds))];
        size_t len = strlen(from);
        size_t room = len + 8;
        char *text = malloc(room);

        memcpy(text, from, len);
        for (unsigned n = next_random(&seed) % 5; n > 0; n--) {
            char byte = next_random(&seed) % 8 == 0
                            ? (char)next_random(&seed)
                            : bytes[next_random(&seed) % (sizeof(bytes) - 1)];

            if (next_random(&seed) % 3 == 0 && len < room)
                text[len++] = byte;
            else if (len > 0 && next_random(&seed) % 4 == 0)
                len--;
            else if (len > 0)
                text[next_random(&seed) % len] = byte;
        }
        char *exact = malloc(len > 0 ? len : 1);

        memcpy(exact, text, len);
        int rc = control_parse(exact, len, "home", &f->arena, &f->control, &f->err);

        assert_true(rc == 0 || rc == PAWL_EINVAL || rc == PAWL_ELIMIT);
        if (rc == 0) {
            const struct outcome *outcome = &f->control.outcome;

            accepted++;
            assert_true(outcome->kind >= OUTCOME_DONE && outcome->kind <= OUTCOME_SPAWN);
            assert_true((outcome->on != NULL) == (outcome->kind >= OUTCOME_NEXT));
            if (outcome->on != NULL && outcome->on->state != NULL)
                assert_true(json_is_valid(outcome->on->state, outcome->on->state_len));
        } else {
            assert_true(f->err.message[0] != '\0');
        }
        free(exact);
        free(text);
        arena_clear(&f->arena);
    }
    assert_true(accepted > 1000);
}

static void a_first_step_is_told_that_it_is_the_first(void **state)
{
    struct job job = {.attempt = 3};
    CLEANUP(buf_deinit)
    struct buf out;

    (void)state;
    buf_init(&out, 4096);
    assert_int_equal(control_tell(&job, &out), 0);
    assert_string_equal(buf_str(&out),
                        "{\"step\":null,\"state\":null,\"signals\":[],\"children\":[],"
                        "\"children_left\":0,\"timed_out\":false,\"attempt\":3}");
}

static void a_later_step_is_told_all(void **state)
{
    struct machine machine = {.step = "pay",
                              .state = "{\"n\":1.0}",
                              .state_len = 9,
                              .signals = "[{\"id\":1,\"name\":\"a\",\"payload\":2}]",
                              .children = "[{\"id\":9}]",
                              .children_left = 2,
                              .timed_out = true};
    struct job job = {.attempt = 1, .machine = &machine};
    CLEANUP(buf_deinit)
    struct buf out;

    (void)state;
    buf_init(&out, 4096);
    assert_int_equal(control_tell(&job, &out), 0);
    assert_string_equal(
        buf_str(&out),
        "{\"step\":\"pay\",\"state\":{\"n\":1.0},\"signals\":[{\"id\":1,\"name\":\"a\","
        "\"payload\":2}],\"children\":[{\"id\":9}],\"children_left\":2,"
        "\"timed_out\":true,\"attempt\":1}");
    machine.state = "not \xff json";
    machine.state_len = strlen(machine.state);
    buf_clear(&out);
    assert_int_equal(control_tell(&job, &out), 0);
    assert_true(json_is_valid(out.data, out.len));
    assert_non_null(strstr(buf_str(&out), "\"state\":\"not \xef\xbf\xbd json\""));
}

static void what_does_not_fit_is_not_told_in_part(void **state)
{
    struct job job = {.attempt = 1};
    CLEANUP(buf_deinit)
    struct buf out;

    (void)state;
    buf_init(&out, 20);
    assert_int_equal(control_tell(&job, &out), PAWL_ENOMEM);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(next_goes_on_at_once_or_later),
        TEST(values_pass_byte_for_byte),
        TEST(await_names_signals_and_may_time_out),
        TEST(spawn_makes_children_with_defaults),
        TEST(a_join_has_options),
        TEST(the_other_outcomes),
        TEST(what_is_wrong_is_named),
        TEST(an_unknown_member_is_guessed),
        TEST(limits_are_kept),
        TEST(ten_thousand_children_fit),
        TEST(any_bytes_are_an_outcome_or_an_error),
        cmocka_unit_test(a_first_step_is_told_that_it_is_the_first),
        cmocka_unit_test(a_later_step_is_told_all),
        cmocka_unit_test(what_does_not_fit_is_not_told_in_part),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What is made from the verb table: help, man page, completion; and the check for mistakes in it.
 */
#include <string.h>

#include <locale.h>

#include "cli/verb_parse.h"
#include "support/cmocka.h"
#include "verb_table.h"

static int put_run(struct cli *cli, struct pawl_err *err)
{
    (void)cli;
    (void)err;
    return 0;
}

static void help_text_is_aligned_and_wrapped(void **state)
{
    (void)state;
    static const char expected[] =
        "Usage: pawl thing put [OPTIONS] NAME [TEXT]\n"
        "\n"
        "Put a thing somewhere.\n"
        "\n"
        "Things are put where they belong.\n"
        "\n"
        "  kept as it is\n"
        "\n"
        "Options:\n"
        "  -Q, --queue QUEUE     Where to put it. Default: default\n"
        "      --priority N      How urgent it is, from 0 to 9, where 9 is what is taken\n"
        "                        before everything else. Default: 4\n"
        "      --delay TIME      Not before that has passed\n"
        "      --at WHEN         Not before then\n"
        "      --tag TAG         May be given more than once\n"
        "      --mode MODE       How to do it. Default: fast. MODE is fast or safe\n"
        "  -n, --dry-run         Only say what would be done\n"
        "      --from-file FILE  Read it from there\n"
        "\n"
        "Global options:\n";
    struct buf out;
    buf_init(&out, 1 << 16);
    verb_help((const struct verb *const[]){&root, &verb_thing, &verb_put}, 3, 80, false, &out);
    assert_memory_equal(buf_str(&out), expected, sizeof expected - 1);
    assert_non_null(strstr(
        buf_str(&out),
        "\n\nExamples:\n  pawl thing put hello '{\"n\": 1}' --priority 9\n      The plain way.\n"));
    assert_null(strstr(buf_str(&out), "secret"));
    assert_null(strchr(buf_str(&out), '\033'));
    for (const char *line = buf_str(&out); *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 80);
    buf_deinit(&out);
}

static void man_page_has_every_option_and_exit_status(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 1 << 20);
    verb_man(&root, &out);
    assert_false(out.failed);
    char needle[128];
    for (const struct option_spec *spec = put_specs; spec->name; spec++) {
        snprintf(needle, sizeof needle, "*--%s*", spec->name);
        if (spec->hidden)
            assert_null(strstr(buf_str(&out), needle));
        else
            assert_non_null(strstr(buf_str(&out), needle));
    }
    for (const struct option_spec *spec = verb_global_options; spec->name; spec++) {
        snprintf(needle, sizeof needle, "*--%s*", spec->name);
        assert_non_null(strstr(buf_str(&out), needle));
    }
#define CODE(name, value, status, text) assert_non_null(strstr(buf_str(&out), "- *" #status "*: "));
    PAWL_CODES(CODE)
#undef CODE
    assert_null(strstr(buf_str(&out), "ghost"));
    assert_non_null(strstr(buf_str(&out), "PAWL\\_DATABASE\\_URL"));
    buf_deinit(&out);
}

static void completion_has_every_verb_option_and_choice(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 1 << 20);
    verb_completion_bash(&root, &out);
    const char *script = buf_str(&out);
    assert_non_null(strstr(script, "'pawl thing put')"));
    assert_non_null(strstr(script, "verbs='put '"));
    assert_non_null(strstr(script, "--dry-run -n "));
    assert_non_null(strstr(script, "'pawl thing put'' --mode') words='fast safe'"));
    assert_non_null(strstr(script, "'pawl thing put'' --from-file') files=1"));
    assert_null(strstr(script, "secret"));
    assert_null(strstr(script, "ghost"));
    buf_deinit(&out);
}

static void table_check_finds_mistakes(void **state)
{
    (void)state;
    struct pawl_err err;
    assert_int_equal(verb_check(&root, &err), 0);

    struct option_spec specs[3];
    struct verb bad = verb_put;
    const struct verb *const verbs[] = {&bad, NULL};
    const struct verb top = {.name = "pawl", .summary = "A test", .verbs = verbs};
    bad.examples = NULL;
    bad.options = specs;
#define REFUSED(change, what)                                  \
    do {                                                       \
        memcpy(specs, put_specs, 2 * sizeof *specs);           \
        specs[2] = (struct option_spec){0};                    \
        change;                                                \
        assert_int_equal(verb_check(&top, &err), PAWL_EINVAL); \
        assert_non_null(strstr(err.message, what));            \
    } while (0)
    REFUSED(specs[1].name = "queue", "used twice");
    REFUSED(specs[1].name = "Priority", "lower-case");
    REFUSED(specs[1].letter = 'o', "global");
    REFUSED(specs[1].offset = sizeof(struct put_options) - 1, "outside");
    REFUSED(specs[1].set_offset = sizeof(struct put_options), "outside");
    REFUSED(specs[1].help = "Ends.", "full stop");
    REFUSED(specs[1].max = 0, "no range");
    REFUSED(specs[1].value = NULL, "name its value");
    REFUSED((specs[1].kind = OPTION_CHOICE), "no choices");
    static const struct example wrong[] = {{"pawl put x --priority 77", "no"}, {NULL, NULL}};
    REFUSED(bad.examples = wrong, "does not parse");
    bad.examples = NULL;
    REFUSED(bad.max_args = 0, "do not agree");
#undef REFUSED
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_text_is_aligned_and_wrapped),
        cmocka_unit_test(man_page_has_every_option_and_exit_status),
        cmocka_unit_test(completion_has_every_verb_option_and_choice),
        cmocka_unit_test(table_check_finds_mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The command line framework: what is parsed, what is refused and how, what running comes to. */
#include "cli/verb.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <locale.h>

#include "base/clock.h"
#include "cli/verb_parse.h"
#include "support/cmocka.h"
#include "verb_table.h"

static struct put_options seen; /* of the last put that ran */
static char seen_path[64];
static size_t seen_args;
static const char *say; /* what put prints */

static int put_run(struct cli *cli, struct pawl_err *err)
{
    seen = *(const struct put_options *)cli->options;
    seen_args = cli->n_args;
    snprintf(seen_path, sizeof seen_path, "%s", cli->path);
    if (strcmp(cli->args[0], "refuse") == 0)
        return verb_usage(cli, err, "%s is refused", cli->args[0]);
    if (strcmp(cli->args[0], "fail") == 0) {
        err_set(err, PAWL_ECONN, "could not connect");
        err_detail(err, "first\nsecond \033[2J");
        return err_hint(err, "Start it.");
    }
    cli_note(cli, "about to say it");
    if (say)
        fputs(say, stdout);
    return 0;
}

/* Parsing one line of words separated by blanks. */
struct line {
    struct arena arena;
    char text[4096];
    char *argv[256];
    int argc;
    struct verb_call call;
    struct pawl_err err;
    int rc;
};

static void line_split(struct line *line, const char *text)
{
    snprintf(line->text, sizeof line->text, "%s", text);
    line->argc = 0;
    for (char *rest = line->text, *word; (word = strsep(&rest, " "));)
        line->argv[line->argc++] = word;
    line->argv[line->argc] = NULL;
}

static const struct put_options *parse(struct line *line, const char *text)
{
    arena_deinit(&line->arena);
    arena_init(&line->arena, 1 << 20);
    line_split(line, text);
    err_clear(&line->err);
    line->rc = verb_parse(&root, line->argc, line->argv, &line->arena, &line->call, &line->err);
    return line->call.options;
}

static int line_setup(void **state)
{
    struct line *line = calloc(1, sizeof *line);
    if (!line)
        return -1;
    arena_init(&line->arena, 1 << 20);
    *state = line;
    return 0;
}

static int line_teardown(void **state)
{
    struct line *line = *state;
    arena_deinit(&line->arena);
    free(line);
    return 0;
}

static void options_of_every_kind_are_stored(void **state)
{
    struct line *line = *state;
    const struct put_options *o = parse(
        line,
        "pawl thing put -Q mail --priority=9 --delay 1h30m --at 1970-01-01T00:00:01Z --tag a --tag=b "
        "--mode safe -n --from-file x hello {}");
    assert_int_equal(line->rc, 0);
    assert_string_equal(o->queue, "mail");
    assert_int_equal(o->priority, 9);
    assert_true(o->priority_set);
    assert_int_equal(o->delay_ms, 5400 * MS_PER_S);
    assert_int_equal(o->at_us, US_PER_S);
    assert_int_equal(o->tags.n, 2);
    assert_string_equal(o->tags.items[1], "b");
    assert_int_equal(o->mode, 1);
    assert_true(o->dry_run);
    assert_int_equal(line->call.n_args, 2);
    assert_string_equal(line->call.args[0], "hello");
    assert_null(line->call.args[2]);
}

static void defaults_stand_when_nothing_is_given(void **state)
{
    struct line *line = *state;
    const struct put_options *o = parse(line, "pawl thing put x");
    assert_int_equal(line->rc, 0);
    assert_string_equal(o->queue, "default");
    assert_int_equal(o->priority, 4);
    assert_false(o->priority_set);
    assert_int_equal(line->call.globals.output, OUT_TABLE);
}

static void options_and_arguments_mix_in_any_order(void **state)
{
    struct line *line = *state;
    setenv("POSIXLY_CORRECT", "1", 1);
    const struct put_options *o = parse(
        line, "pawl -o json --db a thing -q put x --priority 1 y --db b -o jsonl --priority 2");
    unsetenv("POSIXLY_CORRECT");
    assert_int_equal(line->rc, 0);
    assert_int_equal(o->priority, 2);
    assert_int_equal(line->call.n_args, 2);
    assert_string_equal(line->call.globals.db, "b");
    assert_int_equal(line->call.globals.output, OUT_JSONL);
    assert_true(line->call.globals.quiet);
}

static void two_dashes_end_the_options(void **state)
{
    struct line *line = *state;
    parse(line, "pawl thing put -- -x --help");
    assert_int_equal(line->rc, 0);
    assert_false(line->call.globals.help);
    assert_string_equal(line->call.args[0], "-x");
    assert_string_equal(line->call.args[1], "--help");
    parse(line, "pawl -- thing put - -n");
    assert_int_equal(line->rc, 0);
    assert_string_equal(line->call.args[0], "-");
}

static void refusals_say_what_is_wrong_and_what_to_do(void **state)
{
    static const struct {
        const char *line, *message, *detail, *hint;
    } cases[] = {
        {"pawl thng", "unknown command \"thng\"", "", "Did you mean pawl thing? See pawl --help."},
        {"pawl thing pit x",
         "unknown command \"pit\" of pawl thing",
         "",
         "Did you mean pawl thing put? See pawl thing --help."},
        {"pawl thing zebra",
         "unknown command \"zebra\" of pawl thing",
         "",
         "See pawl thing --help for what there is."},
        {"pawl thing put x --prioritty 1",
         "unknown option --prioritty",
         "",
         "Did you mean --priority? See pawl thing put --help."},
        {"pawl thing put x --prio 1",
         "unknown option --prio",
         "",
         "Did you mean --priority? See pawl thing put --help."},
        {"pawl thing put x --secre", "unknown option --secre", "", "See pawl thing put --help."},
        {"pawl thing put x -z", "unknown option -z", "", "See pawl thing put --help."},
        {"pawl thing put x -7",
         "unknown option -7",
         "",
         "Put -- before an argument that begins with a dash. See pawl thing put --help."},
        {"pawl thing put x --priority high",
         "invalid value \"high\" for --priority",
         "It must be a whole number from 0 to 9.",
         "See pawl thing put --help."},
        {"pawl thing put x --priority 10",
         "invalid value \"10\" for --priority",
         "It must be a whole number from 0 to 9.",
         "See pawl thing put --help."},
        {"pawl thing put x --priority -1",
         "invalid value \"-1\" for --priority",
         "It must be a whole number from 0 to 9.",
         "See pawl thing put --help."},
        {"pawl thing put x --mode saef",
         "invalid value \"saef\" for --mode",
         "It must be fast or safe. Did you mean safe?",
         "See pawl thing put --help."},
        {"pawl thing put x --queue",
         "option --queue needs a value",
         "--queue QUEUE: Where to put it. Default: default.",
         "See pawl thing put --help."},
        {"pawl thing put x -Q",
         "option --queue needs a value",
         "--queue QUEUE: Where to put it. Default: default.",
         "See pawl thing put --help."},
        {"pawl thing put x --dry-run=yes",
         "option --dry-run takes no value",
         "",
         "See pawl thing put --help."},
        {"pawl thing put",
         "missing argument: NAME",
         "Usage: pawl thing put [OPTIONS] NAME [TEXT]",
         "See pawl thing put --help."},
        {"pawl thing put x y z",
         "unexpected argument \"z\"",
         "Usage: pawl thing put [OPTIONS] NAME [TEXT]",
         "See pawl thing put --help."},
        {"pawl -o xml thing put x",
         "invalid value \"xml\" for --output",
         "It must be table, json or jsonl.",
         "See pawl --help."},
    };
    struct line *line = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        parse(line, cases[i].line);
        assert_int_equal(line->rc, PAWL_EINVAL);
        assert_string_equal(line->err.message, cases[i].message);
        assert_string_equal(line->err.detail, cases[i].detail);
        assert_string_equal(line->err.hint, cases[i].hint);
    }
    parse(line, "pawl thing put x --delay soon");
    assert_string_equal(line->err.message, "invalid value \"soon\" for --delay");
    assert_non_null(strstr(line->err.detail, "90s"));
    parse(line, "pawl thing put x --at tomorrow");
    assert_non_null(strstr(line->err.detail, "2026-11-15T12:00:00Z"));
}

static void first_of_several_mistakes_is_told(void **state)
{
    struct line *line = *state;
    parse(line, "pawl thing put --mode x --priority y --nope");
    assert_string_equal(line->err.message, "invalid value \"x\" for --mode");
}

static void list_is_bounded(void **state)
{
    struct line *line = *state;
    struct buf text;
    buf_init(&text, 4096);
    buf_puts(&text, "pawl thing put x");
    for (int i = 0; i <= OPTION_LIST_MAX; i++)
        buf_puts(&text, " --tag t");
    parse(line, buf_str(&text));
    buf_deinit(&text);
    assert_int_equal(line->rc, PAWL_EINVAL);
    assert_non_null(strstr(line->err.message, "--tag is given more than 64 times"));
}

static void help_wins_over_wrong_options_but_not_over_an_unknown_verb(void **state)
{
    struct line *line = *state;
    static const char *const lines[] = {
        "pawl --help thing put",
        "pawl thing -h put",
        "pawl thing put --priority x --help",
        "pawl thing put -nh",
        "pawl thing put --nope --help",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        parse(line, lines[i]);
        assert_int_equal(line->rc, 0);
        assert_true(line->call.globals.help);
        assert_ptr_equal(line->call.path[line->call.depth - 1], &verb_put);
    }
    parse(line, "pawl nothing --help");
    assert_int_equal(line->rc, PAWL_EINVAL);
}

static void noun_alone_is_incomplete(void **state)
{
    struct line *line = *state;
    parse(line, "pawl");
    assert_true(line->call.missing);
    parse(line, "pawl thing -q");
    assert_int_equal(line->rc, 0);
    assert_true(line->call.missing);
    assert_int_equal(line->call.depth, 2);
}

/* Running for real, with stdout and stderr caught. */
struct caught {
    int status;
    char out[8192];
    char err[8192];
};

static void slurp(FILE *file, char *text, size_t size)
{
    rewind(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
}

static void capture(struct line *line, const char *text, struct caught *caught)
{
    FILE *files[2] = {tmpfile(), tmpfile()};
    int saved[2] = {dup(STDOUT_FILENO), dup(STDERR_FILENO)};
    fflush(stdout);
    dup2(fileno(files[0]), STDOUT_FILENO);
    dup2(fileno(files[1]), STDERR_FILENO);
    line_split(line, text);
    caught->status = verb_main(&root, line->argc, line->argv);
    dup2(saved[0], STDOUT_FILENO);
    dup2(saved[1], STDERR_FILENO);
    close(saved[0]);
    close(saved[1]);
    slurp(files[0], caught->out, sizeof caught->out);
    slurp(files[1], caught->err, sizeof caught->err);
}

static void verb_runs_with_what_was_given(void **state)
{
    struct caught caught;
    say = "said\n";
    capture(*state, "pawl thing put --priority 7 x y", &caught);
    assert_int_equal(caught.status, 0);
    assert_string_equal(caught.out, "said\n");
    assert_string_equal(caught.err, "note: about to say it\n");
    assert_int_equal(seen.priority, 7);
    assert_int_equal(seen_args, 2);
    assert_string_equal(seen_path, "pawl thing put");
    capture(*state, "pawl thing put x -q", &caught);
    assert_string_equal(caught.err, "");
    capture(*state, "pawl thing ghost a b c d e", &caught);
    assert_int_equal(caught.status, 0);
    assert_int_equal(seen_args, 5);
}

static void errors_go_to_stderr_with_the_exit_status_of_their_code(void **state)
{
    struct caught caught;
    capture(*state, "pawl thing put fail -o json", &caught);
    assert_int_equal(caught.status, 4);
    assert_string_equal(caught.out, "");
    assert_string_equal(caught.err,
                        "pawl: could not connect\n"
                        "  detail: first\n"
                        "    second \\x1b[2J\n"
                        "  hint: Start it.\n");
    capture(*state, "pawl thing put refuse", &caught);
    assert_int_equal(caught.status, 2);
    assert_string_equal(caught.err,
                        "pawl: refuse is refused\n  hint: See pawl thing put --help.\n");
    capture(*state, "pawl", &caught);
    assert_int_equal(caught.status, 2);
    assert_non_null(strstr(caught.out, "Things:\n  thing  Work with things\n"));
    capture(*state, "pawl thing --version", &caught);
    assert_string_equal(caught.out, "pawl " PAWL_VERSION "\n");
    setenv("PAWL_LOG", "loud", 1);
    capture(*state, "pawl thing put x", &caught);
    unsetenv("PAWL_LOG");
    assert_int_equal(caught.status, 2);
    assert_non_null(strstr(caught.err, "PAWL_LOG"));
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    setlocale(LC_CTYPE, "C.UTF-8");
#define TEST(f) cmocka_unit_test_setup_teardown(f, line_setup, line_teardown)
    const struct CMUnitTest tests[] = {
        TEST(options_of_every_kind_are_stored),
        TEST(defaults_stand_when_nothing_is_given),
        TEST(options_and_arguments_mix_in_any_order),
        TEST(two_dashes_end_the_options),
        TEST(refusals_say_what_is_wrong_and_what_to_do),
        TEST(first_of_several_mistakes_is_told),
        TEST(list_is_bounded),
        TEST(help_wins_over_wrong_options_but_not_over_an_unknown_verb),
        TEST(noun_alone_is_incomplete),
        TEST(verb_runs_with_what_was_given),
        TEST(errors_go_to_stderr_with_the_exit_status_of_their_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

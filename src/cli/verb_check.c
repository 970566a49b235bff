/*
 * verb_check: a table written by hand can be wrong in ways no compiler sees. This finds them before
 * a user does; the build runs it when it makes the man page.
 */
#include <string.h>

#include <wordexp.h>

#include "cli/verb_parse.h"

struct check {
    const struct verb *path[VERB_DEPTH_MAX];
    size_t depth;
    struct pawl_err *err;
};

static int wrong(const struct check *check, const char *what, const char *name)
{
    struct buf path;
    buf_init(&path, 256);
    verb_path_put(check->path, check->depth, &path);
    err_set(check->err, PAWL_EINVAL, "the command table is wrong at %s: %s", buf_str(&path), what);
    if (name)
        err_detail(check->err, "It concerns %s.", name);
    buf_deinit(&path);
    return PAWL_EINVAL;
}

static size_t value_size(enum option_kind kind)
{
    switch (kind) {
    case OPTION_FLAG:
        return sizeof(bool);
    case OPTION_TEXT:
        return sizeof(const char *);
    case OPTION_LIST:
        return sizeof(struct option_list);
    case OPTION_INT:
    case OPTION_DURATION:
    case OPTION_TIME:
        return sizeof(int64_t);
    case OPTION_CHOICE:
    case OPTION_INT32:
        return sizeof(int);
    }
    return 0;
}

/* In how many places of a list this name or letter is used. */
static size_t uses(const struct option_spec *specs, const struct option_spec *spec)
{
    size_t n = 0;
    for (; specs && specs->name; specs++)
        n +=
            strcmp(specs->name, spec->name) == 0 || (spec->letter && specs->letter == spec->letter);
    return n;
}

static int
check_option(const struct check *check, const struct verb *verb, const struct option_spec *spec)
{
    if (strspn(spec->name, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(spec->name) ||
        strlen(spec->name) < 2)
        return wrong(
            check, "an option's name is not of lower-case letters, digits and dashes", spec->name);
    if (uses(verb->options, spec) > 1)
        return wrong(check, "an option's name or letter is used twice", spec->name);
    if (uses(verb_global_options, spec) > 0)
        return wrong(check, "an option takes the name or letter of a global one", spec->name);
    if (spec->offset + value_size(spec->kind) > verb->options_size ||
        spec->set_offset + (spec->set_offset ? sizeof(bool) : 0) > verb->options_size)
        return wrong(check, "an option is stored outside the options struct", spec->name);
    if (!spec->help)
        return wrong(check, "an option has no help", spec->name);
    size_t len = strlen(spec->help);
    if (len == 0 || spec->help[len - 1] == '.')
        return wrong(check, "an option's help is empty or ends with a full stop", spec->name);
    if (spec->kind == OPTION_CHOICE && (!spec->choices || !spec->choices[0]))
        return wrong(check, "an option has no choices", spec->name);
    if (spec->kind != OPTION_FLAG && !spec->value)
        return wrong(check, "an option does not name its value", spec->name);
    if ((spec->kind == OPTION_INT || spec->kind == OPTION_INT32) && spec->min >= spec->max)
        return wrong(check, "an option has no range", spec->name);
    return 0;
}

/* Only what is a single plain command can be judged: pipes and the like are for the shell. */
static int check_example(const struct check *check, const struct example *example)
{
    wordexp_t words;
    if (!strstr(example->command, "pawl"))
        return wrong(check, "an example does not show pawl", example->command);
    if (wordexp(example->command, &words, WRDE_NOCMD) != 0)
        return 0;
    int rc = 0;
    struct arena arena;
    arena_init(&arena, CLI_MEMORY_MAX);
    if (words.we_wordc > 0 && strcmp(words.we_wordv[0], "pawl") == 0) {
        struct verb_call call;
        struct pawl_err why;
        if (verb_parse(check->path[0], (int)words.we_wordc, words.we_wordv, &arena, &call, &why) !=
            0) {
            rc = wrong(check, "an example does not parse", example->command);
            err_hint(check->err, "%s: %.200s", example->command, why.message);
        }
    }
    arena_deinit(&arena);
    wordfree(&words);
    return rc;
}

static int check_verb(struct check *check);

static int check_children(struct check *check, const struct verb *verb)
{
    if (check->depth == VERB_DEPTH_MAX)
        return wrong(check, "it is nested too deep", NULL);
    for (size_t i = 0; verb->verbs[i]; i++) {
        for (size_t k = 0; k < i; k++)
            if (strcmp(verb->verbs[i]->name, verb->verbs[k]->name) == 0)
                return wrong(check, "a name is used twice", verb->verbs[i]->name);
        check->path[check->depth++] = verb->verbs[i];
        int rc = check_verb(check);
        check->depth--;
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int check_verb(struct check *check)
{
    const struct verb *verb = check->path[check->depth - 1];
    size_t n = 0;
    if (!verb->summary || !*verb->summary || verb->summary[strlen(verb->summary) - 1] == '.')
        return wrong(check, "the summary is missing or ends with a full stop", NULL);
    if (!verb->verbs == !verb->run)
        return wrong(check, "it has neither or both of run and sub-verbs", NULL);
    if (verb->verbs && verb->options)
        return wrong(check, "a noun has options of its own", NULL);
    if (verb->min_args > verb->max_args || (verb->max_args > 0) != (verb->args != NULL))
        return wrong(check, "args, min_args and max_args do not agree", NULL);
    for (const struct option_spec *spec = verb->options; spec && spec->name; spec++, n++) {
        int rc = check_option(check, verb, spec);
        if (rc != 0)
            return rc;
    }
    for (const struct option_spec *spec = verb_global_options; spec->name; spec++)
        n++;
    if (n > VERB_OPTIONS_MAX)
        return wrong(check, "it has too many options", NULL);
    for (const struct example *example = verb->examples; example && example->command; example++) {
        int rc = check_example(check, example);
        if (rc != 0)
            return rc;
    }
    return verb->verbs ? check_children(check, verb) : 0;
}

int verb_check(const struct verb *root, struct pawl_err *err)
{
    struct pawl_err spare;
    struct check check = {.path = {root}, .depth = 1, .err = err ? err : &spare};
    return check_verb(&check);
}

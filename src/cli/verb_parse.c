/*
 * verb_parse: getopt_long over tables built from the verb's options and the global ones. Two things
 * getopt does are undone: abbreviated long options (a script that uses one breaks when another
 * option appears) and POSIXLY_CORRECT (the same line must mean the same everywhere).
 */
#include "cli/verb_parse.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include <getopt.h>

#include "base/text.h"

static const char *const output_choices[] = {"table", "json", "jsonl", NULL};
static const char *const level_choices[] = {"debug", "info", "warn", "error", "off", NULL};

/* clang-format off: one member a line */
const struct option_spec verb_global_options[] = {
    {.name = "db",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct verb_globals, db),
     .value = "URL",
     .help =
         "PostgreSQL to use, as a URL or \"key=value\" string. Default: PAWL_DATABASE_URL, else the PG* "
         "variables, else a private one that pawl runs itself"},
    {.name = "output",
     .letter = 'o',
     .kind = OPTION_CHOICE,
     .offset = offsetof(struct verb_globals, output),
     .value = "FORMAT",
     .help = "How results are written. Default: table",
     .choices = output_choices},
    {.name = "quiet",
     .letter = 'q',
     .kind = OPTION_FLAG,
     .offset = offsetof(struct verb_globals, quiet),
     .help = "No notes on standard error, and only errors in the log"},
    {.name = "log-level",
     .kind = OPTION_CHOICE,
     .offset = offsetof(struct verb_globals, log_level),
     .set_offset = offsetof(struct verb_globals, log_level_set),
     .value = "LEVEL",
     .help =
         "Least level that is logged. Default: PAWL_LOG, else info for a worker and warn for the rest",
     .choices = level_choices},
    {.name = "help",
     .letter = 'h',
     .kind = OPTION_FLAG,
     .offset = offsetof(struct verb_globals, help),
     .help = "Show help for the command and do nothing else"},
    {.name = "version",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct verb_globals, version),
     .help = "Show the version and do nothing else"},
    {0},
};
/* clang-format on */

/* What getopt returns for a long option is LONG_BASE + its place: clear of every letter. */
#define LONG_BASE 256

struct parse {
    struct verb_call *call;
    struct arena *arena;
    const struct option_spec *specs[VERB_OPTIONS_MAX];
    size_t n_specs;
    size_t n_own; /* the first ones are the verb's, the rest global */
    struct option longs[VERB_OPTIONS_MAX + 1];
    char letters[2 + 2 * VERB_OPTIONS_MAX + 1];
    struct pawl_err *err; /* the first thing that was wrong */
    int rc;
};

static const struct verb *current(const struct verb_call *call)
{
    return call->path[call->depth - 1];
}

static void hint_help(const struct verb_call *call, struct pawl_err *err, const char *first)
{
    struct buf path;
    buf_init(&path, sizeof err->hint);
    verb_path_put(call->path, call->depth, &path);
    err_hint(err, "%s%sSee %s --help.", first, *first ? " " : "", buf_str(&path));
    buf_deinit(&path);
}

/* --help may still come, so parsing goes on after an error; the first error is kept. */
static struct pawl_err *first_error(struct parse *p, struct pawl_err *spare)
{
    return p->rc == 0 ? p->err : spare;
}

static void fail(struct parse *p, int code)
{
    if (p->rc == 0)
        p->rc = code;
}

static void add_specs(struct parse *p, const struct option_spec *specs)
{
    for (; specs && specs->name && p->n_specs < VERB_OPTIONS_MAX; specs++)
        p->specs[p->n_specs++] = specs;
}

static void build_tables(struct parse *p, const struct verb *verb)
{
    p->n_specs = 0;
    add_specs(p, verb->options);
    p->n_own = p->n_specs;
    add_specs(p, verb_global_options);

    /* '-': arguments come in order, whatever POSIXLY_CORRECT says. ':': a missing value is told
     * from an unknown option. */
    char *letter = p->letters;
    *letter++ = '-';
    *letter++ = ':';
    for (size_t i = 0; i < p->n_specs; i++) {
        bool valued = p->specs[i]->kind != OPTION_FLAG;
        p->longs[i] = (struct option){.name = p->specs[i]->name,
                                      .has_arg = valued ? required_argument : no_argument,
                                      .val = LONG_BASE + (int)i};
        if (p->specs[i]->letter) {
            *letter++ = p->specs[i]->letter;
            if (valued)
                *letter++ = ':';
        }
    }
    p->longs[p->n_specs] = (struct option){0};
    *letter = '\0';
}

/* By what getopt returned: a letter or a place. NULL when it is neither. */
static size_t spec_find(const struct parse *p, int opt)
{
    if (opt >= LONG_BASE)
        return (size_t)(opt - LONG_BASE);
    for (size_t i = 0; i < p->n_specs; i++)
        if (opt != 0 && p->specs[i]->letter == opt)
            return i;
    return p->n_specs;
}

/* An option that begins with what was typed is nearer than any edit distance would say. */
static const char *nearest_option(const struct parse *p, const char *typed)
{
    const char *names[VERB_OPTIONS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < p->n_specs; i++) {
        if (p->specs[i]->hidden)
            continue;
        if (strlen(typed) >= 2 && strncmp(p->specs[i]->name, typed, strlen(typed)) == 0)
            return p->specs[i]->name;
        names[n++] = p->specs[i]->name;
    }
    return text_nearest(typed, names, n);
}

static void unknown_long(struct parse *p, const char *token)
{
    struct pawl_err spare, *err = first_error(p, &spare);
    char name[64];
    size_t len = strcspn(token + 2, "=");
    snprintf(name, sizeof name, "%.*s", (int)(len < 60 ? len : 60), token + 2);
    const char *near = nearest_option(p, name);
    char first[128] = "";
    if (near)
        snprintf(first, sizeof first, "Did you mean --%s?", near);
    fail(p, err_set(err, PAWL_EINVAL, "unknown option --%s", name));
    hint_help(p->call, err, first);
}

static void unknown_letter(struct parse *p, int letter)
{
    struct pawl_err spare, *err = first_error(p, &spare);
    bool printable = letter > ' ' && letter < 127;
    fail(p, err_set(err, PAWL_EINVAL, "unknown option -%c", printable ? letter : '?'));
    hint_help(p->call,
              err,
              letter >= '0' && letter <= '9' ? "Put -- before an argument that begins with a dash."
                                             : "");
}

static void missing_value(struct parse *p, const struct option_spec *spec)
{
    struct pawl_err spare, *err = first_error(p, &spare);
    struct buf value;
    buf_init(&value, sizeof err->detail);
    verb_option_help_put(spec, &value);
    fail(p, err_set(err, PAWL_EINVAL, "option --%s needs a value", spec->name));
    err_detail(err, "--%s %s: %s.", spec->name, spec->value, buf_str(&value));
    hint_help(p->call, err, "");
    buf_deinit(&value);
}

static void set_value(struct parse *p, size_t i, const char *value)
{
    struct pawl_err spare, *err = first_error(p, &spare);
    void *into = i < p->n_own ? p->call->options : &p->call->globals;
    int rc = verb_value_set(p->specs[i], value, into, err);
    if (rc == 0)
        return;
    hint_help(p->call, err, "");
    fail(p, rc);
}

/* token is the word that getopt looked at. */
static void take_option(struct parse *p, int opt, const char *token)
{
    size_t i = spec_find(p, opt == '?' || opt == ':' ? optopt : opt);
    bool is_long = strncmp(token, "--", 2) == 0;
    if (is_long && i < p->n_specs) {
        size_t len = strcspn(token + 2, "=");
        if (strlen(p->specs[i]->name) != len || strncmp(p->specs[i]->name, token + 2, len) != 0)
            i = p->n_specs; /* an abbreviation */
    }
    if (i == p->n_specs && is_long) {
        unknown_long(p, token);
    } else if (i == p->n_specs) {
        unknown_letter(p, optopt);
    } else if (opt == ':') {
        missing_value(p, p->specs[i]);
    } else if (opt == '?') {
        struct pawl_err spare, *err = first_error(p, &spare);
        fail(p, err_set(err, PAWL_EINVAL, "option --%s takes no value", p->specs[i]->name));
        hint_help(p->call, err, "");
    } else {
        set_value(p, i, optarg);
    }
}

/* The n-th word of "KIND [JSON|-]", for "missing argument KIND". */
static void missing_arg(struct parse *p)
{
    struct pawl_err spare, *err = first_error(p, &spare);
    const char *word = current(p->call)->args ? current(p->call)->args : "";
    for (size_t i = 0; i < p->call->n_args && *word; i++) {
        word += strcspn(word, " ");
        word += strspn(word, " ");
    }
    struct buf usage;
    buf_init(&usage, 256);
    verb_usage_put(p->call->path, p->call->depth, &usage);
    fail(p, err_set(err, PAWL_EINVAL, "missing argument: %.*s", (int)strcspn(word, " "), word));
    err_detail(err, "Usage: %s", buf_str(&usage));
    hint_help(p->call, err, "");
    buf_deinit(&usage);
}

static void check_args(struct parse *p)
{
    const struct verb_call *call = p->call;
    const struct verb *verb = current(call);
    if (call->n_args < verb->min_args) {
        missing_arg(p);
    } else if (call->n_args > verb->max_args) {
        struct pawl_err spare, *err = first_error(p, &spare);
        struct buf usage;
        buf_init(&usage, 256);
        verb_usage_put(call->path, call->depth, &usage);
        fail(
            p,
            err_set(err, PAWL_EINVAL, "unexpected argument \"%.60s\"", call->args[verb->max_args]));
        err_detail(err, "Usage: %s", buf_str(&usage));
        hint_help(call, err, "");
        buf_deinit(&usage);
    }
}

/* A verb that runs: its options, with defaults, and room for its arguments. */
static int prepare_leaf(struct parse *p, int argc)
{
    const struct verb *verb = current(p->call);
    p->call->options = arena_alloc(p->arena, verb->options_size ? verb->options_size : 1);
    p->call->args = arena_new_array(p->arena, (size_t)argc + 1, const char *);
    if (!p->call->options || !p->call->args)
        return err_set(p->err, PAWL_ENOMEM, "out of memory");
    if (verb->defaults)
        verb->defaults(p->call->options);
    return 0;
}

/*
 * One level: argv[0] is the name of the current verb. A noun (or the root) stops at the first
 * argument, which names the next level; *ret_at is its place, argc when there is none.
 */
static void parse_level(struct parse *p, int argc, char **argv, int *ret_at)
{
    bool noun = current(p->call)->verbs != NULL;
    build_tables(p, current(p->call));
    opterr = 0;
    optind = 0; /* glibc: begin anew */
    for (;;) {
        int at = optind ? optind : 1;
        int opt = getopt_long(argc, argv, p->letters, p->longs, NULL);
        if (opt == -1)
            break;
        if (opt != 1) {
            take_option(p, opt, argv[at]);
        } else if (noun) {
            *ret_at = optind - 1;
            return;
        } else {
            p->call->args[p->call->n_args++] = optarg;
        }
    }
    *ret_at = optind;
    if (!noun)
        for (int i = optind; i < argc; i++)
            p->call->args[p->call->n_args++] = argv[i];
}

static int finish(struct parse *p)
{
    const struct verb_globals *globals = &p->call->globals;
    if (globals->help || globals->version)
        return 0;
    return p->rc;
}

int verb_parse(const struct verb *root,
               int argc,
               char **argv,
               struct arena *arena,
               struct verb_call *call,
               struct pawl_err *err)
{
    struct pawl_err spare;
    *call = (struct verb_call){.path = {root}, .depth = 1};
    struct parse p = {.call = call, .arena = arena, .err = err ? err : &spare};
    while (current(call)->verbs) {
        int at = argc;
        parse_level(&p, argc, argv, &at);
        if (at >= argc) {
            call->missing = true;
            return finish(&p);
        }
        const struct verb *next = NULL;
        struct pawl_err unknown;
        int rc = verb_find(call->path, call->depth, argv[at], &next, &unknown);
        if (rc != 0) {
            if (p.rc == 0)
                *p.err = unknown;
            return p.rc ? p.rc : rc;
        }
        assert(call->depth < VERB_DEPTH_MAX); /* verb_check */
        call->path[call->depth++] = next;
        argv += at;
        argc -= at;
    }
    int rc = prepare_leaf(&p, argc);
    if (rc != 0)
        return rc;
    int at = argc;
    parse_level(&p, argc, argv, &at);
    check_args(&p);
    return finish(&p);
}

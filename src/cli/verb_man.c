/*
 * verb_man: pawl(1) as scdoc source, from the same table as --help. What is not in the table and
 * belongs to the whole command (environment, exit status, files) is written here.
 */
#include <string.h>

#include "cli/verb_parse.h"

/* scdoc's own characters. A dot or quote at the start of a line is scdoc's care, and \ before them
 * would undo it. */
static void escape(struct buf *out, const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (strchr("\\*_`#[]|+~^;<", s[i]))
            buf_putc(out, '\\');
        buf_putc(out, s[i]);
    }
}

static void text(struct buf *out, const char *s)
{
    escape(out, s, strlen(s));
}

static void bold(struct buf *out, const char *s)
{
    buf_putc(out, '*');
    text(out, s);
    buf_putc(out, '*');
}

/* Refilled by roff, except what begins with a blank. */
static void paragraphs(struct buf *out, const char *s)
{
    while (*s) {
        const char *end = strstr(s, "\n\n");
        size_t len = end ? (size_t)(end - s) : strlen(s);
        if (*s == ' ') {
            buf_printf(out, "```\n%.*s\n```\n\n", (int)len, s);
        } else {
            for (size_t i = 0; i < len; i += strcspn(s + i, "\n") + 1) {
                size_t n = strcspn(s + i, "\n");
                escape(out, s + i, n < len - i ? n : len - i);
                buf_putc(out, '\n');
            }
            buf_putc(out, '\n');
        }
        s += len;
        s += strspn(s, "\n");
    }
}

static void sentence(struct buf *out, const char *s)
{
    buf_putc(out, '\t');
    text(out, s);
    size_t len = strlen(s);
    if (len && !strchr(".!?", s[len - 1]))
        buf_putc(out, '.');
    buf_puts(out, "\n\n");
}

static void options(struct buf *out, const struct option_spec *specs)
{
    for (const struct option_spec *spec = specs; spec && spec->name; spec++) {
        if (spec->hidden)
            continue;
        if (spec->letter)
            buf_printf(out, "*-%c*, ", spec->letter);
        buf_printf(out, "*--%s*", spec->name);
        if (spec->kind != OPTION_FLAG) {
            buf_puts(out, " _");
            text(out, spec->value);
            buf_putc(out, '_');
        }
        buf_putc(out, '\n');
        struct buf help;
        buf_init(&help, 4096);
        verb_option_help_put(spec, &help);
        sentence(out, buf_str(&help));
        buf_deinit(&help);
    }
}

static void examples(struct buf *out, const struct example *list)
{
    for (; list && list->command; list++) {
        bold(out, list->command);
        buf_putc(out, '\n');
        sentence(out, list->text ? list->text : "");
    }
}

static void command(const struct verb **path, size_t depth, struct buf *out)
{
    const struct verb *verb = path[depth - 1];
    if (verb->hidden)
        return;
    buf_puts(out, "## "); /* scdoc takes a heading as it is: nothing is escaped */
    verb_usage_put(path, depth, out);
    buf_puts(out, "\n\n");
    text(out, verb->summary);
    buf_puts(out, ".\n\n");
    if (verb->description)
        paragraphs(out, verb->description);
    options(out, verb->options);
    if (verb->examples) {
        buf_puts(out, "Examples:\n\n");
        examples(out, verb->examples);
    }
    for (size_t i = 0; depth < VERB_DEPTH_MAX && verb->verbs && verb->verbs[i]; i++) {
        path[depth] = verb->verbs[i];
        command(path, depth + 1, out);
    }
}

/* clang-format off: a pair a line */
static const struct example environment[] = {
    {"PAWL_DATABASE_URL",
     "The database, as a PostgreSQL URL or a \"key=value\" string, when --db is not given"},
    {"PGHOST, PGPORT, PGDATABASE, PGUSER, PGPASSWORD, PGSERVICE and the rest",
     "What libpq makes of them, when neither --db nor PAWL_DATABASE_URL is given. See the PostgreSQL manual"},
    {"PAWL_HOME",
     "Directory of Pawl's own private PostgreSQL, which is used when nothing else says which database. "
     "Default: pawl in XDG_DATA_HOME, else in ~/.local/share; for root /var/lib/pawl"},
    {"PAWL_PG_BINDIR",
     "Directory of the PostgreSQL programs for it. Default: the newest that is installed"},
    {"PAWL_RUN_AS", "User as which it runs when root makes it. Default: postgres, else nobody"},
    {"PAWL_LOG",
     "Least level that is logged: debug, info, warn, error or off, when --log-level is not given"},
    {"NO_COLOR", "When it is set and not empty, there is no colour anywhere"},
    {NULL, NULL},
};
/* clang-format on */

static const char conventions[] =
    "Results are written to standard output; notes, errors and the log to standard error. Global options "
    "may stand before the command or after it. Of an option given twice the last counts, unless it says "
    "that it may be given more than once. *--* ends the options, so that an argument may begin with a "
    "dash.\n\n"
    "With *--output json* the result is one document: an array, or an object for a command that shows one "
    "thing. With *--output jsonl* it is one object a line, each written as soon as it is known. Times are in UTC, "
    "durations in microseconds, and payloads and results are what they are when they are JSON, a "
    "string when they are text, and otherwise an object with the one member base64. Errors are text on "
    "standard error in every format; a script goes by the exit status.\n\n"
    "In a terminal, times are relative and long cells are cut to fit; in a pipe nothing is cut.\n\n"
    "When the reader of standard output goes away, as in *pawl job list | head*, the command ends "
    "quietly with exit status 0.\n\n";

static void exit_status(struct buf *out)
{
    static const struct {
        int status;
        const char *text;
    } codes[] = {

#define CODE(name, value, status, text) {status, text},
        PAWL_CODES(CODE)
#undef CODE
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        buf_printf(out, "- *%d*: ", codes[i].status);
        text(out, codes[i].text);
        buf_putc(out, '\n');
    }
}

/* Bold marks are part of the text; the bar is scdoc's. */
static void put_conventions(struct buf *out)
{
    for (const char *p = conventions; *p; p++) {
        if (*p == '|')
            buf_putc(out, '\\');
        buf_putc(out, *p);
    }
}

void verb_man(const struct verb *root, struct buf *out)
{
    buf_printf(out, "%s(1)\n\n# NAME\n\n%s - ", root->name, root->name);
    text(out, root->summary);
    buf_printf(out,
               "\n\n# SYNOPSIS\n\n*%s* [_OPTIONS_] _COMMAND_ [_ARGUMENTS_]\n\n# DESCRIPTION\n\n",
               root->name);
    if (root->description)
        paragraphs(out, root->description);
    put_conventions(out);
    buf_puts(out, "# GLOBAL OPTIONS\n\n");
    options(out, verb_global_options);
    buf_puts(out, "# COMMANDS\n\n");
    for (size_t i = 0; root->verbs && root->verbs[i]; i++) {
        const struct verb *path[VERB_DEPTH_MAX] = {root, root->verbs[i]};
        command(path, 2, out);
    }
    if (root->examples) {
        buf_puts(out, "# EXAMPLES\n\n");
        examples(out, root->examples);
    }
    buf_puts(out, "# ENVIRONMENT\n\n");
    examples(out, environment);
    buf_puts(out, "# EXIT STATUS\n\n");
    exit_status(out);
    buf_puts(out, "\n# SEE ALSO\n\n*psql*(1), *postgres*(1)\n");
}

/*
 * verb: the table behind the command line. One file per verb describes its options, arguments, help
 * and examples once; parsing, --help, the man page and shell completion are all made from that, so
 * they cannot disagree.
 *
 * To add a verb: write src/cli/cmd_<verb>.c with a `const struct verb verb_<verb>`, list it in
 * main.c.
 */
#ifndef CLI_VERB_H
#define CLI_VERB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/log.h"
#include "cli/out.h"

enum option_kind {
    OPTION_FLAG,     /* no value; bool */
    OPTION_TEXT,     /* const char * */
    OPTION_LIST,     /* may be given more than once; struct option_list */
    OPTION_INT,      /* int64_t, checked against min and max */
    OPTION_INT32,    /* int, as above */
    OPTION_DURATION, /* int64_t milliseconds */
    OPTION_TIME,     /* int64_t microseconds since 1970 */
    OPTION_CHOICE,   /* one of `choices`; int, the index */
};

#define OPTION_LIST_MAX 64

struct option_list {
    const char *items[OPTION_LIST_MAX];
    size_t n;
};

/* Where a value goes is an offset into the verb's own options struct, so that the tables can be
 * const. Zero-filled before parsing; defaults are put there by `defaults` of the verb, if any. */
struct option_spec {
    const char *name; /* "max-attempts": given as --max-attempts */
    char letter;      /* 'q' or 0 */
    enum option_kind kind;
    size_t offset;     /* offsetof(struct xxx_options, field) */
    size_t set_offset; /* offsetof a bool that becomes true when the option was given; 0: none (so
                          no bool may be first) */
    const char *value; /* "N", "QUEUE": what stands for the value in help; FILE and DIR are
                          completed by the shell */
    const char *help;  /* one or more sentences, no final full stop; says the default */
    int64_t min, max;  /* OPTION_INT, OPTION_INT32 */
    const char *const *choices; /* OPTION_CHOICE; NULL-terminated */
    bool hidden;                /* works, but is left out of help, man page and completion */
};

struct example {
    const char *command;
    const char *text;
};

#define CLI_MEMORY_MAX (256ul * 1024 * 1024)

/* What every verb gets. */
struct cli {
    struct arena *arena;    /* for the whole run of the command; at most CLI_MEMORY_MAX */
    struct log *log;        /* stderr */
    const char *db;         /* --db or NULL */
    enum out_format output; /* -o */
    bool quiet;             /* -q: no notes on stderr */
    bool color;             /* for stdout */
    const struct verb *root;
    const char *path;        /* "pawl job list": the command as it was meant */
    const struct verb *verb; /* the one that runs */
    const void *options;     /* its options struct */
    const char *const *args; /* what is left: NULL-terminated */
    size_t n_args;
};

struct verb {
    const char *name;
    const char *summary;       /* one line for the list of verbs, no final full stop */
    const char *args;          /* "KIND [JSON|-]"; NULL: none */
    size_t min_args, max_args; /* VERB_ARGS_ANY: no limit */
    const char *group; /* heading over it in the overview; verbs of a group stand together. NULL:
                          "Commands" */
    const char *description; /* paragraphs separated by an empty line, refilled; a line that begins
                                with a blank is kept as it is. NULL: the summary says it all */
    const struct option_spec *options; /* ends with a NULL name; NULL: none */
    size_t options_size;               /* sizeof the options struct */
    void (*defaults)(void *options);
    const struct example
        *examples; /* ends with a NULL command; NULL: none. The first steps, for the root */
    const struct verb *const
        *verbs; /* sub-verbs of a noun such as `job`; NULL-terminated; then run is NULL */
    int (*run)(struct cli *cli, struct pawl_err *err); /* 0 or a negative code with err filled in */
    bool hidden;       /* works, but is left out of help, man page and completion */
    bool long_running; /* people watch its log: it shows info, where other verbs show only warnings
                        */
    bool args_are_verbs; /* `pawl help`: the shell completes verbs */
};

#define VERB_ARGS_ANY  SIZE_MAX
#define VERB_DEPTH_MAX 4 /* pawl, noun, verb, and one to spare */

/*
 * Parses and runs. Returns the exit status: that of the code in PAWL_CODES. Prints errors and help
 * itself. When the reader of standard output went away (`pawl job list | head`), that is nobody's
 * error: quiet, exit 0. A full disk under standard output is one.
 */
int verb_main(const struct verb *root, int argc, char **argv);

/* Generators over the same table, into out; check out->failed. path[0] is the root, path[depth - 1]
 * the verb. */
void verb_help(
    const struct verb *const *path, size_t depth, size_t width, bool color, struct buf *out);
void verb_man(const struct verb *root, struct buf *out); /* scdoc source of pawl(1) */
void verb_completion_bash(const struct verb *root, struct buf *out);

/* Looks for mistakes in the tables: names used twice, offsets outside the struct, examples that do
 * not parse. The man page is made only from a table that passes, so a mistake fails the build. */
int verb_check(const struct verb *root, struct pawl_err *err) MUST_CHECK;

/* The sub-verb of path[depth - 1] with that name, or an error that proposes the nearest. */
int verb_find(const struct verb *const *path,
              size_t depth,
              const char *name,
              const struct verb **ret_verb,
              struct pawl_err *err) MUST_CHECK;

/* A usage error from inside a run function: PAWL_EINVAL with a hint to --help. */
int verb_usage(struct cli *cli, struct pawl_err *err, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* "note: ..." on stderr for people, unless -q. Never for what a script needs. */
void cli_note(const struct cli *cli, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* out_new with the format, colour and quietness that were asked for. */
struct out *
cli_out_new(const struct cli *cli, const struct out_column *columns, size_t n) MUST_CHECK;

/* How an error looks on stderr, whatever -o says: message, detail, SQLSTATE and hint, a line each.
 */
void cli_err_format(const struct pawl_err *err, bool color, struct buf *out);
void cli_err_print(const struct pawl_err *err);

#endif

/*
 * verb: the table behind the command line. One file per verb describes its options, arguments, help and examples once;
 * parsing, --help, the man page and shell completion are all made from that, so they cannot disagree.
 *
 * To add a verb: write src/cli/cmd_<verb>.c with a `const struct verb verb_<verb>`, list it in main.c.
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
    OPTION_DURATION, /* int64_t milliseconds */
    OPTION_TIME,     /* int64_t microseconds since 1970 */
    OPTION_CHOICE,   /* one of `choices`; int, the index */
};

#define OPTION_LIST_MAX 64

struct option_list {
    const char *items[OPTION_LIST_MAX];
    size_t n;
};

/* Where a value goes is an offset into the verb's own options struct, so that the tables can be const. Zero-filled
 * before parsing; defaults are put there by `defaults` of the verb, if any. */
struct option_spec {
    const char *name;  /* "max-attempts": given as --max-attempts */
    char letter;       /* 'q' or 0 */
    enum option_kind kind;
    size_t offset;     /* offsetof(struct xxx_options, field) */
    size_t set_offset; /* offsetof a bool that becomes true when the option was given; 0: none (so no bool may be first) */
    const char *value; /* "N", "QUEUE": what stands for the value in help */
    const char *help;  /* one line or more, no final full stop; says the default */
    int64_t min, max;  /* OPTION_INT */
    const char *const *choices; /* OPTION_CHOICE; NULL-terminated */
};

struct example {
    const char *command;
    const char *text;
};

/* What every verb gets. */
struct cli {
    struct arena *arena;      /* for the whole run of the command */
    struct log *log;          /* stderr */
    const char *db;           /* --db or NULL */
    enum out_format output;   /* -o */
    bool quiet;               /* -q: no notes on stderr */
    bool color;               /* for stdout */
    const struct verb *verb;  /* the one that runs */
    const void *options;      /* its options struct */
    const char *const *args;  /* what is left: NULL-terminated */
    size_t n_args;
};

struct verb {
    const char *name;
    const char *summary;     /* one line for the list of verbs, no final full stop */
    const char *args;        /* "KIND [JSON|-]"; NULL: none */
    size_t min_args, max_args;
    const char *description; /* paragraphs separated by an empty line; NULL: the summary says it all */
    const struct option_spec *options; /* ends with a NULL name; NULL: none */
    size_t options_size;     /* sizeof the options struct */
    void (*defaults)(void *options);
    const struct example *examples;    /* ends with a NULL command; NULL: none */
    const struct verb *const *verbs;   /* sub-verbs of a noun such as `job`; NULL-terminated; then run is NULL */
    int (*run)(struct cli *cli, struct pawl_err *err); /* 0 or a negative code with err filled in */
    bool hidden;             /* left out of help and man page */
};

/* Parses and runs. Returns the exit status. Prints errors and help itself. */
int verb_main(const struct verb *root, int argc, char **argv);

/* Generators over the same table, into out. */
void verb_help(const struct verb *root, const struct verb *const *path, size_t depth, struct buf *out);
void verb_man(const struct verb *root, struct buf *out);        /* scdoc source of pawl(1) */
void verb_completion_bash(const struct verb *root, struct buf *out);

/* A usage error from inside a run function: PAWL_EINVAL with a hint to --help. */
int verb_usage(struct cli *cli, struct pawl_err *err, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* "note: ..." on stderr for people, unless -q. Never for what a script needs. */
void cli_note(const struct cli *cli, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif

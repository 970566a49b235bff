/*
 * verb_parse: from argv and the table to what was asked for. Pure but for getopt's own globals:
 * prints nothing, so that it can be tested. verb.c runs the result.
 */
#ifndef CLI_VERB_PARSE_H
#define CLI_VERB_PARSE_H

#include "cli/verb.h"

/* Options that every verb has, before it and after it. */
struct verb_globals {
    const char *db;
    int output;    /* enum out_format */
    int log_level; /* enum log_level */
    bool log_level_set;
    bool quiet;
    bool help;
    bool version;
};

extern const struct option_spec verb_global_options[]; /* ends with a NULL name */

struct verb_call {
    const struct verb *path[VERB_DEPTH_MAX]; /* root first */
    size_t depth;
    struct verb_globals globals;
    void *options;     /* of path[depth - 1]; in the arena */
    const char **args; /* NULL-terminated; the array is in the arena, the texts are argv's */
    size_t n_args;
    bool missing; /* a noun or the root without a sub-verb: there is nothing to run */
};

/*
 * 0 or PAWL_EINVAL (PAWL_ENOMEM). --help and --version win over wrong options and arguments, not
 * over an unknown verb. call is filled as far as parsing came, also on failure: globals are needed
 * to show the error.
 */
int verb_parse(const struct verb *root,
               int argc,
               char **argv,
               struct arena *arena,
               struct verb_call *call,
               struct pawl_err *err) MUST_CHECK;

/* "pawl job list" */
void verb_path_put(const struct verb *const *path, size_t depth, struct buf *out);
/* "pawl job list [OPTIONS] ARGS" */
void verb_usage_put(const struct verb *const *path, size_t depth, struct buf *out);
/* The help, and what the choices are. */
void verb_option_help_put(const struct option_spec *spec, struct buf *out);

/* "table, json or jsonl" */
void verb_choices_put(const char *const *choices, struct buf *out);

/* One value of one option into the options struct. err gets message and detail, no hint. */
int verb_value_set(const struct option_spec *spec,
                   const char *value,
                   void *options,
                   struct pawl_err *err) MUST_CHECK;

#define VERB_OPTIONS_MAX 64 /* of one verb, globals included */

#endif

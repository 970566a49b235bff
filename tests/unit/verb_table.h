/*
 * verb_table: the command line that verb_test (parsing and running) and verb_docs_test (help, man
 * page, completion) are about: pawl thing put, with an option of every kind, and a verb and an
 * option that are hidden.
 */
#ifndef TESTS_VERB_TABLE_H
#define TESTS_VERB_TABLE_H

#include "cli/verb.h"

struct put_options {
    const char *queue;
    int64_t priority;
    int64_t delay_ms;
    int64_t at_us;
    struct option_list tags;
    int mode;
    bool dry_run;
    bool priority_set;
    const char *file;
};

/* Defined by the test. */
static int put_run(struct cli *cli, struct pawl_err *err);

static void put_defaults(void *options)
{
    ((struct put_options *)options)->queue = "default";
    ((struct put_options *)options)->priority = 4;
}

static const char *const modes[] = {"fast", "safe", NULL};

/* clang-format off: one member a line */
static const struct option_spec put_specs[] = {
    {.name = "queue",
     .letter = 'Q',
     .kind = OPTION_TEXT,
     .offset = offsetof(struct put_options, queue),
     .value = "QUEUE",
     .help = "Where to put it. Default: default"},
    {.name = "priority",
     .kind = OPTION_INT,
     .offset = offsetof(struct put_options, priority),
     .set_offset = offsetof(struct put_options, priority_set),
     .value = "N",
     .min = 0,
     .max = 9,
     .help =
         "How urgent it is, from 0 to 9, where 9 is what is taken before everything else. Default: 4"},
    {.name = "delay",
     .kind = OPTION_DURATION,
     .offset = offsetof(struct put_options, delay_ms),
     .value = "TIME",
     .help = "Not before that has passed"},
    {.name = "at",
     .kind = OPTION_TIME,
     .offset = offsetof(struct put_options, at_us),
     .value = "WHEN",
     .help = "Not before then"},
    {.name = "tag",
     .kind = OPTION_LIST,
     .offset = offsetof(struct put_options, tags),
     .value = "TAG",
     .help = "May be given more than once"},
    {.name = "mode",
     .kind = OPTION_CHOICE,
     .offset = offsetof(struct put_options, mode),
     .value = "MODE",
     .help = "How to do it. Default: fast",
     .choices = modes},
    {.name = "dry-run",
     .letter = 'n',
     .kind = OPTION_FLAG,
     .offset = offsetof(struct put_options, dry_run),
     .help = "Only say what would be done"},
    {.name = "from-file",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct put_options, file),
     .value = "FILE",
     .help = "Read it from there"},
    {.name = "secret",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct put_options, dry_run),
     .help = "Not shown",
     .hidden = true},
    {0},
};
/* clang-format on */

static const struct example put_examples[] = {
    {"pawl thing put hello '{\"n\": 1}' --priority 9", "The plain way."},
    {NULL, NULL},
};

static const struct verb verb_put = {
    .name = "put",
    .summary = "Put a thing somewhere",
    .args = "NAME [TEXT]",
    .min_args = 1,
    .max_args = 2,
    .description = "Things are put where they\nbelong.\n\n  kept as it is",
    .options = put_specs,
    .options_size = sizeof(struct put_options),
    .defaults = put_defaults,
    .examples = put_examples,
    .run = put_run,
};

static const struct verb verb_ghost = {
    .name = "ghost",
    .summary = "Not shown",
    .args = "NAME",
    .min_args = 1,
    .max_args = VERB_ARGS_ANY,
    .run = put_run,
    .options_size = sizeof(struct put_options),
    .hidden = true,
};

static const struct verb *const thing_verbs[] = {&verb_put, &verb_ghost, NULL};
static const struct verb verb_thing = {
    .name = "thing", .summary = "Work with things", .group = "Things", .verbs = thing_verbs};
static const struct verb *const root_verbs[] = {&verb_thing, NULL};
static const struct verb root = {.name = "pawl", .summary = "A test", .verbs = root_verbs};

#endif

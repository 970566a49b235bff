/*
 * pawl help: help for a command named by words instead of --help. Also the hidden source of the man
 * page, which the build turns into pawl.1.
 */
#include <unistd.h>

#include "base/defer.h"
#include "cli/cmds.h"
#include "cli/term.h"

#define TEXT_MAX (1024ul * 1024)

struct help_options {
    bool man;
};

static int help_man(const struct verb *root, struct buf *out, struct pawl_err *err)
{
    int rc = verb_check(root, err);
    if (rc == 0)
        verb_man(root, out);
    return rc;
}

static int help_words(const struct cli *cli, struct buf *out, struct pawl_err *err)
{
    const struct verb *path[VERB_DEPTH_MAX] = {cli->root};
    size_t depth = 1;
    for (size_t i = 0; i < cli->n_args; i++) {
        const struct verb *next = NULL;
        int rc = verb_find(path, depth, cli->args[i], &next, err);
        if (rc != 0)
            return rc;
        path[depth++] = next;
    }
    verb_help(path, depth, term_width(STDOUT_FILENO), cli->color, out);
    return 0;
}

static int run(struct cli *cli, struct pawl_err *err)
{
    const struct help_options *options = cli->options;
    CLEANUP(buf_deinit)
    struct buf out;
    buf_init(&out, TEXT_MAX);
    int rc = options->man ? help_man(cli->root, &out, err) : help_words(cli, &out, err);
    if (rc != 0)
        return rc;
    if (out.failed)
        return err_set(err, PAWL_ENOMEM, "could not make the help text");
    return out_write(buf_str(&out), out.len, err);
}

static const struct option_spec options[] = {
    {.name = "man",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct help_options, man),
     .help = "Write the scdoc source of the man page",
     .hidden = true},
    {0},
};

static const struct example examples[] = {
    {"pawl help", "All commands."},
    {"pawl help version", "One command; the same as pawl version --help."},
    {NULL, NULL},
};

const struct verb verb_help_cmd = {
    .name = "help",
    .summary = "Show help for a command",
    .group = "About pawl",
    .args = "[COMMAND…]",
    .max_args = VERB_DEPTH_MAX - 1,
    .options = options,
    .options_size = sizeof(struct help_options),
    .examples = examples,
    .run = run,
    .args_are_verbs = true,
};

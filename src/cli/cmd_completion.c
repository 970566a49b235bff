/* pawl completion: scripts that make a shell complete commands, options and their values. */
#include "base/defer.h"
#include "cli/cmds.h"

#define SCRIPT_MAX (1024ul * 1024)

static int run_bash(struct cli *cli, struct pawl_err *err)
{
    CLEANUP(buf_deinit)
    struct buf out;
    buf_init(&out, SCRIPT_MAX);
    verb_completion_bash(cli->root, &out);
    if (out.failed)
        return err_set(err, PAWL_ENOMEM, "could not make the completion script");
    return out_write(buf_str(&out), out.len, err);
}

static const struct example bash_examples[] = {
    {"source <(pawl completion bash)", "In this shell, or in ~/.bashrc for every new one."},
    {NULL, NULL},
};

static const struct verb verb_bash = {
    .name = "bash",
    .summary = "Write the completion script for bash",
    .description =
        "An installed pawl brings it along, and bash finds it by itself when the bash-completion package "
        "is there.",
    .examples = bash_examples,
    .run = run_bash,
};

static const struct verb *const verbs[] = {&verb_bash, NULL};

const struct verb verb_completion = {
    .name = "completion",
    .summary = "Write a completion script for your shell",
    .group = "About pawl",
    .verbs = verbs,
};

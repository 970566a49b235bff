/*
 * main: the pawl command. The verb table is here; everything else is in cmd_<verb>.c. To add a
 * verb: write that file, declare it in cmds.h, list it below and in meson.build.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <locale.h>

#include "cli/cmds.h"

/* In the order of help; verbs of a group stand together. */
static const struct verb *const verbs[] = {
    &verb_demo,
#ifdef PAWL_WITH_SERVE
    &verb_up,
#endif
    &verb_enqueue, &verb_work,
#ifdef PAWL_WITH_SERVE
    &verb_serve,
#endif
    &verb_job,     &verb_signal, &verb_machine,  &verb_queue,   &verb_lane,       &verb_worker,
    &verb_kind,
#ifdef PAWL_WITH_SERVE
    &verb_token,
#endif
    &verb_db,      &verb_bench,  &verb_help_cmd, &verb_version, &verb_completion, NULL,
};

static const struct example first_steps[] = {
    {"pawl demo", "See it work; it needs nothing."},
    {"pawl enqueue hello '{\"n\":1}'", "A job of your own."},
    {"pawl work --exec 'hello=cat' --once", "Run it: cat is a handler, too."},
    {NULL, NULL},
};

static const struct verb root = {
    .name = "pawl",
    .summary = "Durable jobs on PostgreSQL",
    .description =
        "Pawl keeps jobs in PostgreSQL and runs each of them until it is done: it claims a job before it "
        "runs, notices when a worker dies, tries again with a growing delay, and loses nothing. Without "
        "a database of your own it makes and runs a private one.",
    .verbs = verbs,
    .examples = first_steps,
};

/* A file that is opened later must not become standard output by accident. */
static void keep_standard_fds(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

int main(int argc, char **argv)
{
    keep_standard_fds();
    signal(SIGPIPE, SIG_IGN); /* a reader that went away is an error of write(2), not the end of a
                                 claimed job */
    if (!setlocale(LC_CTYPE, "C.UTF-8"))
        setlocale(LC_CTYPE, "");
    return verb_main(&root, argc, argv);
}

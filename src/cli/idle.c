/* idle: asks which of the queues are paused. */
#include "cli/idle.h"

#include <string.h>

#include "base/defer.h"
#include "client/inspect.h"

/* Which of our queues are held. */
struct held {
    const char *const *names;
    size_t n_names;
    bool all;
    bool queues[OPTION_LIST_MAX];
    size_t n;
};

static void note_held(void *data, const struct queue_view *queue)
{
    struct held *held = data;

    if (queue->paused_at == 0)
        return;
    held->all |= strcmp(queue->name, QUEUE_ALL) == 0;
    for (size_t i = 0; i < held->n_names; i++) {
        if (!held->queues[i] && strcmp(queue->name, held->names[i]) == 0) {
            held->queues[i] = true;
            held->n++;
        }
    }
}

void idle_explain(struct cli *cli,
                  const struct target *target,
                  const char *const *queues,
                  size_t n_queues)
{
    CLEANUP(cli_close)
    PGconn *conn = NULL;
    struct held held = {.names = queues, .n_names = n_queues};
    struct pawl_err ignored;

    if (target != NULL && cli_open(cli, target, &conn, &ignored) == 0 &&
        client_queue_list(conn, 1, note_held, &held, &ignored) < 0)
        held = (struct held){.names = queues, .n_names = n_queues};
    if (held.all) {
        cli_note(cli, "nothing was run: all queues are paused (pawl queue resume --all)");
        return;
    }
    for (size_t i = 0; i < n_queues; i++) {
        if (held.queues[i])
            cli_note(cli,
                     "nothing was run: queue %s is paused (pawl queue resume %s)",
                     queues[i],
                     queues[i]);
    }
    if (held.n < n_queues)
        cli_note(cli,
                 "nothing was due for these kinds in %s; see pawl job list",
                 held.n > 0 ? "the other queues" : "these queues");
}

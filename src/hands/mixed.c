/* mixed: gives each run to the hands that have its kind, and passes their reports on. */
#include "hands/mixed.h"

#include <stdlib.h>
#include <string.h>

#define N_PARTS 2

static struct mixed *from_hands(struct hands *hands)
{
    return (struct mixed *)(void *)hands;
}

static size_t count(const char *const *kinds)
{
    size_t n = 0;

    while (kinds[n] != NULL)
        n++;
    return n;
}

/* A kind that the first part does not have goes to the second, which refuses an unknown one. */
static struct hands *part_for(const struct mixed *mixed, const char *kind)
{
    struct hands *first = mixed->parts[0];

    for (const char *const *own = first->ops->kinds(first); *own != NULL; own++) {
        if (strcmp(*own, kind) == 0)
            return first;
    }
    return mixed->parts[1];
}

static int mixed_run(struct hands *hands, struct run *run, struct pawl_err *err)
{
    struct hands *part = part_for(from_hands(hands), run->job.kind);

    return part->ops->run(part, run, err);
}

static void mixed_flush(struct hands *hands)
{
    for (size_t i = 0; i < N_PARTS; i++) {
        struct hands *part = from_hands(hands)->parts[i];

        if (part->ops->flush != NULL)
            part->ops->flush(part);
    }
}

static void mixed_stop(struct hands *hands, struct run *run, enum stop_reason reason)
{
    struct hands *part = part_for(from_hands(hands), run->job.kind);

    part->ops->stop(part, run, reason);
}

static const char *const *mixed_kinds(struct hands *hands)
{
    return from_hands(hands)->kinds;
}

static void mixed_recall(struct hands *hands)
{
    for (size_t i = 0; i < N_PARTS; i++) {
        struct hands *part = from_hands(hands)->parts[i];

        if (part->ops->recall != NULL)
            part->ops->recall(part);
    }
}

static const struct hands_ops ops = {
    .run = mixed_run,
    .flush = mixed_flush,
    .stop = mixed_stop,
    .kinds = mixed_kinds,
    .recall = mixed_recall,
};

static void on_finished(void *data, struct run *run, const struct outcome *outcome)
{
    struct mixed *mixed = data;

    mixed->hands.finished(mixed->hands.finished_data, run, outcome);
}

int mixed_init(struct mixed *mixed, struct hands *first, struct hands *second, struct pawl_err *err)
{
    const char *const *kinds[N_PARTS] = {first->ops->kinds(first), second->ops->kinds(second)};
    size_t n[N_PARTS] = {count(kinds[0]), count(kinds[1])};

    *mixed = (struct mixed){.hands.ops = &ops, .parts = {first, second}};
    mixed->kinds = calloc(n[0] + n[1] + 1, sizeof(*mixed->kinds));
    if (mixed->kinds == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    memcpy(mixed->kinds, kinds[0], n[0] * sizeof(*mixed->kinds));
    memcpy(mixed->kinds + n[0], kinds[1], n[1] * sizeof(*mixed->kinds));
    for (size_t i = 0; i < N_PARTS; i++) {
        mixed->parts[i]->finished = on_finished;
        mixed->parts[i]->finished_data = mixed;
    }
    return 0;
}

void mixed_deinit(struct mixed *mixed)
{
    free(mixed->kinds);
    mixed->kinds = NULL;
}

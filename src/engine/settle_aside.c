/* settle_aside: asking which rows are held, and moving slots between the two lists. */
#include "engine/settle_aside.h"

#include <assert.h>
#include <string.h>

#include "store/statements.h"

#define LOOK_MIN_MS      50
#define LOOK_MAX_MS      1000
#define LOOK_DEADLINE_MS 5000

static void look(struct settle *settle);

static void on_look(uv_timer_t *timer)
{
    look(timer->data);
}

void settle_aside_init(struct settle *settle)
{
    settle->look_ms = LOOK_MIN_MS;
    uv_timer_init(settle->options.loop, &settle->look);
    settle->look.data = settle;
}

bool settle_ran_into_lock(const struct batch_end *end)
{
    return end->err != NULL && strcmp(end->err->sqlstate, "55P03") == 0;
}

static void put_aside(struct settle *settle, struct slot *slot)
{
    slot_move(settle->options.slots, slot, SLOT_ASIDE);
    settle->n_suspects -= settle->n_suspects > 0;
    settle->options.stats->settle_locked++;
    if (settle->options.slots->n[SLOT_WAITING] == 0)
        settle->since_us = 0; /* nothing is under way */
}

/* In front. One that was held by what job_locked cannot see goes by itself (gather in settle.c), so
 * that it does not hold up others again. */
static void bring_back(struct settle *settle, struct slot *slot)
{
    slot_move_first(settle->options.slots, slot, SLOT_WAITING);
    settle->n_suspects += settle->n_suspects > 0; /* they are the first that wait */
    settle->n_blocked += settle->blocked && !settle->looked_blocked;
}

/* Nothing that is looked at moves meanwhile: what is aside is touched here only, and what waits is not
 * sent while blocked. */
static void gather(struct settle *settle)
{
    size_t n = 0;

    LIST_FOREACH(link, &settle->options.slots->at[SLOT_ASIDE]) {
        if (n < SETTLE_BATCH_MAX)
            settle->looked[n++] = slot_of_link(link);
    }
    settle->n_looked_aside = n;
    if (settle->blocked) {
        size_t left = settle->n_blocked;

        LIST_FOREACH(link, &settle->options.slots->at[SLOT_WAITING]) {
            if (left == 0 || n == SETTLE_BATCH_MAX)
                break;
            settle->looked[n++] = slot_of_link(link);
            left--;
        }
    }
    settle->n_looked = n;
    settle->looked_blocked = settle->blocked;
}

static void look_again_soon(struct settle *settle)
{
    if (settle->options.slots->n[SLOT_ASIDE] == 0)
        return;
    uv_timer_start(&settle->look, on_look, (uint64_t)settle->look_ms, 0);
    settle->look_ms = settle->look_ms * 2 < LOOK_MAX_MS ? settle->look_ms * 2 : LOOK_MAX_MS;
}

/* None of those that were sent is held, as far as can be seen: the one that is will be found. */
static void suspect(struct settle *settle)
{
    size_t n = settle->n_blocked;

    if (n > settle->n_suspects)
        settle->n_suspects = n;
    settle->suspects_max = n / 2 > 0 ? n / 2 : 1;
}

static void on_known(struct settle *settle, const PGresult *r)
{
    bool locked[SETTLE_BATCH_MAX] __attribute__((uninitialized));
    const struct slot *first = NULL;
    size_t n_found = 0;

    memset(locked, false, settle->n_looked * sizeof(*locked));
    for (int row = 0; row < PQntuples(r); row++)
        locked[job_locked_row(r, row)] = true;
    for (size_t i = settle->n_looked; i-- > settle->n_looked_aside;) {
        if (!locked[i])
            continue;
        first = settle->looked[i];
        put_aside(settle, settle->looked[i]);
        n_found++;
    }
    if (first != NULL) {
        settle->look_ms = LOOK_MIN_MS;
        log_warn(settle->options.log,
                 "settle_aside",
                 LOG_INT("jobs", n_found),
                 LOG_INT("job", first->run.job.id),
                 LOG_STR("why", "another transaction holds rows that they need"));
    } else if (settle->looked_blocked) {
        suspect(settle);
    }
    for (size_t i = settle->n_looked_aside; i-- > 0;) {
        if (locked[i])
            continue;
        /* Else it may be held all the same, and is tried less often. */
        if (!settle->looked[i]->sent.alone)
            settle->look_ms = LOOK_MIN_MS;
        bring_back(settle, settle->looked[i]);
    }
}

static void on_looked(void *data, const struct batch_end *end)
{
    struct settle *settle = data;

    settle->looking = false;
    if (end->verdict == PG_VERDICT_OK)
        on_known(settle, end->results[0]);
    else
        log_warn_err(settle->options.log,
                     "job_locked",
                     end->err,
                     LOG_INT("aside", settle->options.slots->n[SLOT_ASIDE]));
    if (settle->looked_blocked)
        settle->blocked = false;
    look_again_soon(settle);
    if (settle->blocked) /* since this look was sent */
        look(settle);
    settle_flush(settle);
}

/* False: there is no room for it just now. */
static bool ask(struct settle *settle)
{
    struct batch *batch = batch_new(settle->options.conn);
    struct params *params = batch != NULL ? batch_add(batch, STMT(job_locked)) : NULL;
    const struct job_settle **items =
        params != NULL ? arena_new_array(params->arena, settle->n_looked, const struct job_settle *)
                       : NULL;

    if (items == NULL) {
        batch_free(batch);
        return false;
    }
    for (size_t i = 0; i < settle->n_looked; i++)
        items[i] = &settle->looked[i]->item;
    job_locked_bind(params, items, settle->n_looked);
    batch_submit(batch, LOOK_DEADLINE_MS, on_looked, settle);
    return true;
}

static void look(struct settle *settle)
{
    if (settle->looking)
        return;
    gather(settle);
    if (settle->n_looked == 0)
        return;
    settle->looking = ask(settle);
    if (settle->looking)
        return;
    settle->blocked = false;
    look_again_soon(settle);
}

void settle_set_aside(struct settle *settle, size_t n)
{
    assert(n > 0 && n <= settle->options.slots->n[SLOT_WAITING]);
    if (n == 1) {
        struct slot *slot = slot_first(settle->options.slots, SLOT_WAITING);

        if (!slot->sent.alone)
            settle->look_ms = LOOK_MIN_MS;
        slot->sent.alone = true;
        put_aside(settle, slot);
        look_again_soon(settle);
        return;
    }
    settle->blocked = true;
    settle->n_blocked = n;
    look(settle);
}

/* notes: gathering the last words. */
#include "engine/notes.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/statements.h"

#define NOTES_DEADLINE_MS 10000

/* Notes of one statement. */
struct pack {
    struct notes *notes; /* borrowed */
    size_t n;
    struct job_note items[]; /* their texts are owned */
};

static void pack_free(struct pack *pack)
{
    for (size_t i = 0; pack != NULL && i < pack->n; i++)
        free((char *)(uintptr_t)pack->items[i].progress);
    free(pack);
}

static struct pack *pack_new(struct notes *notes, size_t most)
{
    struct pack *pack = calloc(1, sizeof(*pack) + most * sizeof(pack->items[0]));

    if (pack != NULL)
        pack->notes = notes;
    return pack;
}

static void pack_send(struct pack *pack);

/* The database refuses one of them: the others are not to suffer. */
static void send_halves(struct pack *pack)
{
    struct pack *rest = pack_new(pack->notes, pack->n - pack->n / 2);

    if (rest == NULL) {
        pack_free(pack);
        return;
    }
    for (size_t n = pack->n - pack->n / 2; rest->n < n;)
        rest->items[rest->n++] = pack->items[--pack->n];
    pack_send(pack);
    pack_send(rest);
}

static void on_sent(void *data, const struct batch_end *end)
{
    struct pack *pack = data;

    if (end->verdict == PG_VERDICT_PERMANENT && pack->n > 1) {
        send_halves(pack);
        return;
    }
    if (end->verdict != PG_VERDICT_OK)
        log_warn_err(pack->notes->log,
                     "job_note",
                     end->err,
                     LOG_INT("job", pack->items[0].id),
                     LOG_INT("notes", pack->n));
    pack_free(pack);
}

static void pack_send(struct pack *pack)
{
    struct batch *batch = pack->n > 0 ? batch_new(pack->notes->conn) : NULL;
    struct params *params = batch != NULL ? batch_add(batch, STMT(job_note)) : NULL;

    if (params == NULL) {
        batch_free(batch);
        pack_free(pack);
        return;
    }
    job_note_bind(params, pack->items, pack->n);
    batch_submit(batch, NOTES_DEADLINE_MS, on_sent, pack);
}

/* Takes those that have something to say; their texts move. */
static void gather(struct notes *notes, struct pack *pack)
{
    LIST_FOREACH(link, notes->running) {
        struct slot *slot = slot_of_link(link);

        if (slot->note == NULL || pack->n == NOTES_MAX)
            continue;
        pack->items[pack->n++] = (struct job_note){
            .id = slot->run.job.id, .token = slot->run.job.token, .progress = slot->note};
        slot->note = NULL;
        slot->run.job.tid = 0; /* what is written now moves its row */
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct notes *notes = timer->data;
    struct pack *pack = pack_new(notes, NOTES_MAX);

    if (pack == NULL)
        return;
    gather(notes, pack);
    /* More than fitted: the rest in its turn. */
    if (pack->n == NOTES_MAX)
        uv_timer_start(timer, on_timer, NOTES_EVERY_MS, 0);
    pack_send(pack);
}

void notes_init(
    struct notes *notes, uv_loop_t *loop, struct conn *conn, struct list *running, struct log *log)
{
    *notes = (struct notes){.conn = conn, .running = running, .log = log};
    uv_timer_init(loop, &notes->timer);
    notes->timer.data = notes;
}

void notes_add(struct notes *notes, struct slot *slot, const char *text)
{
    char *copy = strdup(text);

    if (copy == NULL)
        return;
    free(slot->note);
    slot->note = copy;
    if (!uv_is_active((uv_handle_t *)&notes->timer))
        uv_timer_start(&notes->timer, on_timer, NOTES_EVERY_MS, 0);
}

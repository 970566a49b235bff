/* notes: gathering the last words. */
#include "engine/notes.h"

#include <stdlib.h>
#include <string.h>

#include "store/statements.h"

#define NOTES_DEADLINE_MS 10000

static void on_sent(void *data, const struct batch_end *end)
{
    struct notes *notes = data;

    if (end->verdict != PG_VERDICT_OK)
        log_warn_err(notes->log, "job_note", end->err, LOG_INT("tries", 1));
}

/* Fills in those that have something to say; their texts move into `texts`. */
static size_t gather(struct notes *notes, struct job_note *items, char **texts)
{
    size_t n = 0;

    LIST_FOREACH(link, notes->running) {
        struct slot *slot = slot_of_link(link);

        if (slot->note == NULL || n == NOTES_MAX)
            continue;
        items[n] = (struct job_note){
            .id = slot->run.job.id, .token = slot->run.job.token, .progress = slot->note};
        texts[n++] = slot->note;
        slot->note = NULL;
        slot->moved = true; /* by what is written now */
    }
    return n;
}

static void on_timer(uv_timer_t *timer)
{
    struct notes *notes = timer->data;
    struct job_note *items = calloc(NOTES_MAX, sizeof(*items));
    char **texts = calloc(NOTES_MAX, sizeof(*texts));
    size_t n = items != NULL && texts != NULL ? gather(notes, items, texts) : 0;
    struct batch *batch = n > 0 ? batch_new(notes->conn) : NULL;
    struct params *params = batch != NULL ? batch_add(batch, STMT(job_note)) : NULL;

    if (params != NULL) {
        job_note_bind(params, items, n);
        batch_submit(batch, NOTES_DEADLINE_MS, on_sent, notes);
    } else {
        batch_free(batch);
    }
    for (size_t i = 0; i < n; i++)
        free(texts[i]);
    free(texts);
    free(items);
    /* More than fitted: the rest in its turn. */
    if (n == NOTES_MAX)
        uv_timer_start(timer, on_timer, NOTES_EVERY_MS, 0);
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

/*
 * notes: what handlers say about how far they are, on its way to the database: the last word of each job, all of them in
 * one statement, at most twice a second. A word that did not get through is not sent again: the next one will be.
 * Coordinator's thread only.
 */
#ifndef ENGINE_NOTES_H
#define ENGINE_NOTES_H

#include <uv.h>

#include "base/log.h"
#include "engine/slot.h"
#include "pg/conn.h"

#define NOTES_EVERY_MS 500
#define NOTES_MAX      1000 /* in one statement */

struct notes {
    struct conn *conn;    /* borrowed */
    struct list *running; /* borrowed: the slots that are in the hands */
    struct log *log;
    uv_timer_t timer;
};

/* The timer must be closed by the owner's uv_close. */
void notes_init(
    struct notes *notes, uv_loop_t *loop, struct conn *conn, struct list *running, struct log *log);

/* A copy of text is taken. */
void notes_add(struct notes *notes, struct slot *slot, const char *text);

#endif

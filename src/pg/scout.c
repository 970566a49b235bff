/*
 * scout: a connection that looks at one host of the target and ends: what it finds it tells the
 * primary it shares with its parent, which waits for it when it is closed. Loop thread only.
 */
#include "pg/conn_internal.h"

#define SCOUT_TIMEOUT_MS 2000

static void scout_closed(void *data)
{
    struct conn *parent = data;
    struct primary *primary = parent->options.primary;
    parent->scout = NULL;
    if (primary != NULL) { /* else it ended before */
        primary->scout = NULL;
        pooler_scouted(primary);
    }
    conn_release(parent);
}

void scout_start(struct conn *parent, size_t host)
{
    struct primary *primary = parent->options.primary;
    struct conn_options options = parent->options;
    options.name = "scout";
    options.connect_timeout_ms = SCOUT_TIMEOUT_MS;
    options.session = NULL;
    options.on_state = NULL;
    options.on_notify = NULL;
    struct conn *scout = parent->scout == NULL ? conn_new(parent->loop, &options) : NULL;
    if (scout == NULL)
        return; /* the next tick tries again */
    list_remove(&scout->kin);
    scout->parent = parent;
    scout->host = host;
    parent->scout = scout;
    parent->n_held++;
    primary->scout = scout;
    connect_begin(scout);
}

void scout_end(struct conn *scout)
{
    if (scout->state != CONN_CLOSING)
        conn_close(scout, scout_closed, scout->parent);
}

/*
 * prepared: which statements this connection's server has prepared, and under which names. See
 * prepared_state. Loop thread only.
 */
#include <stdio.h>
#include <string.h>

#include "base/rand.h"
#include "pg/conn_internal.h"

void prepared_reset(struct conn *conn)
{
    memset(conn->prepared, 0, sizeof(conn->prepared));
    conn->prepared_tag = (uint32_t)rand_u64();
}

bool prepared_can_send(const struct conn *conn, const struct batch *batch)
{
    if (conn->options.unprepared || batch->internal)
        return true;
    for (size_t i = 0; i < batch->n_calls; i++) {
        if (conn->prepared[batch->calls[i].stmt->id].state == PREPARED_SENT)
            return false;
    }
    return true;
}

void prepared_name(const struct conn *conn, const struct stmt *stmt, char name[PREPARED_NAME_MAX])
{
    snprintf(name,
             PREPARED_NAME_MAX,
             "pawl_%u_%08x_%u",
             stmt->id,
             conn->prepared_tag,
             conn->prepared[stmt->id].generation);
}

static void forget(struct prepared *prepared)
{
    /* Answers come in the order of sending: whoever fails with an old name does so before a new one
     * can be READY. */
    if (prepared->state != PREPARED_READY)
        return;
    prepared->state = PREPARED_NONE;
    prepared->generation++;
}

/* The old one stays at the server until the connection ends: it is one per change of a result's
 * type. */
void prepared_forget(struct conn *conn, const struct stmt *stmt)
{
    forget(&conn->prepared[stmt->id]);
}

void prepared_forget_all(struct conn *conn)
{
    for (size_t i = 0; i < STMT_MAX; i++)
        forget(&conn->prepared[i]);
}

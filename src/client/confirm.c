/* confirm: a second commit that waits for the standby in the place of the first. */
#include "client/confirm.h"

#include <stdbool.h>

#include "base/clock.h"
#include "store/statements.h"

static bool is_confirmed(PGconn *conn)
{
    int64_t until_us = clock_mono_us(&clock_system) + CONFIRM_MS * US_PER_MS;

    for (;;) {
        int64_t left_ms = (until_us - clock_mono_us(&clock_system)) / US_PER_MS;
        bool unconfirmed;

        if (left_ms <= 0 ||
            sync_exec_unconfirmed(conn, STMT(tx_confirm), NULL, left_ms, NULL, &unconfirmed, NULL) <
                0)
            return false;
        /* The wait for the standby may be cancelled more than once. */
        if (!unconfirmed)
            return true;
    }
}

int confirm_exec(PGconn *conn,
                 const struct stmt *stmt,
                 const struct params *params,
                 PGresult **ret_result,
                 struct pawl_err *err)
{
    PGresult *result = NULL;
    bool unconfirmed;
    int rc =
        sync_exec_unconfirmed(conn, stmt, params, SYNC_DEADLINE_MS, &result, &unconfirmed, err);

    if (rc < 0)
        return rc;
    if (unconfirmed && !is_confirmed(conn)) {
        PQclear(result);
        sync_err_unconfirmed(err);
        return PAWL_EUNKNOWN;
    }
    if (ret_result != NULL)
        *ret_result = result;
    else
        PQclear(result);
    return 0;
}

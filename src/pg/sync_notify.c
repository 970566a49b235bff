/* sync_notify: sleeping on a blocking connection until somebody calls. */
#include <string.h>

#include "pg/sqlstate.h"
#include "pg/sync.h"
#include "pg/sync_wait.h"

/* Takes all that libpq holds: what is left there keeps the socket silent. */
static bool take(PGconn *conn, const char *channel, const char *payload)
{
    bool heard = false;

    for (PGnotify *n; (n = PQnotifies(conn)) != NULL; PQfreemem(n))
        heard = heard || (!strcmp(n->relname, channel) && !strcmp(n->extra, payload));
    return heard;
}

int sync_notified(PGconn *conn,
                  const char *channel,
                  const char *payload,
                  int64_t until_us,
                  bool *ret_heard,
                  struct pawl_err *err)
{
    for (;;) {
        if (take(conn, channel, payload)) {
            *ret_heard = true;
            return 0;
        }
        int ready = sync_wait_input(conn, until_us);

        if (ready < 0 || PQstatus(conn) != CONNECTION_OK) {
            pg_err_from_result(conn, NULL, false, err);
            return PAWL_ECONN;
        }
        if (ready == 0) {
            *ret_heard = false;
            return 0;
        }
    }
}

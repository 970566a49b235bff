/* no_server: in place of all that talks to a server in a libpawl that was built without it. A worker or a producer with a
 * server is refused when it is made, so nothing else of them is ever called. */
#include "lib/lib.h"
#include "lib/worker.h"

#define WITHOUT "this libpawl was built without the server's protocol"

int pawl_server_new(const struct pawl_server_options *options,
                    struct pawl_server **ret_server,
                    struct pawl_err *err)
{
    if (options == NULL || ret_server == NULL)
        return lib_null("pawl_server_new", options == NULL ? "options" : "ret_server", err);
    return err_set(err, PAWL_EINVAL, WITHOUT);
}

void pawl_server_free(struct pawl_server *server)
{
    (void)server;
}

int pawl_server_enqueue(struct pawl_server *server,
                        const struct pawl_job_new *jobs,
                        size_t n,
                        int64_t *ret_ids,
                        bool *ret_existed,
                        struct pawl_err *err)
{
    (void)jobs;
    (void)n;
    (void)ret_ids;
    (void)ret_existed;
    return server == NULL ? lib_null("pawl_server_enqueue", "server", err)
                          : err_set(err, PAWL_EINVAL, WITHOUT);
}

static int from_options(struct pawl_worker *worker, struct pawl_err *err)
{
    (void)worker;
    return err_set(err, PAWL_EINVAL, WITHOUT);
}

const struct worker_source worker_server = {.from_options = from_options};

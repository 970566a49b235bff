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

int worker_remote_fill(struct pawl_worker *worker, struct pawl_err *err)
{
    (void)worker;
    return err_set(err, PAWL_EINVAL, WITHOUT);
}

void worker_remote_forget(struct pawl_worker *worker)
{
    (void)worker;
}

int worker_remote_make(struct pawl_worker *worker, struct pawl_err *err)
{
    (void)worker;
    return err_set(err, PAWL_EINVAL, "no server");
}

int worker_remote_start(struct pawl_worker *worker, struct pawl_err *err)
{
    return worker_remote_make(worker, err);
}

void worker_remote_stop(struct pawl_worker *worker)
{
    (void)worker;
}

void worker_remote_turn(struct pawl_worker *worker)
{
    (void)worker;
}

void worker_remote_note(struct pawl_worker *worker, struct run *run, const char *text)
{
    (void)worker;
    (void)run;
    (void)text;
}

void worker_remote_set_concurrency(struct pawl_worker *worker, unsigned concurrency)
{
    (void)worker;
    (void)concurrency;
}

void worker_remote_free(struct pawl_worker *worker)
{
    (void)worker;
}

void worker_remote_publish(struct pawl_worker *worker)
{
    (void)worker;
}

/* worker_local: in place of worker_remote.c in a libpawl that was built without the server. A worker with a server is
 * refused when it is made, so nothing else of it is ever called. */
#include "lib/worker.h"

int worker_remote_fill(struct pawl_worker *worker, struct pawl_err *err)
{
    (void)worker;
    return err_set(err, PAWL_EINVAL, "this libpawl was built without the server's protocol");
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

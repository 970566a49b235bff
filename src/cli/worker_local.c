/* worker_local: in place of worker_remote.c where there is no server to talk to. Nobody can come here: the option is not
 * there. */
#include "cli/worker.h"

int remote_work_open(struct worker *worker, struct pawl_err *err)
{
    (void)worker;
    return err_set(err, PAWL_EINVAL, "this pawl was built without the server");
}

void remote_work_start(struct worker *worker)
{
    (void)worker;
}

void remote_work_stop(struct worker *worker)
{
    (void)worker;
}

void remote_work_log(struct worker *worker)
{
    (void)worker;
}

void remote_work_free(struct worker *worker)
{
    (void)worker;
}

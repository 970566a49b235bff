/* worker_hands: what runs a worker's handlers: threads for functions, processes for commands, or both behind one face. The
 * loop's thread. */
#include <stdlib.h>

#include "hands/processes.h"
#include "lib/worker.h"

/* How far a run is. */
static void on_progress(void *data, struct run *run, const char *text)
{
    struct pawl_worker *worker = data;

    worker->source->note(worker, run, text);
}

static int make_threads(struct pawl_worker *worker, struct pawl_err *err)
{
    const struct pawl_worker_options *o = &worker->options;
    struct threads_handler *handlers = calloc(worker->n_handlers, sizeof(*handlers));
    size_t n = 0;

    if (handlers == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    for (struct worker_handler *h = worker->handlers; h != NULL; h = h->next) {
        if (h->command == NULL)
            handlers[n++] =
                (struct threads_handler){.kind = h->kind, .fn = worker_handle, .data = h};
    }
    worker->threads = threads_new(&worker->loop,
                                  &(struct threads_options){
                                      .handlers = handlers,
                                      .n_handlers = n,
                                      .threads = o->max_concurrency,
                                      .limit = worker->concurrency,
                                      .queue_max = worker->n_commands == 0 ? o->prefetch : 0,
                                      .log = &worker->log,
                                      .progress = on_progress,
                                      .data = worker,
                                  },
                                  err);
    free(handlers);
    return worker->threads != NULL ? 0 : err->code;
}

static int make_processes(struct pawl_worker *worker, struct pawl_err *err)
{
    const struct pawl_worker_options *o = &worker->options;
    struct processes_handler *handlers = calloc(worker->n_commands, sizeof(*handlers));
    size_t n = 0;

    if (handlers == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    for (const struct worker_handler *h = worker->handlers; h != NULL; h = h->next) {
        if (h->command != NULL)
            handlers[n++] = (struct processes_handler){.kind = h->kind, .command = h->command};
    }
    worker->processes = processes_new(&worker->loop,
                                      &(struct processes_options){
                                          .handlers = handlers,
                                          .n_handlers = n,
                                          .log = &worker->log,
                                          .clock = &clock_system,
                                          .term_grace_ms = o->kill_ms,
                                          .log_stderr = o->log_stderr,
                                      },
                                      err);
    free(handlers);
    return worker->processes != NULL ? 0 : err->code;
}

int worker_hands_make(struct pawl_worker *worker, struct pawl_err *err)
{
    int rc = 0;

    if (worker->n_commands < worker->n_handlers)
        rc = make_threads(worker, err);
    if (rc == 0 && worker->n_commands > 0)
        rc = make_processes(worker, err);
    if (rc == 0 && worker->threads != NULL && worker->processes != NULL)
        rc = mixed_init(&worker->mixed, worker->threads, worker->processes, err);
    if (rc < 0)
        return rc;
    worker->hands = worker->processes == NULL ? worker->threads
                    : worker->threads == NULL ? worker->processes
                                              : &worker->mixed.hands;
    return 0;
}

static void on_closed(struct pawl_worker *worker)
{
    if (worker->threads != NULL || worker->processes != NULL)
        return;
    mixed_deinit(&worker->mixed);
    worker->hands = NULL;
    uv_prepare_stop(&worker->follow);
    uv_prepare_stop(&worker->publish);
    uv_check_stop(&worker->follow_up);
}

static void on_threads_closed(void *data)
{
    struct pawl_worker *worker = data;

    worker->threads = NULL;
    on_closed(worker);
}

static void on_processes_closed(void *data)
{
    struct pawl_worker *worker = data;

    worker->processes = NULL;
    on_closed(worker);
}

void worker_hands_close(struct pawl_worker *worker)
{
    if (worker->threads != NULL)
        threads_close(worker->threads, on_threads_closed, worker);
    if (worker->processes != NULL)
        processes_close(worker->processes, on_processes_closed, worker);
}

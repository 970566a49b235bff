/* worker_life: the three ways to drive a worker's loop, and stopping it from anywhere. */
#include <signal.h>
#include <time.h>

#include "lib/lib.h"
#include "lib/worker.h"

/* Passes of the loop in one turn of somebody else's, so that he gets his thread back. */
#define PASSES_MAX 16

#define NS_PER_MS  1000000
#define NS_PER_S   1000000000

static void *loop_main(void *data)
{
    struct pawl_worker *worker = data;

    uv_run(&worker->loop, UV_RUN_DEFAULT);
    worker_close(worker);
    return NULL;
}

/* Signals belong to the program's own threads. */
static int start_thread(struct pawl_worker *worker)
{
    pthread_t thread;
    sigset_t all;
    sigset_t before;

    sigfillset(&all);
    /* Under the lock, so that the thread is known before it can come to its end. */
    pthread_mutex_lock(&worker->mutex);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int errnum = pthread_create(&thread, NULL, loop_main, worker);

    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (errnum == 0) {
        worker->loop_thread = thread;
        worker->threaded = true;
    }
    pthread_mutex_unlock(&worker->mutex);
    return errnum;
}

int pawl_worker_start(struct pawl_worker *worker, struct pawl_err *err)
{
    if (worker == NULL)
        return lib_null("pawl_worker_start", "worker", err);
    int rc = worker_open(worker, err);

    if (rc < 0)
        return rc;
    int errnum = start_thread(worker);

    if (errnum == 0)
        return 0;
    /* Nothing is claimed before the loop runs, so it ends at once; and it cannot be started again. */
    worker->source->stop(worker);
    worker->source->stop(worker);
    uv_run(&worker->loop, UV_RUN_DEFAULT);
    worker_close(worker);
    return err_set_errno(err, errnum, "could not start the worker's thread");
}

int pawl_worker_run(struct pawl_worker *worker, struct pawl_err *err)
{
    if (worker == NULL)
        return lib_null("pawl_worker_run", "worker", err);
    int rc = worker_open(worker, err);

    if (rc < 0)
        return rc;
    uv_run(&worker->loop, UV_RUN_DEFAULT);
    worker_close(worker);
    return worker_verdict(worker, err);
}

/* A loop that sleeps by itself acts on what happened before it sleeps again. This one sleeps in
 * somebody else's poll, which comes right after the events. */
static void on_follow_up(uv_check_t *check)
{
    struct pawl_worker *worker = check->data;

    worker->source->turn(worker);
}

int pawl_worker_fd(struct pawl_worker *worker, int *ret_fd, struct pawl_err *err)
{
    if (worker == NULL || ret_fd == NULL)
        return lib_null("pawl_worker_fd", worker == NULL ? "worker" : "ret_fd", err);
    int rc = worker_open(worker, err);

    if (rc < 0)
        return rc;
    worker->embedded = true;
    uv_check_start(&worker->follow_up, on_follow_up);
    uv_unref((uv_handle_t *)&worker->follow_up);
    *ret_fd = uv_backend_fd(&worker->loop);
    return 0;
}

int pawl_worker_timeout_ms(const struct pawl_worker *worker)
{
    if (worker == NULL || worker_own(worker, NULL) < 0 || !worker->embedded || !worker->open)
        return -1;
    return uv_backend_timeout(&worker->loop);
}

int pawl_worker_turn(struct pawl_worker *worker, struct pawl_err *err)
{
    if (worker == NULL)
        return lib_null("pawl_worker_turn", "worker", err);
    int rc = worker_own(worker, err);

    if (rc < 0)
        return rc;
    if (!worker->embedded)
        return err_set(err, PAWL_ESTATE, "the worker is not embedded: call pawl_worker_fd first");
    if (!worker->open)
        return worker_verdict(worker, err);
    int passes = 0;

    do {
        if (uv_run(&worker->loop, UV_RUN_NOWAIT) == 0) {
            worker_close(worker);
            return worker_verdict(worker, err);
        }
    } while (++passes < PASSES_MAX && uv_backend_timeout(&worker->loop) == 0);
    return 1;
}

void pawl_worker_stop(struct pawl_worker *worker)
{
    if (worker == NULL || worker_own(worker, NULL) < 0)
        return;
    /* Nothing but these two, which a signal handler may call. More than two calls say no more. */
    if (atomic_load(&worker->stops) < 2)
        atomic_fetch_add(&worker->stops, 1);
    uv_async_send(&worker->call);
}

void pawl_worker_wake(struct pawl_worker *worker)
{
    if (worker == NULL || worker_own(worker, NULL) < 0)
        return;
    atomic_store(&worker->wake, true);
    uv_async_send(&worker->call);
}

static struct timespec after_ms(int64_t ms)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at); /* cannot fail with these arguments */
    int64_t ns = at.tv_nsec + ms % MS_PER_S * NS_PER_MS;

    at.tv_sec += (time_t)(ms / MS_PER_S + ns / NS_PER_S);
    at.tv_nsec = (long)(ns % NS_PER_S);
    return at;
}

/* With the lock held. */
static int wait_stopped(struct pawl_worker *worker, int64_t timeout_ms, struct pawl_err *err)
{
    struct timespec until = after_ms(timeout_ms > 0 ? timeout_ms : 0);
    int rc = 0;

    if (worker->state == WORKER_NEW)
        return err_set(err, PAWL_ESTATE, "the worker was not started");
    if (worker->state != WORKER_STOPPED && pthread_equal(worker->loop_thread, pthread_self())) {
        err_set(err, PAWL_ESTATE, "the thread that drives the worker cannot wait for it");
        err_hint(err, "Call pawl_worker_turn until it returns 0.");
        return PAWL_ESTATE;
    }
    while (worker->state != WORKER_STOPPED && rc == 0)
        rc = timeout_ms < 0 ? pthread_cond_wait(&worker->changed, &worker->mutex)
                            : pthread_cond_timedwait(&worker->changed, &worker->mutex, &until);
    if (worker->state == WORKER_STOPPED)
        return 0;
    return err_set(
        err, PAWL_ETIMEOUT, "the worker did not stop within %lld ms", (long long)timeout_ms);
}

int pawl_worker_wait(struct pawl_worker *worker, int64_t timeout_ms, struct pawl_err *err)
{
    if (worker == NULL)
        return lib_null("pawl_worker_wait", "worker", err);
    int rc = worker_own(worker, err);

    if (rc < 0)
        return rc;
    if (worker_in_handler(worker)) {
        err_set(err, PAWL_ESTATE, "a handler cannot wait for its own worker");
        err_hint(err, "Call pawl_worker_stop, and return.");
        return PAWL_ESTATE;
    }
    pthread_mutex_lock(&worker->mutex);
    rc = wait_stopped(worker, timeout_ms, err);
    pthread_mutex_unlock(&worker->mutex);
    return rc < 0 ? rc : worker_verdict(worker, err);
}

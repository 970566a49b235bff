/*
 * event_loop: a worker inside a loop that the program has already, here one of poll(2). Handlers still run on threads of the
 * worker; only its talk with the database is the loop's. SIGTERM and SIGINT end it.
 *
 *     cc event_loop.c $(pkg-config --cflags --libs libpawl libpq)
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <libpq-fe.h>
#include <pawl.h>
#include <poll.h>

static struct pawl_worker *worker;

static void on_signal(int signum)
{
    (void)signum;
    pawl_worker_stop(worker); /* may be called here */
}

static enum pawl_outcome greet(struct pawl_run *run, void *data)
{
    (void)data;
    printf("job %lld\n", (long long)pawl_run_id(run));
    pawl_worker_stop(worker); /* one is enough for an example */
    return pawl_run_done(run, NULL, 0);
}

/* The program's own business: a job every 50 ms. */
static int on_tick(PGconn *conn, int tick_fd, struct pawl_err *err)
{
    struct pawl_job_new job = PAWL_JOB_NEW_INIT;
    uint64_t ticks;
    int64_t id;

    if (read(tick_fd, &ticks, sizeof(ticks)) < 0)
        return 0;
    job.kind = "greet";
    return pawl_enqueue(conn, &job, &id, NULL, err);
}

static int loop(PGconn *conn, struct pawl_err *err)
{
    struct pollfd fds[2] = {{.events = POLLIN}, {.events = POLLIN}};
    const struct itimerspec every = {{0, 50000000}, {0, 50000000}};
    int rc = pawl_worker_fd(worker, &fds[0].fd, err);

    if (rc < 0)
        return rc;
    fds[1].fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    timerfd_settime(fds[1].fd, 0, &every, NULL);
    /* 1: there is more to come. 0: it has stopped. */
    while ((rc = pawl_worker_turn(worker, err)) == 1) {
        if (poll(fds, 2, pawl_worker_timeout_ms(worker)) < 0 && errno != EINTR)
            break;
        if ((fds[1].revents & POLLIN) != 0 && (rc = on_tick(conn, fds[1].fd, err)) < 0)
            break;
    }
    close(fds[1].fd);
    return rc;
}

int main(void)
{
    const char *url = getenv("PAWL_DATABASE_URL");
    PGconn *conn = PQconnectdb(url != NULL ? url : "");
    struct pawl_err err = {0};
    int rc = pawl_worker_new(NULL, &worker, &err);

    if (rc == 0) {
        signal(SIGTERM, on_signal);
        signal(SIGINT, on_signal);
        rc = pawl_worker_handle(worker, "greet", greet, NULL, &err);
    }
    if (rc == 0)
        rc = loop(conn, &err);
    if (rc < 0)
        fprintf(stderr, "event_loop: %s. %s %s\n", err.message, err.detail, err.hint);
    else
        printf("stopped\n");
    pawl_worker_free(worker);
    PQfinish(conn);
    return rc == 0 ? 0 : 1;
}

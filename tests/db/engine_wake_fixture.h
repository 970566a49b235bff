/*
 * engine_wake_fixture: for tests about sleeping and waking: enqueueing as producers do, knowing that
 * a crew sleeps, and counting what is notified. Header only.
 */
#ifndef TESTS_ENGINE_WAKE_FIXTURE_H
#define TESTS_ENGINE_WAKE_FIXTURE_H

#include <poll.h>

#include "engine_fixture.h"
#include "pg/sync.h"
#include "store/job.h"
#include "store/job_enqueue.h"
#include "store/statements.h"
#include "store/worker.h"

#define QUIET_TURNS 30
#define NEVER_MS    3600000 /* a poll that no test waits for: longer than GUARD_MS */

/* Through the statement that notifies, n jobs in one. */
static inline void submit_on(PGconn *conn, const char *queue, size_t n)
{
    struct pawl_job_new jobs[64];
    struct arena arena;
    struct params params;
    struct pawl_err err;
    PGresult *r = NULL;

    assert_true(n <= 64);
    for (size_t i = 0; i < n; i++) {
        jobs[i] = (struct pawl_job_new){.queue = queue,
                                        .kind = "k",
                                        .payload = "{}",
                                        .payload_len = 2,
                                        .priority = 4,
                                        .max_attempts = 3};
    }
    arena_init(&arena, 1024UL * 1024);
    params_init(&params, &arena);
    job_enqueue_bind(&params, jobs, n);
    if (sync_exec(conn, STMT(job_enqueue), &params, &r, &err) != 0)
        fail_msg("%s", err.message);
    PQclear(r);
    arena_deinit(&arena);
}

static inline void submit(struct fixture *f, const char *queue, size_t n)
{
    submit_on(f->db.conn, queue, n);
}

/* Crews that poll never, so that only what a test is about can wake them. */
static inline void crew_init_sleeper(struct crew *crew, struct fixture *f)
{
    crew_init(crew, f);
    crew->options.poll_ms = crew->options.poll_max_ms = NEVER_MS;
}

#define OTHERS \
    "datname = current_database() AND pid <> pg_backend_pid() AND strpos(query, 'pawl.') > 0"

/* The last look of all is over: it comes half a second after the one before. For run_until: it must be so for some turns of the
 * loop, or a process that stood still would be taken for one that sleeps, and its timers would ring right afterwards. */
static inline bool all_quiet(struct fixture *f)
{
    static int turns;
    bool quiet = count_of(f,
                          "(SELECT max(query_start) AS last FROM pg_stat_activity WHERE " OTHERS
                          ") AS a WHERE last < clock_timestamp() - interval '600 ms'") == 1;

    turns = quiet ? turns + 1 : 0;
    if (turns < QUIET_TURNS)
        return false;
    turns = 0;
    return true;
}

/* n workers sleep on queue q. For run_until. */
static inline bool all_asleep(struct fixture *f, int n)
{
    return count_of(f, "pawl.sleeper WHERE asleep AND queue = 'q'") == n &&
           count_of(f, "pawl.worker") == n && all_quiet(f);
}

/* A session that hears all notifications. */
static inline PGconn *listener_new(struct fixture *f)
{
    return session(f, "LISTEN pawl_wake");
}

/* How many notifications for the queue came since the last call. They come in the order of their
 * commits, so all are here when the one sent last is. */
static inline int notes_of(struct fixture *f, PGconn *listener, const char *queue)
{
    int n = 0;
    bool last = false;

    testdb_exec(&f->db, "NOTIFY pawl_wake, 'the last'");
    while (!last) {
        PGnotify *note;

        assert_int_equal(PQconsumeInput(listener), 1);
        while ((note = PQnotifies(listener)) != NULL) {
            last = last || strcmp(note->extra, "the last") == 0;
            n += strcmp(note->extra, queue) == 0;
            PQfreemem(note);
        }
        struct pollfd ready = {.fd = PQsocket(listener), .events = POLLIN};

        if (!last && poll(&ready, 1, GUARD_MS) != 1)
            fail_msg("the last notification never came");
    }
    return n;
}

#endif

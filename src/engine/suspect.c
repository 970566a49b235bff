/*
 * suspect: claims that fail. One that took too long is repeated for half as many jobs. One that fails
 * because of a job, which the database does not name, is halved until it is for one; then that job is
 * tried alone and parked if its claim does fail (job_suspect.sql), and the others go on. Twice as many
 * are asked for after each claim that succeeds.
 *
 * What is wrong with every job looks the same: after some rounds without a claim that succeeds the
 * queue is left alone for a while, longer each time, so that few are parked for a fault that is not
 * theirs. Other queues do not wait for it.
 */
#include <string.h>

#include "engine/coordinator_internal.h"
#include "store/statements.h"

#define SUSPECT_DEADLINE_MS 10000
#define ROUNDS_AT_ONCE      20 /* before the queue is left alone */
#define HOLD_MIN_MS         100
#define HOLD_MAX_MS         60000
#define PASSES_MAX \
    2 /* a job whose claim fails, and not when it is tried alone, fails elsewhere: at the commit */
#define MEMORY_FAILS_MAX 5 /* claims of one that the server had no memory for, in a row */

enum failure {
    FAILURE_OTHER, /* of the connection, the server, our rights: nothing to do with what was asked for */
    FAILURE_SIZE, /* too much at once, perhaps */
    FAILURE_JOB,  /* of one of the jobs, perhaps */
};

/* Whether the SQLSTATE is of a class that a job's row cannot be the cause of: our statement, our rights, our
 * session, the server. */
static bool is_about_us(const char *sqlstate)
{
    static const char classes[][3] = {
        "", "08", "24", "25", "26", "28", "2D", "3B", "3D", "42", "57"};

    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        if (strncmp(sqlstate, classes[i], 2) == 0)
            return true;
    }
    return false;
}

static enum failure failure_of(const struct batch_end *end)
{
    switch (end->verdict) {
    case PG_VERDICT_UNKNOWN:
        return FAILURE_SIZE; /* no answer at all, or one that there was no memory for */
    case PG_VERDICT_RETRY:
        return end->err->code == PAWL_ETIMEOUT || strcmp(end->err->sqlstate, "53200") == 0
                   ? FAILURE_SIZE
                   : FAILURE_OTHER;
    case PG_VERDICT_PERMANENT:
        return is_about_us(end->err->sqlstate) || end->err->code == PAWL_EREADONLY ? FAILURE_OTHER
                                                                                   : FAILURE_JOB;
    default:
        return FAILURE_OTHER;
    }
}

/* ---- queues that are left alone */

static void release_held(struct coordinator *c);

static void on_held(uv_timer_t *timer)
{
    release_held(timer->data);
}

static void release_held(struct coordinator *c)
{
    uint64_t now_ms = uv_now(c->loop);
    uint64_t next_ms = UINT64_MAX;

    for (size_t i = 0; i < c->n_scans; i++) {
        struct scan_again *again = &c->scans[i].again;

        if (again->held && again->held_until_ms <= now_ms)
            again->held = false;
        else if (again->held && again->held_until_ms < next_ms)
            next_ms = again->held_until_ms;
    }
    if (next_ms != UINT64_MAX)
        uv_timer_start(&c->held_timer, on_held, next_ms - now_ms, 0);
}

static int64_t hold_ms(unsigned rounds)
{
    int64_t ms = HOLD_MIN_MS;

    for (unsigned i = ROUNDS_AT_ONCE + 1; i < rounds && ms < HOLD_MAX_MS; i++)
        ms *= 2;
    return ms < HOLD_MAX_MS ? ms : HOLD_MAX_MS;
}

/* A round is over, and no claim has succeeded yet. */
static void hold_if_many(struct coordinator *c, struct scan *scan)
{
    if (++scan->again.rounds < ROUNDS_AT_ONCE)
        return;
    int64_t ms = hold_ms(scan->again.rounds);

    scan->again.held = true;
    scan->again.held_until_ms = uv_now(c->loop) + (uint64_t)ms;
    log_error(c->options.log,
              "job_claim",
              LOG_STR("queue", scan->queue),
              LOG_INT("rounds", scan->again.rounds),
              LOG_INT("wait_ms", ms),
              LOG_STR("why", "one job after the other cannot be claimed"));
    release_held(c);
}

/* ---- one job */

static void on_tried(struct coordinator *c, struct scan *scan, const PGresult *r)
{
    int64_t id;
    const char *why;

    if (!job_suspect_row(r, &id, &why)) { /* somebody else has it */
        scan->again.id = 0;
        scan->again.n_passed = 0;
        return;
    }
    if (why != NULL) {
        c->stats.unclaimable++;
        log_error(c->options.log,
                  "job_park",
                  LOG_INT("job", id),
                  LOG_STR("queue", scan->queue),
                  LOG_STR("why", why));
        scan->again.id = 0;
        scan->again.n_passed = 0;
        return;
    }
    scan->again.n_passed = scan->again.id == id ? scan->again.n_passed + 1 : 1;
    scan->again.id = id;
}

static void on_suspected(void *data, const struct batch_end *end)
{
    struct coordinator *c = data;
    struct scan *scan = &c->scans[c->claiming.queue];

    claim_free(c->claiming.claim);
    c->claiming.claim = NULL;
    if (c->state != COORDINATOR_WORKING)
        return;
    if (end->verdict == PG_VERDICT_OK) {
        on_tried(c, scan, end->results[0]);
        hold_if_many(c, scan);
        return;
    }
    log_warn_err(c->options.log, "job_suspect", end->err, LOG_STR("queue", scan->queue));
    if (failure_of(end) == FAILURE_JOB) /* it cannot even be parked */
        hold_if_many(c, scan);
    coordinator_back_off(c);
}

/* It stays on the wire, as far as others are concerned, until its job is tried. */
static void suspect(struct coordinator *c, struct claim *claim, const struct pawl_err *err)
{
    struct scan *scan = &c->scans[c->claiming.queue];
    const char *const probe[] = {c->claiming.probe != NULL ? c->claiming.probe->kind : NULL};
    struct batch *batch = batch_new(c->claim_conn);
    struct params *params = batch != NULL ? batch_add(batch, STMT(job_suspect)) : NULL;
    struct job_suspect job = {
        .claim = &claim->asked,
        .kinds = probe,
        .n_kinds = 1,
        .sure_id = scan->again.n_passed >= PASSES_MAX ? scan->again.id : 0,
        .why = err->message,
        .worker = c->name,
    };

    if (params == NULL) {
        batch_free(batch);
        claim_free(claim);
        coordinator_back_off(c);
        return;
    }
    if (c->claiming.probe == NULL)
        job.kinds =
            coordinator_kinds(c, c->options.hands->ops->room != NULL ? scan : NULL, &job.n_kinds);
    job_suspect_bind(params, &job);
    c->claiming.claim = claim;
    batch_submit(batch, SUSPECT_DEADLINE_MS, on_suspected, c);
}

void coordinator_claim_failed(struct coordinator *c,
                              struct claim *claim,
                              const struct batch_end *end)
{
    struct scan *scan = &c->scans[c->claiming.queue];
    enum failure failure = failure_of(end);
    bool one = claim->asked.limit == 1 && claim->asked.together <= 1;

    c->stats.claim_errors++;
    log_warn_err(c->options.log,
                 "job_claim",
                 end->err,
                 LOG_STR("queue", scan->queue),
                 LOG_INT("limit", claim->asked.limit));
    if (c->claiming.probe == NULL)
        scan_failed(scan, &claim->asked, c->claiming.full, failure != FAILURE_OTHER);
    else if (failure != FAILURE_OTHER)
        scan_smaller(scan, claim->asked.limit);
    if (failure == FAILURE_SIZE && one && end->verdict == PG_VERDICT_RETRY &&
        end->err->code == PAWL_EFULL && ++scan->again.n_fails >= MEMORY_FAILS_MAX)
        failure = FAILURE_JOB;
    if (failure == FAILURE_JOB && one) {
        suspect(c, claim, end->err);
        return;
    }
    claim_free(claim);
    /* Smaller, and at once: the next finds out more. */
    if (failure != FAILURE_JOB)
        coordinator_back_off(c);
}

void coordinator_suspect_init(struct coordinator *c)
{
    uv_timer_init(c->loop, &c->held_timer);
    c->held_timer.data = c;
}

/* marks: polls, looks, and the ledger's low mark. */
#include "engine/marks.h"

#include <stdlib.h>
#include <string.h>

#include "engine/coordinator_internal.h"
#include "store/claim.h"
#include "store/statements.h"

#define POLL_DEADLINE_MS  2000
#define LOOK_DEADLINE_MS  10000
#define BELOW_DEADLINE_MS 60000
#define STORE_DEADLINE_MS 5000
#define BELOW_EVERY_US    (1000 * US_PER_MS) /* at most; less often when it takes long */
#define BELOW_SHARE       50                 /* it may take one part in this of the time */
#define STORE_EVERY_US    (5000 * US_PER_MS)
#define LOW_EVERY_US      (10000 * US_PER_MS) /* without polls: how often others are asked */

static void look(struct coordinator *c);

/* ── strays ── */

static const char *const *kinds_of(struct coordinator *c, const struct scan *scan, size_t *ret_n)
{
    return coordinator_kinds(c, c->options.hands->ops->room != NULL ? scan : NULL, ret_n);
}

/* Returns how many were found, and where the first of each level is. */
static int32_t found_in(const PGresult *r, struct job_marks *ret_at, bool *ret_lanes)
{
    int32_t n = 0;

    *ret_lanes = false;
    job_marks_fill(ret_at, INT64_MAX);
    for (int row = 0; row < PQntuples(r); row++) {
        size_t level;
        struct job_watermark at;
        int32_t here = job_look_row(r, row, &level, &at);

        if (level >= JOB_LEVELS)
            continue;
        ret_at->at[level] = at;
        n += here;
        *ret_lanes |= level >= JOB_PRIORITIES;
    }
    return n;
}

static void
found(struct coordinator *c, struct scan *scan, const PGresult *r, struct job_marks *ret_at)
{
    bool lanes;
    int32_t n = found_in(r, ret_at, &lanes);

    if (n == 0 || c->state != COORDINATOR_WORKING)
        return;
    scan_found(scan, ret_at, n, lanes);
    c->stats.strays += (uint64_t)n;
    c->idle = false;
}

static void on_looked(void *data, const struct batch_end *end)
{
    struct coordinator *c = data;
    struct scan *scan = &c->scans[c->marks.looking_at];
    int64_t now_us = clock_mono_us(c->options.clock);
    struct job_marks at;

    c->marks.looking = false;
    if (!scan->safe.flying.on) /* it was forgotten, or is another one's */
        return;
    if (end->verdict != PG_VERDICT_OK) {
        log_warn_err(c->options.log, "job_look", end->err, LOG_STR("queue", scan->queue));
        safe_look_failed(&scan->safe);
        return;
    }
    latency_add(&c->stats.look, end->took_us);
    found(c, scan, end->results[0], &at);
    safe_looked(&scan->safe, &at, end->took_us, now_us);
    look(c);
}

static bool send_look(struct coordinator *c,
                      struct conn *conn,
                      const struct scan *scan,
                      const struct safe_range *range,
                      int64_t deadline_ms,
                      batch_fn fn)
{
    struct batch *batch = batch_new(conn);
    struct params *params = batch != NULL ? batch_add(batch, STMT(job_look)) : NULL;
    size_t n_kinds;

    if (params == NULL) {
        batch_free(batch);
        return false;
    }
    const char *const *kinds = kinds_of(c, scan, &n_kinds);

    job_look_bind(params, scan->queue, kinds, n_kinds, &range->from, &range->to);
    batch_submit(batch, deadline_ms, fn, c);
    return true;
}

/* The next range that is to be looked at, of any queue. */
static void look(struct coordinator *c)
{
    int64_t now_us = clock_mono_us(c->options.clock);

    if (c->marks.looking || c->state != COORDINATOR_WORKING)
        return;
    for (size_t i = 0; i < c->n_scans; i++) {
        size_t at = (c->marks.next + i) % c->n_scans;
        struct scan *scan = &c->scans[at];
        const struct safe_range *range;
        bool asked = claiming_from(c, at) && scan->asking_strays;

        if (!safe_look(&scan->safe, now_us, scan->n_strays == 0 && !asked, &range))
            continue;
        c->marks.looking_at = at;
        c->marks.next = at + 1;
        c->marks.looking = send_look(c, c->upkeep_conn, scan, range, LOOK_DEADLINE_MS, on_looked);
        if (!c->marks.looking)
            safe_look_failed(&scan->safe);
        return;
    }
}

/* ── behind the floor ── */

struct conn *coordinator_care_conn(struct coordinator *c)
{
    if (c->options.unprepared) /* it has no settings there */
        return c->upkeep_conn;
    if (conn_state(c->care_conn) == CONN_IDLE)
        conn_start(c->care_conn);
    return c->care_conn;
}

static void on_below(void *data, const struct batch_end *end)
{
    struct coordinator *c = data;
    struct scan *scan = &c->scans[c->marks.below_at];
    int64_t now_us = clock_mono_us(c->options.clock);
    int64_t pause_us = end->took_us * BELOW_SHARE;
    struct job_marks at;

    c->marks.below = false;
    scan->below_us = now_us + (pause_us > BELOW_EVERY_US ? pause_us : BELOW_EVERY_US);
    scan->below_seen |= c->marks.below_all;
    if (end->verdict != PG_VERDICT_OK) {
        scan->below_us = now_us + BELOW_DEADLINE_MS * US_PER_MS;
        log_warn_err(c->options.log, "job_look", end->err, LOG_STR("queue", scan->queue));
        return;
    }
    found(c, scan, end->results[0], &at);
    job_marks_lower(&at, &scan->floor);
    safe_suspect(&scan->safe, &at, &scan->floor);
}

/* Only as far back as needed where that is known. */
static bool look_below(struct coordinator *c, size_t at, bool everything)
{
    struct scan *scan = &c->scans[at];
    struct safe_range range = {.on = true, .to = scan->floor};

    job_marks_fill(&range.from, everything ? INT64_MIN : scan->back_us);
    scan->back_us = INT64_MAX;
    scan->want_below &= !everything;
    if (everything && job_marks_equal(&range.from, &range.to)) {
        scan->below_seen = true;
        return false;
    }
    c->marks.below_at = at;
    c->marks.below_all = everything;
    c->marks.below =
        send_look(c, coordinator_care_conn(c), scan, &range, BELOW_DEADLINE_MS, on_below);
    return c->marks.below;
}

static void look_below_any(struct coordinator *c, int64_t now_us)
{
    for (size_t i = 0; i < c->n_scans && !c->marks.below; i++) {
        if (c->scans[i].back_us != INT64_MAX && look_below(c, i, false))
            return;
        if (c->scans[i].want_below && c->scans[i].known && now_us >= c->scans[i].below_us &&
            look_below(c, i, true))
            return;
    }
}

void coordinator_marks_put_back(struct coordinator *c, const char *text)
{
    char *queue;
    int64_t due_us = strtoll(text, &queue, 10);

    if (*queue != ' ')
        return;
    for (size_t i = 0; i < c->n_scans; i++) {
        if (strcmp(c->scans[i].queue, queue + 1) == 0 && due_us < c->scans[i].back_us)
            c->scans[i].back_us = due_us;
    }
    look_below_any(c, clock_mono_us(c->options.clock));
}

bool coordinator_marks_seen_all(struct coordinator *c)
{
    bool all = true;

    for (size_t i = 0; i < c->n_scans; i++) {
        if (c->scans[i].below_seen)
            continue;
        if (!c->marks.below)
            look_below(c, i, true);
        all &= c->scans[i].below_seen;
    }
    return all;
}

/* ── marks of others ── */

struct loading {
    struct coordinator *c; /* borrowed */
    size_t queue;
    uint64_t born;
};

static void on_loaded(void *data, const struct batch_end *end)
{
    struct loading *loading = data;
    struct coordinator *c = loading->c;
    struct scan *scan = loading->queue < c->n_scans ? &c->scans[loading->queue] : NULL;
    struct job_marks marks;

    if (scan != NULL && scan->born == loading->born) {
        bool any = end->verdict == PG_VERDICT_OK && mark_load_read(end->results[0], &marks);

        if (end->verdict == PG_VERDICT_OK || end->verdict == PG_VERDICT_PERMANENT)
            scan_loaded(scan, any ? &marks : NULL);
        else
            scan->loading = false;
    }
    free(loading);
}

bool coordinator_marks_loading(const struct coordinator *c)
{
    for (size_t i = 0; i < c->n_scans; i++) {
        if (c->scans[i].loading)
            return true;
    }
    return false;
}

bool coordinator_marks_ready(struct coordinator *c, size_t queue)
{
    struct scan *scan = &c->scans[queue];

    if (scan->known)
        return true;
    if (scan->loading)
        return false;
    struct loading *loading = malloc(sizeof(*loading));
    struct batch *batch = loading != NULL ? batch_new(c->claim_conn) : NULL;
    struct params *params = batch != NULL ? batch_add(batch, STMT(mark_load)) : NULL;
    size_t n_kinds;

    if (params == NULL) {
        batch_free(batch);
        free(loading);
        return false;
    }
    const char *const *kinds = kinds_of(c, scan, &n_kinds);

    scan->loading = true;
    scan->born = ++c->marks.born;
    *loading = (struct loading){.c = c, .queue = queue, .born = scan->born};
    mark_load_bind(params, scan->queue, kinds, n_kinds);
    batch_submit(batch, STORE_DEADLINE_MS, on_loaded, loading);
    return false;
}

static void on_stored(void *data, const struct batch_end *end)
{
    const struct coordinator *c = data;

    if (end->verdict != PG_VERDICT_OK)
        log_warn_err(c->options.log, "mark_store", end->err, LOG_INT("tries", 1));
}

static void store_marks(struct coordinator *c, const struct scan *scan)
{
    struct batch *batch = batch_new(c->upkeep_conn);
    struct params *params = batch != NULL ? batch_add(batch, STMT(mark_store)) : NULL;
    size_t n_kinds;

    if (params == NULL) {
        batch_free(batch);
        return;
    }
    const char *const *kinds = kinds_of(c, scan, &n_kinds);

    mark_store_bind(params, scan->queue, kinds, n_kinds, &scan->floor);
    batch_submit(batch, STORE_DEADLINE_MS, on_stored, c);
}

/* ── the ledger ── */

static void on_low_stored(void *data, const struct batch_end *end)
{
    const struct coordinator *c = data;

    if (end->verdict != PG_VERDICT_OK)
        log_warn_err(c->options.log, "claim_low_store", end->err, LOG_INT("tries", 1));
}

static void store_low(struct coordinator *c)
{
    struct batch *batch = batch_new(c->upkeep_conn);
    struct params *params = batch != NULL ? batch_add(batch, STMT(claim_low_store)) : NULL;

    if (params == NULL) {
        batch_free(batch);
        return;
    }
    c->marks.stored_low = c->marks.low;
    claim_low_store_bind(params, c->marks.low);
    batch_submit(batch, STORE_DEADLINE_MS, on_low_stored, c);
}

static void on_low_loaded(void *data, const struct batch_end *end)
{
    struct coordinator *c = data;

    if (end->verdict != PG_VERDICT_OK)
        return; /* the ledger is read from where it was */
    int64_t low = claim_low_load_row(end->results[0]);

    if (low > c->marks.low)
        c->marks.low = low;
    c->marks.stored_low = low;
}

static void load_low(struct coordinator *c, int64_t now_us)
{
    struct batch *batch = batch_new(c->upkeep_conn);

    c->marks.low_us = now_us;
    if (batch == NULL || batch_add(batch, STMT(claim_low_load)) == NULL) {
        batch_free(batch);
        return;
    }
    batch_submit(batch, STORE_DEADLINE_MS, on_low_loaded, c);
}

static void on_low(void *data, const struct batch_end *end)
{
    struct coordinator *c = data;
    struct marks *m = &c->marks;

    m->low_asked = false;
    if (end->verdict != PG_VERDICT_OK || m->low_end == 0)
        return;
    int64_t first = claim_low_row(end->results[0]);
    int64_t low = first != 0 ? first : m->low_end + 1;

    if (low > m->low)
        m->low = low;
    m->low_end = 0;
}

static void ask_low(struct coordinator *c)
{
    struct batch *batch = batch_new(c->upkeep_conn);
    struct params *params = batch != NULL ? batch_add(batch, STMT(claim_low)) : NULL;

    if (params == NULL) {
        batch_free(batch);
        return;
    }
    claim_low_bind(params, c->marks.low, c->marks.low_end);
    c->marks.low_asked = true;
    batch_submit(batch, LOOK_DEADLINE_MS, on_low, c);
}

/* Whether any of those that wrote when low_end was fixed still does. Those that came later take
 * higher numbers. */
static bool low_is_written(struct marks *m)
{
    for (size_t i = 0; i < m->claims.n;) {
        if (m->claims.list[i].since == m->low_poll)
            return true;
        m->claims.list[i] = m->claims.list[--m->claims.n];
    }
    return m->claims.crowd_since == m->low_poll;
}

/* Every number up to the last poll's was taken by a transaction that writes now or has ended. Once
 * those that write now have ended, too, what is left up to there can be read. */
static void raise_low(struct coordinator *c, const struct writers *now)
{
    struct marks *m = &c->marks;
    int64_t before = m->last_seq; /* read before these writers were: the order matters */

    m->last_seq = now->seq;
    if (m->low_asked || (m->low_end == 0 && before < m->low))
        return;
    if (m->low_end == 0) {
        m->low_end = before;
        m->low_poll = m->n_polls;
        writers_forget(&m->claims);
    }
    (void)writers_seen(&m->claims, now->claims, m->n_polls);
    if (!low_is_written(m))
        ask_low(c);
}

/* ── polls ── */

static void on_polled(void *data, const struct batch_end *end)
{
    struct coordinator *c = data;
    struct marks *m = &c->marks;

    m->polling = false;
    if (end->verdict != PG_VERDICT_OK) {
        log_warn_err(c->options.log, "writer_list", end->err, LOG_INT("tries", 1));
        return;
    }
    struct writers now = writer_list_row(end->results[0]);
    uint64_t poll = ++m->n_polls;
    uint64_t ended = writers_seen(&m->jobs, now.jobs, poll);

    m->oldest = writers_oldest(&m->jobs);
    for (size_t i = 0; i < c->n_scans; i++)
        safe_polled(&c->scans[i].safe, poll, ended, m->oldest);
    raise_low(c, &now);
    look(c);
}

static bool is_behind(const struct coordinator *c)
{
    struct job_marks marks;

    for (size_t i = 0; i < c->n_scans; i++) {
        scan_marks(&c->scans[i], &marks);
        if (safe_is_behind(&c->scans[i].safe, &marks))
            return true;
    }
    return c->marks.low_end != 0;
}

static void poll_writers(struct coordinator *c)
{
    struct batch *batch = batch_new(c->upkeep_conn);

    if (batch == NULL || batch_add(batch, STMT(writer_list)) == NULL) {
        batch_free(batch);
        return;
    }
    for (size_t i = 0; i < c->n_scans; i++) {
        struct job_marks marks;

        scan_marks(&c->scans[i], &marks);
        safe_note(&c->scans[i].safe, c->marks.n_polls + 1, &marks);
        c->scans[i].want_below |= !job_marks_equal(&marks, &c->scans[i].floor);
    }
    c->marks.polling = true;
    batch_submit(batch, POLL_DEADLINE_MS, on_polled, c);
}

/* Kinds that are left alone are not looked for: the floor stays until they come back, and then all
 * from there is looked at. */
static void raise_floors(struct coordinator *c)
{
    size_t n_open = c->pulse.breakers.n_open;
    bool back = n_open < c->marks.n_open;

    c->marks.n_open = n_open;
    for (size_t i = 0; i < c->n_scans; i++) {
        struct scan *scan = &c->scans[i];
        struct job_marks marks;

        if (back) {
            scan_marks(scan, &marks);
            safe_suspect(&scan->safe, &scan->floor, &marks);
        }
        safe_recent(&scan->safe, c->marks.n_polls, &scan->recent);
        if (n_open == 0)
            safe_marks(&scan->safe, c->marks.n_polls, c->marks.oldest, &scan->floor);
    }
}

static void store(struct coordinator *c, int64_t now_us)
{
    if (now_us - c->marks.stored_us < STORE_EVERY_US)
        return;
    c->marks.stored_us = now_us;
    if (c->marks.low > c->marks.stored_low)
        store_low(c);
    for (size_t i = 0; i < c->n_scans && c->pulse.breakers.n_open == 0; i++) {
        struct scan *scan = &c->scans[i];

        if (!scan->known || job_marks_equal(&scan->floor, &scan->stored))
            continue;
        scan->stored = scan->floor;
        store_marks(c, scan);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct coordinator *c = timer->data;
    int64_t now_us = clock_mono_us(c->options.clock);

    if (c->state != COORDINATOR_WORKING || conn_state(c->upkeep_conn) != CONN_READY)
        return;
    raise_floors(c);
    if (!c->marks.polling && is_behind(c))
        poll_writers(c);
    else if (now_us - c->marks.low_us >= LOW_EVERY_US)
        load_low(c, now_us);
    look(c);
    look_below_any(c, now_us);
    store(c, now_us);
}

void coordinator_marks_reset(struct coordinator *c)
{
    struct marks *m = &c->marks;

    writers_forget(&m->jobs);
    writers_forget(&m->claims);
    m->low = m->stored_low = m->last_seq = m->low_end = 0;
    m->oldest = 0;
    for (size_t i = 0; i < c->n_scans; i++)
        safe_init(&c->scans[i].safe, &c->scans[i].floor);
    load_low(c, clock_mono_us(c->options.clock));
}

void coordinator_marks_init(struct coordinator *c)
{
    uv_timer_init(c->loop, &c->marks.timer);
    c->marks.timer.data = c;
    /* Without memory for them all writers are one crowd. */
    c->marks.jobs.list = calloc(MARKS_WRITERS_MAX, sizeof(struct marks_writer));
    c->marks.claims.list = calloc(MARKS_WRITERS_MAX, sizeof(struct marks_writer));
}

void coordinator_marks_start(struct coordinator *c)
{
    uv_timer_start(&c->marks.timer, on_timer, MARKS_POLL_MS, MARKS_POLL_MS);
}

void coordinator_marks_deinit(struct coordinator *c)
{
    free(c->marks.jobs.list);
    free(c->marks.claims.list);
}

/* scan: watermarks. */
#include "engine/scan.h"

#include <string.h>

void scan_init(struct scan *scan, const char *queue)
{
    *scan = (struct scan){
        .queue = queue,
        .want_full = true,
        .full_us = INT64_MIN / 2,
        .turns_us = INT64_MIN,
        .peek = SCAN_PEEK_MIN,
        .back_us = INT64_MAX,
    };
    for (size_t i = 0; i < JOB_PRIORITIES; i++)
        scan->mark[i].due_us = scan->lane_mark[i].due_us = INT64_MIN;
    job_marks_fill(&scan->floor, INT64_MIN);
    scan->recent = scan->floor;
    safe_init(&scan->safe, &scan->floor);
}

void scan_loaded(struct scan *scan, const struct job_marks *marks)
{
    scan->loading = false;
    scan->known = true;
    if (marks == NULL)
        return;
    scan->floor = scan->recent = *marks;
    safe_init(&scan->safe, marks);
    memcpy(scan->mark, marks->at, sizeof(scan->mark));
    memcpy(scan->lane_mark, marks->at + JOB_PRIORITIES, sizeof(scan->lane_mark));
}

void scan_forget(struct scan *scan)
{
    scan->known = scan->below_seen = false;
    scan->n_strays = 0;
    scan->want_full = true;
    scan->empty = false;
    for (size_t i = 0; i < JOB_PRIORITIES; i++)
        scan->mark[i] = scan->lane_mark[i] = (struct job_watermark){.due_us = INT64_MIN};
    job_marks_fill(&scan->floor, INT64_MIN);
    scan->recent = scan->floor;
    safe_init(&scan->safe, &scan->floor);
}

void scan_marks(const struct scan *scan, struct job_marks *ret_marks)
{
    memcpy(ret_marks->at, scan->mark, sizeof(scan->mark));
    memcpy(ret_marks->at + JOB_PRIORITIES, scan->lane_mark, sizeof(scan->lane_mark));
}

void scan_found(struct scan *scan, const struct job_marks *at, int32_t n, bool lanes)
{
    if (scan->n_strays == 0) {
        job_marks_fill(&scan->strays, INT64_MAX);
        scan->strays_lanes = false;
    }
    job_marks_lower(&scan->strays, at);
    scan->n_strays += n;
    scan->strays_lanes |= lanes;
    scan->empty = false;
}

bool scan_strays(struct scan *scan, struct job_claim *asked)
{
    scan->asking_strays = scan->n_strays > 0;
    if (!scan->asking_strays)
        return false;
    if (asked->limit > scan->n_strays)
        asked->limit = scan->n_strays;
    asked->lanes = scan->strays_lanes;
    asked->together = 1;
    memcpy(asked->from, scan->strays.at, sizeof(asked->from));
    memcpy(asked->lane_from, scan->strays.at + JOB_PRIORITIES, sizeof(asked->lane_from));
    scan->n_strays = 0;
    return true;
}

void scan_wake(struct scan *scan)
{
    scan->empty = false;
}

void scan_called(struct scan *scan)
{
    scan->called |= scan->empty;
    scan->owes_lanes |= scan->empty;
    scan->empty = false;
}

void scan_lane_left(struct scan *scan)
{
    scan->lanes = true;
    scan->empty = false;
}

/* Whether a claim from the floor now would stay within its share of the time. */
static bool affordable(const struct scan *scan, int64_t now_us)
{
    return now_us - scan->full_us >= scan->full_cost_us * SCAN_FULL_SHARE;
}

bool scan_from(struct scan *scan, int64_t now_us, struct job_watermark from[JOB_PRIORITIES])
{
    bool full = scan->want_full && !scan->called && affordable(scan, now_us);

    for (size_t i = 0; i < JOB_PRIORITIES; i++)
        from[i] = full && job_watermark_before(&scan->recent.at[i], &scan->mark[i])
                      ? scan->recent.at[i]
                      : scan->mark[i];
    if (full)
        scan->full_us = now_us;
    scan->asked_us = now_us;
    return full;
}

bool scan_with_lanes(struct scan *scan, bool full, int32_t *limit)
{
    scan->checking = full || scan->asked_us - scan->checked_us >= SCAN_LANES_EVERY_US;
    bool with = scan->checking || scan->lanes || (scan->owes_lanes && !scan->called);

    if (scan->called && !full)
        with = scan->lanes, scan->checking = false;
    if (scan->checking)
        scan->checked_us = scan->asked_us;
    if (with && !scan->lanes && *limit > scan->peek)
        *limit = scan->peek;
    scan->called = false;
    scan->owes_lanes &= !with;
    return with;
}

void scan_lane_from(const struct scan *scan, bool full, struct job_watermark from[JOB_PRIORITIES])
{
    for (size_t i = 0; i < JOB_PRIORITIES; i++) {
        const struct job_watermark *floor = &scan->recent.at[JOB_PRIORITIES + i];

        from[i] =
            full && job_watermark_before(floor, &scan->lane_mark[i]) ? *floor : scan->lane_mark[i];
    }
}

bool scan_takes_turn(const struct scan *scan, bool full, int32_t limit, int64_t now_us)
{
    return !full && !scan->want_full && !scan->asking_strays && limit >= SCAN_TURN_MIN &&
           now_us >= scan->turns_us;
}

void scan_turn(struct scan *scan, bool in_time, int64_t now_us)
{
    int64_t twice_us = 2 * scan->no_turns_us;

    if (in_time)
        scan->no_turns_us = 0;
    else if (scan->no_turns_us == 0)
        scan->no_turns_us = SCAN_NO_TURNS_US;
    else
        scan->no_turns_us = twice_us < SCAN_NO_TURNS_MAX_US ? twice_us : SCAN_NO_TURNS_MAX_US;
    scan->turns_us = now_us + scan->no_turns_us;
}

void scan_put_back(struct scan *scan, int16_t priority, bool in_lane, int64_t due_us, int64_t id)
{
    struct job_watermark at = {.due_us = due_us, .id = id};
    struct job_watermark *mark = in_lane ? &scan->lane_mark[priority] : &scan->mark[priority];

    if (job_watermark_before(&at, mark))
        *mark = at;
    scan->lanes |= in_lane;
    scan->empty = false;
}

int32_t scan_most(const struct scan *scan, int32_t limit)
{
    size_t fit = scan->job_bytes > 0 ? SCAN_BYTES_MAX / scan->job_bytes : (size_t)limit;

    if (fit < (size_t)limit)
        limit = fit > 1 ? (int32_t)fit : 1;
    return scan->again.most > 0 && scan->again.most < limit ? scan->again.most : limit;
}

void scan_smaller(struct scan *scan, int32_t limit)
{
    scan->again.most = limit > 1 ? limit / 2 : 1;
}

void scan_failed(struct scan *scan, const struct job_claim *asked, bool full, bool smaller)
{
    struct scan_again *again = &scan->again;

    if (smaller)
        scan_smaller(scan, asked->limit);
    again->same = true;
    again->full = full;
    again->strays = scan->asking_strays;
    again->lanes = asked->lanes;
    again->limit = smaller ? again->most : asked->limit;
    memcpy(again->from, asked->from, sizeof(again->from));
    memcpy(again->lane_from, asked->lane_from, sizeof(again->lane_from));
    scan->empty = false;
}

bool scan_repeat(struct scan *scan, struct job_claim *asked, bool *ret_full)
{
    struct scan_again *again = &scan->again;

    if (!again->same)
        return false;
    again->same = false;
    scan->asking_strays = again->strays;
    asked->lanes = again->lanes;
    asked->together = 1;
    if (asked->limit > again->limit)
        asked->limit = again->limit;
    memcpy(asked->from, again->from, sizeof(asked->from));
    memcpy(asked->lane_from, again->lane_from, sizeof(asked->lane_from));
    *ret_full = again->full;
    return true;
}

void scan_succeeded(struct scan *scan, int32_t max)
{
    struct scan_again *again = &scan->again;

    again->most = again->most < max / 2 ? 2 * again->most : 0;
    again->rounds = again->n_fails = again->n_passed = 0;
    again->id = 0;
}

/* cut: a claim from the floor was cut short by its limit, and may have left rows behind the old marks. */
static void move_marks(struct job_watermark mark[JOB_PRIORITIES],
                       const struct job_watermark last[JOB_PRIORITIES],
                       bool cut)
{
    for (size_t i = 0; i < JOB_PRIORITIES; i++) {
        if (last[i].due_us != INT64_MIN && (cut || job_watermark_before(&mark[i], &last[i])))
            mark[i] = last[i];
    }
}

/* A claim without marks: strays are looked for from the first job of each level on. */
static void begin(struct scan *scan, const PGresult *r, int n)
{
    struct job_marks first;

    job_marks_fill(&first, INT64_MAX);
    for (int row = 0; row < n; row++) {
        size_t level = (size_t)job_claim_priority(r, row) +
                       (job_claim_in_lane(r, row) ? (size_t)JOB_PRIORITIES : 0);
        int64_t due_us = job_claim_due(r, row) - SCAN_BEGIN_US;

        if (due_us < first.at[level].due_us)
            first.at[level].due_us = due_us;
    }
    for (size_t i = 0; i < JOB_LEVELS; i++) {
        if (first.at[i].due_us != INT64_MAX)
            safe_begin(&scan->safe, i, &first.at[i]);
    }
}

void scan_claimed(
    struct scan *scan, const PGresult *r, bool full, int32_t limit, int64_t took_us, int64_t now_us)
{
    bool more;
    int n = job_claim_count(r, &more);
    int n_lanes = 0;
    int n_looked = 0; /* for; the others came along */
    bool any_lane = more;
    struct job_watermark last[2][JOB_PRIORITIES]; /* plain, in lanes */

    scan->below_seen &= n == 0;
    if (scan->asking_strays) {
        scan->asking_strays = false;
        return;
    }
    begin(scan, r, n);
    for (size_t i = 0; i < JOB_PRIORITIES; i++)
        last[0][i] = last[1][i] = (struct job_watermark){.due_us = INT64_MIN};
    for (int row = 0; row < n; row++) {
        struct job_watermark at = {.due_us = job_claim_due(r, row), .id = job_claim_id(r, row)};
        bool in_lane = job_claim_in_lane(r, row);
        struct job_watermark *level = &last[in_lane][job_claim_priority(r, row)];

        any_lane |= in_lane;
        n_lanes += in_lane;
        if (job_claim_along(r, row))
            continue;
        n_looked++;
        if (job_watermark_before(level, &at))
            *level = at;
    }
    /* What was moved behind is not there any more. */
    if (more && job_claim_in_lane(r, n)) {
        struct job_watermark at = {.due_us = job_claim_due(r, n)};
        struct job_watermark *level = &last[1][job_claim_priority(r, n)];

        if (job_watermark_before(level, &at))
            *level = at;
    }
    move_marks(scan->mark, last[0], full && n_looked == limit);
    /* Lanes that somebody held are looked at again. */
    if (!more || job_claim_in_lane(r, n))
        move_marks(scan->lane_mark, last[1], full && n_looked == limit);
    if (full)
        scan->full_cost_us = took_us;
    if (full || scan->checking) {
        /* One that was made smaller says little about what is behind it. */
        scan->lanes = any_lane || (scan->lanes && scan->again.most > 0);
        scan->peek = n_looked == limit && limit >= SCAN_PEEK_MIN ? 2 * limit : SCAN_PEEK_MIN;
    }
    if (n > 0) {
        scan->mostly_lanes = n_lanes > n / 2;
        scan->job_bytes = PQresultMemorySize(r) / (size_t)n;
    }
    scan->want_full = n_looked < limit;
    /* Where a claim from the floor is too dear right now, the next look will do it. */
    scan->empty = n == 0 && !more && !scan->owes_lanes && (full || !affordable(scan, now_us));
}

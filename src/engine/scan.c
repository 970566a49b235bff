/* scan: watermarks. */
#include "engine/scan.h"

void scan_init(struct scan *scan, const char *queue)
{
    *scan = (struct scan){.queue = queue, .full_us = INT64_MIN / 2};
    for (size_t i = 0; i < JOB_PRIORITIES; i++)
        scan->mark[i].due_us = INT64_MIN;
}

void scan_wake(struct scan *scan)
{
    scan->empty = false;
}

/* Whether a full scan now would stay within its share of the time. */
static bool affordable(const struct scan *scan, int64_t now_us)
{
    return now_us - scan->full_us >= scan->full_cost_us * SCAN_FULL_SHARE;
}

bool scan_from(struct scan *scan, int64_t now_us, struct job_watermark from[JOB_PRIORITIES])
{
    bool due = scan->want_full || now_us - scan->full_us >= SCAN_FULL_EVERY_US;
    bool full = due && affordable(scan, now_us);

    for (size_t i = 0; i < JOB_PRIORITIES; i++)
        from[i] = full ? (struct job_watermark){.due_us = INT64_MIN} : scan->mark[i];
    if (full)
        scan->full_us = now_us;
    return full;
}

static bool before(const struct job_watermark *a, const struct job_watermark *b)
{
    return a->due_us != b->due_us ? a->due_us < b->due_us : a->id < b->id;
}

void scan_claimed(
    struct scan *scan, const PGresult *r, bool full, int32_t limit, int64_t took_us, int64_t now_us)
{
    int n = PQntuples(r);
    struct job_watermark last[JOB_PRIORITIES];

    for (size_t i = 0; i < JOB_PRIORITIES; i++)
        last[i] = (struct job_watermark){.due_us = INT64_MIN};
    for (int row = 0; row < n; row++) {
        struct job_watermark at = {.due_us = job_claim_due(r, row), .id = job_claim_id(r, row)};
        struct job_watermark *level = &last[job_claim_priority(r, row)];

        if (before(level, &at))
            *level = at;
    }
    for (size_t i = 0; i < JOB_PRIORITIES; i++) {
        if (last[i].due_us == INT64_MIN)
            continue;
        /* A full scan that was cut short by its limit may have left rows behind the old mark. */
        if ((full && n == limit) || before(&scan->mark[i], &last[i]))
            scan->mark[i] = last[i];
    }
    if (full)
        scan->full_cost_us = took_us;
    scan->want_full = n < limit;
    /* Where a full scan is too dear right now, the next look will do it. */
    scan->empty = n == 0 && (full || !affordable(scan, now_us));
}

/* safe: steps and ranges. */
#include "engine/safe.h"

#include <string.h>

/* ── marks ── */

void job_marks_fill(struct job_marks *marks, int64_t due_us)
{
    for (size_t i = 0; i < JOB_LEVELS; i++)
        marks->at[i] = (struct job_watermark){.due_us = due_us};
}

bool job_marks_equal(const struct job_marks *a, const struct job_marks *b)
{
    for (size_t i = 0; i < JOB_LEVELS; i++) {
        if (a->at[i].due_us != b->at[i].due_us || a->at[i].id != b->at[i].id)
            return false;
    }
    return true;
}

void job_marks_lower(struct job_marks *marks, const struct job_marks *to)
{
    for (size_t i = 0; i < JOB_LEVELS; i++) {
        if (job_watermark_before(&to->at[i], &marks->at[i]))
            marks->at[i] = to->at[i];
    }
}

void job_marks_raise(struct job_marks *marks, const struct job_marks *to)
{
    for (size_t i = 0; i < JOB_LEVELS; i++) {
        if (job_watermark_before(&marks->at[i], &to->at[i]))
            marks->at[i] = to->at[i];
    }
}

/* ── ranges ── */

static bool is_empty(const struct job_marks *from, const struct job_marks *to)
{
    for (size_t i = 0; i < JOB_LEVELS; i++) {
        if (job_watermark_before(&from->at[i], &to->at[i]))
            return false;
    }
    return true;
}

/* Level by level: one with nothing between must not stretch a range to where another began. */
static void
range_add(struct safe_range *range, const struct job_marks *from, const struct job_marks *to)
{
    if (is_empty(from, to))
        return;
    if (!range->on)
        *range = (struct safe_range){.on = true, .from = *to, .to = *to};
    for (size_t i = 0; i < JOB_LEVELS; i++) {
        if (!job_watermark_before(&from->at[i], &to->at[i]))
            continue;
        if (!job_watermark_before(&range->from.at[i], &range->to.at[i])) {
            range->from.at[i] = from->at[i];
            range->to.at[i] = to->at[i];
            continue;
        }
        if (job_watermark_before(&from->at[i], &range->from.at[i]))
            range->from.at[i] = from->at[i];
        if (job_watermark_before(&range->to.at[i], &to->at[i]))
            range->to.at[i] = to->at[i];
    }
}

/* Takes the first chunk_us of due times off a range. */
static void range_cut(struct safe_range *range, int64_t chunk_us, struct safe_range *ret_first)
{
    int64_t start_us = INT64_MAX;
    struct job_watermark end;

    *ret_first = *range;
    for (size_t i = 0; i < JOB_LEVELS; i++) {
        if (job_watermark_before(&range->from.at[i], &range->to.at[i]) &&
            range->from.at[i].due_us < start_us)
            start_us = range->from.at[i].due_us;
    }
    end = (struct job_watermark){.due_us = start_us == INT64_MIN || start_us > INT64_MAX - chunk_us
                                               ? INT64_MAX
                                               : start_us + chunk_us};
    for (size_t i = 0; i < JOB_LEVELS; i++) {
        if (job_watermark_before(&end, &ret_first->to.at[i]))
            ret_first->to.at[i] = end;
        if (job_watermark_before(&range->from.at[i], &ret_first->to.at[i]))
            range->from.at[i] = ret_first->to.at[i];
    }
    range->on = !is_empty(&range->from, &range->to);
}

/* ── steps ── */

void safe_init(struct safe *safe, const struct job_marks *marks)
{
    *safe = (struct safe){.n_steps = 1, .chunk_us = SAFE_CHUNK_US};
    safe->steps[0].marks = *marks;
}

void safe_begin(struct safe *safe, size_t level, const struct job_watermark *at)
{
    for (size_t i = 0; i < safe->n_steps; i++) {
        if (safe->steps[i].marks.at[level].due_us == INT64_MIN)
            safe->steps[i].marks.at[level] = *at;
    }
}

static size_t step_of(const struct safe *safe, uint64_t poll)
{
    size_t i = safe->n_steps - 1;

    while (i > 0 && safe->steps[i].poll > poll)
        i--;
    return i;
}

static void drop_step(struct safe *safe, size_t i)
{
    safe->n_steps--;
    memmove(&safe->steps[i], &safe->steps[i + 1], (safe->n_steps - i) * sizeof(safe->steps[0]));
}

/* The one that is missed least: of a writer from long ago it matters less when exactly that was. The
 * last three are what the next polls look at. */
static void thin_out(struct safe *safe)
{
    uint64_t now = safe->steps[safe->n_steps - 1].poll;
    size_t least = 1;
    uint64_t least_gap = 0;
    uint64_t least_age = 0;

    for (size_t i = 1; i + 3 < safe->n_steps; i++) {
        uint64_t gap = safe->steps[i + 1].poll - safe->steps[i - 1].poll;
        uint64_t age = now - safe->steps[i].poll + 1;

        if (least_age == 0 || gap * least_age < least_gap * age) {
            least = i;
            least_gap = gap;
            least_age = age;
        }
    }
    drop_step(safe, least);
}

void safe_note(struct safe *safe, uint64_t poll, const struct job_marks *marks)
{
    struct safe_step *last = &safe->steps[safe->n_steps - 1];

    if (last->poll == poll) {
        last->marks = *marks;
        return;
    }
    if (job_marks_equal(&last->marks, marks))
        return;
    if (safe->n_steps == SAFE_STEPS_MAX)
        thin_out(safe);
    safe->steps[safe->n_steps++] = (struct safe_step){.poll = poll, .marks = *marks};
}

void safe_polled(struct safe *safe, uint64_t poll, uint64_t ended, uint64_t oldest)
{
    const struct job_marks *to = &safe->steps[step_of(safe, poll - 1)].marks;

    if (poll >= 2)
        range_add(&safe->todo[SAFE_NEAR], &safe->steps[step_of(safe, poll - 2)].marks, to);
    /* Of a writer that poll `ended` saw first nothing is before the marks of the poll before. */
    if (ended != 0 && ended + 1 < poll)
        range_add(&safe->todo[SAFE_FAR], &safe->steps[step_of(safe, ended - 1)].marks, to);
    uint64_t needed = oldest != 0 && oldest < poll ? oldest - 1 : poll - 1;

    while (safe->n_steps > 1 && safe->steps[1].poll <= needed)
        drop_step(safe, 0);
}

void safe_suspect(struct safe *safe, const struct job_marks *from, const struct job_marks *to)
{
    range_add(&safe->todo[SAFE_FAR], from, to);
}

/* ── looks ── */

bool safe_look(struct safe *safe, int64_t now_us, bool settled, const struct safe_range **ret_range)
{
    if (safe->flying.on)
        return false;
    for (int kind = 0; kind < SAFE_KINDS; kind++) {
        struct safe_range *todo = &safe->todo[kind];

        if (!todo->on || (kind == SAFE_AGAIN && (!settled || now_us < safe->again_us)))
            continue;
        if (kind != SAFE_NEAR) {
            range_cut(todo, safe->chunk_us, &safe->flying);
        } else {
            safe->flying = *todo;
            todo->on = false;
        }
        safe->flying_kind = (enum safe_kind)kind;
        *ret_range = &safe->flying;
        return true;
    }
    return false;
}

void safe_looked(struct safe *safe, const struct job_marks *found, int64_t took_us, int64_t now_us)
{
    safe->flying.on = false;
    if (safe->flying_kind != SAFE_NEAR) {
        if (took_us > 2 * SAFE_LOOK_US && safe->chunk_us / 2 >= SAFE_CHUNK_MIN_US)
            safe->chunk_us /= 2;
        else if (took_us < SAFE_LOOK_US / 4 && safe->chunk_us * 2 <= SAFE_CHUNK_MAX_US)
            safe->chunk_us *= 2;
    }
    if (safe->flying_kind == SAFE_AGAIN)
        safe->again_us = now_us + took_us * SAFE_AGAIN_SHARE;
    /* They are claimed now; whether all of them were, the next look shows. */
    range_add(&safe->todo[SAFE_AGAIN], found, &safe->flying.to);
}

void safe_look_failed(struct safe *safe)
{
    safe->flying.on = false;
    range_add(&safe->todo[safe->flying_kind], &safe->flying.from, &safe->flying.to);
}

static void lower_to_range(struct job_marks *marks, const struct safe_range *range)
{
    for (size_t i = 0; range->on && i < JOB_LEVELS; i++) {
        if (job_watermark_before(&range->from.at[i], &range->to.at[i]) &&
            job_watermark_before(&range->from.at[i], &marks->at[i]))
            marks->at[i] = range->from.at[i];
    }
}

void safe_marks(const struct safe *safe,
                uint64_t poll,
                uint64_t oldest,
                struct job_marks *ret_marks)
{
    uint64_t sure = poll > 0 ? poll - 1 : 0;

    if (oldest != 0 && oldest - 1 < sure)
        sure = oldest - 1;
    *ret_marks = safe->steps[step_of(safe, sure)].marks;
    lower_to_range(ret_marks, &safe->flying);
    for (int kind = 0; kind < SAFE_KINDS; kind++)
        lower_to_range(ret_marks, &safe->todo[kind]);
}

void safe_recent(const struct safe *safe, uint64_t poll, struct job_marks *ret_marks)
{
    *ret_marks = safe->steps[step_of(safe, poll > 0 ? poll - 1 : 0)].marks;
    lower_to_range(ret_marks, &safe->todo[SAFE_NEAR]);
    if (safe->flying_kind == SAFE_NEAR)
        lower_to_range(ret_marks, &safe->flying);
}

bool safe_is_behind(const struct safe *safe, const struct job_marks *marks)
{
    return safe->n_steps > 1 || !job_marks_equal(&safe->steps[0].marks, marks) || safe->flying.on ||
           safe->todo[SAFE_NEAR].on || safe->todo[SAFE_FAR].on || safe->todo[SAFE_AGAIN].on;
}

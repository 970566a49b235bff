/* job_internal: what the binders of several statements share. */
#ifndef STORE_JOB_INTERNAL_H
#define STORE_JOB_INTERNAL_H

#include "pg/params.h"
#include "store/job.h"

/* A parameter array with room for n elements in the parameters' own arena; marks them failed when
 * there is none. */
#define PARAM_ARRAY(p, n, type) ((type *)param_array((p), (n), sizeof(type)))

static inline void *param_array(struct params *p, size_t n, size_t size)
{
    void *array = arena_alloc_array(p->arena, n > 0 ? n : 1, size);

    if (array == NULL)
        p->failed = true;
    return array;
}

/* A line of a machine's timeline, without the time: step, attempt, outcome, µs, bytes of state. In
 * the arena; NULL: it is full. */
const char *job_timeline_line(struct arena *arena, const struct job_settle *item);

/* The first and the last of them in the order of bytes: two parameters. */
void job_kind_range_bind(struct params *p, const char *const *kinds, size_t n);

/* The second half of job_settle: machines that go on. */
void job_steps_bind(struct params *p, const struct job_settle *const *items, size_t n);

#endif

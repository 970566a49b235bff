/*
 * soak_families: machines that have children. What they were shown is their result, and the checker compares that with
 * who was spawned, who had ended by then, and what the join was to wait for:
 *
 *     family  spawns once or twice, and joins all of them
 *     clan    once or twice, and joins a quorum, or goes on with the first that is not done; those that are left over it
 *             cancels, or leaves alone. Sometimes it fails, or is cancelled, with children left
 *
 *     ID,…;ID,…  the children that each join showed
 */
#include <stdio.h>
#include <string.h>

#include "base/rand.h"
#include "fault/soak_handlers.h"

#define CHILDREN_MAX 5

/* Children get the key of their parent with a number behind it. `clan`: with options, and slower. */
static void spawn(struct task *task, const char *step, const char *state, bool clan)
{
    const struct job *job = task_job(task);
    const char *blank = memchr(job->payload, ' ', job->payload_len);
    int key_len = blank != NULL ? (int)(blank - job->payload) : (int)job->payload_len;
    struct child_new children[CHILDREN_MAX];
    char payloads[CHILDREN_MAX][128];
    size_t n = 1 + rand_below(CHILDREN_MAX);

    for (size_t i = 0; i < n; i++) {
        int ms = (int)rand_below(clan && rand_below(3) == 0 ? 300 : 10);
        int len = snprintf(
            payloads[i], sizeof(payloads[i]), "%.*s.%s.%zu %d", key_len, job->payload, step, i, ms);

        children[i] = (struct child_new){
            .queue = job->queue,
            .kind = rand_below(3) == 0 ? "moody" : "plain",
            .payload = payloads[i],
            .payload_len = (size_t)len,
            .priority = (int16_t)rand_below(10),
            .max_attempts = 12,
        };
    }
    task_go_on(task,
               OUTCOME_SPAWN,
               &(struct going_on){
                   .step = step,
                   .state = state,
                   .state_len = strlen(state),
                   .children = children,
                   .n_children = n,
                   .join_at = clan ? (int32_t)rand_below(n) : 0,
                   .join_flags = clan ? (int16_t)rand_below((JOIN_FAIL_FAST | JOIN_CANCEL) + 1) : 0,
               },
               0);
}

/* The children are joined; what now? */
static const char *
joined(struct task *task, const char *step, char state[SOAK_STATE_MAX], bool clan)
{
    soak_append(state, task_job(task)->machine->children, "\"id\"", ",}");
    if (strcmp(step, "first") == 0 && rand_below(2) == 0) {
        snprintf(state + strlen(state), 2, ";");
        spawn(task, "second", state, clan);
        return "spawn";
    }
    switch (clan ? rand_below(8) : 7) {
    case 0:
        task_fail(task, "not this one");
        return "fail";
    case 1:
        task_cancel(task);
        return "cancel";
    case 2:
    case 3: /* goes on without those that are left */
        soak_go_on(task, OUTCOME_NEXT, "last", NULL, state, rand_below(2) == 0 ? 10 : 0);
        return "next";
    default:
        task_done(task, state, strlen(state));
        return "done";
    }
}

static void run(struct task *task, bool clan)
{
    const struct job *job = task_job(task);
    const char *step = job->machine != NULL ? job->machine->step : NULL;
    const char *outcome = "spawn";
    char state[SOAK_STATE_MAX];

    soak_start(job);
    soak_state(job, state);
    soak_work(task);
    if (step == NULL) {
        spawn(task, "first", "", clan);
    } else if (strcmp(step, "last") == 0) {
        task_done(task, state, strlen(state));
        outcome = "done";
    } else if (rand_below(6) == 0) {
        task_retry(task, "once more", (int64_t)rand_below(20));
        outcome = "retry";
    } else {
        outcome = joined(task, step, state, clan);
    }
    soak_finish(job, outcome);
}

void soak_family(void *data, struct task *task)
{
    (void)data;
    run(task, false);
}

void soak_clan(void *data, struct task *task)
{
    (void)data;
    run(task, true);
}

/*
 * soak_jobs: what the producers of the soak test enqueue, by their dice: plain jobs, jobs in lanes of all sorts, with unique
 * keys, with deadlines, machines; and how they write it down. Every job has a key of its own as the first word of its
 * payload, so that it can be found again even when nobody learned its id. One thread but for maker_tell.
 */
#ifndef TESTS_FAULT_SOAK_JOBS_H
#define TESTS_FAULT_SOAK_JOBS_H

#include <stdbool.h>

#include "store/job_enqueue.h"

#define JOBS_MAX 4

struct maker {
    const char *name;
    const char *queues[2];
    unsigned short dice[3]; /* so that a seed makes the same jobs again */
    int64_t slow_ms;
    unsigned long long n_jobs;
    struct pawl_job_new jobs[JOBS_MAX];
    char payloads[JOBS_MAX][96];
    char names[JOBS_MAX][32]; /* of a lane or a unique key */
    size_t n;
};

/* queues: two names with a comma between them; cut in two there. */
void maker_init(
    struct maker *m, const char *name, const char *seed, const char *slow_ms, char *queues);
long maker_throw(struct maker *m, long sides);
/* Between one and JOBS_MAX jobs, in place of those before. */
void maker_make(struct maker *m);

/* An event about the enqueue of all of them. what: its fate; NULL: it is about to be asked for. ids and held: when they
 * are known; else NULL. Any thread. */
void maker_tell(const struct maker *m,
                unsigned long long call,
                const char *what,
                const int64_t *ids,
                const bool *held);

#endif

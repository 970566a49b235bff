/*
 * env: the environment of commands: the variables of this process, and those that each job adds.
 * processes.h lists them. Loop's thread only.
 */
#ifndef HANDS_ENV_H
#define HANDS_ENV_H

#include <stddef.h>

#include "base/arena.h"
#include "core/job.h"

/* Longer values of a machine are not in the environment: descriptor 4 has them. */
#define ENV_VALUE_MAX (32 * 1024)

struct env {
    char **vars; /* the inherited ones, then room for a job's, then NULL */
    size_t n_inherited;
};

/* Copies the environment of this process into the arena, because a setenv of the host program
 * would free the strings. PAWL_ENOMEM. */
int env_init(struct env *env, struct arena *arena) MUST_CHECK;

/* Puts the variables of the job behind the inherited ones, in the caller's arena. PAWL_ENOMEM. */
int env_fill(struct env *env, const struct job *job, struct arena *arena) MUST_CHECK;
/* Removes the variables of the job. */
void env_clear(struct env *env);

#endif

/*
 * env: the environment of commands: what they inherit from this process, and what each job adds. The
 * variables are told in processes.h. Thread of the loop only.
 */
#ifndef HANDS_ENV_H
#define HANDS_ENV_H

#include <stddef.h>

#include "base/arena.h"
#include "core/job.h"

/* Values of a machine that are longer are not in the environment: descriptor 4 has them. */
#define ENV_VALUE_MAX (32 * 1024)

struct env {
    char **vars; /* the inherited ones, then room for a job's, then NULL */
    size_t n_inherited;
};

/* A copy of what this process has, in the arena, because setenv in the host would pull the strings
 * from under us. PAWL_ENOMEM. */
int env_init(struct env *env, struct arena *arena) MUST_CHECK;

/* Puts the job's variables behind the inherited ones, in memory of the caller's arena. PAWL_ENOMEM. */
int env_fill(struct env *env, const struct job *job, struct arena *arena) MUST_CHECK;
/* Forgets them. */
void env_clear(struct env *env);

#endif

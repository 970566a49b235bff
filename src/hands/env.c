/* env: names and values, in arenas of the caller. */
#include "hands/env.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "core/machine.h"

#define JOB_VARIABLE_PREFIX "PAWL_JOB_"
#define N_JOB_VARIABLES     12

int env_init(struct env *env, struct arena *arena)
{
    size_t n = 0;
    while (environ != NULL && environ[n] != NULL)
        n++;
    *env = (struct env){.vars = arena_new_array(arena, n + N_JOB_VARIABLES + 1, char *)};
    if (env->vars == NULL)
        return PAWL_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        /* A worker may itself run as a job. */
        if (strncmp(environ[i], JOB_VARIABLE_PREFIX, strlen(JOB_VARIABLE_PREFIX)) == 0)
            continue;
        char *copy = arena_strdup(arena, environ[i]);
        if (copy == NULL)
            return PAWL_ENOMEM;
        env->vars[env->n_inherited++] = copy;
    }
    return 0;
}

/* The next free variable of a job. */
struct filling {
    struct env *env;
    struct arena *arena;
    size_t n;
    bool failed;
};

static void add(struct filling *f, char *variable)
{
    f->failed |= variable == NULL;
    f->env->vars[f->env->n_inherited + f->n++] = variable;
}

/* A value that an environment cannot have, or that would fill it, is left out. */
static void add_value(struct filling *f, const char *name, const char *value, size_t len)
{
    if (value != NULL && len <= ENV_VALUE_MAX && memchr(value, '\0', len) == NULL)
        add(f, arena_printf(f->arena, JOB_VARIABLE_PREFIX "%s=%.*s", name, (int)len, value));
}

static void add_machine(struct filling *f, const struct machine *machine)
{
    add_value(f, "STEP", machine->step, machine->step != NULL ? strlen(machine->step) : 0);
    add_value(f, "STATE", machine->state, machine->state_len);
    add_value(
        f, "SIGNALS", machine->signals, machine->signals != NULL ? strlen(machine->signals) : 0);
    add_value(f,
              "CHILDREN",
              machine->children,
              machine->children != NULL ? strlen(machine->children) : 0);
    add_value(f, "TIMED_OUT", machine->timed_out ? "1" : "0", 1);
}

int env_fill(struct env *env, const struct job *job, struct arena *arena)
{
    struct filling f = {.env = env, .arena = arena};
    char token[UUID_TEXT_LEN + 1];
    uuid_format(&job->token, token);
    add(&f, arena_printf(arena, "PAWL_JOB_ID=%" PRId64, job->id));
    add(&f, arena_printf(arena, "PAWL_JOB_KIND=%s", job->kind));
    add(&f, arena_printf(arena, "PAWL_JOB_QUEUE=%s", job->queue));
    add(&f, arena_printf(arena, "PAWL_JOB_ATTEMPT=%" PRId32, job->attempt));
    add(&f, arena_printf(arena, "PAWL_JOB_MAX_ATTEMPTS=%" PRId32, job->max_attempts));
    add(&f, arena_printf(arena, "PAWL_JOB_TOKEN=%s", token));
    if (job->machine != NULL)
        add_machine(&f, job->machine);
    env->vars[env->n_inherited + f.n] = NULL;
    if (f.failed)
        env_clear(env);
    return f.failed ? PAWL_ENOMEM : 0;
}

void env_clear(struct env *env)
{
    for (size_t i = 0; i < N_JOB_VARIABLES; i++)
        env->vars[env->n_inherited + i] = NULL;
}

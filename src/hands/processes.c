/*
 * processes: the hands interface over process.c, with the commands by kind and the environment they
 * get.
 */
#include "hands/processes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/defer.h"
#include "hands/env.h"
#include "hands/process.h"

/* Commands and environment come from the operator; the kernel refuses to pass on more than a few
 * megabytes. */
#define PROCESSES_ARENA_MAX ((size_t)64 * 1024 * 1024)

/* A job's variables: a few short ones, and four that may be long. */
#define VARIABLES_MAX ((size_t)64 * 1024 + 4 * (size_t)ENV_VALUE_MAX)

struct processes {
    struct hands hands;       /* first, so that a pointer to it is a pointer to this */
    struct process_host host; /* the log and the clock in it are borrowed */
    struct arena arena;       /* owns what follows */
    const char **kinds;       /* NULL at the end */
    const char **commands;    /* in the order of kinds */
    struct env env;           /* has the variables of a job only during a start */
    struct arena variables;   /* owns these variables; empty between two starts */
    bool closing;
    uv_timer_t closer; /* never started; closing it brings the last callback */
    void (*closed)(void *data);
    void *closed_data;
};

static struct processes *from_hands(struct hands *hands)
{
    return (struct processes *)(void *)hands;
}

static struct processes *from_host(struct process_host *host)
{
    return (struct processes *)(void *)((char *)host - offsetof(struct processes, host));
}

static void processes_free(struct processes *self)
{
    arena_deinit(&self->variables);
    arena_deinit(&self->arena);
    free(self);
}

/* ── the hands interface ── */

static const char *command_for(const struct processes *self, const char *kind)
{
    for (size_t i = 0; self->kinds[i] != NULL; i++)
        if (strcmp(self->kinds[i], kind) == 0)
            return self->commands[i];
    return NULL;
}

static int processes_run(struct hands *hands, struct run *run, struct pawl_err *err)
{
    struct processes *self = from_hands(hands);
    if (self->closing)
        return err_set(err, PAWL_ESTATE, "the worker is shutting down");
    const char *command = command_for(self, run->job.kind);
    if (command == NULL) {
        err_set(err, PAWL_ENOTFOUND, "no command for jobs of kind %s", run->job.kind);
        return err_hint(err, "Give the worker one: --exec '%s=COMMAND'.", run->job.kind);
    }
    if (env_fill(&self->env, &run->job, &self->variables) < 0) {
        arena_clear(&self->variables);
        return err_set(err, PAWL_ENOMEM, "could not start a process");
    }
    int rc = process_start(&self->host, run, command, self->env.vars, err);
    env_clear(&self->env);
    arena_clear(&self->variables);
    return rc;
}

static void processes_stop(struct hands *hands, struct run *run, enum stop_reason reason)
{
    (void)hands;
    process_stop(run, reason);
}

static const char *const *processes_kinds(struct hands *hands)
{
    return from_hands(hands)->kinds;
}

static const struct hands_ops processes_ops = {
    .run = processes_run,
    .stop = processes_stop,
    .kinds = processes_kinds,
};

static void on_ended(struct process_host *host, struct run *run, const struct outcome *outcome)
{
    struct hands *hands = &from_host(host)->hands;
    hands->finished(hands->finished_data, run, outcome);
}

/* ── making and closing ── */

static int
handlers_copy(struct processes *self, const struct processes_options *options, struct pawl_err *err)
{
    size_t n = options->n_handlers;
    if (n == 0)
        return err_set(err, PAWL_EINVAL, "no command given for any kind of job");
    self->kinds = arena_new_array(&self->arena, n + 1, const char *);
    self->commands = arena_new_array(&self->arena, n + 1, const char *);
    if (self->kinds == NULL || self->commands == NULL)
        return err_set(err, PAWL_ENOMEM, "could not set up the commands");
    for (size_t i = 0; i < n; i++) {
        const struct processes_handler *handler = &options->handlers[i];
        int rc = kind_check(handler->kind, err);
        if (rc < 0)
            return rc;
        if (handler->command == NULL || handler->command[strspn(handler->command, " \t\n")] == '\0')
            return err_set(err, PAWL_EINVAL, "the command for kind %s is empty", handler->kind);
        if (command_for(self, handler->kind) != NULL)
            return err_set(err, PAWL_EINVAL, "two commands given for kind %s", handler->kind);
        const char *command = arena_strdup(&self->arena, handler->command);
        const char *kind = arena_strdup(&self->arena, handler->kind);
        if (command == NULL || kind == NULL)
            return err_set(err, PAWL_ENOMEM, "could not set up the commands");
        self->commands[i] = command;
        self->kinds[i] = kind;
    }
    return 0;
}

static void on_closer_closed(uv_handle_t *handle)
{
    struct processes *self = handle->data;
    void (*closed)(void *data) = self->closed;
    void *data = self->closed_data;
    processes_free(self);
    if (closed != NULL)
        closed(data);
}

static void close_when_empty(struct processes *self)
{
    uv_handle_t *closer = (uv_handle_t *)&self->closer;
    if (self->closing && self->host.n_open == 0 && !uv_is_closing(closer))
        uv_close(closer, on_closer_closed);
}

static void on_released(struct process_host *host)
{
    close_when_empty(from_host(host));
}

struct hands *
processes_new(uv_loop_t *loop, const struct processes_options *options, struct pawl_err *err)
{
    struct processes *self = calloc(1, sizeof(*self));
    if (self == NULL) {
        err_set(err, PAWL_ENOMEM, "could not set up the commands");
        return NULL;
    }
    arena_init(&self->arena, PROCESSES_ARENA_MAX);
    arena_init(&self->variables, VARIABLES_MAX);
    self->hands.ops = &processes_ops;
    self->host = (struct process_host){
        .loop = loop,
        .log = options->log,
        .clock = options->clock != NULL ? options->clock : &clock_system,
        .term_grace_ms = options->term_grace_ms ? options->term_grace_ms : PROCESSES_TERM_GRACE_MS,
        .result_max = options->result_max ? options->result_max : PAWL_RESULT_MAX,
        .log_stderr = options->log_stderr,
        .chunk = arena_alloc(&self->arena, PROCESS_CHUNK),
        .ended = on_ended,
        .released = on_released,
    };
    list_init(&self->host.processes);
    if (handlers_copy(self, options, err) < 0) {
        processes_free(self);
        return NULL;
    }
    if (self->host.chunk == NULL || env_init(&self->env, &self->arena) < 0) {
        err_set(err, PAWL_ENOMEM, "could not set up the commands");
        processes_free(self);
        return NULL;
    }
    uv_timer_init(loop, &self->closer);
    self->closer.data = self;
    return &self->hands;
}

void processes_close(struct hands *hands, void (*closed)(void *data), void *data)
{
    if (hands == NULL)
        return;
    struct processes *self = from_hands(hands);
    self->closing = true;
    self->closed = closed;
    self->closed_data = data;
    process_kill_all(&self->host);
    close_when_empty(self);
}

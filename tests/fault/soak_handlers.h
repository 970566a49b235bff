/*
 * soak_handlers: what the workers of the soak test do with their jobs, wherever these come from. Any thread.
 */
#ifndef TESTS_FAULT_SOAK_HANDLERS_H
#define TESTS_FAULT_SOAK_HANDLERS_H

#include "core/machine.h"
#include "hands/threads.h"

#define SOAK_STATE_MAX 8192

/* Thread hands with all the handlers, and no more jobs waiting than there are threads. NULL: err tells. */
struct hands *soak_hands(uv_loop_t *loop, size_t threads, struct log *log, struct pawl_err *err);

void soak_family(void *data, struct task *task);
void soak_clan(void *data, struct task *task);

/* --- for handlers --- */

/* The events of a run: first and last thing it does. */
void soak_start(const struct job *job);
void soak_finish(const struct job *job, const char *outcome);

/* As long as the payload's second word says, or until told to stop: then false. */
bool soak_work(struct task *task);

void soak_state(const struct job *job, char state[SOAK_STATE_MAX]);
void soak_go_on(struct task *task,
                enum outcome_kind kind,
                const char *step,
                const char *awaits,
                const char *state,
                int64_t ms);

/* All values of this key in a JSON text, with commas; a value goes on to one of the bytes of `end`. */
void soak_append(char state[SOAK_STATE_MAX], const char *json, const char *key, const char *end);

#endif

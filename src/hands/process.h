/*
 * process: the life of one run as a process, from its start to its outcome. Internal to the process
 * hands.
 *
 *     running ──stop, timeout──► stopping ──grace over, second stop──► killed
 *        │                          │                                    │
 *        └──────────── the command ended: its pidfd says so ─────────────┘
 *                                   ▼
 *                               draining ──pipes at their end, or patience over──► reported
 *
 * Conserved: every process that started is reported exactly once, from the loop; its id stays taken
 * (unreaped) until its group has been killed; its memory goes when the last of its handles is
 * closed, some time after the report. Thread of the loop only.
 */
#ifndef HANDS_PROCESS_H
#define HANDS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "engine/hands.h"

/* How long a finished run waits for a pipe that another process has open. The output of the
 * command itself is read when it ends; this wait is only for processes that it left behind. */
#define PROCESS_DRAIN_MS 100

#define PROCESS_CHUNK    (64 * 1024) /* one read; the size of a pipe */

/* What all processes of one set of hands share. Owned by the hands. */
struct process_host {
    uv_loop_t *loop;
    struct log *log;
    const struct clock *clock;
    int64_t term_grace_ms;
    size_t result_max;
    bool log_stderr;
    struct list processes; /* those not yet reported */
    size_t n_open;         /* those whose memory still lives: reported or not */
    char *chunk;           /* PROCESS_CHUNK bytes to read into */

    /* A run is over. The process is out of the list and never touches the run again. */
    void (*ended)(struct process_host *host, struct run *run, const struct outcome *outcome);
    /* The memory of a process was freed: n_open went down. */
    void (*released)(struct process_host *host);
};

/* The run's hands_data becomes the process. On failure nothing runs and the run is unchanged. */
int process_start(struct process_host *host,
                  struct run *run,
                  const char *command,
                  char *const *env,
                  struct pawl_err *err) MUST_CHECK;

/* As hands_ops.stop; run->hands_data must be a process. Never reports from inside. */
void process_stop(struct run *run, enum stop_reason reason);

/* Stops everything that runs, without grace. */
void process_kill_all(struct process_host *host);

#endif

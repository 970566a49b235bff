/*
 * ending: from exit status, signal, stop reason and output to an outcome.
 */
#include "hands/ending.h"

#include <inttypes.h>
#include <string.h>

#include "hands/processes.h"

/* What a shell adds to a signal number when a command inside it was killed. */
#define SHELL_SIGNAL_BASE    128

#define SHELL_NOT_EXECUTABLE 126
#define SHELL_NOT_FOUND      127

static const char *signal_text(int signo)
{
    const char *text = sigdescr_np(signo);
    return text != NULL ? text : "unknown signal";
}

static void put_exit_status(struct buf *text, int status)
{
    buf_printf(text, "exit status %d", status);
    if (status == SHELL_NOT_EXECUTABLE)
        buf_puts(text,
                 ": the command cannot be executed; check its permissions and its first line");
    else if (status == SHELL_NOT_FOUND)
        buf_puts(text, ": the command was not found; check its path and PATH");
    else if (status > SHELL_SIGNAL_BASE && sigdescr_np(status - SHELL_SIGNAL_BASE) != NULL)
        buf_printf(text,
                   " (a shell says this for signal %d, %s)",
                   status - SHELL_SIGNAL_BASE,
                   signal_text(status - SHELL_SIGNAL_BASE));
}

static void put_ending(struct buf *text, const struct ending *ending)
{
    switch (ending->kind) {
    case ENDING_EXITED:
        put_exit_status(text, ending->status);
        break;
    case ENDING_SIGNALLED:
        buf_printf(text, "killed by signal %d (%s)", ending->status, signal_text(ending->status));
        if (ending->core_dumped)
            buf_puts(text, ", core dumped");
        break;
    case ENDING_UNKNOWN:
    case ENDING_NONE:
        buf_puts(text, "exit status unknown: it was taken by another part of the worker process");
        break;
    }
}

static struct outcome
error_outcome(enum outcome_kind kind, int64_t delay_ms, const struct buf *text)
{
    return (struct outcome){.kind = kind, .error = buf_str(text), .delay_ms = delay_ms};
}

static struct outcome stopped_outcome(const struct ending_facts *facts, struct buf *text)
{
    enum outcome_kind kind = OUTCOME_RETRY;
    int64_t delay_ms = -1;
    switch (facts->reason) {
    case STOP_LOST:
        buf_puts(text, "stopped because the lease was lost");
        break;
    case STOP_CANCELLED:
        kind = OUTCOME_CANCEL;
        buf_puts(text, "cancelled while it ran");
        break;
    case STOP_TIMEOUT:
        buf_printf(text, "ran longer than its timeout of %" PRId64 " ms", facts->timeout_ms);
        break;
    case STOP_SHUTDOWN:
        delay_ms = 0;
        buf_puts(text, "stopped by the shutdown of its worker");
        break;
    }
    buf_puts(text, "; ");
    put_ending(text, &facts->ending);
    tail_put(facts->err_tail, text);
    return error_outcome(kind, delay_ms, text);
}

/* Exit status 0, but the output is not complete. */
static struct outcome unfit_outcome(const struct ending_facts *facts, struct buf *text)
{
    if (facts->out_code == PAWL_ELIMIT) {
        buf_printf(text,
                   "exit status 0, but it printed more than the %zu bytes a result may have; "
                   "the work was done and is not repeated",
                   facts->result_max);
        tail_put(facts->err_tail, text);
        return error_outcome(OUTCOME_FAIL, -1, text);
    }
    buf_puts(text,
             "exit status 0, but its result could not be read: out of memory or a broken pipe");
    tail_put(facts->err_tail, text);
    return error_outcome(OUTCOME_RETRY, -1, text);
}

static struct outcome done_outcome(const struct buf *out)
{
    size_t len = out->len;
    if (len > 0 && out->data[len - 1] == '\n')
        len--;
    return (struct outcome){.kind = OUTCOME_DONE,
                            .result = len > 0 ? out->data : NULL,
                            .result_len = len,
                            .delay_ms = -1};
}

/* The buffer has one byte more than a result, for the newline; without a newline that byte is
 * too many. */
static bool result_fits(const struct ending_facts *facts)
{
    const struct buf *out = facts->out;
    return out->len <= facts->result_max || out->data[out->len - 1] == '\n';
}

void ending_memory_free(struct ending_memory *memory)
{
    arena_deinit(&memory->arena);
}

/* Exit status 0, and the command said how its job goes on. Its output is no result then. A line
 * that is not valid is a failure of the step. */
static struct outcome
said_outcome(const struct ending_facts *facts, struct buf *text, struct ending_memory *memory)
{
    struct pawl_err err = {0};
    const struct buf *says = facts->says;
    int rc = facts->says_code;
    if (rc == 0)
        rc = control_parse(
            says->data, says->len, facts->queue, &memory->arena, &memory->control, &err);
    else if (rc == PAWL_ELIMIT)
        err_set(&err, rc, "it has more than %d bytes", CONTROL_LINE_MAX);
    else
        err_set(&err, rc, "it could not be read: out of memory or a broken pipe");
    if (rc == 0)
        return memory->control.outcome;
    buf_printf(text, "exit status 0, but the control line is wrong: %s", err.message);
    if (err.detail[0] != '\0')
        buf_printf(text, ". %s", err.detail);
    tail_put(facts->err_tail, text);
    return error_outcome(OUTCOME_RETRY, -1, text);
}

struct outcome
ending_outcome(const struct ending_facts *facts, struct buf *text, struct ending_memory *ret_memory)
{
    arena_init(&ret_memory->arena, CONTROL_ARENA_MAX);
    if (facts->stopped)
        return stopped_outcome(facts, text);

    const struct ending *ending = &facts->ending;
    if (ending->kind == ENDING_EXITED && ending->status == 0 &&
        (facts->says->len > 0 || facts->says_code != 0))
        return said_outcome(facts, text, ret_memory);
    if (ending->kind == ENDING_EXITED && ending->status == 0) {
        struct ending_facts whole = *facts;
        if (whole.out_code == 0 && !result_fits(facts))
            whole.out_code = PAWL_ELIMIT;
        return whole.out_code == 0 ? done_outcome(facts->out) : unfit_outcome(&whole, text);
    }

    put_ending(text, ending);
    tail_put(facts->err_tail, text);
    bool final = ending->kind == ENDING_EXITED && ending->status == PROCESSES_EXIT_FAIL;
    return error_outcome(final ? OUTCOME_FAIL : OUTCOME_RETRY, -1, text);
}

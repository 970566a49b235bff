/*
 * demo_machines: three orders as machines, run by real commands on a real database. The demo plays the
 * part of the payment provider: it sends the signals that the orders wait for. What it prints is what
 * the database says.
 */
#include "cli/demo_machines.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/defer.h"
#include "base/text.h"
#include "cli/demo_work.h"
#include "cli/steps.h"
#include "client/inspect.h"

#define TICK_MS     50
#define CONCURRENCY 6
#define QUEUE       "demo-orders"
#define LINE_LEN    256

/* The machine, as anybody could write it: docs/guides/machines.md explains every word. Its state is
 * the list of what is to be undone should something fail, the newest first. */
static const char order_command[] =
    "say() { printf '%s\\n' \"$1\" >&3; }\n"
    "order=$(cat); sleep 0.4\n"
    "case ${PAWL_JOB_STEP:-reserve} in\n"
    "reserve) say '{\"next\":\"charge\",\"state\":\"stock\"}' ;;\n"
    "charge) say '{\"await\":[\"paid\",\"refused\"],\"next\":\"paid\",\"timeout_ms\":60000}' ;;\n"
    "paid) case $PAWL_JOB_SIGNALS in\n"
    "    *'\"paid\"'*) say '{\"next\":\"ship\",\"state\":\"payment stock\"}' ;;\n"
    "    *) say '{\"next\":\"undo\"}' ;;\n"
    "    esac ;;\n"
    "ship) parcel='{\"kind\":\"demo_parcel\",\"max_attempts\":1,\"payload\":'$order'}'\n"
    "    say '{\"next\":\"shipped\",\"spawn\":['\"$parcel,$parcel\"']}' ;;\n"
    "shipped) case $PAWL_JOB_CHILDREN in\n"
    "    *'\"failed\"'*) say '{\"next\":\"undo\"}' ;;\n"
    "    *) say '{\"done\":\"delivered\"}' ;;\n"
    "    esac ;;\n"
    "undo) list=${PAWL_JOB_STATE#\\\"}; list=${list%\\\"}\n"
    "    [ -n \"$list\" ] || { say '{\"done\":\"undone\"}'; exit; }\n"
    "    rest=${list#* }; [ \"$rest\" != \"$list\" ] || rest=\n"
    "    say '{\"next\":\"undo\",\"state\":\"'\"$rest\"'\"}' ;;\n"
    "esac\n";

static const char parcel_command[] =
    "sleep 0.5; [ \"$(cat)\" != '\"lost\"' ] || { echo 'the parcel is lost' >&2; exit 65; }";

/* What becomes of each order. */
static const struct plan {
    const char *about;
    const char *payload;
    const char *signal; /* what the payment provider says */
} plans[] = {
    {"all goes well", "\"fine\"", "paid"},
    {"the payment is refused", "\"poor\"", "refused"},
    {"a parcel gets lost", "\"lost\"", "paid"},
};

#define N_ORDERS (sizeof(plans) / sizeof(*plans))

struct order {
    int64_t id;
    bool ended;
    bool told; /* the payment provider has spoken */
    char shown[LINE_LEN];
    char result[64];
    char state[16];
    int64_t steps;
};

struct show {
    struct cli *cli;
    PGconn *conn; /* for enqueueing, looking and signals; the worker has its own */
    struct working working;
    struct order orders[N_ORDERS];
    struct order *current; /* whose row is being read */
    bool waits;            /* for a signal */
    int64_t begun_us;
    bool over;
    struct pawl_err err;
};

static int enqueue(struct show *show, struct pawl_err *err)
{
    struct pawl_job_new jobs[N_ORDERS];
    int64_t ids[N_ORDERS];

    for (size_t i = 0; i < N_ORDERS; i++) {
        jobs[i] = PAWL_JOB_NEW_INIT;
        jobs[i].queue = QUEUE;
        jobs[i].kind = "demo_order";
        jobs[i].payload = plans[i].payload;
        jobs[i].payload_len = strlen(plans[i].payload);
    }
    int rc = pawl_enqueue_many(show->conn, jobs, N_ORDERS, ids, NULL, err);

    for (size_t i = 0; rc == 0 && i < N_ORDERS; i++)
        show->orders[i].id = ids[i];
    return rc;
}

/* "waits for signal paid or refused", "runs ship", … */
static void describe(struct buf *out, const struct job_view *job)
{
    const char *step = job->step != NULL ? job->step : "reserve";

    if (job->finished_at != 0)
        buf_printf(out, "%s: %.*s", job->state, (int)job->result.len, job->result.data);
    else if (strcmp(job->state, "waiting") == 0)
        put_wait_for(out, job);
    else
        buf_printf(out, "%s", step);
    if (job->finished_at == 0 && strcmp(step, "undo") == 0)
        buf_printf(out, " %.*s", (int)job->step_state.len, job->step_state.data);
}

static void on_job(void *data, const struct job_view *job)
{
    struct show *show = data;
    struct order *order = show->current;
    char storage[LINE_LEN];
    struct buf text;

    buf_init_fixed(&text, storage, sizeof(storage));
    describe(&text, job);
    show->waits = wait_word(job) != NULL && strcmp(wait_word(job), "signal") == 0;
    order->ended = job->finished_at != 0;
    snprintf(order->state, sizeof(order->state), "%s", job->state);
    snprintf(order->result, sizeof(order->result), "%.*s", (int)job->result.len, job->result.data);
    order->steps = job->timeline != NULL ? count_steps(job->timeline) : 0;
    if (strcmp(order->shown, buf_str(&text)) == 0)
        return;
    snprintf(order->shown, sizeof(order->shown), "%s", buf_str(&text));
    if (show->cli->output == OUT_TABLE) {
        char line[LINE_LEN + 64];
        char when[TEXT_DURATION_LEN];

        text_format_duration(clock_mono_us(&clock_system) - show->begun_us, when);
        int len = snprintf(
            line, sizeof(line), "%8s  order %lld  %s\n", when, (long long)order->id, order->shown);
        if (out_write(line, (size_t)len, &show->err) < 0)
            show->over = true;
    }
}

static int look(struct show *show, size_t *ret_ended, struct pawl_err *err)
{
    size_t ended = 0;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < N_ORDERS; i++) {
        struct order *order = &show->orders[i];

        show->current = order;
        if (!order->ended)
            rc = client_job_show(show->conn, order->id, on_job, show, err);
        if (rc == 0 && !order->ended && show->waits && !order->told) {
            order->told = true;
            rc = pawl_job_signal(show->conn, order->id, plans[i].signal, NULL, NULL, NULL, err);
        }
        ended += order->ended;
    }
    *ret_ended = ended;
    return rc;
}

static void on_tick(void *data)
{
    struct show *show = data;
    size_t ended = 0;

    if (show->over)
        return;
    int rc = look(show, &ended, &show->err);

    if (rc < 0 || ended == N_ORDERS || show->over) {
        show->over = true;
        working_stop(&show->working);
    }
}

static int work(struct show *show, const struct target *target, struct pawl_err *err)
{
    static const struct demo_handler handlers[] = {{"demo_order", order_command},
                                                   {"demo_parcel", parcel_command}};
    static const char *const queues[] = {QUEUE};

    show->working.tick = on_tick;
    show->working.tick_ms = TICK_MS;
    show->working.data = show;
    return demo_work(show->cli,
                     &show->working,
                     &(struct demo_plan){.target = target,
                                         .queues = queues,
                                         .n_queues = 1,
                                         .handlers = handlers,
                                         .n_handlers = 2,
                                         .concurrency = CONCURRENCY},
                     &show->err,
                     err);
}

static int show_summary(struct show *show, struct pawl_err *err)
{
    static const struct out_column columns[] = {
        {"id", "ORDER", OUT_INT},
        {"about", "WHAT HAPPENS", OUT_TEXT},
        {"state", "STATE", OUT_TEXT},
        {"result", "RESULT", OUT_BYTES},
        {"steps", "STEPS", OUT_INT},
    };
    struct out *out = cli_out_new(show->cli, columns, sizeof(columns) / sizeof(*columns));

    if (out == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    for (size_t i = 0; i < N_ORDERS; i++) {
        const struct order *order = &show->orders[i];

        out_int(out, order->id);
        out_text(out, plans[i].about);
        out_text(out, order->state);
        out_tone(out, strcmp(order->state, "done") == 0 ? TONE_GOOD : TONE_BAD);
        out_text(out, order->result);
        out_int(out, order->steps);
        out_row(out);
    }
    int rc = out_end(out, clock_wall_us(&clock_system), err);

    out_free(out);
    return rc;
}

static int show_next(const struct show *show, const char *pawl, struct pawl_err *err)
{
    CLEANUP(buf_deinit)
    struct buf out;

    if (show->cli->output != OUT_TABLE)
        return 0;
    buf_init(&out, 16 * 1024);
    buf_printf(
        &out,
        "\nEach step was committed before the next one began; a machine that waits is a row, "
        "not a process.\n\nTry next:\n  %s job show %lld\n",
        pawl,
        (long long)show->orders[N_ORDERS - 1].id);
    return out_write(buf_str(&out), out.len, err);
}

static int
perform(struct show *show, const struct target *target, const char *pawl, struct pawl_err *err)
{
    size_t ended = 0;
    int rc = cli_open(show->cli, target, &show->conn, err);

    show->begun_us = clock_mono_us(&clock_system);
    if (rc == 0)
        rc = enqueue(show, err);
    if (rc < 0)
        return rc;
    cli_note(show->cli, "%zu orders enqueued in %s", N_ORDERS, target->shown);
    rc = work(show, target, err);
    if (rc == 0)
        rc = look(show, &ended, err);
    if (rc == 0 && ended < N_ORDERS) {
        err_set(err, PAWL_EINTERRUPTED, "stopped with %zu of %zu orders done", ended, N_ORDERS);
        rc = err_hint(err, "The others are safe in the database.");
    }
    if (rc == 0 && show->cli->output == OUT_TABLE)
        rc = out_write("\n", 1, err);
    if (rc == 0)
        rc = show_summary(show, err);
    return rc == 0 ? show_next(show, pawl, err) : rc;
}

int demo_machines(struct cli *cli,
                  const struct target *target,
                  const char *pawl,
                  struct pawl_err *err)
{
    struct show *show = arena_new(cli->arena, struct show);

    if (show == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    show->cli = cli;
    int rc = perform(show, target, pawl, err);

    cli_close(&show->conn);
    return rc;
}

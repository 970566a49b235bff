/* waker: marks and looks. */
#include "engine/waker.h"

#include "store/queue.h"
#include "store/statements.h"
#include "store/worker.h"

#define MARK_DEADLINE_MS 5000
#define DUE_DEADLINE_MS  5000
#define ASK_DUE_AFTER_MS 50
#define BUSY_MS          20   /* who is busy for so long will look by itself */
#define POLL_MAX_DEAF_MS 1000 /* without LISTEN, unless less was asked for */
#define GAP_MS           3    /* nothing to do for so long ends being busy */

/* After the mark: for transactions that were under way and had not seen it. */
static const int64_t looks_ms[] = {5, 20, 100, 500};

/* Before the mark, by who was busy: a stream of single jobs that it keeps up with has gaps, and who enqueues should not have to wake it
 * after each. */
static const int64_t lingers_ms[] = {1, 2, 3};

#define N_LOOKS   (sizeof(looks_ms) / sizeof(*looks_ms))
#define N_LINGERS (sizeof(lingers_ms) / sizeof(*lingers_ms))

static void sleep_until_due(struct waker *waker);

static void on_timer(uv_timer_t *timer)
{
    struct waker *waker = timer->data;

    if (waker->ask_due) {
        sleep_until_due(waker);
        return;
    }
    waker->n_polls += !waker->lingering;
    waker->options.look(waker->options.data);
}

static void sleep_for(struct waker *waker, int64_t ms)
{
    waker->ask_due = false;
    waker->lingering = false;
    uv_timer_start(&waker->timer, on_timer, (uint64_t)ms, 0);
}

void waker_init(struct waker *waker, const struct waker_options *options)
{
    *waker = (struct waker){.options = *options, .sleep_ms = options->poll_ms};
    uv_timer_init(options->loop, &waker->timer);
    waker->timer.data = waker;
}

void waker_stop(struct waker *waker)
{
    uv_timer_stop(&waker->timer);
    waker->state = WAKER_AWAKE; /* a mark under way is waited for no more, nor is it missed */
}

static bool set_mark(struct waker *waker, bool asleep, batch_fn fn)
{
    struct batch *batch = batch_new(waker->options.conn);
    struct params *params = batch != NULL ? batch_add(batch, STMT(sleeper_set)) : NULL;

    if (params == NULL) {
        batch_free(batch);
        return false;
    }
    sleeper_set_bind(
        params, &waker->options.worker, waker->options.queues, waker->options.n_queues, asleep);
    batch_submit(batch, MARK_DEADLINE_MS, fn, waker);
    return true;
}

static void on_marked(void *data, const struct batch_end *end)
{
    struct waker *waker = data;
    bool doubted = waker->doubted;

    waker->doubted = false;
    if (waker->state != WAKER_MARKING)
        return;
    if (end->verdict != PG_VERDICT_OK) {
        /* Then the poll has to do. */
        log_warn_err(waker->options.log, "sleeper_set", end->err, LOG_BOOL("asleep", true));
        waker->state = WAKER_AWAKE;
        sleep_for(waker, waker->options.poll_max_ms);
        return;
    }
    waker->state = doubted ? WAKER_AWAKE : WAKER_ASLEEP;
    waker->looks = 0;
    waker->options.look(waker->options.data);
}

static void on_due(void *data, const struct batch_end *end)
{
    struct waker *waker = data;

    waker->asking_due = false;
    if (end->verdict != PG_VERDICT_OK) {
        /* Then the poll has to do. */
        log_warn_err(waker->options.log, "queue_next_due", end->err, LOG_INT("tries", 1));
        return;
    }
    int64_t due_ms = queue_next_due_ms(end->results[0]);

    /* Still asleep, and for longer than that. A millisecond more, or it would be looked for too early. */
    if (waker->state == WAKER_ASLEEP && uv_is_active((uv_handle_t *)&waker->timer) &&
        due_ms < (int64_t)uv_timer_get_due_in(&waker->timer))
        sleep_for(waker, due_ms + 1);
}

/* The long sleep, cut short when a scheduled job is due before its end. */
static void sleep_until_due(struct waker *waker)
{
    struct batch *batch = waker->asking_due ? NULL : batch_new(waker->options.conn);
    struct params *params = batch != NULL ? batch_add(batch, STMT(queue_next_due)) : NULL;

    sleep_for(waker, waker->options.poll_max_ms);
    if (params == NULL) {
        batch_free(batch);
        return;
    }
    queue_next_due_bind(params, waker->options.queues, waker->options.n_queues);
    waker->asking_due = true;
    batch_submit(batch, DUE_DEADLINE_MS, on_due, waker);
}

void waker_due(struct waker *waker, int64_t due_ms)
{
    if (uv_is_active((uv_handle_t *)&waker->timer) &&
        due_ms < (int64_t)uv_timer_get_due_in(&waker->timer))
        sleep_for(waker, due_ms + 1);
}

/* Without LISTEN: longer and longer. */
static void doze(struct waker *waker)
{
    sleep_for(waker, waker->sleep_ms);
    waker->sleep_ms *= 2;
    if (waker->sleep_ms > waker->options.poll_max_ms)
        waker->sleep_ms = waker->options.poll_max_ms;
}

void waker_idle(struct waker *waker)
{
    if (waker->idle_us == 0)
        waker->idle_us = clock_mono_us(waker->options.clock);
    if (!waker->options.listening) {
        doze(waker);
        return;
    }
    switch (waker->state) {
    case WAKER_AWAKE:
        if (waker->lingers < N_LINGERS) {
            sleep_for(waker, lingers_ms[waker->lingers++]);
            waker->lingering = true;
            break;
        }
        waker->state = WAKER_MARKING;
        if (!set_mark(waker, true, on_marked)) {
            waker->state = WAKER_AWAKE;
            doze(waker);
        }
        break;
    case WAKER_MARKING:
        break;
    case WAKER_ASLEEP:
        /* A look for another reason takes nothing away from those that the timer is to do. */
        if (waker->looks < N_LOOKS && uv_is_active((uv_handle_t *)&waker->timer))
            break;
        if (waker->looks < N_LOOKS) {
            sleep_for(waker, looks_ms[waker->looks++]);
        } else {
            /* Not at once: in a trickle of jobs the question would only be in the way. */
            sleep_for(waker, ASK_DUE_AFTER_MS);
            waker->ask_due = true;
        }
        break;
    }
}

void waker_doubt(struct waker *waker)
{
    if (waker->state == WAKER_MARKING) {
        waker->doubted = true;
    } else if (waker->state == WAKER_ASLEEP) {
        waker->state = WAKER_AWAKE;
        waker->options.look(waker->options.data);
    }
}

void waker_deafen(struct waker *waker)
{
    if (!waker->options.listening)
        return;
    waker->options.listening = false;
    if (waker->options.poll_max_ms > POLL_MAX_DEAF_MS)
        waker->options.poll_max_ms = POLL_MAX_DEAF_MS;
    waker->sleep_ms = waker->options.poll_ms < waker->options.poll_max_ms
                          ? waker->options.poll_ms
                          : waker->options.poll_max_ms;
    waker_stop(waker);
    waker->options.look(waker->options.data);
}

static void on_unmarked(void *data, const struct batch_end *end)
{
    struct waker *waker = data;

    waker->unmarking = false;
    /* It does no harm if it stays: enqueues notify a little more than they need. */
    if (end->verdict != PG_VERDICT_OK)
        log_warn_err(waker->options.log, "sleeper_set", end->err, LOG_BOOL("asleep", false));
}

void waker_busy(struct waker *waker)
{
    int64_t now_us = clock_mono_us(waker->options.clock);

    uv_timer_stop(&waker->timer);
    waker->sleep_ms = waker->options.poll_ms;
    waker->lingers = 0;
    if (waker->busy_us == 0 ||
        (waker->idle_us != 0 && now_us - waker->idle_us > GAP_MS * US_PER_MS))
        waker->busy_us = now_us;
    waker->idle_us = 0;
    if (waker->state != WAKER_ASLEEP || waker->unmarking ||
        now_us - waker->busy_us < BUSY_MS * US_PER_MS)
        return;
    waker->unmarking = set_mark(waker, false, on_unmarked);
    if (waker->unmarking)
        waker->state = WAKER_AWAKE;
}

/*
 * order: an order as a machine: reserve the stock, take the payment, ship; and when one of them fails, undo what was done,
 * in reverse.
 *
 * The payment is asked for, and then waited for: a signal says what came of it, perhaps days later, and meanwhile the order is a
 * row in the database and nothing else. Each step does one thing, and could do it twice without harm, because a worker may
 * die after the deed and before the commit: whoever is asked for it is given the id of the job as the key of the order.
 * The state is the list of what there is to undo, the newest first. Undoing is steps too, so it survives a crash as well.
 *
 *     cc order.c $(pkg-config --cflags --libs libpawl libpq)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libpq-fe.h>
#include <pawl.h>

#define DAY_MS (24 * 60 * 60 * 1000)

/* Here stands the warehouse, the bank and the carrier. */
static void ask(struct pawl_run *run, const char *deed)
{
    printf("order %lld: %s\n", (long long)pawl_run_id(run), deed);
}

static enum pawl_outcome reserve(struct pawl_run *run)
{
    ask(run, "reserve stock");
    return pawl_run_next(run, "charge", "stock", strlen("stock"), 0);
}

static enum pawl_outcome charge(struct pawl_run *run)
{
    ask(run, "ask for payment");
    return pawl_run_await(run, "paid,refused", "charged", NULL, 0, DAY_MS);
}

static enum pawl_outcome charged(struct pawl_run *run)
{
    const char *signals = pawl_run_signals(run);

    if (pawl_run_timed_out(run) || signals == NULL || strstr(signals, "\"paid\"") == NULL)
        return pawl_run_next(run, "undo", NULL, 0, 0);
    return pawl_run_next(run, "ship", "payment stock", strlen("payment stock"), 0);
}

static enum pawl_outcome ship(struct pawl_run *run)
{
    if (strstr(pawl_run_payload(run, NULL), "piano") != NULL) {
        ask(run, "ship, which fails");
        return pawl_run_next(run, "undo", NULL, 0, 0);
    }
    ask(run, "ship");
    return pawl_run_done(run, "shipped", strlen("shipped"));
}

/* One deed a step: what was undone is committed before the next begins. */
static enum pawl_outcome undo(struct pawl_run *run)
{
    const char *list = pawl_run_state(run, NULL);

    if (list == NULL || list[0] == '\0')
        return pawl_run_reject(run, "the order was undone");
    ask(run, strncmp(list, "payment", strlen("payment")) == 0 ? "refund payment" : "release stock");
    list += strcspn(list, " ");
    list += strspn(list, " ");
    return pawl_run_next(run, "undo", list, strlen(list), 0);
}

static enum pawl_outcome order(struct pawl_run *run, void *data)
{
    static const struct {
        const char *name;
        enum pawl_outcome (*fn)(struct pawl_run *run);
    } steps[] = {{"charge", charge}, {"charged", charged}, {"ship", ship}, {"undo", undo}};

    const char *step = pawl_run_step(run);

    (void)data;
    if (step == NULL)
        return reserve(run);
    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
        if (strcmp(step, steps[i].name) == 0)
            return steps[i].fn(run);
    }
    return pawl_run_fail(run, "there is no step %s", step);
}

/* The signal is sent as the bank would, at any time: one that comes before the machine waits for it is kept. */
static int follow(PGconn *conn, const char *payload, struct pawl_err *err)
{
    struct pawl_job_new job = PAWL_JOB_NEW_INIT;
    struct pawl_job_info *info = NULL;
    int64_t id;

    job.kind = "order";
    job.payload = payload;
    job.payload_len = strlen(payload);
    int rc = pawl_enqueue(conn, &job, &id, NULL, err);

    if (rc == 0)
        rc = pawl_job_signal(conn, id, "paid", "{\"amount\": 25}", "transfer-1", NULL, err);
    if (rc == 0)
        rc = pawl_job_wait(conn, id, 30000, &info, err);
    if (rc == 0)
        printf("order %lld is %s\n", (long long)id, info->state);
    pawl_job_info_free(info);
    return rc;
}

int main(void)
{
    const char *url = getenv("PAWL_DATABASE_URL");
    PGconn *conn = PQconnectdb(url != NULL ? url : "");
    struct pawl_worker *worker = NULL;
    struct pawl_err err = {0};

    if (pawl_worker_new(NULL, &worker, &err) < 0 ||
        pawl_worker_handle(worker, "order", order, NULL, &err) < 0 ||
        pawl_worker_start(worker, &err) < 0 || follow(conn, "{\"item\": \"book\"}", &err) < 0 ||
        follow(conn, "{\"item\": \"piano\"}", &err) < 0)
        fprintf(stderr, "order: %s. %s %s\n", err.message, err.detail, err.hint);
    pawl_worker_free(worker);
    PQfinish(conn);
    return err.code == 0 ? 0 : 1;
}

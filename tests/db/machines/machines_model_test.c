/*
 * Random machines against a model of what they must come to. A machine is a random program of next,
 * await, spawn, retry, snooze, done and fail; signals are sent at random moments, some of them several
 * times with one key, some that nobody waits for; two workers share the work, and one of them comes
 * and goes, now and then without a word. The model knows no time and no worker: it adds up. A value that
 * was lost, or counted twice, makes another sum.
 *
 * The seed is printed; PAWL_TEST_SEED=N runs the same programs again.
 */
#include "machines_fixture.h"

#define CASES        6
#define MACHINES     24
#define OPS_MAX      6
#define SIGNALS_MAX  3 /* of one await */
#define CHILDREN_MAX 4 /* of one spawn */
#define SENDS_MAX    (MACHINES * OPS_MAX * (SIGNALS_MAX + 2))

enum op_kind { OP_NEXT, OP_AWAIT, OP_SPAWN, OP_DONE, OP_FAIL };

/* How a machine leaves a step. */
struct op {
    enum op_kind kind;
    int value;                /* NEXT: added */
    int delay_ms;             /* NEXT */
    int timeout_ms;           /* AWAIT; -1: none */
    int n;                    /* AWAIT: signals it takes to go on; SPAWN: children */
    int name;                 /* AWAIT: of the signals */
    int values[CHILDREN_MAX]; /* of these; a child whose value is negative fails */
    bool retry;               /* once before it leaves */
    bool snooze;
    bool retried; /* it has been: what a worker remembers, not the machine */
    bool snoozed;
};

/* What a machine carries in its state. */
struct sums {
    long sum;
    int joins;
    int taken; /* signals */
};

struct program {
    struct op ops[OPS_MAX]; /* op i leaves step i; the last is DONE or FAIL */
    int n;
    struct sums end; /* what must come out */
};

/* A signal to be sent. */
struct send {
    int machine;
    int step; /* whose await it is for; -1: nobody's */
    int value;
    int key;    /* 0: none */
    bool spare; /* the machine may be over without it: sent before, or for nobody */
};

static struct program programs[MACHINES];
static struct send sends[SENDS_MAX];
static size_t n_sends;
static unsigned short dice[3];

static int throw(int sides)
{
    return (int)(nrand48(dice) % sides);
}

/* --- making them */

static void add_send(int machine, int step, int value, int key, bool spare)
{
    assert_true(n_sends < SENDS_MAX);
    sends[n_sends++] = (struct send){machine, step, value, key, spare};
}

/* Once more for a signal that has been taken: there is none any more. */
static void make_vain_await(struct op *op)
{
    int name = op[-1].name;

    *op = (struct op){.kind = OP_AWAIT, .timeout_ms = 1 + throw(10), .name = name};
}

static void make_op(int machine, int at, struct op *op)
{
    *op = (struct op){.kind = (enum op_kind) throw(3),
                      .value = throw(100),
                      .delay_ms = throw(2) * throw(10),
                      .timeout_ms = throw(2) ? -1 : 3 + throw(20),
                      .retry = throw(5) == 0,
                      .snooze = throw(6) == 0};
    op->name = at;
    if (op->kind == OP_AWAIT)
        op->n = 1 + throw(SIGNALS_MAX);
    else if (op->kind == OP_SPAWN)
        op->n = throw(CHILDREN_MAX + 1);
    for (int i = 0; i < op->n; i++) {
        op->values[i] = 1 + throw(1000);
        if (op->kind == OP_SPAWN && throw(5) == 0)
            op->values[i] = -1;
        if (op->kind != OP_AWAIT)
            continue;
        int key = throw(2) * (at * SIGNALS_MAX + i + 1);

        bool twice = key != 0 && throw(2) == 0;

        /* Which of two that are the same comes too late is not known beforehand. */
        add_send(machine, at, op->values[i], key, twice);
        if (twice)
            add_send(machine, at, op->values[i], key, twice);
    }
    if (throw(4) == 0)
        add_send(machine, -1, 5000, 0, true);
}

/* What arriving behind this op adds. */
static void arrive(const struct op *op, struct sums *sums)
{
    if (op->kind == OP_SPAWN)
        sums->joins++;
    else if (op->kind == OP_AWAIT)
        sums->taken += op->n;
    for (int i = 0; i < op->n; i++)
        sums->sum += op->values[i] > 0 ? op->values[i] : 100000;
}

static void make_program(int machine)
{
    struct program *p = &programs[machine];
    struct sums left = {0};

    *p = (struct program){.n = 1 + throw(OPS_MAX)};
    for (int i = 0; i < p->n - 1; i++) {
        if (i > 0 && p->ops[i - 1].kind == OP_AWAIT && throw(2) == 0)
            make_vain_await(&p->ops[i]);
        else
            make_op(machine, i, &p->ops[i]);
    }
    p->ops[p->n - 1] =
        (struct op){.kind = throw(5) == 0 ? OP_FAIL : OP_DONE, .retry = throw(5) == 0};
    for (int i = 0; i < p->n - 1; i++) {
        p->end = left;
        if (i > 0)
            arrive(&p->ops[i - 1], &p->end);
        if (p->ops[i].kind == OP_NEXT)
            p->end.sum += p->ops[i].value;
        left = p->end;
    }
    /* A machine that fails leaves the state with which its last step began; one that is done says
     * what it had then and what it was shown. */
    if (p->ops[p->n - 1].kind == OP_DONE && p->n > 1)
        arrive(&p->ops[p->n - 2], &p->end);
}

static void shuffle(void)
{
    for (size_t i = n_sends; i > 1; i--) {
        size_t j = (size_t) throw((int)i);
        struct send other = sends[i - 1];

        sends[i - 1] = sends[j];
        sends[j] = other;
    }
}

/* --- running them */

static const char *after(const char *text, const char *what)
{
    const char *at = text != NULL ? strstr(text, what) : NULL;

    return at != NULL ? at + strlen(what) : NULL;
}

/* What the step was given, as opposed to what the model says. False: not enough yet. */
static bool given(const struct op *op, const struct job *job, struct sums *sums)
{
    const char *at;
    int n = 0;

    if (op->kind == OP_AWAIT) {
        for (at = signals_of(job); (at = after(at, "\"payload\": ")) != NULL; n++)
            sums->sum += atol(at);
        sums->taken += n;
        return n >= op->n;
    }
    if (op->kind == OP_SPAWN) {
        for (at = children_of(job); (at = after(at, "\"result\": ")) != NULL;)
            sums->sum += atol(at);
        for (at = children_of(job); (at = after(at, "\"failed\"")) != NULL;)
            sums->sum += 100000;
        sums->joins++;
    }
    return true;
}

static struct outcome spawn(const struct op *op, const char *step)
{
    static struct child_new kids[CHILDREN_MAX];
    static char payloads[CHILDREN_MAX][16];

    for (int i = 0; i < op->n; i++) {
        int len = snprintf(payloads[i], sizeof(payloads[i]), "%d", op->values[i]);

        kids[i] = (struct child_new){.queue = "q",
                                     .kind = "c",
                                     .payload = payloads[i],
                                     .payload_len = (size_t)len,
                                     .priority = 4,
                                     .max_attempts = 50};
    }
    going = (struct going_on){.step = step, .children = kids, .n_children = (size_t)op->n};
    return (struct outcome){.kind = OUTCOME_SPAWN, .on = &going, .delay_ms = -1, .run_us = 1};
}

static struct outcome leave(const struct op *op, int at, const struct sums *sums)
{
    static char state[64];
    static char step[16];
    static char name[16];
    struct outcome outcome;

    snprintf(state,
             sizeof(state),
             "%ld:%d:%d",
             sums->sum + (op->kind == OP_NEXT ? op->value : 0),
             sums->joins,
             sums->taken);
    snprintf(step, sizeof(step), "s%d", at + 1);
    snprintf(name, sizeof(name), "n%d", op->name);
    if (op->kind == OP_DONE)
        return outcome_result(state);
    if (op->kind == OP_FAIL)
        return (struct outcome){.kind = OUTCOME_FAIL, .error = "as told", .run_us = 1};
    outcome = op->kind == OP_NEXT    ? outcome_next(step, NULL, op->delay_ms)
              : op->kind == OP_AWAIT ? outcome_await(name, step, op->timeout_ms)
                                     : spawn(op, step);
    going.state = state;
    going.state_len = strlen(state);
    return outcome;
}

static struct outcome child(const struct job *job)
{
    static char text[32];

    snprintf(text, sizeof(text), "%.*s", (int)job->payload_len, job->payload);
    if (atoi(text) < 0)
        return (struct outcome){.kind = OUTCOME_FAIL, .error = "as told", .run_us = 1};
    return throw(6) == 0 ? outcome_retry(throw(5)) : outcome_result(text);
}

static struct outcome run_program(struct crew *crew, const struct job *job)
{
    struct program *p;
    struct sums sums = {0};
    char text[16];
    int at = at_step(job, "") ? 0 : atoi(step_of(job) + 1);

    (void)crew;
    if (strcmp(job->kind, "c") == 0)
        return child(job);
    snprintf(text, sizeof(text), "%.*s", (int)job->payload_len, job->payload);
    p = &programs[atoi(text) - 1];
    sscanf(state_of(job), "%ld:%d:%d", &sums.sum, &sums.joins, &sums.taken);
    if (at > 0 && !given(&p->ops[at - 1], job, &sums)) {
        static char name[16];
        static char step[16];

        snprintf(name, sizeof(name), "n%d", p->ops[at - 1].name);
        snprintf(step, sizeof(step), "s%d", at);
        return outcome_await(name, step, p->ops[at - 1].timeout_ms);
    }
    struct op *op = &p->ops[at];

    if (op->retry && !op->retried) {
        op->retried = true;
        return outcome_retry(throw(5));
    }
    if (op->snooze && !op->snoozed) {
        op->snoozed = true;
        return (struct outcome){.kind = OUTCOME_SNOOZE, .delay_ms = throw(5), .run_us = 1};
    }
    return leave(op, at, &sums);
}

static void take_a_while(struct crew *crew, const struct job *job)
{
    (void)job;
    crew->run_ms = throw(4);
}

static void start_worker(struct crew *crew, struct fixture *f)
{
    crew_init(crew, f);
    crew->kinds[1] = "c";
    crew->outcome = run_program;
    crew->on_run = take_a_while;
    crew->options.concurrency = 6;
    crew->options.prefetch = 3;
    crew->options.lease_ms = 300;
    crew_start(crew);
}

static void send_next(struct fixture *f, int64_t first_id)
{
    const struct send *send = &sends[--n_sends];
    char sql[160];
    char key[16];

    snprintf(key, sizeof(key), send->key != 0 ? "'key%d'" : "NULL", send->key);
    snprintf(sql,
             sizeof(sql),
             "SELECT pawl.signal(%lld, 'n%d', '%d', %s)",
             (long long)first_id + send->machine,
             send->step < 0 ? 99 : send->step,
             send->value,
             key);
    PGresult *r = PQexec(f->db.conn, sql);
    const char *sqlstate = PQresultErrorField(r, PG_DIAG_SQLSTATE);

    if (sqlstate != NULL && !(send->spare && strcmp(sqlstate, "PW002") == 0))
        fail_msg("%s: %s", sql, PQresultErrorMessage(r));
    PQclear(r);
}

static void compare(struct fixture *f, int64_t first_id, long seed)
{
    for (int i = 0; i < MACHINES; i++) {
        const struct program *p = &programs[i];
        bool fails = p->ops[p->n - 1].kind == OP_FAIL;
        char sql[200];
        char expected[96];

        snprintf(sql,
                 sizeof(sql),
                 "SELECT state || ' ' || coalesce(convert_from(coalesce(result, last_state),"
                 " 'UTF8'), '') FROM pawl.history WHERE id = %lld",
                 (long long)first_id + i);
        if (fails && p->n == 1)
            snprintf(expected, sizeof(expected), "failed "); /* it never had a state */
        else
            snprintf(expected,
                     sizeof(expected),
                     "%s %ld:%d:%d",
                     fails ? "failed" : "done",
                     p->end.sum,
                     p->end.joins,
                     p->end.taken);
        char *text = testdb_text(&f->db, sql);

        if (text == NULL || strcmp(text, expected) != 0)
            fail_msg("seed %ld, machine %d (job %lld) came to %s, and the model to %s",
                     seed,
                     i,
                     (long long)first_id + i,
                     text != NULL ? text : "nothing",
                     expected);
        free(text);
    }
}

static void run_case(struct fixture *f, long seed)
{
    struct crew a;
    struct crew b;

    dice[0] = (unsigned short)(seed & 0xffff);
    dice[1] = (unsigned short)(seed >> 16 & 0xffff);
    dice[2] = 1;
    n_sends = 0;
    for (int i = 0; i < MACHINES; i++)
        make_program(i);
    shuffle();
    enqueue(f, MACHINES);
    int64_t first_id = testdb_int(&f->db, "SELECT max(id) FROM pawl.job") - MACHINES + 1;
    int comings = 4;

    start_worker(&a, f);
    start_worker(&b, f);
    uv_update_time(&f->loop);
    for (uint64_t began_ms = uv_now(&f->loop); count_of(f, "pawl.job") > 0;) {
        if (uv_now(&f->loop) - began_ms > GUARD_MS)
            fail_msg("seed %ld: %lld jobs are left", seed, (long long)count_of(f, "pawl.job"));
        if (n_sends > 0 && throw(2) == 0)
            send_next(f, first_id);
        if (comings > 0 && throw(12) == 0) {
            coordinator_stop(b.c);
            if (--comings == 1) /* leaves all to its lease */
                coordinator_stop(b.c);
            crew_end(&b);
            start_worker(&b, f);
        }
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    crew_stop(&a);
    crew_stop(&b);
    compare(f, first_id, seed);
    assert_int_equal(count_of(f, "pawl.signal"), 0);
    assert_int_equal(count_of(f, "pawl.child"), 0);
    assert_int_equal(count_of(f, "pawl.claim"), 0);
    testdb_exec(&f->db, "TRUNCATE pawl.history");
}

static void random_machines_come_to_what_the_model_says(void **state)
{
    struct fixture *f = *state;
    const char *given_seed = getenv("PAWL_TEST_SEED");
    long seed = given_seed != NULL ? atol(given_seed) : 20261116;

    testdb_exec(&f->db, "INSERT INTO pawl.kind (name, retry_base_ms) VALUES ('k', 5), ('c', 5)");
    print_message("# seed %ld\n", seed);
    for (int i = 0; i < CASES; i++)
        run_case(f, seed + i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        engine_test(random_machines_come_to_what_the_model_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

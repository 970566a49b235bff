/* slots: every place that a job may be in, every move between them, and that all others end the
 * process. */
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/slot.h"
#include "unit/check.h"

static struct {
    struct slots slots;
    struct claim claim;
    struct slot slot;
    struct list behind;
} the;

static int setup(void **state)
{
    (void)state;
    the.slots = (struct slots){0};
    for (size_t i = 0; i < SLOT_PLACES; i++)
        list_init(&the.slots.at[i]);
    list_init(&the.behind);
    the.claim = (struct claim){0};
    the.slot = (struct slot){.claim = &the.claim};
    return 0;
}

static void move(enum slot_place to)
{
    slot_move(&the.slots, &the.slot, to);
}

/* A way from SLOT_FREE to each place. */
static const enum slot_place ways[SLOT_PLACES][4] = {
    [SLOT_FREE] = {SLOT_FREE},
    [SLOT_BEHIND] = {SLOT_BEHIND},
    [SLOT_BUFFERED] = {SLOT_BUFFERED},
    [SLOT_RUNNING] = {SLOT_BUFFERED, SLOT_RUNNING},
    [SLOT_WAITING] = {SLOT_BUFFERED, SLOT_RUNNING, SLOT_WAITING},
    [SLOT_FLYING] = {SLOT_RUNNING, SLOT_WAITING, SLOT_FLYING},
    [SLOT_ASIDE] = {SLOT_RUNNING, SLOT_WAITING, SLOT_ASIDE},
};

static void go_to(enum slot_place place)
{
    setup(NULL);
    for (size_t i = 0; i < 4 && ways[place][i] != SLOT_FREE; i++)
        move(ways[place][i]);
    assert_int_equal(the.slot.run.place, place);
}

static void is_only_in(enum slot_place place)
{
    for (enum slot_place i = SLOT_BEHIND; i < SLOT_PLACES; i++) {
        assert_int_equal(the.slots.n[i], i == place);
        assert_int_equal(list_empty(&the.slots.at[i]), i != place);
    }
    assert_int_equal(the.claim.n_slots, place != SLOT_FREE);
}

static bool is_allowed(enum slot_place from, enum slot_place to)
{
    return (slots_allowed[from] >> to & 1U) != 0;
}

/* Named here once more, so that slots_allowed is not only compared with itself. */
static void a_job_goes_the_ways_that_there_are(void **state)
{
    static const struct {
        enum slot_place from, to;
    } ways_there_are[] = {
        {SLOT_FREE, SLOT_BEHIND},      {SLOT_FREE, SLOT_BUFFERED},    {SLOT_FREE, SLOT_RUNNING},
        {SLOT_FREE, SLOT_WAITING},     {SLOT_BEHIND, SLOT_BUFFERED},  {SLOT_BEHIND, SLOT_WAITING},
        {SLOT_BUFFERED, SLOT_RUNNING}, {SLOT_BUFFERED, SLOT_WAITING}, {SLOT_BUFFERED, SLOT_FREE},
        {SLOT_RUNNING, SLOT_WAITING},  {SLOT_RUNNING, SLOT_BUFFERED}, {SLOT_RUNNING, SLOT_FREE},
        {SLOT_WAITING, SLOT_FLYING},   {SLOT_WAITING, SLOT_ASIDE},    {SLOT_WAITING, SLOT_FREE},
        {SLOT_FLYING, SLOT_FREE},      {SLOT_FLYING, SLOT_WAITING},   {SLOT_FLYING, SLOT_BUFFERED},
        {SLOT_ASIDE, SLOT_WAITING},
    };

    size_t n = sizeof(ways_there_are) / sizeof(*ways_there_are);
    size_t n_allowed = 0;

    (void)state;
    for (size_t i = 0; i < n; i++) {
        go_to(ways_there_are[i].from);
        is_only_in(ways_there_are[i].from);
        move(ways_there_are[i].to);
        is_only_in(ways_there_are[i].to);
    }
    for (enum slot_place from = SLOT_FREE; from < SLOT_PLACES; from++) {
        for (enum slot_place to = SLOT_FREE; to < SLOT_PLACES; to++)
            n_allowed += is_allowed(from, to);
    }
    assert_int_equal(n_allowed, n);
}

static bool dies(enum slot_place from, enum slot_place to)
{
    int status = 0;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0}); /* no core file */
        signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO);
        go_to(from);
        move(to);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void every_other_way_ends_the_process(void **state)
{
    (void)state;
    for (enum slot_place from = SLOT_FREE; from < SLOT_PLACES; from++) {
        for (enum slot_place to = SLOT_FREE; to < SLOT_PLACES; to++) {
            if (!is_allowed(from, to))
                assert_true(dies(from, to));
        }
    }
}

static void first_in_line_is_before_the_others(void **state)
{
    struct slot other = {.claim = &the.claim};

    (void)state;
    move(SLOT_BUFFERED);
    slot_move_first(&the.slots, &other, SLOT_BUFFERED);
    assert_ptr_equal(slot_first(&the.slots, SLOT_BUFFERED), &other);
    slot_move(&the.slots, &other, SLOT_RUNNING);
    assert_ptr_equal(slot_first(&the.slots, SLOT_BUFFERED), &the.slot);
    assert_null(slot_first(&the.slots, SLOT_WAITING));
    assert_int_equal(the.claim.n_slots, 2);
}

static void a_claim_is_over_with_the_last_of_its_outcomes_on_the_wire(void **state)
{
    struct slot other = {.claim = &the.claim};

    (void)state;
    go_to(SLOT_WAITING);
    slot_move(&the.slots, &other, SLOT_WAITING);
    assert_int_equal(the.claim.n_unsent, 2);
    move(SLOT_FLYING);
    assert_int_equal(the.claim.n_unsent, 1);
    slot_move(&the.slots, &other, SLOT_FLYING);
    assert_int_equal(the.claim.n_unsent, 0);
    slot_move_first(&the.slots, &other, SLOT_WAITING); /* it is sent again */
    assert_int_equal(the.claim.n_unsent, 1);
    move(SLOT_FREE);
    assert_int_equal(the.claim.n_unsent, 1);
    assert_int_equal(the.claim.n_slots, 1);
}

static void a_machine_that_stays_keeps_its_claim_and_its_hands(void **state)
{
    (void)state;
    go_to(SLOT_WAITING);
    slot_set_sticky(&the.slots, &the.slot, true);
    assert_int_equal(the.slots.n_sticky, 1);
    move(SLOT_ASIDE); /* as long as another transaction pleases: no hands wait for it */
    assert_int_equal(the.slots.n_sticky, 0);
    move(SLOT_WAITING);
    move(SLOT_FLYING);
    assert_int_equal(the.slots.n_sticky, 1);
    assert_int_equal(the.claim.n_unsent, 1);
    slot_set_sticky(&the.slots, &the.slot, false);
    move(SLOT_BUFFERED);
    assert_int_equal(the.slots.n_sticky, 0);
    assert_int_equal(the.claim.n_unsent, 1);
    assert_int_equal(the.claim.n_slots, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_job_goes_the_ways_that_there_are, setup),
        cmocka_unit_test_setup(every_other_way_ends_the_process, setup),
        cmocka_unit_test_setup(first_in_line_is_before_the_others, setup),
        cmocka_unit_test_setup(a_claim_is_over_with_the_last_of_its_outcomes_on_the_wire, setup),
        cmocka_unit_test_setup(a_machine_that_stays_keeps_its_claim_and_its_hands, setup),
    };

    return cmocka_run_group_tests_name("slots", tests, NULL, NULL);
}

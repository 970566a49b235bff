/* moments: dying at the right time. */
#include "fault/moments.h"

#include <signal.h>
#include <stddef.h>
#include <sys/time.h>

#include "base/rand.h"
#include "fault/events.h"

#define SENT_MAX_US 4000

static volatile sig_atomic_t armed = -1;

static void on_arm(int signum)
{
    armed = signum - MOMENT_SIGNAL;
}

static void on_alarm(int signum)
{
    (void)signum;
    raise(SIGKILL);
}

void moments_listen(void)
{
    struct sigaction arm = {.sa_handler = on_arm, .sa_flags = SA_RESTART};
    struct sigaction over = {.sa_handler = on_alarm};

    for (int i = 0; i < N_MOMENTS; i++)
        sigaction(MOMENT_SIGNAL + i, &arm, NULL);
    sigaction(SIGALRM, &over, NULL);
}

void moments_pass(enum moment moment)
{
#define MOMENT_TEXT(name, text) text,
    static const char *const texts[] = {MOMENTS(MOMENT_TEXT)};
#undef MOMENT_TEXT
    struct itimerval soon = {.it_value.tv_usec = 1 + (suseconds_t)rand_below(SENT_MAX_US)};

    if (armed != (int)moment)
        return;
    events_write("dies %s", texts[moment]);
    if (moment != MOMENT_SENT)
        raise(SIGKILL);
    armed = -1;
    setitimer(ITIMER_REAL, &soon, NULL);
}

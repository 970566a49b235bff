/*
 * moments: where a process under the soak test dies when it was told to: between a claim and what follows from it, or
 * around a settle. The conductor arms one with a signal, MOMENT_SIGNAL and its number; whoever comes by there next is
 * killed as if by kill -9. Loop thread only, but for the signal.
 */
#ifndef TESTS_FAULT_MOMENTS_H
#define TESTS_FAULT_MOMENTS_H

/* X(name, what is said of it in the events). The order is that of MOMENTS in cast.py. */
#define MOMENTS(X)                                                                                 \
    X(CLAIMED, "claimed")   /* a claim is committed and known; nobody was told of its jobs */      \
    X(SENT, "sent")         /* a few milliseconds later: its jobs are on their way, or run */      \
    X(SETTLING, "settling") /* there are outcomes to be settled; the database has not seen them */ \
    X(SETTLED, "settled")   /* they are committed; nobody was told */

#define MOMENT_ENUM(name, text) MOMENT_##name,

enum moment { MOMENTS(MOMENT_ENUM) N_MOMENTS };

#undef MOMENT_ENUM

#define MOMENT_SIGNAL (SIGRTMIN + 2) /* the first of N_MOMENTS */

/* From now on the signals are heard. */
void moments_listen(void);

/* It is that moment. Does not return if it was armed, but for MOMENT_SENT, which comes to pass soon after. */
void moments_pass(enum moment moment);

#endif

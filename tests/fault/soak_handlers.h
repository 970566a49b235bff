/*
 * soak_handlers: what the workers of the soak test do with their jobs. Any thread.
 */
#ifndef TESTS_FAULT_SOAK_HANDLERS_H
#define TESTS_FAULT_SOAK_HANDLERS_H

#include "hands/threads.h"

#define N_SOAK_HANDLERS 5

extern const struct threads_handler soak_handlers[N_SOAK_HANDLERS];

#endif

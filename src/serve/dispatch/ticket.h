/*
 * ticket: what a worker gets instead of the token of the claim. One claim is for the jobs of many
 * workers, so its token would let each worker settle the jobs of the others. A ticket is for one
 * job at one step, and every server can check it with the token from the database.
 *
 *     bytes 0-1 the attempt · 2 steps that went on under this claim
 *     bytes 3-15 of SHA-256(token, job, step): pawl.ticket
 */
#ifndef SERVE_DISPATCH_TICKET_H
#define SERVE_DISPATCH_TICKET_H

#include "core/job.h"
#include "store/held.h"

struct ticket ticket_make(const struct job *job, unsigned char steps);
int32_t ticket_attempt(const struct ticket *ticket);

#endif

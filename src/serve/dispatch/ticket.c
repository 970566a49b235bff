/* ticket: making tickets. */
#include "serve/dispatch/ticket.h"

#include <string.h>

#include <openssl/sha.h>

#include "core/machine.h"
#include "pawl.h"

#define PREFIX_LEN 3

struct ticket ticket_make(const struct job *job, unsigned char steps)
{
    const char *step = job->machine != NULL && job->machine->step != NULL ? job->machine->step : "";
    size_t step_len = strnlen(step, PAWL_NAME_MAX);
    unsigned char input[sizeof(job->token.bytes) + sizeof(int64_t) + PAWL_NAME_MAX];
    unsigned char hash[SHA256_DIGEST_LENGTH];
    struct ticket ticket;
    size_t len = sizeof(job->token.bytes);

    memcpy(input, job->token.bytes, len);
    for (int shift = 56; shift >= 0; shift -= 8)
        input[len++] = (unsigned char)((uint64_t)job->id >> shift);
    memcpy(input + len, step, step_len);
    SHA256(input, len + step_len, hash);
    ticket.bytes[0] = (unsigned char)(job->attempt >> 8);
    ticket.bytes[1] = (unsigned char)job->attempt;
    ticket.bytes[2] = steps;
    memcpy(ticket.bytes + PREFIX_LEN, hash, sizeof(ticket.bytes) - PREFIX_LEN);
    return ticket;
}

int32_t ticket_attempt(const struct ticket *ticket)
{
    return (int32_t)ticket->bytes[0] << 8 | ticket->bytes[1];
}

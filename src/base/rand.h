/* rand: random bytes from the kernel. Tokens and jitter both come from here. Any thread may call. */
#ifndef BASE_RAND_H
#define BASE_RAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Cannot fail on a kernel that has getrandom(2); aborts if it is missing, because a predictable token
 * would be worse than no process. */
void rand_bytes(void *data, size_t len);
uint64_t rand_u64(void);

/* Evenly between 0 and bound - 1; 0 when bound is 0. */
uint64_t rand_below(uint64_t bound);

/* 128 random bits as a version 4 UUID. */
struct uuid {
    unsigned char bytes[16];
};

struct uuid uuid_random(void);
#define UUID_TEXT_LEN 36
/* Writes 36 characters and a NUL. */
void uuid_format(const struct uuid *uuid, char text[UUID_TEXT_LEN + 1]);
/* What uuid_format writes, in either case. False: it is none. */
bool uuid_parse(const char *text, struct uuid *ret_uuid);

#endif

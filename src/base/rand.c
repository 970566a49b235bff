/* rand: the kernel's random bytes, and what is made of them. */
#include "base/rand.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

void rand_bytes(void *data, size_t len)
{
    unsigned char *at = data;

    while (len > 0) {
        ssize_t n = getrandom(at, len, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            abort();
        at += n;
        len -= (size_t)n;
    }
}

uint64_t rand_u64(void)
{
    uint64_t value;

    rand_bytes(&value, sizeof(value));
    return value;
}

uint64_t rand_below(uint64_t bound)
{
    if (bound == 0)
        return 0;
    /* 2^64 is not a multiple of bound: the first 2^64 mod bound numbers are thrown away, so that
     * what is left falls evenly. Fewer than half are, so this ends soon. */
    uint64_t uneven = (0 - bound) % bound;
    uint64_t value;
    do
        value = rand_u64();
    while (value < uneven);
    return value % bound;
}

struct uuid uuid_random(void)
{
    struct uuid uuid;

    rand_bytes(uuid.bytes, sizeof(uuid.bytes));
    uuid.bytes[6] = (unsigned char)((uuid.bytes[6] & 0x0f) | 0x40); /* version 4 */
    uuid.bytes[8] = (unsigned char)((uuid.bytes[8] & 0x3f) | 0x80); /* the RFC's variant */
    return uuid;
}

void uuid_format(const struct uuid *uuid, char text[UUID_TEXT_LEN + 1])
{
    static const char hex[] = "0123456789abcdef";
    char *at = text;

    for (size_t i = 0; i < sizeof(uuid->bytes); i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *at++ = '-';
        *at++ = hex[uuid->bytes[i] >> 4];
        *at++ = hex[uuid->bytes[i] & 0x0f];
    }
    *at = '\0';
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool uuid_parse(const char *text, struct uuid *ret_uuid)
{
    struct uuid uuid;

    for (size_t i = 0; i < sizeof(uuid.bytes); i++) {
        if ((i == 4 || i == 6 || i == 8 || i == 10) && *text++ != '-')
            return false;
        int high = hex_digit(text[0]);
        int low = high < 0 ? -1 : hex_digit(text[1]);

        if (low < 0)
            return false;
        uuid.bytes[i] = (unsigned char)(high << 4 | low);
        text += 2;
    }
    if (*text != '\0')
        return false;
    *ret_uuid = uuid;
    return true;
}

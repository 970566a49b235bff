/* status: tables, and the texts of gRPC's headers. */
#include "wire/status.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define TIMEOUT_DIGITS_MAX 8
#define TIMEOUT_VALUE_MAX  99999999
#define TIMEOUT_MAX_US     ((int64_t)100 * 365 * 24 * 3600 * US_PER_S)

const char *rpc_status_name(int status)
{
#define RPC_STATUS_CASE(name, number) \
    case number:                      \
        return #name;
    switch (status) {
        RPC_STATUSES(RPC_STATUS_CASE)
    default:
        return "UNKNOWN";
    }
#undef RPC_STATUS_CASE
}

enum rpc_status rpc_status_of(int pawl_code)
{
    switch (pawl_code) {
    case PAWL_OK:
        return RPC_OK;
    case PAWL_EINVAL:
    case PAWL_ELIMIT:
        return RPC_INVALID_ARGUMENT;
    case PAWL_ENOTFOUND:
        return RPC_NOT_FOUND;
    case PAWL_EAUTH:
    case PAWL_ECONN:
    case PAWL_EREADONLY:
        return RPC_UNAVAILABLE; /* the server has trouble with its database, not the client */
    case PAWL_EEXIST:
        return RPC_ALREADY_EXISTS;
    case PAWL_EDENIED:
        return RPC_PERMISSION_DENIED;
    case PAWL_EFULL:
    case PAWL_ENOMEM:
        return RPC_RESOURCE_EXHAUSTED;
    case PAWL_ERETRY:
        return RPC_ABORTED;
    case PAWL_ETIMEOUT:
        return RPC_DEADLINE_EXCEEDED;
    case PAWL_ESTATE:
    case PAWL_ESTALE:
        return RPC_FAILED_PRECONDITION;
    case PAWL_EINTERRUPTED:
        return RPC_CANCELLED;
    case PAWL_EUNKNOWN:
        return RPC_UNKNOWN;
    default:
        return RPC_INTERNAL;
    }
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c <= 0x7e && c != '%';
}

size_t rpc_message_encode(const char *message, char out[RPC_MESSAGE_ENCODED_MAX])
{
    static const char hex[] = "0123456789ABCDEF";
    size_t len = strnlen(message, RPC_MESSAGE_MAX + 1);
    size_t n = 0;

    if (len > RPC_MESSAGE_MAX) {
        len = RPC_MESSAGE_MAX;
        while (len > 0 && ((unsigned char)message[len] & 0xc0) == 0x80)
            len--;
    }
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)message[i];
        if (is_plain(c)) {
            out[n++] = (char)c;
            continue;
        }
        out[n++] = '%';
        out[n++] = hex[c >> 4];
        out[n++] = hex[c & 15];
    }
    out[n] = '\0';
    return n;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void rpc_message_decode(const char *text, size_t len, char out[RPC_MESSAGE_MAX + 1])
{
    size_t n = 0;

    for (size_t i = 0; i < len && n < RPC_MESSAGE_MAX; i++) {
        int c = (unsigned char)text[i];

        if (c == '%' && i + 2 < len && hex_value(text[i + 1]) >= 0 && hex_value(text[i + 2]) >= 0) {
            c = hex_value(text[i + 1]) << 4 | hex_value(text[i + 2]);
            i += 2;
        }
        out[n++] = (char)(c < ' ' ? ' ' : c);
    }
    out[n] = '\0';
}

void rpc_timeout_format(int64_t ms, char out[RPC_TIMEOUT_LEN])
{
    bool fits = ms <= TIMEOUT_VALUE_MAX;
    int64_t value = fits ? ms : ms / MS_PER_S;

    if (value > TIMEOUT_VALUE_MAX)
        value = TIMEOUT_VALUE_MAX;
    snprintf(out, RPC_TIMEOUT_LEN, "%d%c", (int)value, fits ? 'm' : 'S');
}

int rpc_timeout_parse(const char *text, size_t len, int64_t *ret_us)
{
    int64_t value = 0;

    if (len < 2 || len > TIMEOUT_DIGITS_MAX + 1)
        return PAWL_EINVAL;
    for (size_t i = 0; i + 1 < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return PAWL_EINVAL;
        value = value * 10 + (text[i] - '0');
    }
    switch (text[len - 1]) {
    case 'H':
        value *= (int64_t)3600 * US_PER_S;
        break;
    case 'M':
        value *= (int64_t)60 * US_PER_S;
        break;
    case 'S':
        value *= US_PER_S;
        break;
    case 'm':
        value *= US_PER_MS;
        break;
    case 'u':
        break;
    case 'n':
        value = (value + 999) / 1000;
        break;
    default:
        return PAWL_EINVAL;
    }
    *ret_us = value < TIMEOUT_MAX_US ? value : TIMEOUT_MAX_US;
    return 0;
}

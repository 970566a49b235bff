/*
 * address: where a server is, as people write it: 127.0.0.1:7295, [::1]:7295, host, host:port, unix:/path, and the same with
 * http:// or https:// in front. Pure.
 */
#ifndef REMOTE_ADDRESS_H
#define REMOTE_ADDRESS_H

#include <stdbool.h>

#include "base/err.h"

#define ADDRESS_PORT_DEFAULT "7295"
#define ADDRESS_HOST_LEN     256
#define ADDRESS_PORT_LEN     16

struct address {
    char host[ADDRESS_HOST_LEN]; /* without brackets; the path of a unix socket */
    char port[ADDRESS_PORT_LEN];
    char text[ADDRESS_HOST_LEN + ADDRESS_PORT_LEN + 8]; /* for people and for :authority */
    bool is_unix;
    bool tls;
};

int address_parse(const char *text, struct address *ret_address, struct pawl_err *err) MUST_CHECK;

#endif

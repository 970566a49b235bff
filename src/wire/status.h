/*
 * status: gRPC's status codes, and the small texts that travel in its headers: percent-encoded
 * messages and timeouts. Pure; any thread.
 */
#ifndef WIRE_STATUS_H
#define WIRE_STATUS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* X(name, number). The names are also the labels in metrics, without the prefix. */
#define RPC_STATUSES(X)       \
    X(OK, 0)                  \
    X(CANCELLED, 1)           \
    X(UNKNOWN, 2)             \
    X(INVALID_ARGUMENT, 3)    \
    X(DEADLINE_EXCEEDED, 4)   \
    X(NOT_FOUND, 5)           \
    X(ALREADY_EXISTS, 6)      \
    X(PERMISSION_DENIED, 7)   \
    X(RESOURCE_EXHAUSTED, 8)  \
    X(FAILED_PRECONDITION, 9) \
    X(ABORTED, 10)            \
    X(OUT_OF_RANGE, 11)       \
    X(UNIMPLEMENTED, 12)      \
    X(INTERNAL, 13)           \
    X(UNAVAILABLE, 14)        \
    X(DATA_LOSS, 15)          \
    X(UNAUTHENTICATED, 16)

#define RPC_STATUS_ENUM(name, number) RPC_##name = (number),

enum rpc_status { RPC_STATUSES(RPC_STATUS_ENUM) RPC_STATUS_COUNT };

#undef RPC_STATUS_ENUM

const char *rpc_status_name(int status); /* "NOT_FOUND"; "UNKNOWN" for an unknown number */

/* The status that a client gets for one of our codes. */
enum rpc_status rpc_status_of(int pawl_code);

/* A message is cut to this many bytes before it is encoded, at the start of a character. */
#define RPC_MESSAGE_MAX         1024
#define RPC_MESSAGE_ENCODED_MAX (3 * RPC_MESSAGE_MAX + 1)
/* Percent-encodes everything but printable ASCII, and '%'. Returns the length. */
size_t rpc_message_encode(const char *message, char out[RPC_MESSAGE_ENCODED_MAX]);

/* Decodes as much as fits. Bad encodings stay as they are; control characters become blanks. */
void rpc_message_decode(const char *text, size_t len, char out[RPC_MESSAGE_MAX + 1]);

/* A trailer beside the status of a call that failed: whether the call was done all the same. The
 * status alone does not tell: UNAVAILABLE is also the status of a connection that was lost in
 * the middle. */
#define RPC_DONE_TRAILER "pawl-done"
#define RPC_DONE_NO      "no"
#define RPC_DONE_UNKNOWN "unknown" /* the server does not know */

/* The largest value of grpc-timeout: 8 digits. */
#define RPC_TIMEOUT_LEN 12
void rpc_timeout_format(int64_t ms, char out[RPC_TIMEOUT_LEN]);

/* Formats "100m" and the like: at most 8 digits and a unit. The limit is 100 years, far from any
 * overflow. */
int rpc_timeout_parse(const char *text, size_t len, int64_t *ret_us) MUST_CHECK;

#endif

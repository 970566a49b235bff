/* produce: what the functions on a caller's own connection share. The connection's thread. */
#ifndef LIB_PRODUCE_H
#define LIB_PRODUCE_H

#include <libpq-fe.h>

#include "base/err.h"

/* Whether something can be sent on it at all: it lives, is not busy, and its transaction has not
 * failed. function: its name, for the message. */
int produce_check(PGconn *conn, const char *function, struct pawl_err *err) MUST_CHECK;

/* A text that is not plain ASCII arrives as it was meant only on a connection that speaks UTF-8. */
int produce_encoding(const PGconn *conn, const char *text, struct pawl_err *err) MUST_CHECK;

/* Nothing was committed when the connection broke inside a transaction, so that much is known. */
int produce_lost(bool in_transaction, int rc, struct pawl_err *err);

#endif

/* tx: the settings of one transaction. */
#ifndef STORE_TX_H
#define STORE_TX_H

#include "pg/params.h"

/* For waiting for locks, in this transaction. */
static inline void tx_lock_timeout_bind(struct params *p, const char *timeout)
{
    params_text(p, timeout);
}

static inline void tx_work_mem_bind(struct params *p, const char *size)
{
    params_text(p, size);
}

#endif

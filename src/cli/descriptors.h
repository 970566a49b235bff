/* descriptors: whether this process may open as many files as its work needs. */
#ifndef CLI_DESCRIPTORS_H
#define CLI_DESCRIPTORS_H

#include <stdint.h>

#include "base/err.h"

/* For n commands at a time, besides what is open already. Raises the soft limit of this process as far as that needs and
 * the hard one allows, and no further: commands inherit it. PAWL_EFULL: the hard limit is too low. */
int descriptors_ensure(int64_t commands, struct pawl_err *err) MUST_CHECK;

#endif

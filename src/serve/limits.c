/* limits: defaults and names from the table. */
#include "serve/limits.h"

#include <stddef.h>
#include <string.h>

struct serve_limits serve_limits_default(void)
{
#define SERVE_LIMIT_DEFAULT(name, value, text) .name = (value),
    return (struct serve_limits){SERVE_LIMITS(SERVE_LIMIT_DEFAULT)};
#undef SERVE_LIMIT_DEFAULT
}

int64_t *serve_limits_find(struct serve_limits *limits, const char *wanted)
{
#define SERVE_LIMIT_FIND(name, value, text) \
    if (strcmp(wanted, #name) == 0)         \
        return &limits->name;
    SERVE_LIMITS(SERVE_LIMIT_FIND)
#undef SERVE_LIMIT_FIND
    return NULL;
}

/* version: what is running, and what its codes are called. */
#include "base/err.h"

const char *pawl_version(void)
{
    return PAWL_VERSION;
}

#define CODE_CASE(name, value, exit_status, text) \
    case (value):                                 \
        return #name;

/* Not err_code_name, which dies of a code that is none: these come from anywhere. */
const char *pawl_code_name(int code)
{
    switch (code) {
        PAWL_CODES(CODE_CASE)
    default:
        return "PAWL_UNKNOWN";
    }
}

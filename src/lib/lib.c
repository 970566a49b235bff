/* lib: reading structs of callers who may know another version of them. */
#include "lib/lib.h"

#include <string.h>

#define SIZE_MOST 65536 /* more is no size but what happened to be in memory */

int lib_struct_read(
    void *ret, size_t known, size_t least, const void *from, const char *what, struct pawl_err *err)
{
    const unsigned char *bytes = from;
    size_t size;

    memcpy(&size, from, sizeof(size));
    if (size < least || size > SIZE_MOST) {
        err_set(err, PAWL_EINVAL, "struct %s has a size of %zu, which none ever had", what, size);
        err_hint(err, "Begin with its initialiser, which sets the size.");
        return PAWL_EINVAL;
    }
    for (size_t i = known; i < size; i++) {
        if (bytes[i] == 0)
            continue;
        err_set(err, PAWL_EINVAL, "struct %s asks for something this library does not know", what);
        err_detail(err, "Byte %zu is set, and the library knows %zu.", i, known);
        err_hint(err,
                 "Install a libpawl at least as new as the header (this one is %s), or begin with "
                 "the struct's initialiser.",
                 PAWL_VERSION);
        return PAWL_EINVAL;
    }
    memset(ret, 0, known);
    memcpy(ret, from, size < known ? size : known);
    return 0;
}

int lib_null(const char *function, const char *what, struct pawl_err *err)
{
    return err_set(err, PAWL_EINVAL, "%s: %s is NULL", function, what);
}

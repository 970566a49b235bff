/*
 * reflection: the standard reflection service, v1 and v1alpha: tools learn what the server offers.
 * Descriptors are embedded at build time (tools/embed-proto.py). Loop's thread.
 */
#ifndef SERVE_RPC_REFLECTION_H
#define SERVE_RPC_REFLECTION_H

#include <stddef.h>

#include "serve/rpc/rpc.h"

/* One .proto file. A table of them ends with a name of NULL. */
struct reflection_file {
    const char *name;           /* "pawl/v1/pawl.proto" */
    const unsigned char *bytes; /* a serialised FileDescriptorProto */
    size_t len;
    const char *const *imports; /* names; ends with NULL */
    const char *const
        *symbols; /* full names of services, methods, messages, enums; ends with NULL */
};

/* All files of proto/. */
extern const struct reflection_file reflection_pawl_files[];

#define REFLECTION_TABLES_MAX 4
#define REFLECTION_FILES_MAX  32

struct reflection;

/* Registers the service, with the files of proto/. */
int reflection_new(struct rpc *rpc,
                   struct reflection **ret_reflection,
                   struct pawl_err *err) MUST_CHECK;
void reflection_free(struct reflection *reflection);
/* Adds files; the table is static. */
int reflection_add(struct reflection *reflection, const struct reflection_file *files) MUST_CHECK;

#endif

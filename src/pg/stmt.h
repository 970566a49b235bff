/*
 * stmt: one SQL statement as it was embedded from sql/query/<name>.sql. The table of all of them is made at build
 * time (store/statements.h); this room only needs to know what a statement is.
 */
#ifndef PG_STMT_H
#define PG_STMT_H

#include <stddef.h>

#define STMT_MAX 128 /* statements in all; a connection remembers which of them it has prepared */

struct stmt {
    unsigned id; /* its place in the table, below STMT_MAX */
    const char
        *name; /* the file's stem, also the name of the C function, the metric and the log event */
    const char *sql; /* NUL-terminated */
};

#endif

/*
 * cells: what several verbs put into their tables: times that may be missing, bytes that may be,
 * and errors of many lines.
 */
#ifndef CLI_CELLS_H
#define CLI_CELLS_H

#include "cli/verb.h"
#include "pg/params.h"

void cell_time(struct out *out, int64_t us);          /* 0: none */
void cell_bytes(struct out *out, struct bytes bytes); /* data NULL: none */

/* An error as it is for programs, and on one line for people. NULL: none. */
void cell_error(const struct cli *cli, struct out *out, const char *error);

/* "exit status 1: first line of stderr / second line", escaped for a terminal. The end of a long
 * one is left out. */
void put_error_line(struct buf *out, const char *error);

#endif

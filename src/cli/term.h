/* term: what the terminal behind a file descriptor can do. */
#ifndef CLI_TERM_H
#define CLI_TERM_H

#include <stdbool.h>
#include <stddef.h>

/* Colour is for a terminal that has it, unless NO_COLOR is set to anything. */
bool term_color(int fd);

/* Columns; 0 when fd is no terminal. */
size_t term_width(int fd);

#define TERM_RESET "\033[0m"
#define TERM_BOLD  "\033[1m"
#define TERM_DIM   "\033[2m"
#define TERM_RED   "\033[31m"
#define TERM_GREEN "\033[32m"
#define TERM_CYAN  "\033[36m"

#endif

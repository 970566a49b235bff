/*
 * term: whether to use colour, and how wide a line may be. Read from the environment once per
 * question, because a command asks once or twice.
 */
#include "cli/term.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define WIDTH_DEFAULT 80
#define WIDTH_MIN     20 /* narrower than that nothing can be aligned */

bool term_color(int fd)
{
    const char *no_color = getenv("NO_COLOR");
    if (no_color && *no_color)
        return false;
    const char *term = getenv("TERM");
    if (!term || !*term || strcmp(term, "dumb") == 0)
        return false;
    return isatty(fd);
}

size_t term_width(int fd)
{
    if (!isatty(fd))
        return 0;
    struct winsize size = {0};
    if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return WIDTH_DEFAULT;
    return size.ws_col < WIDTH_MIN ? WIDTH_MIN : size.ws_col;
}

/*
 * pawl.h: the public face of Pawl, a durable job and workflow engine on PostgreSQL.
 *
 * Every function that can fail returns 0 or a negative code from PAWL_CODES and, when it is given a
 * `struct pawl_err`, fills it with what went wrong, what is known about it and what to do. A caller
 * that only wants to know whether it worked may pass NULL. Nothing in the library exits, prints, or
 * touches signal handlers.
 */
#ifndef PAWL_H
#define PAWL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PAWL_VERSION "0.1.0"

/* What is accepted at most, in bytes. A refusal names the limit. */
#define PAWL_PAYLOAD_MAX      (16 * 1024 * 1024) /* one job's payload; fits a claim batch in memory */
#define PAWL_RESULT_MAX       (1024 * 1024)      /* what a finished job leaves behind */
#define PAWL_NAME_MAX         128                /* a queue or a kind */

#define PAWL_PRIORITY_MIN     0
#define PAWL_PRIORITY_MAX     9 /* higher is more urgent */
#define PAWL_PRIORITY_DEFAULT 4

/*
 * One table makes the codes, their names and the exit status of the `pawl` command.
 * X(name, value, exit status, what it means)
 */
#define PAWL_CODES(X)                                                                             \
    X(PAWL_OK, 0, 0, "it worked")                                                                 \
    X(PAWL_EFAILED, -1, 1, "it failed for a reason that has no code of its own")                  \
    X(PAWL_EINVAL, -2, 2, "the arguments or the input are wrong; nothing was done")               \
    X(PAWL_ENOTFOUND, -3, 3, "no such job, queue or file")                                        \
    X(PAWL_ECONN, -4, 4, "the database cannot be reached, or the connection was lost")            \
    X(PAWL_EAUTH, -5, 5, "the database refused the user or the password")                         \
    X(PAWL_EDENIED, -6, 6, "permission denied, by the database or by the file system")            \
    X(PAWL_ESCHEMA, -7, 7, "the schema is missing, older or newer than this pawl understands")    \
    X(PAWL_EREADONLY, -8, 8, "the database accepts no writes at present")                         \
    X(PAWL_EFULL, -9, 9, "no space or no other resource left at the database or on this machine") \
    X(PAWL_ELIMIT, -10, 10, "the input is larger than the limit")                                 \
    X(PAWL_EUNKNOWN,                                                                              \
      -11,                                                                                        \
      11,                                                                                         \
      "the connection broke during the commit; it may or may not have happened")                  \
    X(PAWL_ERETRY, -12, 12, "a conflict that goes away by itself; try again")                     \
    X(PAWL_ETIMEOUT, -13, 13, "it took longer than allowed")                                      \
    X(PAWL_ESTATE, -14, 14, "not possible in the present state")                                  \
    X(PAWL_ESTALE, -15, 15, "the claim is no longer valid; another worker may own the job")       \
    X(PAWL_EMISSING, -16, 16, "a program that is needed is not installed")                        \
    X(PAWL_ENOMEM, -17, 17, "out of memory")                                                      \
    X(PAWL_EINTERRUPTED, -18, 130, "stopped by a signal")

#define PAWL_CODE_ENUM(name, value, exit_status, text) name = (value),

enum pawl_code { PAWL_CODES(PAWL_CODE_ENUM) };

#undef PAWL_CODE_ENUM

/* What went wrong. Owns nothing, so it can be copied, kept and forgotten. Texts are cut, never overrun. */
struct pawl_err {
    int code;          /* 0, or one of the negative codes above */
    char sqlstate[6];  /* what the database called it, or empty */
    char message[256]; /* what failed, in one line, without a final full stop */
    char detail[1024]; /* what is known about it, or empty */
    char hint[512];    /* what to do about it, or empty */
};

#ifdef __cplusplus
}
#endif

#endif

/*
 * cmds: every verb of the pawl command, each defined in its own cmd_<verb>.c. Listed in main.c in
 * the order in which help shows them.
 */
#ifndef CLI_CMDS_H
#define CLI_CMDS_H

#include "cli/verb.h"

extern const struct verb verb_bench;
extern const struct verb verb_completion;
extern const struct verb verb_demo;
extern const struct verb verb_db;
extern const struct verb verb_db_migrate; /* below verb_db */
extern const struct verb verb_db_psql;
extern const struct verb verb_db_status;
extern const struct verb verb_enqueue;
extern const struct verb verb_help_cmd; /* verb_help is the generator */
extern const struct verb verb_job;
extern const struct verb verb_job_show; /* below verb_job, like the next three */
extern const struct verb verb_job_cancel;
extern const struct verb verb_job_retry;
extern const struct verb verb_job_wait;
extern const struct verb verb_kind;
extern const struct verb verb_machine;
extern const struct verb verb_lane;
extern const struct verb verb_queue;
extern const struct verb verb_queue_allow; /* below verb_queue */
extern const struct verb verb_queue_disallow;
extern const struct verb verb_serve;
extern const struct verb verb_signal;
extern const struct verb verb_signal_list; /* below verb_signal */
extern const struct verb verb_token;
extern const struct verb verb_up;
extern const struct verb verb_version;
extern const struct verb verb_work;
extern const struct verb verb_worker;

#endif

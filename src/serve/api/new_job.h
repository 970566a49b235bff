/*
 * new_job: from the jobs of an Enqueue call to what is stored, checked. Refusals name the field: `jobs[3].priority: …`.
 * Pure but for memory.
 */
#ifndef SERVE_API_NEW_JOB_H
#define SERVE_API_NEW_JOB_H

#include "core/job_fields.h"
#include "proto/pawl/v1/pawl.pb-c.h"

/* ret_job's texts point into the message. ret_step: where it begins, or NULL. i: its place in the
 * call, for errors. checked: its payload has passed new_job_check_json. */
int new_job_read(const Pawl__V1__NewJob *from,
                 size_t i,
                 bool checked,
                 struct pawl_job_new *ret_job,
                 const char **ret_step,
                 struct pawl_err *err) MUST_CHECK;

/* It has nothing but what the child of a machine may have. */
bool new_job_is_child(const Pawl__V1__NewJob *from);

/* Any thread. */
int new_job_check_json(const char *json, size_t len, size_t i, struct pawl_err *err) MUST_CHECK;

#define NEW_JOB_KEY_MAX 256 /* bytes of an idempotency key */

/* The hash of an idempotency key, which is one of the queue of the call's first job, and the hash of what is asked. */
void new_job_hash(const Pawl__V1__EnqueueRequest *request,
                  const char *queue,
                  struct uuid *ret_key,
                  struct uuid *ret_request);

#endif

// Workers and producers for Pawl, a durable job engine on PostgreSQL. The README is the quick start, index.d.ts the
// reference.
'use strict';

const { Client } = require('./client');
const {
  PawlError,
  ServerError,
  InvalidError,
  NotFoundError,
  StateError,
  ExistsError,
  AuthError,
  UnavailableError,
  NotJSONError,
  JobFailedError,
  WaitTimeoutError,
} = require('./errors');
const { PermanentError, Reject, Retry, Snooze, Cancel, JobStopped, Done, Next, Await, Spawn } = require('./outcomes');
const { Worker } = require('./worker');

module.exports = {
  Client,
  Worker,
  PermanentError,
  Reject,
  Retry,
  Snooze,
  Cancel,
  JobStopped,
  Done,
  Next,
  Await,
  Spawn,
  PawlError,
  ServerError,
  InvalidError,
  NotFoundError,
  StateError,
  ExistsError,
  AuthError,
  UnavailableError,
  NotJSONError,
  JobFailedError,
  WaitTimeoutError,
};

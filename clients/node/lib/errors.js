// What can go wrong, as errors: of calls to the server, and of jobs that were waited for.
'use strict';

const { status } = require('@grpc/grpc-js');

class PawlError extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** A call was refused, or could not be made. code: gRPC's name of the status. */
class ServerError extends PawlError {
  constructor(code, message, method = '') {
    super(method ? `${method}: ${message} (${code})` : `${message} (${code})`);
    this.code = code;
    this.details = message;
    this.method = method;
  }

  /** The same call may work later. */
  get retryable() {
    return RETRYABLE.has(this.code);
  }
}

class InvalidError extends ServerError {}
class NotFoundError extends ServerError {}
class StateError extends ServerError {}
/** The unique key is taken, and onConflict says refuse. */
class ExistsError extends StateError {}
class AuthError extends ServerError {}
class UnavailableError extends ServerError {}

/** Bytes that were to be read as JSON and are none. The bytes themselves are beside it, in `…Bytes`. */
class NotJSONError extends PawlError {}

/** The job that was waited for has failed or was cancelled. */
class JobFailedError extends PawlError {
  constructor(job) {
    const last = job.errors.at(-1);
    super(`job ${job.id} ${job.kind} ${job.state}${last ? `: ${last.error}` : ''}`);
    this.job = job;
  }
}

class WaitTimeoutError extends PawlError {}

// Worth another try: every call of this client may be repeated without a second effect.
const RETRYABLE = new Set(['UNAVAILABLE', 'ABORTED', 'DEADLINE_EXCEEDED', 'UNKNOWN', 'INTERNAL', 'CANCELLED']);

const CLASSES = {
  INVALID_ARGUMENT: InvalidError,
  OUT_OF_RANGE: InvalidError,
  RESOURCE_EXHAUSTED: InvalidError,
  UNIMPLEMENTED: InvalidError,
  NOT_FOUND: NotFoundError,
  ALREADY_EXISTS: ExistsError,
  FAILED_PRECONDITION: StateError,
  UNAUTHENTICATED: AuthError,
  PERMISSION_DENIED: AuthError,
  UNAVAILABLE: UnavailableError,
  DEADLINE_EXCEEDED: UnavailableError,
};

/** gRPC's error as ours. */
function fromRpc(error, method) {
  const code = status[error.code] ?? 'UNKNOWN';
  const details = error.details || error.message || 'the call failed';
  const text =
    code === 'DEADLINE_EXCEEDED' ? `no server could be reached, or none answered, in time (${details})` : details;
  return new (CLASSES[code] ?? ServerError)(code, text, method);
}

module.exports = {
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
  fromRpc,
};

// What a handler may say about how its job goes on, and how that becomes a report. Pure: no I/O, no clock.
//
// A handler that returns a value is done, with that value as its result. One that throws is tried again. Everything
// else is said with the classes below: those that are errors may be thrown or returned, the others are returned.
'use strict';

const { inspect } = require('node:util');
const { NotJSONError, PawlError } = require('./errors');

const RESULT_MAX = 1024 * 1024;
const ERROR_MAX = 4000; // bytes of an error that the server keeps
const FRAMES = 4; // of a stack, in an error

const isBytes = (value) => value instanceof Uint8Array;

/** A value as it travels: undefined is nothing, bytes are themselves, all else is JSON. */
function encode(value) {
  if (value === undefined) return Buffer.alloc(0);
  if (isBytes(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  const text = JSON.stringify(value);
  if (text === undefined) throw new TypeError(`a ${typeof value} is no JSON`);
  return Buffer.from(text);
}

/** The other way round: nothing is undefined, all else is taken for JSON. */
function decode(bytes, what) {
  if (bytes.length === 0) return undefined;
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (e) {
    throw new NotJSONError(`${what} is not JSON: ${e.message}`, { cause: e });
  }
}

/** A property that is read as JSON when it is first asked for. */
function lazy(object, name, bytes, what) {
  Object.defineProperty(object, name, {
    configurable: true,
    enumerable: true,
    get() {
      const value = decode(bytes, what);
      Object.defineProperty(object, name, { value, enumerable: true });
      return value;
    },
  });
}

/** Trying again is of no use: the job fails, or is parked where its kind says so. */
class PermanentError extends PawlError {}

/** A rule of the business says no: the job fails, is never parked, and is no sign of trouble. */
class Reject extends PawlError {}

/** Not this time. Without a delay the retry policy of the kind decides when it is tried again. */
class Retry extends PawlError {
  constructor(message = 'the handler asked for another try', { delayMs, cause } = {}) {
    super(message, { cause });
    this.delayMs = delayMs;
  }
}

/** Not yet: again after a delay, and this start was no attempt. */
class Snooze extends PawlError {
  constructor(delayMs) {
    super(`snoozed for ${delayMs} ms`);
    this.delayMs = delayMs;
  }
}

/** The job is not wanted any more: cancelled. */
class Cancel extends PawlError {}

/** Why a run should end: the reason of job.signal. */
class JobStopped extends PawlError {
  constructor(reason, detail = '') {
    super(`the job was asked to end: ${reason}${detail ? ` (${detail})` : ''}`);
    this.reason = reason;
    this.detail = detail;
  }
}

class Done {
  constructor(result) {
    this.result = result;
  }
}

/** The machine goes on with this step, at once or later. Without a state it stays as it is. */
class Next {
  constructor(step, { state, delayMs = 0 } = {}) {
    Object.assign(this, { step, state, delayMs });
  }
}

/** The machine goes on with `step` when one of the signals has come, or after timeoutMs (job.timedOut says so). */
class Await {
  constructor(signals, step, { state, timeoutMs } = {}) {
    Object.assign(this, { signals: [signals].flat(), step, state, timeoutMs });
  }
}

/** The machine starts children and goes on with `step` when they have ended. */
class Spawn {
  constructor(children, step, { state, failFast = false, quorum = 0, cancel = false } = {}) {
    Object.assign(this, { children, step, state, failFast, quorum, cancel });
  }
}

const EXPLICIT = [Retry, Snooze, Reject, Cancel, PermanentError];
const isOne = (value, classes) => classes.some((c) => value instanceof c);
const isStep = (value) => isOne(value, [Next, Await, Spawn]);

/** At most so many bytes, whole characters, and nothing that the wire refuses. */
function cut(text, limit = ERROR_MAX) {
  const bytes = Buffer.from(String(text).replaceAll('\0', '\ufffd')); // which also mends lone surrogates
  if (bytes.length <= limit) return bytes.toString();
  let end = limit;
  while (end > 0 && (bytes[end] & 0xc0) === 0x80) end -= 1;
  return bytes.subarray(0, end).toString();
}

/** What went wrong, and where: the innermost frames first. */
function errorText(error) {
  if (!(error instanceof Error)) return cut(`thrown: ${typeof error === 'string' ? error : inspect(error)}`);
  try {
    const frames = String(error.stack ?? '')
      .split('\n')
      .filter((line) => /^\s+at /.test(line));
    return cut([error.message ? `${error.name}: ${error.message}` : error.name, ...frames.slice(0, FRAMES)].join('\n'));
  } catch {
    return 'an error whose text cannot be had'; // the job's must be told all the same
  }
}

/** A job for the wire, as NewJob. */
function newJob(job) {
  const { payload, priority, dueAt, ...rest } = job; // the others have the names of the contract
  const out = { ...rest, payload: encode(payload), payloadIsBytes: isBytes(payload) };
  if (priority !== undefined && priority !== null) out.priority = priority;
  if (dueAt !== undefined) out.dueAtUs = String(BigInt(new Date(dueAt).getTime()) * 1000n);
  return out;
}

const ms = (value) => Math.max(0, Math.round(value));

function retry(error, delayMs) {
  return { retry: { error, ...(delayMs === undefined ? {} : { delayMs: ms(delayMs) }) } };
}

function ofValue(value) {
  if (value instanceof Next)
    return { next: { step: value.step, machineData: encode(value.state), delayMs: ms(value.delayMs) } };
  if (value instanceof Await) {
    const { signals, step } = value;
    const timeoutMs = value.timeoutMs === undefined ? 0 : Math.max(1, Math.round(value.timeoutMs));
    return { await: { signals, step, machineData: encode(value.state), timeoutMs } };
  }
  if (value instanceof Spawn) {
    const children = [...value.children].map((child) => ({ job: newJob(child) }));
    const { step, failFast, quorum, cancel } = value;
    return { spawn: { children, step, machineData: encode(value.state), failFast, quorum, cancel } };
  }
  const result = encode(value instanceof Done ? value.result : value);
  if (result.length > RESULT_MAX)
    throw new RangeError(`${result.length} bytes are more than the ${RESULT_MAX} a result may have`);
  return { done: { result } };
}

function ofError(error) {
  if (error instanceof Retry) return retry(cut(error.message), error.delayMs);
  if (error instanceof Snooze) return { snooze: { delayMs: ms(error.delayMs) } };
  if (error instanceof Reject) return { reject: { error: cut(error.message || 'rejected') } };
  if (error instanceof Cancel) return { cancel: { reason: cut(error.message) } };
  if (isOne(error, [PermanentError, NotJSONError])) return { fail: { error: errorText(error) } };
  return retry(errorText(error));
}

/** What the reason of a stop decides; undefined: the handler's own words count. */
function ofStop({ failed, error, stop, timeoutMs }, done) {
  if (!stop) return undefined;
  if (stop.reason === 'timeout') return retry(`ran longer than its timeout of ${timeoutMs} ms`);
  if (stop.reason === 'cancelled' && !done) return { cancel: { reason: cut(stop.detail || 'cancelled while it ran') } };
  if (stop.reason === 'shutdown' && failed && !isOne(error, EXPLICIT))
    return retry('stopped by the shutdown of its worker', 0);
  return undefined;
}

/**
 * The outcome of an ending { value } or { failed: true, error }, with { stop, timeoutMs }; undefined when the claim is
 * lost and nothing it says would count. What cannot be sent is a failure of this run alone: a result fails the job,
 * because its work is done and not to be repeated; a step is tried again.
 */
function outcome(ending) {
  if (ending.stop?.reason === 'lost') return undefined;
  const end =
    !ending.failed && isOne(ending.value, EXPLICIT) ? { ...ending, failed: true, error: ending.value } : ending;
  const done = !end.failed && !isStep(end.value);
  const stopped = ofStop(end, done);
  if (stopped) return stopped;
  if (end.failed) return ofError(end.error);
  try {
    return ofValue(end.value);
  } catch (e) {
    if (done)
      return {
        fail: { error: cut(`the result cannot be kept: ${e.message}; the work was done and is not repeated`) },
      };
    return retry(cut(`the outcome cannot be sent: ${errorText(e)}`));
  }
}

const OUTCOMES = ['done', 'retry', 'fail', 'snooze', 'cancel', 'reject', 'next', 'await', 'spawn', 'release'];
const whichOutcome = (report) => OUTCOMES.find((name) => report[name] !== undefined && report[name] !== null);

/** What to say instead of a report that the server will not take. */
function refused({ jobId, token, runUs, signalIds, ...report }, why) {
  const error = cut(`the outcome was refused: ${why}`);
  const step = ['next', 'await', 'spawn'].includes(whichOutcome(report));
  return { jobId, token, runUs, signalIds, ...(step ? retry(error) : { fail: { error } }) };
}

module.exports = {
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
  encode,
  lazy,
  cut,
  errorText,
  newJob,
  outcome,
  whichOutcome,
  refused,
};

// A job in the hands of its handler.
'use strict';

const { lazy } = require('./outcomes');
const { stateName, time } = require('./views');

class Signal {
  constructor({ id, name, payload, sentAtUs }) {
    Object.assign(this, { id, name, payloadBytes: payload, sentAt: time(sentAtUs) });
    lazy(this, 'payload', payload, `the payload of signal ${name}`);
  }
}

class ChildResult {
  constructor({ jobId, kind, state, result, error }) {
    Object.assign(this, { id: jobId, kind, state: stateName(state), resultBytes: result, error });
    lazy(this, 'result', result, `the result of child ${jobId}`);
  }
}

class Job {
  #noted;

  /** noted(progress) is called when the handler says how far it is. */
  constructor(message, signal, noted) {
    const { jobId, token, payload, machineData, timeoutMs, signals, children } = message;
    for (const name of [
      'kind',
      'queue',
      'attempt',
      'maxAttempts',
      'priority',
      'lane',
      'step',
      'trace',
      'timedOut',
      'childrenLeft',
    ]) {
      this[name] = message[name];
    }
    this.id = jobId;
    this.token = token;
    this.payloadBytes = payload;
    this.stateBytes = machineData;
    this.timeoutMs = Number(timeoutMs);
    this.signals = signals.map((one) => new Signal(one));
    this.children = children.map((one) => new ChildResult(one));
    this.signal = signal;
    this.#noted = noted;
    // NotJSONError when they are none, which fails the job unless it is caught.
    lazy(this, 'payload', payload, `the payload of job ${jobId}`);
    lazy(this, 'state', machineData, `the state of job ${jobId}`);
  }

  /** Why the run should end: 'cancelled', 'lost', 'timeout', 'shutdown'; undefined: it should not. */
  get stopReason() {
    return this.signal.reason?.reason;
  }

  /** The newest signal of that name which this step is shown. */
  received(name) {
    return this.signals.findLast((one) => one.name === name);
  }

  /**
   * How far it is, for those who look. Sent soon, at most once a second; the last one counts, so it may be called
   * often.
   */
  progress(percent, note = '') {
    this.#noted({ percent: Math.max(0, Math.min(100, Math.trunc(percent))), note });
  }
}

module.exports = { Job };

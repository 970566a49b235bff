// What the server tells about jobs, queues and workers, as JavaScript values.
'use strict';

const { lazy } = require('./outcomes');

const FINISHED = new Set(['done', 'failed', 'cancelled']);

const stateName = (state) => state.slice('JOB_STATE_'.length).toLowerCase();
const stateConstant = (name) => `JOB_STATE_${name.toUpperCase()}`;
const itemStatus = (status) => status.slice('ITEM_STATUS_'.length).toLowerCase();
const time = (us) => (us === '0' ? undefined : new Date(Number(us) / 1000));

/** A job as it was when the server was asked. */
class JobView {
  constructor(message) {
    const { jobId, state, errors, parentId, progress, payload, result } = message;
    this.id = jobId;
    this.state = stateName(state);
    for (const name of [
      'queue',
      'kind',
      'priority',
      'attempt',
      'maxAttempts',
      'workerId',
      'lane',
      'tags',
      'step',
      'queuePaused',
    ]) {
      this[name] = message[name];
    }
    for (const name of ['created', 'due', 'started', 'finished']) this[`${name}At`] = time(message[`${name}AtUs`]);
    this.payloadBytes = payload;
    this.resultBytes = result;
    this.errors = errors.map((e) => ({
      attempt: e.attempt,
      errorClass: e.errorClass,
      error: e.error,
      at: time(e.atUs),
    }));
    this.parentId = parentId === '0' ? undefined : parentId;
    this.progress = progress ? { percent: progress.percent, note: progress.note } : undefined;
    lazy(this, 'payload', payload, `the payload of job ${jobId}`);
    lazy(this, 'result', result, `the result of job ${jobId}`);
  }

  /** done, failed or cancelled: it will never change again. */
  get finished() {
    return FINISHED.has(this.state);
  }
}

function stats(message) {
  return {
    queues: message.queues.map((q) => ({
      queue: q.queue,
      paused: q.paused,
      counts: Object.fromEntries(q.counts.map((c) => [stateName(c.state), Number(c.jobs)])),
      oldestDueMs: Number(q.oldestDueMs),
    })),
    workers: message.workers.map((w) => ({
      workerId: w.workerId,
      workerName: w.workerName,
      credits: w.credits,
      running: w.running,
      ended: Number(w.ended),
      draining: w.draining,
      connectedAt: time(w.connectedAtUs),
    })),
    uptimeMs: Number(message.uptimeMs),
  };
}

module.exports = { JobView, stats, stateName, stateConstant, itemStatus, time };

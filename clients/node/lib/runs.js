// The jobs that a worker holds: from their assignment to the answer to their report.
'use strict';

const { performance } = require('node:perf_hooks');
const { Job } = require('./job');
const { JobStopped, outcome, whichOutcome } = require('./outcomes');
const { Rates } = require('./rate');

// A later reason is of interest only if it is harsher.
const HARSHNESS = { shutdown: 1, cancelled: 2, timeout: 2, lost: 3 };

const keyOf = ({ jobId, token }) => `${jobId}/${token.toString('hex')}`;

/** One job, held under one token. */
class Run {
  constructor(message, now, noted) {
    this.abort = new AbortController();
    this.jobId = message.jobId;
    this.token = message.token;
    this.job = new Job(message, this.abort.signal, (progress) => noted(this, progress));
    this.renewed = now; // when the server is known to have believed in it
    this.startedAt = undefined;
    this.ended = false;
    this.stop = undefined;
    this.progress = undefined;
  }
}

class Runs {
  #handlers;
  #limit;
  #report;
  #noted;
  #log;
  #changed;
  #held = new Map();
  #waiting = [];
  #active = 0;
  #recalled = false;
  #rates = new Rates();
  #rateTimer;

  /**
   * report(report, answered) passes an outcome on, noted() says that there is progress to tell, changed() that a job
   * is held no more.
   */
  constructor({ handlers, concurrency, report, noted, log, changed }) {
    this.#handlers = handlers;
    this.#limit = concurrency;
    this.#report = report;
    this.#noted = noted;
    this.#log = log;
    this.#changed = changed;
  }

  // --- what the server says

  assign(messages) {
    for (const message of messages) {
      const known = this.#held.get(keyOf(message));
      if (known && !known.ended) continue; // said twice
      for (const run of this.#held.values()) {
        if (run.jobId === message.jobId) this.stopRun(run, 'lost', 'the job was claimed anew');
      }
      const run = new Run(message, performance.now(), (one, progress) => {
        one.progress = progress;
        this.#noted();
      });
      this.#held.set(keyOf(run), run);
      this.#waiting.push(run);
    }
    if (this.#recalled) this.recall();
    this.#admit();
  }

  renewed(asked, at) {
    for (const one of asked) {
      const run = this.#held.get(keyOf(one));
      if (run) run.renewed = Math.max(run.renewed, at);
    }
  }

  /** Only those under the token that was asked about: the same job may be held anew meanwhile. */
  stopNamed(asked, jobIds, reason, detail) {
    const tokens = new Map(asked.map((one) => [one.jobId, one]));
    for (const jobId of jobIds) {
      const run = tokens.has(jobId) ? this.#held.get(keyOf(tokens.get(jobId))) : undefined;
      if (run) this.stopRun(run, reason, detail);
    }
  }

  changeRate(queue, perSecond, burst) {
    this.#rates.change(queue, perSecond, burst, performance.now());
    this.#admit();
  }

  forgetRates() {
    this.#rates = new Rates();
    this.#admit();
  }

  // --- what is known

  get size() {
    return this.#held.size;
  }

  /** All that is held and not lost, as the server wants it named. */
  running() {
    return [...this.#held.values()]
      .filter((run) => run.stop?.reason !== 'lost')
      .map(({ jobId, token }) => ({ jobId, token }));
  }

  takeProgress() {
    const out = [];
    for (const run of this.#held.values()) {
      if (run.progress && run.stop?.reason !== 'lost')
        out.push({ jobId: run.jobId, token: run.token, ...run.progress });
      run.progress = undefined;
    }
    return out;
  }

  /** Claims that nothing has renewed for a whole lease are taken for lost, as the server's side takes them back. */
  expire(leaseMs) {
    const now = performance.now();
    for (const run of this.#held.values()) {
      if (now - run.renewed > leaseMs) this.stopRun(run, 'lost', 'its lease could not be renewed in time');
    }
  }

  // --- ending

  /** Gives back what was not started, now and from now on. */
  recall() {
    this.#recalled = true;
    for (const run of this.#waiting.splice(0)) {
      run.ended = true;
      this.#report({ jobId: run.jobId, token: run.token, release: { reason: 'the worker stops' } }, () =>
        this.#forget(run),
      );
    }
  }

  stopAll(reason, detail) {
    for (const run of [...this.#held.values()]) this.stopRun(run, reason, detail);
  }

  close() {
    clearTimeout(this.#rateTimer);
  }

  stopRun(run, reason, detail = '') {
    if (run.ended || (run.stop && HARSHNESS[run.stop.reason] >= HARSHNESS[reason])) return;
    run.stop = { reason, detail };
    this.#log(
      reason === 'lost' ? 'warn' : 'info',
      `job ${run.jobId} ${run.job.kind} is to stop: ${reason}${detail ? ` (${detail})` : ''}`,
    );
    run.abort.abort(new JobStopped(reason, detail));
    const at = this.#waiting.indexOf(run);
    if (at >= 0) {
      this.#waiting.splice(at, 1);
      this.#end(run, { failed: true, error: run.abort.signal.reason });
    }
  }

  // --- inside

  /** Starts what may be started: as many as there is room for, no faster than the server allows. */
  #admit() {
    while (this.#waiting.length > 0 && this.#active < this.#limit) {
      const wait = this.#rates.wait(this.#waiting[0].job.queue, performance.now());
      if (wait > 0) {
        clearTimeout(this.#rateTimer);
        this.#rateTimer = setTimeout(() => this.#admit(), Math.ceil(wait));
        return;
      }
      const run = this.#waiting.shift();
      this.#active += 1;
      void this.#start(run);
    }
  }

  async #start(run) {
    const { job } = run;
    run.startedAt = performance.now();
    const timer = job.timeoutMs > 0 ? setTimeout(() => this.stopRun(run, 'timeout'), job.timeoutMs) : undefined;
    let ending;
    try {
      ending = { value: await this.#handlers.find(job.kind, job.step)(job) };
    } catch (error) {
      ending = { failed: true, error };
    }
    clearTimeout(timer);
    this.#active -= 1;
    this.#end(run, ending);
    this.#admit();
  }

  #end(run, ending) {
    run.ended = true;
    const { job, startedAt } = run;
    const said = outcome({ ...ending, stop: run.stop, timeoutMs: job.timeoutMs });
    if (said === undefined) {
      this.#forget(run);
      return;
    }
    const runUs = startedAt === undefined ? 0 : Math.round((performance.now() - startedAt) * 1000);
    const signalIds = job.signals.map((one) => one.id);
    this.#report({ jobId: run.jobId, token: run.token, runUs, signalIds, ...said }, (report, answer) =>
      this.#answered(run, report, answer),
    );
  }

  #answered(run, report, answer) {
    if (answer?.status !== 'ITEM_STATUS_OK') {
      const why = answer
        ? [answer.status.slice('ITEM_STATUS_'.length).toLowerCase(), answer.error].filter(Boolean).join(', ')
        : 'it could not be sent';
      this.#log(
        'warn',
        `the outcome ${whichOutcome(report)} of job ${run.jobId} ${run.job.kind} counted for nothing: ${why}`,
      );
    }
    this.#forget(run);
  }

  #forget(run) {
    // Not the next step, which may have come meanwhile.
    if (this.#held.get(keyOf(run)) === run) this.#held.delete(keyOf(run));
    this.#changed();
  }
}

module.exports = { Runs };

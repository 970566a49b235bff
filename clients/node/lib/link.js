// A worker's link to the server: the stream that jobs come on, and the heartbeats beside it.
'use strict';

const { performance } = require('node:perf_hooks');
const { Backoff, sleep } = require('./backoff');
const { fromRpc } = require('./errors');

const BEATS_PER_LEASE = 3; // two may fail before anything is lost
const LEASE_UNTIL_TOLD_MS = 30_000;
const PROGRESS_EVERY_MS = 1000;
const CALL_TIMEOUT_MS = 10_000;
const LAST_BEAT_MS = 2000;
const PATIENCE_MS = 5000; // before it is said that there is no server
// At the very first try these are mistakes of whoever set the worker up; later they may be the server's, and pass.
const HOPELESS = new Set(['UNAUTHENTICATED', 'PERMISSION_DENIED', 'INVALID_ARGUMENT', 'UNIMPLEMENTED']);

const REASONS = { STOP_REASON_TIMEOUT: 'timeout', STOP_REASON_LOST: 'lost' };

class Link {
  #channel;
  #opening;
  #runs;
  #emit;
  #log;
  #call;
  #ending = new AbortController(); // no new stream
  #closed = false; // no more heartbeats
  #beatTimer;
  #beatAt = 0; // when the last one was sent
  #beating = false;
  #beatFailed = false;
  #leaseMs;
  #opened = false;
  credits; // what the server allows, like what follows
  rate; // jobs in a second; undefined: no limit
  #left = false; // there is no stream, and there will be none

  constructor({ channel, opening, runs, emit, log }) {
    this.#channel = channel;
    this.#opening = opening;
    this.#runs = runs;
    this.#emit = emit;
    this.#log = log;
    this.credits = opening.credits;
    this.#leaseMs = Number(opening.leaseMs) || LEASE_UNTIL_TOLD_MS;
  }

  /** Holds a stream until the server or this worker ends it for good. Rejects when it never could. */
  async run() {
    const backoff = new Backoff();
    this.#beatIn(this.#leaseMs / BEATS_PER_LEASE);
    while (!this.#ending.signal.aborted) {
      try {
        await this.#oneStream(backoff);
      } catch (error) {
        if (this.#ending.signal.aborted) break;
        if (HOPELESS.has(error.code) && !this.#opened) throw error;
        if (backoff.tries <= 1) this.#log('warn', `the stream has ended, connecting again: ${error.message}`);
        this.#emit('disconnected', error);
      }
      await sleep(backoff.next(), this.#ending.signal);
    }
  }

  /** No more jobs. Heartbeats and reports go on. */
  endStream() {
    this.#ending.abort();
    this.#call?.cancel();
  }

  /**
   * After run() has ended: tells the server what is held, so that what was on its way and never arrived is due
   * again.
   */
  async left() {
    if (!this.#opened) return;
    this.#left = true;
    await this.#oneBeat(performance.now(), LAST_BEAT_MS, true);
  }

  close() {
    this.endStream();
    this.#closed = true;
    clearTimeout(this.#beatTimer);
  }

  /** One call of ReportResult. */
  async report(reports) {
    return (await this.#channel.call('ReportResult', { workerId: this.#opening.workerId, reports }, CALL_TIMEOUT_MS))
      .answers;
  }

  // --- the stream

  async #oneStream(backoff) {
    const running = this.#runs.running();
    const askedAt = performance.now();
    const call = await this.#channel.stream({ ...this.#opening, running });
    this.#call = call;
    if (this.#ending.signal.aborted) call.cancel(); // it was asked for while there was nothing to cancel
    const patience = setTimeout(() => void this.#sayWaiting(), PATIENCE_MS);
    try {
      await new Promise((done, fail) => {
        let left = false; // then what else comes is not ours any more
        call.on('data', (message) => {
          clearTimeout(patience);
          if (left) return;
          try {
            left = this.#message(message, running, askedAt, backoff);
            if (left) done();
          } catch (e) {
            left = true;
            fail(e);
          }
        });
        call.on('error', (e) => fail(fromRpc(e, 'StreamJobs')));
        call.on('end', done);
      });
    } finally {
      clearTimeout(patience);
      this.#call = undefined;
      call.cancel();
    }
  }

  /** Why there is no connection is known to a call that does not wait for one. */
  async #sayWaiting() {
    const none = new Error('none answers');
    const why = await this.#channel.lastTry('Heartbeat', { workerId: this.#opening.workerId }, none).catch((e) => e);
    const reason = why instanceof Error ? why.message : none.message;
    this.#log('warn', `no server has taken this worker on for ${PATIENCE_MS} ms, still trying: ${reason}`);
  }

  /** True: this stream is to be left. */
  #message(message, running, askedAt, backoff) {
    const body = message[message.message];
    switch (message.message) {
      case 'opened':
        if (Number(body.leaseMs) > 0) this.#leaseMs = Number(body.leaseMs);
        this.#opened = true;
        this.credits = body.credits;
        this.rate = undefined; // limits of jobs in a second are told anew
        this.#runs.forgetRates();
        backoff.reset();
        this.#runs.renewed(
          running.filter((one) => !body.lostJobIds.includes(one.jobId)),
          askedAt,
        );
        this.#runs.stopNamed(running, body.lostJobIds, 'lost', 'the server no longer knows the claim');
        this.#emit('connected', { serverId: body.serverId });
        this.beatSoon();
        return false;
      case 'assignment':
        this.#runs.assign(body.jobs);
        return false;
      case 'cancelRun':
        this.#runs.stopNamed([body], [body.jobId], REASONS[body.stopReason] ?? 'cancelled', body.reason);
        return false;
      case 'rateChange':
        this.#runs.changeRate(body.queue, body.startsPerSecond, body.burst);
        if (body.queue === '') this.rate = body.startsPerSecond || undefined;
        this.#emit('limit', { credits: this.credits, rate: this.rate });
        return false;
      case 'creditChange':
        this.credits = body.credits;
        this.#emit('limit', { credits: this.credits, rate: this.rate });
        return false;
      case 'drain':
        this.#log('info', `the server asks to drain: ${body.reason}`);
        this.#emit('drain', { reason: body.reason, reconnect: body.reconnect });
        if (!body.reconnect) this.#ending.abort();
        return true; // what runs goes on, on the next stream or on none
      default:
        return false;
    }
  }

  // --- heartbeats

  /** A heartbeat before its time, though at most one in a second. */
  beatSoon() {
    this.#beatIn(Math.max(0, this.#beatAt + PROGRESS_EVERY_MS - performance.now()));
  }

  #beatIn(delayMs) {
    if (this.#closed || this.#beating) return;
    clearTimeout(this.#beatTimer);
    this.#beatTimer = setTimeout(() => void this.#beat(), delayMs);
  }

  async #beat() {
    this.#beating = true;
    const at = performance.now();
    this.#beatAt = at;
    const ok = await this.#oneBeat(at, Math.max(1000, this.#leaseMs / BEATS_PER_LEASE));
    this.#beating = false;
    // One that failed comes again sooner.
    const every = ok ? this.#leaseMs / BEATS_PER_LEASE : Math.min(1000, this.#leaseMs / 10);
    this.#beatIn(Math.max(0, at + every - performance.now()));
  }

  async #oneBeat(at, timeoutMs, last = false) {
    this.#runs.expire(this.#leaseMs);
    const running = this.#runs.running();
    const leftStream = this.#left;
    if (running.length === 0 && !last) return true;
    const request = { workerId: this.#opening.workerId, running, progress: this.#runs.takeProgress(), leftStream };
    try {
      const answer = await this.#channel.call('Heartbeat', request, timeoutMs);
      this.#beatFailed = false;
      const lost = new Set(answer.lostJobIds);
      this.#runs.renewed(
        running.filter((one) => !lost.has(one.jobId)),
        at,
      );
      this.#runs.stopNamed(running, lost, 'lost', 'the server no longer knows the claim');
      this.#runs.stopNamed(running, answer.cancelledJobIds, 'cancelled', 'cancelled');
      return true;
    } catch (e) {
      // Said once for each time of trouble.
      if (!this.#beatFailed)
        this.#log('warn', `the leases of ${running.length} jobs could not be renewed, trying again: ${e.message}`);
      this.#beatFailed = true;
      return false;
    }
  }
}

module.exports = { Link };

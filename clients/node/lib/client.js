// For programs that make jobs and look at them.
'use strict';

const { randomUUID } = require('node:crypto');
const { Backoff, sleep } = require('./backoff');
const { Channel } = require('./channel');
const { JobFailedError, NotFoundError, ServerError, StateError, WaitTimeoutError } = require('./errors');
const { encode, newJob } = require('./outcomes');
const { JobView, itemStatus, stateConstant, stateName, stats } = require('./views');

const ENQUEUE_MAX = 1000; // jobs of one call
const WAIT = { firstMs: 20, capMs: 1000 }; // how often a job that is waited for is looked at

/**
 * Every call is tried again while the server cannot be reached, for at most timeoutMs; none of them has a second
 * effect when it is repeated.
 */
class Client {
  #channel;

  constructor(options = {}) {
    this.#channel = new Channel(options);
    this.timeoutMs = options.timeoutMs ?? 30_000;
  }

  close() {
    this.#channel.close();
  }

  async #call(method, request) {
    const deadline = Date.now() + this.timeoutMs;
    const backoff = new Backoff({ firstMs: 50, capMs: 2000 });
    for (;;) {
      const wait = backoff.next();
      const last = () => Date.now() + wait >= deadline;
      try {
        const answer = await this.#channel.call(method, request, deadline - Date.now());
        const again = answer.answers?.some((one) => one.status === 'ITEM_STATUS_RETRY');
        if (!again || last()) return answer;
      } catch (e) {
        if (!(e instanceof ServerError) || !e.retryable) throw e;
        if (last()) return this.#channel.lastTry(method, request, e);
      }
      await sleep(wait);
    }
  }

  // --- producing

  /** Accepts one job; resolves to its id when it is committed, or to that of the live job with its unique key. */
  async enqueue(kind, payload, { idempotencyKey, ...options } = {}) {
    return (await this.enqueueMany([{ ...options, kind, payload }], { idempotencyKey }))[0].id;
  }

  /**
   * Accepts up to 1000 jobs, all or none. Whoever may be killed between two tries of the same call gives a key of
   * its own.
   */
  async enqueueMany(jobs, { idempotencyKey } = {}) {
    const list = [...jobs].map(newJob);
    if (list.length > ENQUEUE_MAX) {
      throw new RangeError(`${list.length} jobs are more than the ${ENQUEUE_MAX} of one call, which is all or nothing`);
    }
    const answer = await this.#call('Enqueue', { jobs: list, idempotencyKey: idempotencyKey ?? randomUUID() });
    return answer.accepted.map(({ jobId, existed }) => ({ id: jobId, existed }));
  }

  /** Sends a durable message to a machine; resolves to whether it was waiting for it and is due now. */
  async signal(id, name, payload, { idempotencyKey } = {}) {
    const request = {
      jobId: String(id),
      name,
      payload: encode(payload),
      idempotencyKey: idempotencyKey ?? randomUUID(),
    };
    return (await this.#call('Signal', request)).woken;
  }

  /** Cancels one job; resolves to its state: cancelled, or running when it was asked to stop. */
  async cancel(id, reason = '') {
    const [one] = await this.cancelMany([id], reason);
    if (one.status === 'ok') return one.state;
    if (one.status === 'not_found') throw new NotFoundError('NOT_FOUND', `there is no job ${id}`, 'Cancel');
    if (one.status === 'wrong_state')
      throw new StateError('FAILED_PRECONDITION', `job ${id} is ${one.state} already`, 'Cancel');
    throw new ServerError('UNKNOWN', `job ${id}: ${one.status}`, 'Cancel');
  }

  async cancelMany(ids, reason = '') {
    const answer = await this.#call('Cancel', { jobIds: [...ids].map(String), reason });
    return answer.answers.map(({ jobId, status, state }) => ({
      id: jobId,
      status: itemStatus(status),
      state: stateName(state),
    }));
  }

  // --- looking

  async get(id, { withoutData = false } = {}) {
    return new JobView((await this.#call('GetJob', { jobId: String(id), withoutData })).job);
  }

  /** One page of jobs, newest first, without payloads and results. */
  async list({ queue, kind, states = [], tags, limit, page } = {}) {
    const answer = await this.#call('ListJobs', {
      queue,
      kind,
      states: states.map(stateConstant),
      tags,
      limit,
      page,
    });
    return { jobs: answer.jobs.map((job) => new JobView(job)), nextPage: answer.nextPage };
  }

  /** The same, page by page. */
  async *listAll(what = {}) {
    for (let { page } = what; ;) {
      const got = await this.list({ ...what, page });
      yield* got.jobs;
      if (!got.nextPage) return;
      page = got.nextPage;
    }
  }

  /** Waits until the job has ended, however it did. */
  async wait(id, { timeoutMs = Infinity, signal } = {}) {
    const deadline = Date.now() + timeoutMs;
    const backoff = new Backoff(WAIT);
    for (;;) {
      if ((await this.get(id, { withoutData: true })).finished) return this.get(id);
      const wait = backoff.next();
      if (Date.now() + wait > deadline) throw new WaitTimeoutError(`job ${id} had not ended after ${timeoutMs} ms`);
      await sleep(wait, signal);
      signal?.throwIfAborted();
    }
  }

  /** Waits for the job and resolves to its result; JobFailedError when it failed or was cancelled. */
  async result(id, options) {
    const job = await this.wait(id, options);
    if (job.state !== 'done') throw new JobFailedError(job);
    return job.result;
  }

  // --- operating

  /** Stops claiming from a queue ('*': all). Resolves to whether it was paused already. */
  async pause(queue, reason = '') {
    return (await this.#call('PauseQueue', { queue, reason })).wasPaused;
  }

  /** Starts claiming again. Resolves to whether it was paused. */
  async resume(queue) {
    return (await this.#call('ResumeQueue', { queue })).wasPaused;
  }

  async stats(queues = []) {
    return stats(await this.#call('Stats', { queues }));
  }
}

module.exports = { Client };

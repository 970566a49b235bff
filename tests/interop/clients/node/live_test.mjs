// The client for Node.js and a real server: outcomes, producers, machines, cancellation.
import assert from 'node:assert/strict';
import * as pawl from 'pawl-client';
import { Stage, TIMEOUT_MS as timeoutMs, aborted, sleep } from './live.mjs';
import tap from './tap.js';

const { until } = tap;
const { Await, Cancel, Client, Next, PermanentError, Reject, Retry, Snooze, Spawn } = pawl;
const stage = new Stage('--lease', '60s');
const withWorker = (...args) => stage.withWorker(...args);
const refused = (call, type, code) =>
  assert.rejects(call, (e) => e instanceof type && e.code === code && e.details !== '' && !e.retryable);

const tests = {
  async 'what a handler returns is the result: JSON, bytes, or nothing; payloads arrive as they were sent'() {
    const seen = [];
    const echo = (job) => {
      seen.push([job.queue, job.attempt, job.priority, job.payloadBytes.toString()]);
      return job.payload;
    };
    await withWorker({}, { echo, raw: (job) => job.payloadBytes }, async (client) => {
      const id = await client.enqueue('echo', { text: 'grüße' }, { priority: 9, tags: ['a', 'b'] });
      assert.deepEqual(await client.result(id, { timeoutMs }), { text: 'grüße' });
      assert.deepEqual(seen, [['default', 1, 9, '{"text":"grüße"}']]);
      const view = await client.get(id);
      assert.deepEqual(
        [view.id, view.state, view.kind, view.tags, view.attempt, view.finishedAt instanceof Date],
        [id, 'done', 'echo', ['a', 'b'], 1, true],
      );
      const raw = Buffer.alloc(500_000, 'any bytes \0\xff');
      assert.deepEqual((await client.wait(await client.enqueue('raw', raw), { timeoutMs })).resultBytes, raw);
      const large = await client.wait(await client.enqueue('echo', 'y'.repeat(5_000_000)), { timeoutMs });
      assert.match(large.errors[0].error, /1048576/);
    });
  },

  async 'every outcome leads where it should'() {
    const soon = Date.now() + 300;
    const say = (job) => {
      const word = job.payload;
      if (word === 'retry' && job.attempt === 1) throw new Retry('busy', { delayMs: 0 });
      if (word === 'throw' && job.attempt === 1) throw new TypeError('no name');
      if (word === 'fail') throw new PermanentError('never');
      if (word === 'reject') return new Reject('not 18');
      if (word === 'cancel') throw new Cancel('obsolete');
      if (word === 'snooze' && Date.now() < soon) throw new Snooze(50);
      if (word === 'unserialisable') return 1n;
      return job.attempt;
    };
    await withWorker({}, { say }, async (client) => {
      const end = async (word, options) => client.wait(await client.enqueue('say', word, options), { timeoutMs });
      const retried = await end('retry');
      assert.deepEqual([retried.result, retried.errors[0].error], [2, 'busy']);
      const failed = await end('fail');
      assert.deepEqual([failed.state, failed.errors[0].errorClass], ['failed', 'permanent']);
      await assert.rejects(client.result(failed.id), (e) => e instanceof pawl.JobFailedError && e.job.id === failed.id);
      await refused(client.cancel(failed.id), pawl.StateError, 'FAILED_PRECONDITION');
      const rejected = await end('reject');
      assert.deepEqual(
        [rejected.state, rejected.errors[0].errorClass, rejected.errors[0].error],
        ['failed', 'business', 'not 18'],
      );
      assert.equal((await end('cancel')).state, 'cancelled');
      assert.equal((await end('snooze')).result, 1);
      assert.match((await end('unserialisable')).errors[0].error, /not repeated/);
      assert.match((await end('throw', { maxAttempts: 1 })).errors[0].error, /^TypeError: no name\n\s+at /);
    });
  },

  async "a producer's calls: many at once, keys that make them safe, looking, pausing, and errors that say what is wrong"() {
    const client = new Client({ address: stage.address, timeoutMs });
    const many = await client.enqueueMany(
      Array.from({ length: 250 }, (_, n) => ({ kind: 'p', payload: { n }, queue: 'quiet', tags: ['t'] })),
    );
    assert.equal(new Set(many.map((one) => one.id)).size, 250);
    const key = { queue: 'quiet', idempotencyKey: 'key-1' };
    assert.equal(await client.enqueue('p', {}, key), await client.enqueue('p', {}, key));
    const first = await client.enqueue('p', {}, { queue: 'quiet', uniqueKey: 'u' });
    assert.deepEqual(await client.enqueueMany([{ kind: 'p', queue: 'quiet', uniqueKey: 'u' }]), [
      { id: first, existed: true },
    ]);
    await refused(
      client.enqueue('p', {}, { queue: 'quiet', uniqueKey: 'u', onConflict: 'refuse' }),
      pawl.ExistsError,
      'ALREADY_EXISTS',
    );
    const listed = [];
    for await (const job of client.listAll({ queue: 'quiet', tags: ['t'], limit: 100 })) listed.push(job.id);
    assert.deepEqual(listed, many.map((one) => one.id).reverse());
    const later = await client.enqueue('p', {}, { queue: 'quiet', dueAt: new Date(Date.now() + 3_600_000) });
    assert.equal((await client.get(later)).state, 'scheduled');
    assert.equal(await client.cancel(first, 'not needed'), 'cancelled');
    await refused(client.get(10n ** 12n), pawl.NotFoundError, 'NOT_FOUND');
    assert.equal(await client.cancel(first), 'cancelled');
    await refused(client.enqueue('no blanks'), pawl.InvalidError, 'INVALID_ARGUMENT');
    assert.deepEqual([await client.pause('quiet', 'by a test'), await client.pause('quiet')], [false, true]);
    const stats = (await client.stats()).queues.find((one) => one.queue === 'quiet');
    assert.deepEqual([stats.paused, stats.counts.ready, stats.counts.scheduled], [true, 251, 1]);
    assert.deepEqual([await client.resume('quiet'), await client.resume('quiet')], [true, false]);
    await assert.rejects(client.wait(later, { timeoutMs: 100 }), pawl.WaitTimeoutError);
    client.close();
  },

  async 'a job that is cancelled while it runs is told so; one that is done all the same is done'() {
    const reasons = [];
    const slow = async (job) => {
      await aborted(job).catch(() => reasons.push(job.stopReason));
      job.signal.throwIfAborted();
    };
    const stubborn = (job) => aborted(job).catch(() => 'done all the same');
    await withWorker({}, { slow, stubborn }, async (client, worker) => {
      const jobs = [await client.enqueue('slow'), await client.enqueue('stubborn')];
      await until(() => worker.running === 2, 'both run');
      await until(
        async () => (await Promise.all(jobs.map((id) => client.get(id)))).every((job) => job.state === 'running'),
        'they are seen to run',
      );
      for (const id of jobs) assert.equal(await client.cancel(id, 'enough'), 'running');
      const ends = await Promise.all(jobs.map((id) => client.wait(id, { timeoutMs })));
      assert.deepEqual([ends.map((job) => job.state), reasons], [['cancelled', 'done'], ['cancelled']]);
    });
  },

  async 'an attempt that takes too long is told so, and is tried again'() {
    const late = async (job) => (job.attempt === 1 ? aborted(job) : job.attempt);
    await withWorker({}, { late }, async (client) => {
      const id = await client.enqueue('late', {}, { timeoutMs: 200, retry: 'exponential', retryBaseMs: 600_000 });
      await until(async () => (await client.get(id)).state === 'retrying', 'it waits for its retry');
      assert.match((await client.get(id)).errors[0].error, /timeout/);
    });
  },

  async 'a machine: steps with a state, signals before and after the wait, a timeout, children'() {
    const order = {
      first: 'reserve',
      steps: {
        reserve: (job) => {
          assert.deepEqual([job.step, job.state], ['', undefined]);
          return new Next('charge', { state: { shelf: 7 } });
        },
        charge: () => new Await(['paid', 'refused'], 'charged', { timeoutMs: 600_000 }),
        charged: (job) => {
          const state = {
            ...job.state,
            paid: job.received('paid').payload,
            signals: job.signals.map((one) => one.name),
          };
          return new Spawn(
            [1, 2, 3].map((payload) => ({ kind: 'parcel', payload })),
            'packed',
            { state },
          );
        },
        packed: (job) => ({
          state: job.state,
          left: job.childrenLeft,
          children: job.children.map((one) => [one.state, one.state === 'done' ? one.result : one.error]).sort(),
        }),
      },
    };
    const parcel = (job) => {
      if (job.payload === 2) throw new Reject('too heavy');
      return job.payload * 10;
    };
    const waiter = (job) =>
      job.step === '' ? new Await('never', 'late', { timeoutMs: 50 }) : [job.step, job.timedOut, job.signals.length];
    const loop = (job) => {
      const n = (job.state ?? 0) + 1;
      return n === 50 ? n : new Next('again', { state: n });
    };
    const strict = { first: 'a', steps: { a: () => new Next('b') } };
    await withWorker({}, { order, parcel, waiter, loop, strict }, async (client) => {
      const early = await client.enqueue('order');
      const late = await client.enqueue('order');
      await client.signal(early, 'paid', { amount: 25 }, { idempotencyKey: 'tx' });
      await until(async () => (await client.get(late)).state === 'waiting', 'it waits');
      assert.equal(await client.signal(late, 'paid', { amount: 26 }), true);
      for (const [id, amount] of [
        [early, 25],
        [late, 26],
      ]) {
        assert.deepEqual(await client.result(id, { timeoutMs }), {
          state: { shelf: 7, paid: { amount }, signals: ['paid'] },
          left: 0,
          children: [
            ['done', 10],
            ['done', 30],
            ['failed', 'too heavy'],
          ],
        });
      }
      assert.deepEqual(await client.result(await client.enqueue('waiter'), { timeoutMs }), ['late', true, 0]);
      assert.equal(await client.result(await client.enqueue('loop'), { timeoutMs }), 50);
      assert.match(
        (await client.wait(await client.enqueue('strict'), { timeoutMs })).errors.at(-1).error,
        /unknown step b/,
      );
      await assert.rejects(client.signal(early, 'paid'), pawl.StateError);
    });
  },

  async 'what a handler says about how far it is can be seen while it runs'() {
    let go;
    const gate = new Promise((done) => {
      go = done;
    });
    const long = async (job) => {
      job.progress(10, 'begun');
      job.progress(42, 'almost half');
      await gate;
    };
    await withWorker({}, { long }, async (client) => {
      const id = await client.enqueue('long');
      try {
        await until(async () => (await client.get(id)).progress?.percent === 42, 'progress is seen');
        assert.equal((await client.get(id)).progress.note, 'almost half');
      } finally {
        go();
      }
      assert.equal((await client.wait(id, { timeoutMs })).state, 'done');
    });
  },

  async 'a thousand jobs with fifty at a time: each runs once, never more than fifty side by side'() {
    const runs = new Map();
    let now = 0;
    let peak = 0;
    const many = async (job) => {
      runs.set(job.id, (runs.get(job.id) ?? 0) + 1);
      now += 1;
      peak = Math.max(peak, now);
      await sleep(20);
      now -= 1;
    };
    await withWorker({ concurrency: 50 }, { many }, async (client) => {
      const jobs = await client.enqueueMany(Array.from({ length: 1000 }, () => ({ kind: 'many' })));
      await until(
        () => stage.sql("SELECT count(*) FROM pawl.jobs WHERE kind = 'many' AND state = 'done'") === '1000',
        'all are done',
      );
      assert.deepEqual([...runs.keys()].sort(), jobs.map((one) => one.id).sort());
      assert.deepEqual([...new Set(runs.values())], [1]);
      assert.ok(peak > 10 && peak <= 50, `peak ${peak}`);
    });
  },

  async 'what an operator allows a worker is kept by the server and can be read; untilEmpty does what is due and ends'() {
    const started = [];
    const paced = () => {
      started.push(Date.now());
    };
    await withWorker({ concurrency: 5 }, { paced }, async (client, worker) => {
      const seen = [];
      worker.on('limit', (limit) => seen.push(limit));
      await until(() => worker.credits === 5 && worker.rate === undefined, 'it is as it asked for');
      stage.pawl('worker', 'limit', '--jobs', '3', '--rate', '20', worker.id);
      await until(() => worker.credits === 3 && worker.rate === 20, 'it is told');
      const jobs = await client.enqueueMany(Array.from({ length: 30 }, () => ({ kind: 'paced' })));
      for (const { id } of jobs) await client.wait(id, { timeoutMs });
      assert.ok(started.at(-1) - started[0] > 1200, `${started.at(-1) - started[0]} ms`);
      stage.pawl('worker', 'limit', worker.id);
      await until(() => worker.credits === 5 && worker.rate === undefined, 'both limits are gone');
      assert.deepEqual(seen.at(-1), { credits: 5, rate: undefined });
    });
    const client = new Client({ address: stage.address, timeoutMs });
    const jobs = await client.enqueueMany(Array.from({ length: 20 }, () => ({ kind: 'paced' })));
    const last = new pawl.Worker({ address: stage.address, logger: false, untilEmpty: true }).handle('paced', paced);
    await last.start();
    for (const { id } of jobs) assert.equal((await client.get(id)).state, 'done');
    client.close();
  },
};

await stage.run(tap, tests);

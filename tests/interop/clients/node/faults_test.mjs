// The client for Node.js under faults, with a real server: leases, restarts, kill -9, drain.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync, mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import * as pawl from 'pawl-client';
import { Stage, TIMEOUT_MS as timeoutMs, aborted, sleep } from './live.mjs';
import tap from './tap.js';

const { until } = tap;
const { Client, Worker } = pawl;
// Nobody loses a job because the machine is busy; what is about leases has a stage of its own.
let stage = new Stage('--lease', '60s');
const withWorker = (...args) => stage.withWorker(...args);

/**
 * Plays a scene about a lease that runs out, or does not, with a server whose leases are short, and with longer ones if
 * that failed: a process that stood still for a moment spoils the short ones, what is wrong spoils them all.
 */
async function withLeases(scene) {
  const usual = stage;
  for (const leaseMs of [1500, 5000, 15_000]) {
    stage = new Stage('--lease', `${leaseMs}ms`);
    try {
      await stage.open();
      return await scene(leaseMs);
    } catch (e) {
      if (leaseMs === 15_000) throw e;
      console.log(`# with ${leaseMs} ms: ${String(e).split('\n')[0]}`);
    } finally {
      await stage.close();
      stage = usual;
    }
  }
}

/** A worker in a process of its own: says on standard output what it starts, and waits for a file to go on. */
class Child {
  constructor(gate) {
    this.process = spawn(
      process.execPath,
      [fileURLToPath(new URL('child.mjs', import.meta.url)), stage.address, gate],
      {
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    );
    this.exited = once(this.process, 'exit');
    this.lines = createInterface({ input: this.process.stdout })[Symbol.asyncIterator]();
  }
  async line() {
    return (await this.lines.next()).value;
  }
  async close() {
    if (this.process.exitCode === null) this.process.kill('SIGKILL');
    await this.exited;
  }
}

async function withChildren(body) {
  const folder = mkdtempSync(path.join(process.env.PAWL_TEST_TMP ?? os.tmpdir(), 'clients-'));
  const gate = path.join(folder, 'gate');
  const children = [];
  const client = new Client({ address: stage.address, timeoutMs });
  const start = () => children[children.push(new Child(gate)) - 1];
  try {
    await body(client, start, () => writeFileSync(gate, ''));
  } finally {
    for (const child of children) await child.close();
    client.close();
    rmSync(folder, { recursive: true });
  }
}

async function runsOverRestart(signal) {
  const runs = new Map();
  const work = async (job) => {
    runs.set(job.id, (runs.get(job.id) ?? 0) + 1);
    await sleep(10);
  };
  await withWorker({ concurrency: 8 }, { work }, async (client) => {
    const jobs = await client.enqueueMany(Array.from({ length: 300 }, () => ({ kind: 'work' })));
    await until(() => runs.size > 60, 'some have run');
    await stage.restart(signal);
    await until(
      () =>
        stage.sql(`SELECT count(*) FROM pawl.jobs WHERE kind = 'work' AND state = 'done' AND id >= ${jobs[0].id}`) ===
        '300',
      'all are done',
      2, // what a killed server held and had not sent comes back after its lease of 30 s and a sweep
    );
  });
  return runs;
}

const tests = {
  async 'a job that takes several leases is renewed and runs once'() {
    await withLeases(async (leaseMs) => {
      const starts = [];
      const long = async (job) => {
        starts.push(job.attempt);
        await sleep(leaseMs * 2.5);
        return job.stopReason ?? 'never told to stop';
      };
      await withWorker({}, { long }, async (client) => {
        assert.equal(await client.result(await client.enqueue('long'), { timeoutMs }), 'never told to stop');
        assert.deepEqual(starts, [1]);
      });
    });
  },

  async 'a server that is restarted in good order: nothing is lost, nothing runs twice'() {
    const runs = await runsOverRestart('SIGTERM');
    assert.deepEqual([runs.size, [...new Set(runs.values())]], [300, [1]]);
  },

  async 'a server that is killed: nothing is lost, and what this worker ran is not run again'() {
    const runs = await runsOverRestart('SIGKILL');
    assert.deepEqual([runs.size, [...new Set(runs.values())]], [300, [1]]);
  },

  async 'a job that runs while the server goes and comes keeps its claim, and its outcome counts'() {
    let go;
    const gate = new Promise((done) => {
      go = done;
    });
    const starts = [];
    const bridge = async (job) => {
      starts.push(job.attempt);
      await gate;
      return job.stopReason ?? 'kept';
    };
    await withWorker({}, { bridge }, async (client, worker) => {
      const id = await client.enqueue('bridge');
      await until(() => starts.length === 1, 'it runs');
      const lost = once(worker, 'disconnected').catch(() => {});
      await stage.stop();
      go(); // it ends while there is nobody to tell
      await stage.start();
      assert.equal(await client.result(id, { timeoutMs }), 'kept');
      assert.deepEqual(starts, [1]);
      void lost;
    });
  },

  async 'a job that is taken along to the next stream takes its credit along: no other is assigned meanwhile'() {
    let go;
    const gate = new Promise((done) => {
      go = done;
    });
    const starts = [];
    const alone = async (job) => {
      starts.push(job.id);
      await gate;
    };
    await withWorker({ concurrency: 1 }, { alone }, async (client, worker) => {
      const jobs = [await client.enqueue('alone'), await client.enqueue('alone')];
      const states = async () => Promise.all(jobs.map(async (id) => (await client.get(id)).state));
      await until(() => starts.length === 1, 'the first one runs');
      await stage.restart();
      await until(
        async () => (await client.stats()).workers.some((one) => one.workerId === worker.id && one.running === 1),
        'the server knows what it runs',
      );
      assert.deepEqual(await states(), ['running', 'ready']);
      go();
      for (const id of jobs) await client.wait(id, { timeoutMs });
      assert.deepEqual([await states(), starts], [['done', 'done'], jobs]);
    });
  },

  async 'a worker that is killed: another one takes its job over, as the second attempt'() {
    const scene = async (client, start, open) => {
      const one = start();
      const id = await client.enqueue('hold');
      assert.equal(await one.line(), `start ${id} 1`);
      await one.close();
      const other = start();
      assert.equal(await other.line(), `start ${id} 2`);
      open();
      assert.deepEqual(await client.result(id, { timeoutMs }), [other.process.pid, 2]);
      assert.equal((await client.get(id)).errors[0].errorClass, 'lost');
    };
    await withLeases(() => withChildren(scene));
  },

  async 'SIGTERM lets a worker finish what it runs, and take nothing more'() {
    await withChildren(async (client, start, open) => {
      const one = start();
      const id = await client.enqueue('hold');
      assert.equal(await one.line(), `start ${id} 1`);
      one.process.kill('SIGTERM');
      await until(async () => (await client.stats()).workers.length === 0, 'its stream has ended');
      const other = await client.enqueue('hold');
      open();
      assert.equal(await one.line(), 'end');
      assert.deepEqual(await one.exited, [0, null]);
      assert.deepEqual([(await client.get(id)).state, (await client.get(other)).state], ['done', 'ready']);
      await client.cancel(other);
    });
  },

  async 'jobs held ready beyond the concurrency are given back at a stop, and handlers that do not end are told to'() {
    const reasons = [];
    const endless = async (job) =>
      aborted(job).catch((e) => {
        reasons.push(job.stopReason);
        throw e;
      });
    let jobs;
    await withWorker({ concurrency: 1, prefetch: 5, drainMs: 100 }, { endless }, async (client, worker) => {
      jobs = await client.enqueueMany(Array.from({ length: 6 }, () => ({ kind: 'endless' })));
      await until(() => worker.running === 6, 'it holds all of them');
    });
    const client = new Client({ address: stage.address, timeoutMs });
    const views = await Promise.all(jobs.map((one) => client.get(one.id)));
    assert.deepEqual(
      views.map((one) => one.state),
      Array(6).fill('ready'),
    );
    assert.deepEqual([views.map((one) => one.attempt).sort(), reasons], [[0, 0, 0, 0, 0, 1], ['shutdown']]);
    await client.cancelMany(jobs.map((one) => one.id));
    client.close();
  },

  async 'a job that is being accepted when the server is told to stop is accepted once, and the client is told'() {
    const own = new Stage();
    await own.open();
    const client = new Client({ address: own.address, timeoutMs: 20_000 });
    try {
      own.sql(readFileSync(new URL('gate.sql', import.meta.url), 'utf8'));
      own.sql('INSERT INTO public.gate DEFAULT VALUES');
      const enqueued = client.enqueue('k');
      const committing =
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()";
      await until(() => own.sql(committing) !== '0', 'it is being committed');
      own.process.kill('SIGTERM');
      await sleep(3000); // longer than closing connections takes, shorter than a server waits for a commit
      own.sql('DELETE FROM public.gate');
      assert.equal(await enqueued, own.sql('SELECT id FROM pawl.job'));
      assert.deepEqual(await own.exited, [0, null]);
    } finally {
      client.close();
      await own.close();
    }
  },

  async 'a server that will not have a worker says so; without a server a producer says that there is none'() {
    const worker = new Worker({ address: stage.address, queues: ['no blanks'], logger: false }).handle('x', String);
    await assert.rejects(worker.run(), (e) => e instanceof pawl.InvalidError && e.method === 'StreamJobs');
    const client = new Client({ address: '127.0.0.1:1', timeoutMs: 2000 });
    await assert.rejects(client.enqueue('x'), (e) => e instanceof pawl.UnavailableError && e.retryable);
    client.close();
  },
};

await stage.run(tap, tests);

// A database of its own and a real `pawl serve` on it, for the tests of the client.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { Client, Worker } from 'pawl-client';

const { PAWL_TEST_BIN, PAWL_TEST_DB, PAWL_TEST_PSQL } = process.env;
export const TIMEOUT_MS = 60_000 * Number(process.env.PAWL_TEST_SLOWNESS ?? 1);

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
/** Rejects with the reason when the job should stop. */
export const aborted = (job) =>
  new Promise((done, fail) => job.signal.addEventListener('abort', () => fail(job.signal.reason)));

const psql = (url, sql) =>
  execFileSync(
    PAWL_TEST_PSQL,
    ['-X', '-q', '-A', '-t', '-v', 'ON_ERROR_STOP=1', '-v', 'VERBOSITY=verbose', '-d', url, '-c', sql],
    {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  ).trim();

export class Stage {
  constructor(...options) {
    this.options = options;
    this.name = `clients_${randomBytes(8).toString('hex')}`;
    this.url = `${PAWL_TEST_DB} dbname=${this.name}`;
    this.address = '127.0.0.1:0';
  }

  async open() {
    for (let tries = 0; ; tries += 1) {
      try {
        psql(PAWL_TEST_DB, `CREATE DATABASE ${this.name} TEMPLATE pawl_template`);
        break;
      } catch (e) {
        // Unless somebody else is cloning it at this very moment.
        if (tries > 1200 || !String(e.stderr).includes('55006')) throw e;
        await new Promise((done) => setTimeout(done, 25));
      }
    }
    await this.start();
  }

  async start() {
    // Between a stop and a start its port may be somebody else's for a moment.
    const deadline = Date.now() + TIMEOUT_MS;
    while (!(await this.listens())) {
      if (Date.now() > deadline) throw new Error('the server did not start');
      await sleep(50);
    }
  }

  async listens() {
    this.process = spawn(PAWL_TEST_BIN, ['serve', '--listen', this.address, ...this.options], {
      stdio: ['ignore', 'pipe', 'ignore'],
      env: { ...process.env, PAWL_DATABASE_URL: this.url },
    });
    this.exited = once(this.process, 'exit');
    for await (const line of createInterface({ input: this.process.stdout })) {
      assert.match(line, /^listening on /);
      this.address = line.slice('listening on '.length);
      return true;
    }
    await this.exited;
    return false;
  }

  async stop(signal = 'SIGTERM') {
    if (this.process.exitCode === null) this.process.kill(signal);
    await this.exited;
  }

  async restart(signal) {
    await this.stop(signal);
    await this.start();
  }

  /** Runs a body with a client, and a worker that these handlers are given to; both are gone afterwards. */
  async withWorker(options, handlers, body) {
    const client = new Client({ address: this.address, timeoutMs: TIMEOUT_MS });
    const worker = new Worker({ address: this.address, logger: false, ...options });
    for (const [kind, handler] of Object.entries(handlers)) {
      if (typeof handler === 'function') worker.handle(kind, handler);
      else worker.machine(kind, handler);
    }
    const end = worker.start();
    try {
      return await body(client, worker);
    } finally {
      await worker.stop();
      await end;
      client.close();
    }
  }

  /** All tests, or those whose names hold one of the arguments of the program. */
  async run(tap, tests) {
    const words = process.argv.slice(2);
    await this.open();
    try {
      await tap.run(
        Object.fromEntries(
          Object.entries(tests).filter(([name]) => words.length === 0 || words.some((word) => name.includes(word))),
        ),
      );
    } finally {
      await this.close();
    }
  }

  pawl(...args) {
    execFileSync(PAWL_TEST_BIN, args, { stdio: 'ignore', env: { ...process.env, PAWL_DATABASE_URL: this.url } });
  }

  sql(text) {
    return psql(this.url, text);
  }

  async close() {
    await this.stop('SIGKILL');
    psql(PAWL_TEST_DB, `DROP DATABASE IF EXISTS ${this.name} WITH (FORCE)`);
  }
}

// The parts of the client for Node.js that need no server: outcomes, back-off, rates, batches of reports.
'use strict';

const assert = require('node:assert/strict');
const path = require('node:path');
const { run, until } = require('./tap');
const pawl = require('pawl-client');

// Not exported, and no business of users.
const inside = (name) => require(path.join(path.dirname(require.resolve('pawl-client')), name));
const { outcome, cut } = inside('outcomes.js');
const { Backoff } = inside('backoff.js');
const { Rates } = inside('rate.js');
const { Reporter } = inside('batch.js');
const { Handlers } = inside('handlers.js');
const { ServerError } = inside('errors.js');

const which = (said) => Object.keys(said)[0];
const thrown = (error, more) => outcome({ failed: true, error, ...more });
const token = Buffer.from('0123456789abcdef');
const done = (jobId) => ({ jobId, token, done: { result: Buffer.alloc(0) } });

/**
 * The other end of a Reporter: scripted refusals first, then OK. Notes what arrived in each call, and answers when
 * told to.
 */
class Server {
  constructor(...refusals) {
    Object.assign(this, { calls: [], refusals, free: 0, waiting: [] });
  }
  async send(reports) {
    this.calls.push(reports.map((one) => one.jobId));
    if (this.free > 0) this.free -= 1;
    else await new Promise((go) => this.waiting.push(go));
    const refusal = this.refusals.shift();
    if (refusal instanceof Error) throw refusal;
    return reports.map(({ jobId }) => ({ jobId, status: refusal?.[jobId] ?? 'ITEM_STATUS_OK', error: 'why' }));
  }
  go(n) {
    for (; n > 0; n -= 1) {
      if (this.waiting.length > 0) this.waiting.shift()();
      else this.free += 1;
    }
  }
  reporter() {
    return new Reporter((reports) => this.send(reports), { backoff: new Backoff({ firstMs: 1, capMs: 1 }) });
  }
}

run({
  'a returned value is done, as JSON; bytes are kept, undefined is nothing': () => {
    assert.equal(outcome({ value: { a: [1, 'ü'] } }).done.result.toString(), '{"a":[1,"ü"]}');
    assert.deepEqual(outcome({ value: Uint8Array.of(0, 255) }).done.result, Buffer.from([0, 255]));
    assert.equal(outcome({ value: undefined }).done.result.length, 0);
    assert.equal(outcome({ value: null }).done.result.toString(), 'null');
    assert.equal(outcome({ value: new pawl.Done('x') }).done.result.toString(), '"x"');
  },
  'what is thrown is a retry that says what and where; errors that say more are what they say, thrown or returned':
    () => {
      const said = thrown(new TypeError('no name'));
      assert.match(said.retry.error, /^TypeError: no name\n\s+at .*pure_test/);
      assert.equal('delayMs' in said.retry, false);
      assert.match(thrown('a text').retry.error, /a text/);
      assert.match(thrown(undefined).retry.error, /undefined/);
      for (const say of [(e) => thrown(e), (e) => outcome({ value: e })]) {
        assert.equal(say(new pawl.Retry('busy', { delayMs: 1500 })).retry.delayMs, 1500);
        assert.equal(say(new pawl.Retry('busy', { delayMs: 0 })).retry.delayMs, 0);
        assert.match(say(new pawl.PermanentError('no')).fail.error, /^PermanentError: no/);
        assert.equal(say(new pawl.Reject('not 18')).reject.error, 'not 18');
        assert.equal(say(new pawl.Snooze(2000)).snooze.delayMs, 2000);
        assert.equal(say(new pawl.Cancel('obsolete')).cancel.reason, 'obsolete');
      }
      assert.equal(which(thrown(new pawl.NotJSONError('the payload is not JSON'))), 'fail');
    },
  'steps carry their state; without one it stays as it is': () => {
    const { next } = outcome({ value: new pawl.Next('ship', { state: { shelf: 7 }, delayMs: 60_000 }) });
    assert.deepEqual([next.step, next.machineData.toString(), next.delayMs], ['ship', '{"shelf":7}', 60_000]);
    assert.equal(outcome({ value: new pawl.Next('ship') }).next.machineData.length, 0);
    const wait = outcome({ value: new pawl.Await('paid', 'charged', { timeoutMs: 0.1 }) }).await;
    assert.deepEqual([wait.signals, wait.step, wait.timeoutMs], [['paid'], 'charged', 1]);
    assert.equal(outcome({ value: new pawl.Await(['a', 'b'], 's') }).await.timeoutMs, 0);
    const { spawn } = outcome({
      value: new pawl.Spawn(
        [
          { kind: 'parcel', payload: 1, priority: 0 },
          { kind: 'raw', payload: Buffer.of(255) },
        ],
        'packed',
        { failFast: true },
      ),
    });
    assert.deepEqual(
      spawn.children.map(({ job }) => [job.kind, job.payloadIsBytes, job.priority]),
      [
        ['parcel', false, 0],
        ['raw', true, undefined],
      ],
    );
    assert.deepEqual([spawn.failFast, spawn.step], [true, 'packed']);
  },
  'what cannot be sent is a failure of the run: a result fails for good, a step is tried again': () => {
    const loop = {};
    loop.loop = loop;
    for (const value of [loop, 10n, () => {}, Symbol('x')]) assert.match(outcome({ value }).fail.error, /not repeated/);
    assert.match(outcome({ value: Buffer.alloc(1024 * 1024 + 1) }).fail.error, /1048576/);
    assert.equal(which(outcome({ value: Buffer.alloc(1024 * 1024) })), 'done');
    assert.equal(which(outcome({ value: new pawl.Next('a', { state: loop }) })), 'retry');
  },
  'a lost run says nothing; a cancelled one is cancelled unless it is done; a timeout is a retry whatever it says':
    () => {
      const error = new pawl.JobStopped('lost');
      assert.equal(outcome({ value: 1, stop: { reason: 'lost' } }), undefined);
      assert.equal(thrown(error, { stop: { reason: 'cancelled', detail: 'by me' } }).cancel.reason, 'by me');
      assert.equal(which(outcome({ value: new pawl.Next('on'), stop: { reason: 'cancelled' } })), 'cancel');
      assert.equal(which(outcome({ value: 'fine', stop: { reason: 'cancelled' } })), 'done');
      assert.match(outcome({ value: 'fine', stop: { reason: 'timeout' }, timeoutMs: 250 }).retry.error, /250 ms/);
      assert.equal(thrown(error, { stop: { reason: 'shutdown' } }).retry.delayMs, 0);
      assert.equal(which(outcome({ value: 'fine', stop: { reason: 'shutdown' } })), 'done');
      assert.equal(which(thrown(new pawl.PermanentError('x'), { stop: { reason: 'shutdown' } })), 'fail');
    },
  'errors are cut at a whole character and hold nothing that the wire refuses': () => {
    assert.equal(cut('ü'.repeat(4000)), 'ü'.repeat(2000));
    assert.equal(cut('a\0b'), 'a\ufffdb');
    assert.equal(cut('\ud800x'), '\ufffdx');
    assert.equal(cut('short'), 'short');
  },
  'waits double up to a cap, between half and all of it': () => {
    const whole = new Backoff({ firstMs: 100, capMs: 1000, chance: () => 1 });
    const half = new Backoff({ firstMs: 100, capMs: 1000, chance: () => 0 });
    assert.deepEqual(
      Array.from({ length: 6 }, () => whole.next()),
      [100, 200, 400, 800, 1000, 1000],
    );
    assert.deepEqual(
      Array.from({ length: 3 }, () => half.next()),
      [50, 100, 200],
    );
    whole.reset();
    assert.equal(whole.next(), 100);
  },
  'starts are limited for a queue and for all, and the limit goes again': () => {
    const rates = new Rates();
    rates.change('a', 2, 2, 0);
    assert.deepEqual([rates.wait('a', 0), rates.wait('a', 0), rates.wait('a', 0), rates.wait('b', 0)], [0, 0, 500, 0]);
    assert.equal(rates.wait('a', 500), 0);
    rates.change('', 1, 1, 1000);
    assert.deepEqual([rates.wait('b', 1000), rates.wait('c', 1000)], [0, 1000]);
    rates.change('', 0, 0, 1000);
    assert.equal(rates.wait('c', 1000), 0);
  },
  'handlers are found by kind and step; an unknown step is a permanent failure': () => {
    const handlers = new Handlers();
    const steps = { reserve: () => 'r', ship: () => 's' };
    handlers.add('order', { first: 'reserve', steps });
    handlers.add('plain', String);
    assert.deepEqual(handlers.kinds(), ['order', 'plain']);
    assert.deepEqual(
      [handlers.find('order', ''), handlers.find('order', 'ship'), handlers.find('plain', 'x')],
      [steps.reserve, steps.ship, String],
    );
    for (const step of ['nowhere', 'toString']) assert.throws(() => handlers.find('order', step), pawl.PermanentError);
    assert.throws(() => handlers.add('plain', String), /already/);
    assert.throws(() => handlers.add('other', { first: 'x', steps }), /no step x/);
  },
  'reports that arrive while a call is under way go together with the next, in order and in bounded numbers':
    async () => {
      const server = new Server();
      const answered = [];
      const reporter = server.reporter();
      reporter.add(done(0), (sent) => answered.push(sent.jobId));
      await until(() => server.calls.length === 1);
      for (let i = 1; i < 503; i += 1) reporter.add(done(i), (sent) => answered.push(sent.jobId));
      server.go(3);
      await until(() => answered.length === 503);
      assert.deepEqual(
        server.calls.map((call) => call.length),
        [1, 500, 2],
      );
      assert.deepEqual(
        answered,
        Array.from({ length: 503 }, (_, i) => i),
      );
    },
  'a call that failed is repeated until it is answered, and so is a single one that the server asks for again':
    async () => {
      const server = new Server(new ServerError('UNAVAILABLE', 'gone'), new ServerError('DEADLINE_EXCEEDED', 'late'), {
        2: 'ITEM_STATUS_RETRY',
      });
      const answered = [];
      const reporter = server.reporter();
      reporter.add(done(1), (sent, answer) => answered.push([sent.jobId, answer.status]));
      await until(() => server.calls.length === 1);
      reporter.add(done(2), (sent, answer) => answered.push([sent.jobId, answer.status]));
      server.go(4);
      await until(() => answered.length === 2);
      assert.deepEqual(server.calls, [[1], [1, 2], [1, 2], [2]]);
      assert.deepEqual(answered, [
        [1, 'ITEM_STATUS_OK'],
        [2, 'ITEM_STATUS_OK'],
      ]);
    },
  'one that is refused for good is replaced by a failure, once; others of its call are not held up': async () => {
    const bad = () => new ServerError('INVALID_ARGUMENT', 'bad text');
    const server = new Server({}, bad(), {}, bad(), { 1: 'ITEM_STATUS_INVALID' }, {});
    const answered = [];
    const reporter = server.reporter();
    const note = (sent, answer) => answered.push([sent.jobId, sent.fail ? 'fail' : 'done', answer?.status]);
    reporter.add(done(9), () => {});
    await until(() => server.calls.length === 1);
    reporter.add(done(0), note);
    reporter.add(done(1), note);
    server.go(6);
    await until(() => answered.length === 2);
    assert.deepEqual(server.calls, [[9], [0, 1], [0], [1], [1]]);
    assert.deepEqual(answered, [
      [0, 'done', 'ITEM_STATUS_OK'],
      [1, 'fail', undefined],
    ]);
  },
});

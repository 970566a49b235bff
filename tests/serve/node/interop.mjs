// Calls with @grpc/grpc-js, a client written in JavaScript. usage: interop.mjs ECHO_SERVER PROTO_FOLDER ECHO_PROTO
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import grpc from '@grpc/grpc-js';
import loader from '@grpc/proto-loader';

const [exe, protoRoot, echoProto] = process.argv.slice(2);
const load = (file) => grpc.loadPackageDefinition(loader.loadSync(file, { includeDirs: [protoRoot], longs: Number, defaults: true }));
const echo = load(echoProto).pawl.test.v1;
const health = load('grpc/health/v1/health.proto').grpc.health.v1;
const pawl = load('pawl/v1/pawl.proto').pawl.v1;

class Server {
  static async start(...args) {
    const server = new Server();
    server.process = spawn(exe, ['--listen', '127.0.0.1:0', ...args], { stdio: ['pipe', 'pipe', 'ignore'] });
    server.lines = createInterface({ input: server.process.stdout })[Symbol.asyncIterator]();
    server.address = (await server.line()).split(' ')[1];
    assert.equal(await server.line(), 'ready');
    return server;
  }
  async line() {
    return (await this.lines.next()).value;
  }
  async command(text) {
    this.process.stdin.write(text + '\n');
    return this.line();
  }
  async state() {
    return (await fetch(`http://${this.address}/state`)).json();
  }
  async until(condition) {
    for (let i = 0; i < 6000; i++) {
      if (condition(await this.state())) return;
      await new Promise((done) => setTimeout(done, 10));
    }
    throw new Error('never: ' + condition);
  }
  async close() {
    const code = new Promise((done) => this.process.on('exit', done));
    this.process.stdin.end();
    if (this.process.exitCode === null) assert.equal(await code, 0);
  }
}

const unary = (client, request, options = {}) =>
  new Promise((done, fail) => client.unary(request, { deadline: Date.now() + 60000, ...options }, (error, answer) => (error ? fail(error) : done(answer))));

const tests = {
  async 'a unary call is answered'(server, client) {
    const answer = await unary(client, { text: 'grüße', data: Buffer.from([0, 255]) });
    assert.equal(answer.text, 'grüße');
    assert.deepEqual([...answer.data], [0, 255]);
  },
  async 'a thousand calls at once get their own answers'(server, client) {
    const answers = await Promise.all(Array.from({ length: 1000 }, (_, i) => unary(client, { text: String(i) })));
    answers.forEach((answer, i) => assert.equal(answer.text, String(i)));
  },
  async 'a status arrives with its message'(server, client) {
    const text = 'no: 100 % "ÿ"\n€';
    await assert.rejects(unary(client, { status: grpc.status.NOT_FOUND, text }), (error) => error.code === 5 && error.details === text);
  },
  async 'a deadline ends a call on the server'(server, client) {
    await assert.rejects(unary(client, { never: true }, { deadline: Date.now() + 200 }), (error) => error.code === grpc.status.DEADLINE_EXCEEDED);
    await server.until((state) => state.held === 0);
  },
  async 'cancelling reaches the handler'(server, client) {
    const before = (await server.state()).gone;
    const call = client.unary({ never: true }, () => {});
    await server.until((state) => state.held === 1);
    call.cancel();
    await server.until((state) => state.held === 0 && state.gone === before + 1);
  },
  async 'ten thousand messages arrive in order, with pauses of the reader'(server, client) {
    const call = client.count({ messages: 10000, size: 500 });
    let seen = 0;
    for await (const message of call) {
      seen += 1;
      assert.equal(message.number, seen);
      if (seen % 2500 === 0) await new Promise((done) => setTimeout(done, 50));
    }
    assert.equal(seen, 10000);
  },
  async 'a message above the limit is refused'(server, client) {
    const big = Buffer.alloc(18 << 20);
    await assert.rejects(unary(client, { data: big }), (error) => error.code === grpc.status.RESOURCE_EXHAUSTED);
    assert.equal((await unary(client, { data: big.subarray(0, 3 << 20) })).data.length, 3 << 20);
  },
  async 'compressed requests are inflated'(server) {
    const client = new echo.Echo(server.address, grpc.credentials.createInsecure(), {
      'grpc.default_compression_algorithm': grpc.compressionAlgorithms.gzip,
    });
    assert.equal((await unary(client, { data: Buffer.alloc(100000) })).data.length, 100000);
    client.close();
  },
  async 'health is checked and watched'(server) {
    const client = new health.Health(server.address, grpc.credentials.createInsecure());
    const status = await new Promise((done, fail) => client.check({ service: '' }, (e, a) => (e ? fail(e) : done(a.status))));
    assert.equal(status, 1);
    const seen = client.watch({ service: 'node' });
    const next = () => new Promise((done) => seen.once('data', (m) => done(m.status)));
    seen.on('error', () => {});
    assert.equal(await next(), 3);
    const change = next();
    assert.equal(await server.command('serving node 1'), 'ok');
    assert.equal(await change, 1);
    seen.cancel();
    client.close();
  },
  async 'the contract loads, and a service that is not there yet says so'(server) {
    for (const [service, method] of [['JobService', 'enqueue'], ['QueueService', 'stats'], ['WorkerService', 'heartbeat']]) {
      const client = new pawl[service](server.address, grpc.credentials.createInsecure());
      const error = await new Promise((done) => client[method]({}, done));
      assert.equal(error.code, grpc.status.UNIMPLEMENTED);
      client.close();
    }
  },
  async 'a server that stops ends streams with UNAVAILABLE and lets calls finish'(server, client) {
    const slow = unary(client, { text: 'slow', delay_ms: 400 });
    const stream = client.count({ messages: 1, stayOpen: true });
    const ended = new Promise((done) => stream.on('error', done));
    await new Promise((done) => stream.once('data', done));
    await server.until((state) => state.held >= 1);
    assert.equal(await server.command('stop 5000'), 'stopping');
    assert.equal((await slow).text, 'slow');
    assert.equal((await ended).code, grpc.status.UNAVAILABLE);
    assert.equal(await server.line(), 'stopped');
  },
};

const server = await Server.start();
const client = new echo.Echo(server.address, grpc.credentials.createInsecure(), { 'grpc.max_receive_message_length': -1, 'grpc.max_send_message_length': -1 });
console.log(`1..${Object.keys(tests).length}`);
let number = 0;
let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  number += 1;
  try {
    const late = new Promise((_, fail) => setTimeout(fail, 150_000, new Error('it takes too long')).unref());
    await Promise.race([test(server, client), late]);
    console.log(`ok ${number} - ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`not ok ${number} - ${name}`);
    String(error.stack).split('\n').forEach((line) => console.log('# ' + line));
  }
}
client.close();
await server.close();
process.exit(failed ? 1 : 0);

// TLS, a certificate of one's own and tokens, for tls_test.py. usage: tls.mjs ADDRESS FOLDER TOKEN PRODUCERS_TOKEN
import assert from 'node:assert/strict';
import path from 'node:path';
import { AuthError, Client, UnavailableError, Worker } from 'pawl-client';

const [address, folder, token, producers] = process.argv.slice(2);
const file = (name) => path.join(folder, name);
const tls = { ca: file('ca.pem'), cert: file('client.pem'), key: file('client.key'), serverName: 'jobs.example' };

let asked = 0;
const give = async () => {
  asked += 1;
  return token;
};
const worker = new Worker({ address, tls, token: give }).handle('node-secret', () => 'seen');
const end = worker.start();
const client = new Client({ address, tls, token });
assert.equal(await client.result(await client.enqueue('node-secret'), { timeoutMs: 60_000 }), 'seen');
await worker.stop();
await end;
client.close();
assert.ok(asked > 0);

async function refused(options, type, code) {
  const one = new Client({ address, timeoutMs: 60_000, ...options });
  await assert.rejects(one.enqueue('x'), (e) => e instanceof type && (code === undefined || e.code === code));
  one.close();
}
await refused({ tls }, AuthError, 'UNAUTHENTICATED');
await refused({ tls, token: 'wrong' }, AuthError, 'UNAUTHENTICATED');
await refused({ tls: { ...tls, cert: undefined, key: undefined }, token, timeoutMs: 2000 }, UnavailableError);
// It says what was wrong, not only that time was over; one that stood still for a moment may need more of it.
const distrust = { tls: { ...tls, ca: file('other.pem') }, token };
await refused({ ...distrust, timeoutMs: 2000 }, UnavailableError, 'UNAVAILABLE').catch(() =>
  refused({ ...distrust, timeoutMs: 15_000 }, UnavailableError, 'UNAVAILABLE'),
);
await assert.rejects(
  new Worker({ address, tls, token: producers, logger: false }).handle('x', String).run(),
  (e) => e instanceof AuthError && e.code === 'PERMISSION_DENIED',
);

// The SQL functions from Node.js (pg): enqueue in a transaction with business data, many, unique keys, errors, waiting.
'use strict';

const { randomUUID } = require('crypto');
const { Client } = require('pg');

let n = 0;
let failed = 0;

function check(name, ok) {
  n += 1;
  if (!ok) failed += 1;
  console.log(`${ok ? 'ok' : 'not ok'} ${n} - ${name}`);
}

// "host=/x user=y dbname=z", as the tests get it; its values hold no blanks.
function options(conninfo, database) {
  const of = Object.fromEntries(conninfo.trim().split(/\s+/).map((pair) => {
    const at = pair.indexOf('=');
    return [pair.slice(0, at), pair.slice(at + 1).replace(/^'|'$/g, '')];
  }));
  return { host: of.host, port: Number(of.port || 5432), user: of.user, password: of.password, database: database || of.dbname };
}

async function sqlstateOf(client, sql, args) {
  try {
    await client.query(sql, args);
    return null;
  } catch (e) {
    return e.code;
  }
}

async function one(client, sql, args) {
  return Object.values((await client.query(sql, args)).rows[0])[0];
}

async function tests(client, listener) {
  await client.query('CREATE TABLE orders (id int PRIMARY KEY)');
  await client.query('BEGIN');
  await client.query('INSERT INTO orders VALUES ($1)', [17]);
  const job = await one(client, "SELECT pawl.enqueue('invoice', $1, queue => 'mail', tags => $2)",
    [{ order: 17, name: 'Zoë' }, ['a', 'b']]);
  await client.query('COMMIT');
  check('a job and the data it is about are committed together',
    await one(client, "SELECT convert_from(payload, 'UTF8')::jsonb ->> 'name' FROM pawl.job WHERE id = $1", [job]) === 'Zoë');
  await client.query('BEGIN');
  await client.query("SELECT pawl.enqueue('invoice')");
  await client.query('ROLLBACK');
  check('and rolled back together', await one(client, 'SELECT count(*) FROM pawl.job') === '1');

  const many = await client.query('SELECT pawl.enqueue_many($1::jsonb) AS id',
    [JSON.stringify(Array.from({ length: 100 }, (_, i) => ({ kind: 'resize', payload: { i } })))]);
  const ids = many.rows.map((row) => BigInt(row.id));
  check('many come in order', ids.length === 100 && ids.every((id, i) => i === 0 || id > ids[i - 1]));
  const raw = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
  const bytes = await one(client, "SELECT pawl.enqueue('k', bytes => $1)", [raw]);
  check('any bytes are kept', raw.equals(await one(client, 'SELECT payload FROM pawl.job WHERE id = $1', [bytes])));

  const first = await one(client, "SELECT pawl.enqueue('k', unique_key => $1)", ['x']);
  check("the second learns the first one's id", await one(client, "SELECT pawl.enqueue('k', unique_key => $1)", ['x']) === first);
  check('PW004: the key is taken',
    await sqlstateOf(client, "SELECT pawl.enqueue('k', unique_key => 'x', on_conflict => 'refuse')") === 'PW004');
  check('PW001: no such job', await sqlstateOf(client, 'SELECT pawl.cancel(-1)') === 'PW001');
  check('PW003: a stale claim',
    await sqlstateOf(client, 'SELECT pawl.assert_claim($1, $2)', [first, randomUUID()]) === 'PW003');
  check('22023: a bad name', await sqlstateOf(client, "SELECT pawl.enqueue('no blanks')") === '22023');

  const heard = new Promise((resolve) => { listener.on('notification', (message) => resolve(message.payload)); });
  await listener.query('LISTEN pawl_done');
  await listener.query('SELECT pawl.watch($1)', [first]);
  check('a job is cancelled', await one(client, "SELECT pawl.cancel($1, 'me')", [first]) === 'cancelled');
  check('PW002: it is finished', await sqlstateOf(client, 'SELECT pawl.cancel($1)', [first]) === 'PW002');
  check('whoever listens hears of its end', await heard === first);
}

async function main() {
  const name = `interop_js_${randomUUID().replace(/-/g, '')}`;
  const admin = new Client(options(process.env.PAWL_TEST_DB));
  await admin.connect();
  for (let tries = 0; ; tries += 1) {
    try {
      await admin.query(`CREATE DATABASE ${name} TEMPLATE pawl_template`);
      break;
    } catch (e) {
      // Unless somebody else is cloning it at this very moment.
      if (tries > 1200 || e.code !== '55006') throw e;
      await new Promise((done) => setTimeout(done, 25));
    }
  }
  const clients = [new Client(options(process.env.PAWL_TEST_DB, name)), new Client(options(process.env.PAWL_TEST_DB, name))];
  try {
    await Promise.all(clients.map((client) => client.connect()));
    await tests(clients[0], clients[1]);
  } finally {
    await Promise.all(clients.map((client) => client.end()));
    await admin.query(`DROP DATABASE ${name} WITH (FORCE)`);
    await admin.end();
  }
  console.log(`1..${n}`);
  process.exitCode = failed > 0 ? 1 : 0;
}

main().catch((e) => {
  console.error(e);
  process.exitCode = 1;
});

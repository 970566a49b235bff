// The types of the client, as a program that uses them. It is compiled, never run; @ts-expect-error marks what must not
// compile.
import {
  Await,
  Client,
  Job,
  JobFailedError,
  JobState,
  Next,
  PermanentError,
  Reject,
  Retry,
  ServerError,
  Snooze,
  Spawn,
  Worker,
} from 'pawl-client';

async function produce(): Promise<void> {
  const client = new Client({
    address: 'unix:/run/pawl.sock',
    token: async () => 'secret',
    tls: { ca: 'ca.pem' },
    timeoutMs: 5000,
  });
  const id: string = await client.enqueue(
    'mail',
    { to: 'ada' },
    { queue: 'mail', delayMs: 1000, tags: ['a'], idempotencyKey: 'k', onConflict: 'replace' },
  );
  const many = await client.enqueueMany([{ kind: 'mail' }, { kind: 'raw', payload: Buffer.of(1), dueAt: new Date() }]);
  const existed: boolean = many[0]!.existed;
  const woken: boolean = await client.signal(id, 'paid', { amount: 25 });
  const state: JobState = await client.cancel(17n, 'obsolete');
  const job = await client.get(id, { withoutData: true });
  const at: number | undefined = job.finishedAt?.getTime();
  for await (const one of client.listAll({ states: ['failed', 'parked'] }))
    console.log(one.errors[0]?.error, one.progress?.percent);
  const result = await client.result<{ sum: number }>(id, { timeoutMs: 1000, signal: AbortSignal.timeout(5) });
  const sum: number = result.sum;
  const paused: boolean = (await client.pause('*')) || (await client.resume('*'));
  const ready: number | undefined = (await client.stats()).queues[0]?.counts.ready;
  try {
    await client.wait(id);
  } catch (e) {
    if (e instanceof JobFailedError) console.log(e.job.errors.length);
    if (e instanceof ServerError && e.retryable) console.log(e.code, e.details);
  }
  console.log(existed, woken, state, at, sum, paused, ready);
  client.close();

  // @ts-expect-error a kind is needed
  await client.enqueueMany([{ payload: 1 }]);
  // @ts-expect-error no such state
  await client.list({ states: ['gone'] });
  // @ts-expect-error a duration is a number
  await client.enqueue('mail', {}, { delayMs: '1s' });
}

interface Order {
  item: string;
}

async function work(): Promise<void> {
  const worker = new Worker({ queues: 'mail', concurrency: 5, prefetch: 10, leaseMs: 30_000, logger: false });
  worker.handle<Order>('mail', async (job) => {
    const item: string = job.payload.item;
    job.progress(50, item);
    const answer = await fetch('http://localhost/', { signal: job.signal });
    if (answer.status === 400) throw new PermanentError('refused');
    if (answer.status === 403) throw new Reject('not allowed');
    if (answer.status === 429) throw new Snooze(1000);
    if (answer.status === 503) throw new Retry('busy', { delayMs: 100 });
    // @ts-expect-error no such field
    job.payload.price;
    return { status: answer.status };
  });
  worker.machine('order', {
    first: 'charge',
    steps: {
      charge: () => new Await(['paid', 'refused'], 'charged', { state: { shelf: 7 }, timeoutMs: 1000 }),
      charged: (job: Job<Order, { shelf: number }>) =>
        job.received('paid') ? new Next('pack') : new Reject('not paid'),
      pack: () => new Spawn([{ kind: 'parcel', payload: 1 }], 'packed', { failFast: true, quorum: 1, cancel: true }),
      packed: (job) => job.children.map((child) => [child.state, child.result]),
    },
  });
  worker
    .on('connected', ({ serverId }) => console.log(serverId))
    .on('disconnected', (error) => console.log(error.message));
  // @ts-expect-error a machine says where it starts
  worker.machine('other', { steps: {} });
  await worker.run();
  await worker.stop();
}

void produce().then(work);

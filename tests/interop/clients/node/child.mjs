// A worker of live_test.mjs in a process of its own. usage: child.mjs ADDRESS GATE
import { existsSync } from 'node:fs';
import { Worker } from 'pawl-client';

const [address, gate] = process.argv.slice(2);
const worker = new Worker({ address, concurrency: 4 });
worker.handle('hold', async (job) => {
  console.log(`start ${job.id} ${job.attempt}`);
  while (!existsSync(gate)) await new Promise((done) => setTimeout(done, 5));
  return [process.pid, job.attempt];
});
await worker.run();
console.log('end');

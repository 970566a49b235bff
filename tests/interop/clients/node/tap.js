// Runs tests one after another and says in TAP how they went: run({ 'a behaviour': async () => … }).
'use strict';

exports.run = async function run(tests) {
  const all = Object.entries(tests);
  console.log(`1..${all.length}`);
  for (const [i, [name, test]] of all.entries()) {
    const start = Date.now();
    try {
      await test();
      console.log(`ok ${i + 1} - ${name}`);
    } catch (e) {
      process.exitCode = 1;
      console.log(`not ok ${i + 1} - ${name}`);
      console.log(String(e?.stack ?? e).replace(/^/gm, '# '));
    }
    console.log(`# ${(Date.now() - start) / 1000} s`);
  }
};

/** Waits for something that happens by itself, and only so long: a minute, or several. */
exports.until = async function until(condition, what = String(condition), minutes = 1) {
  const deadline = Date.now() + 60_000 * minutes * Number(process.env.PAWL_TEST_SLOWNESS ?? 1);
  for (;;) {
    const got = await condition();
    if (got) return got;
    if (Date.now() > deadline) throw new Error(`never: ${what}`);
    await new Promise((done) => setTimeout(done, 5));
  }
};

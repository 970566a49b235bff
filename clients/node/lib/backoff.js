// How long to wait before the next try. Pure but for chance.
'use strict';

/**
 * Doubles from firstMs to capMs; each wait is between half of that and all of it, so that many who lost the same
 * server do not come back at once.
 */
class Backoff {
  constructor({ firstMs = 100, capMs = 10_000, chance = Math.random } = {}) {
    Object.assign(this, { firstMs, capMs, chance, tries: 0 });
  }

  next() {
    const whole = Math.min(this.capMs, this.firstMs * 2 ** Math.min(this.tries, 60));
    this.tries += 1;
    return whole / 2 + (whole / 2) * this.chance();
  }

  reset() {
    this.tries = 0;
  }
}

/** Waits; an AbortSignal ends the wait early, without an error. */
function sleep(delayMs, signal) {
  return new Promise((done) => {
    if (signal?.aborted) {
      done();
      return;
    }
    const timer = setTimeout(end, delayMs);
    function end() {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      done();
    }
    signal?.addEventListener('abort', end);
  });
}

module.exports = { Backoff, sleep };

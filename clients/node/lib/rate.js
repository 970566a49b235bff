// How fast jobs may be started, when the server says so. Pure: the time is an argument, in milliseconds.
'use strict';

/** Token buckets: one for a queue, and one for all. */
class Rates {
  #buckets = new Map();

  /** queue '': all of them. perSecond 0: no limit. */
  change(queue, perSecond, burst, now) {
    const size = Math.max(1, burst);
    if (perSecond > 0) this.#buckets.set(queue, { perMs: perSecond / 1000, size, tokens: size, at: now });
    else this.#buckets.delete(queue);
  }

  /** 0: may start now, and is counted. Else: how many milliseconds until it may. */
  wait(queue, now) {
    const buckets = ['', queue]
      .filter((name, i, all) => all.indexOf(name) === i)
      .map((name) => this.#buckets.get(name))
      .filter(Boolean);
    for (const bucket of buckets) {
      bucket.tokens = Math.min(bucket.size, bucket.tokens + (now - bucket.at) * bucket.perMs);
      bucket.at = now;
    }
    const wait = Math.max(0, ...buckets.map((bucket) => (1 - bucket.tokens) / bucket.perMs));
    if (wait > 1e-6) return wait;
    for (const bucket of buckets) bucket.tokens -= 1;
    return 0;
  }
}

module.exports = { Rates };

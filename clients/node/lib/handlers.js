// Which function runs which job.
'use strict';

const { PermanentError } = require('./outcomes');

class Handlers {
  #byKind = new Map();

  /** handler: a function, or { first, steps } of a machine. */
  add(kind, handler) {
    if (this.#byKind.has(kind)) throw new TypeError(`there is a handler for ${kind} already`);
    if (typeof handler === 'object' && handler !== null) {
      const { first, steps } = handler;
      if (typeof steps?.[first] !== 'function')
        throw new TypeError(`machine ${kind} has no step ${first}, which is its first`);
    } else if (typeof handler !== 'function') throw new TypeError(`the handler of ${kind} is no function`);
    this.#byKind.set(kind, handler);
  }

  kinds() {
    return [...this.#byKind.keys()].sort();
  }

  /** An unknown step fails the job, and nothing else: newer code may know it. */
  find(kind, step) {
    const handler = this.#byKind.get(kind);
    if (handler === undefined) throw new PermanentError(`no handler for ${kind}`);
    if (typeof handler === 'function') return handler;
    const name = step || handler.first;
    if (!Object.hasOwn(handler.steps, name)) throw new PermanentError(`unknown step ${name} of ${kind}`);
    return handler.steps[name];
  }
}

module.exports = { Handlers };

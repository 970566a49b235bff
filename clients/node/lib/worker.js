// For programs that run jobs.
'use strict';

const { randomUUID } = require('node:crypto');
const { EventEmitter } = require('node:events');
const os = require('node:os');
const { Reporter } = require('./batch');
const { Channel } = require('./channel');
const { PawlError } = require('./errors');
const { Handlers } = require('./handlers');
const { Link } = require('./link');
const { Runs } = require('./runs');

const LAST_WORDS_MS = 5000; // after the drain: for handlers to hear that they should end, and for the last reports

/** Events: connected, disconnected, limit, drain. */
class Worker extends EventEmitter {
  #options;
  #handlers = new Handlers();
  #log;
  #runs;
  #link;
  #stopping = deferred();
  #ended;
  #emptied = () => {};

  constructor(options = {}) {
    super();
    const { concurrency = 10, prefetch = 0, drainMs = 25_000, queues = ['default'], logger = console } = options;
    if (!(concurrency >= 1) || !(prefetch >= 0))
      throw new RangeError('concurrency is at least 1, and prefetch at least 0');
    this.id = randomUUID().replaceAll('-', '');
    this.name = options.name ?? `${os.hostname()}:${process.pid}`;
    this.#options = { ...options, concurrency, prefetch, drainMs, queues: [queues].flat() };
    // What goes on as it should is told by events; the log is for what does not.
    this.#log = (level, message) => {
      try {
        if (logger && level !== 'info') logger[level](`pawl: ${message}`);
      } catch {
        // A logger that fails must not end the worker.
      }
    };
  }

  /** Says what runs jobs of a kind; before the start. */
  handle(kind, handler) {
    if (this.#ended) throw new PawlError('handlers are given before the start');
    if (typeof handler !== 'function') throw new TypeError(`the handler of ${kind} is no function`);
    this.#handlers.add(kind, handler);
    return this;
  }

  /** A kind whose jobs go on in steps: each a handler, by its name. A job without a step starts with `first`. */
  machine(kind, { first, steps }) {
    if (this.#ended) throw new PawlError('handlers are given before the start');
    this.#handlers.add(kind, { first, steps });
    return this;
  }

  /**
   * Begins to work; a server that cannot be reached is waited for. Resolves when the worker has ended (see stop),
   * and rejects when the server would not have it at all.
   */
  start() {
    if (this.#ended) throw new PawlError('a worker is started once');
    if (this.#handlers.kinds().length === 0) throw new PawlError('a worker needs a handler for at least one kind');
    this.#ended = this.#work();
    return this.#ended;
  }

  /** Takes no more jobs, gives back what was not started, and lets handlers end. Resolves when that is done. */
  async stop() {
    this.#stopping.resolve();
    await this.#ended;
  }

  /** start(), and SIGTERM and SIGINT stop it; the second one ends the process as it would have without. */
  async run() {
    const onSignal = () => {
      forget();
      this.#stopping.resolve();
    };
    const signals = ['SIGTERM', 'SIGINT'];
    const forget = () => signals.forEach((name) => process.removeListener(name, onSignal));
    signals.forEach((name) => process.on(name, onSignal));
    try {
      await this.start();
    } finally {
      forget();
    }
  }

  /** How many jobs it holds. */
  get running() {
    return this.#runs?.size ?? 0;
  }

  /** How many jobs it may hold at once: concurrency and prefetch, or less where an operator wants it. */
  get credits() {
    return this.#link?.credits ?? this.#options.concurrency + this.#options.prefetch;
  }

  /** How many jobs the server gives it in a second, where an operator has set a limit. */
  get rate() {
    return this.#link?.rate;
  }

  // --- inside

  async #work() {
    const { concurrency, prefetch, leaseMs = 0, drainMs, queues, untilEmpty = false } = this.#options;
    const log = this.#log;
    const channel = new Channel(this.#options);
    const reporter = new Reporter((reports) => this.#link.report(reports), { log });
    this.#runs = new Runs({
      handlers: this.#handlers,
      concurrency,
      log,
      report: (report, answered) => reporter.add(report, answered),
      noted: () => this.#link.beatSoon(),
      changed: () => this.#emptied(),
    });
    const opening = {
      queues,
      kinds: this.#handlers.kinds(),
      workerId: this.id,
      workerName: this.name,
      credits: concurrency + prefetch,
      leaseMs,
      untilEmpty,
    };
    this.#link = new Link({
      channel,
      opening,
      runs: this.#runs,
      log,
      emit: (...event) => process.nextTick(() => this.emit(...event)),
    }); // what a listener throws is its own
    try {
      const streamEnd = this.#link.run();
      streamEnd.catch(() => {}); // it is awaited below, whichever ends first
      await Promise.race([this.#stopping.promise, streamEnd]);
      this.#runs.recall();
      this.#link.endStream();
      await streamEnd;
      await this.#link.left();
      if (!(await this.#empty(drainMs))) {
        this.#runs.stopAll('shutdown', 'the worker stops');
        if (!(await this.#empty(LAST_WORDS_MS))) log('warn', `${this.#runs.size} jobs are left to their leases`);
      }
    } finally {
      this.#link.close();
      reporter.close();
      this.#runs.close();
      channel.close();
    }
  }

  /** Waits until every job has ended and its report is answered; false: the time was over before. */
  #empty(timeoutMs) {
    return new Promise((done) => {
      const timer = setTimeout(() => done(false), timeoutMs);
      this.#emptied = () => {
        if (this.#runs.size > 0) return;
        clearTimeout(timer);
        done(true);
      };
      this.#emptied();
    });
  }
}

function deferred() {
  const out = {};
  out.promise = new Promise((resolve) => {
    out.resolve = resolve;
  });
  return out;
}

module.exports = { Worker };

// Reports on their way to the server: one call at a time, and whatever comes in meanwhile goes together with the next
// one.
//
// A report is sent until it is answered. That is safe: the same report has one effect, however often it arrives. What
// the server refuses for good is replaced, once, by a failure that says so.
'use strict';

const { Backoff, sleep } = require('./backoff');
const { ServerError } = require('./errors');
const { refused, whichOutcome } = require('./outcomes');

const REPORTS_MAX = 500; // of one call
const BYTES_MAX = 2 * 1024 * 1024; // likewise, unless a single one is larger
const REPORT_BYTES = 128; // about what a report has beside its data

// A refusal of the whole call because of what is in it.
const ITS_CONTENT = new Set(['INVALID_ARGUMENT', 'RESOURCE_EXHAUSTED', 'OUT_OF_RANGE']);

function size(report) {
  const outcome = report[whichOutcome(report)] ?? {};
  const data = (outcome.result ?? outcome.machineData)?.length ?? 0;
  return (
    REPORT_BYTES +
    data +
    (outcome.children ?? []).reduce((sum, child) => sum + REPORT_BYTES + child.job.payload.length, 0)
  );
}

class Reporter {
  #send;
  #log;
  #backoff;
  #queue = [];
  #alone = 0; // so many are to be sent one by one, after a refusal of them all
  #busy = false;
  #closed = new AbortController();

  /** send(reports) resolves to the answers or rejects with a ServerError. */
  constructor(send, { backoff = new Backoff({ firstMs: 50, capMs: 5000 }), log = () => {} } = {}) {
    this.#send = send;
    this.#backoff = backoff;
    this.#log = log;
  }

  /** answered(report, answer) is called once; answer undefined: it could not be said at all. */
  add(report, answered) {
    this.#queue.push({ report, answered, replaced: false });
    void this.#pump();
  }

  /** Sends nothing more. What is unanswered then is left to its lease. */
  close() {
    this.#closed.abort();
  }

  async #pump() {
    if (this.#busy) return;
    this.#busy = true;
    // Those that are reported in the same turn of the loop go together.
    await Promise.resolve();
    while (this.#queue.length > 0 && !this.#closed.signal.aborted) {
      const batch = this.#take();
      const { again, pause } = await this.#oneCall(batch);
      this.#queue.unshift(...again);
      if (pause) await sleep(this.#backoff.next(), this.#closed.signal);
    }
    this.#busy = false;
  }

  #take() {
    const limit = this.#alone > 0 ? 1 : REPORTS_MAX;
    let n = 0;
    for (let bytes = 0; n < this.#queue.length && n < limit; n += 1) {
      bytes += size(this.#queue[n].report);
      if (n > 0 && bytes > BYTES_MAX) break;
    }
    this.#alone = Math.max(0, this.#alone - n);
    return this.#queue.splice(0, n);
  }

  /** What is to be sent again, and whether to wait before that. */
  async #oneCall(batch) {
    let answers;
    try {
      answers = await this.#send(batch.map((entry) => entry.report));
    } catch (e) {
      if (!(e instanceof ServerError) || !ITS_CONTENT.has(e.code)) {
        // Said once for each time of trouble.
        if (this.#backoff.tries === 0)
          this.#log('warn', `${batch.length} outcomes could not be reported, trying again: ${e.message}`);
        return { again: batch, pause: true };
      }
      if (batch.length === 1) return { again: this.#refused(batch[0], e.details), pause: false };
      this.#alone = batch.length; // find the one that it is about
      return { again: batch, pause: false };
    }
    this.#backoff.reset();
    const again = [];
    let pause = answers.length < batch.length;
    batch.forEach((entry, i) => {
      const answer = answers[i];
      if (!answer || answer.status === 'ITEM_STATUS_RETRY') {
        again.push(entry);
        pause = true;
      } else if (answer.status === 'ITEM_STATUS_INVALID') again.push(...this.#refused(entry, answer.error));
      else entry.answered(entry.report, answer);
    });
    return { again, pause };
  }

  #refused(entry, why) {
    this.#log('error', `the outcome of job ${entry.report.jobId} was refused: ${why}`);
    if (!entry.replaced) return [{ report: refused(entry.report, why), answered: entry.answered, replaced: true }];
    entry.answered(entry.report, undefined);
    return [];
  }
}

module.exports = { Reporter };

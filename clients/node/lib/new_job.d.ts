// Made by clients/make-new-job.py from the contract; edit that.

/** What a job may have beside kind and payload. */
export interface JobOptions {
  /** The queue; "default" when empty. */
  queue?: string;
  /** 0 to 9, higher first. */
  priority?: number;
  /** Due this long after it was accepted. */
  delayMs?: number;
  /** Due at this time, instead of delay_ms. */
  dueAt?: Date | number | string;
  /** How often it is started at most; 0 is the default. */
  maxAttempts?: number;
  /** How long one attempt may take; 0 is no limit. */
  timeoutMs?: number;
  /**
   * At most one live job has this key within its kind. A second one is not accepted: the answer names the
   * first.
   */
  uniqueKey?: string;
  /** How long the unique key is kept after the job has ended. */
  uniqueForMs?: number;
  /** Jobs of one lane do not run side by side, and run in the order in which they were accepted. */
  lane?: string;
  /** Words to find the job by. */
  tags?: string[];
  /** Where a machine starts; its first step when empty. */
  step?: string;
  /** Trace context (W3C traceparent), given to the handler. */
  trace?: string;
  /** What it is about: a signal may go to all jobs of one correlation. */
  correlation?: string;
  /** It fails this long after it was accepted, whatever it does or waits for then; 0 is never. */
  deadlineMs?: number;
  /** How it is tried again: exponential or quadratic; as its kind says when empty. */
  retry?: 'auto' | 'exponential' | 'quadratic';
  /** The first delay; 0: as its kind says. */
  retryBaseMs?: number;
  /** The longest delay; 0: as its kind says. */
  retryCapMs?: number;
  /** Where its unique key is one: kind (its queue and kind; the default), queue or global. */
  uniqueScope?: 'kind' | 'queue' | 'global';
  /**
   * In which states of its holder the key is taken: waiting, running, parked; all of them when there are
   * none.
   */
  uniqueStates?: ('waiting' | 'running' | 'parked')[];
  /**
   * What becomes of the job that holds its unique key: keep (the default), replace (gets the new payload,
   * priority and due time), reschedule (gets the new due time), or refuse: the call ends with ALREADY_EXISTS.
   */
  onConflict?: 'keep' | 'replace' | 'reschedule' | 'refuse';
}

// Types of the client, and its reference. Ids are text, so that no digit is lost; times are Dates; durations are
// milliseconds.
import { EventEmitter } from 'node:events';
import type { JobOptions } from './new_job';

/** Where a job is. The last three are final. */
export type JobState =
  'ready' | 'scheduled' | 'retrying' | 'running' | 'parked' | 'waiting' | 'done' | 'failed' | 'cancelled';
export type JobId = string;
/** Whatever may be given for an id. */
export type JobIdLike = string | number | bigint;
/** Bytes go as they are, undefined is nothing, anything else goes as JSON. */
export type Data = unknown;

/** Files in PEM. */
export interface TLSOptions {
  /** Who signed the server's certificate; default: the system's authorities. */
  ca?: string;
  /** This client's own certificate and key, where the server asks for them. */
  cert?: string;
  key?: string;
  /** What the server's certificate is made out to, if that is not the address. */
  serverName?: string;
}

export interface ConnectionOptions {
  /** HOST:PORT or unix:PATH; default: PAWL_SERVER, else 127.0.0.1:7295. */
  address?: string;
  /** Default: PAWL_TOKEN. A function is asked before each call. */
  token?: string | (() => string | Promise<string>);
  /** Default: no TLS. true: with the system's authorities. */
  tls?: boolean | TLSOptions;
}

// ----------------------------------------------------------------------------------------------------------------
// producing

export interface ClientOptions extends ConnectionOptions {
  /** How long a call is tried while the server cannot be reached; default: 30000. */
  timeoutMs?: number;
}

export type { JobOptions };

export interface NewJob extends JobOptions {
  kind: string;
  payload?: Data;
}

export interface IdempotencyOptions {
  /**
   * Makes repeating the call safe, also for another process. Without one each call has its own, and only its own
   * tries are safe.
   */
  idempotencyKey?: string;
}

export interface Accepted {
  id: JobId;
  /** There was one with its unique key already, and this is its id. */
  existed: boolean;
}

export interface CancelAnswer {
  id: JobId;
  status: 'ok' | 'not_found' | 'wrong_state' | 'retry' | string;
  state: JobState;
}

export interface ListOptions {
  queue?: string;
  kind?: string;
  states?: JobState[];
  /** With all of these. */
  tags?: string[];
  /** Default: 100, at most 1000. */
  limit?: number;
  /** Where the last page ended: its nextPage. */
  page?: string;
}

export interface WaitOptions {
  timeoutMs?: number;
  signal?: AbortSignal;
}

export interface JobErrorView {
  attempt: number;
  errorClass: 'transient' | 'permanent' | 'business' | 'lost' | string;
  error: string;
  at?: Date;
}

/** A job as it was when the server was asked. */
export interface JobView {
  readonly id: JobId;
  readonly state: JobState;
  readonly queue: string;
  readonly kind: string;
  readonly priority: number;
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly createdAt?: Date;
  readonly dueAt?: Date;
  readonly startedAt?: Date;
  readonly finishedAt?: Date;
  readonly workerId: string;
  readonly payloadBytes: Buffer;
  readonly resultBytes: Buffer;
  /** Oldest first; list() has the newest only. */
  readonly errors: JobErrorView[];
  readonly lane: string;
  readonly tags: string[];
  readonly step: string;
  readonly parentId?: JobId;
  readonly queuePaused: boolean;
  readonly progress?: { percent: number; note: string };
  /** done, failed or cancelled: it will never change again. */
  readonly finished: boolean;
  /** Read as JSON; throws NotJSONError. */
  readonly payload: any;
  /** Read as JSON; throws NotJSONError. */
  readonly result: any;
}

export interface Stats {
  queues: { queue: string; paused: boolean; counts: Partial<Record<JobState, number>>; oldestDueMs: number }[];
  /** Those that are connected to the server that was asked. */
  workers: {
    workerId: string;
    workerName: string;
    credits: number;
    running: number;
    ended: number;
    draining: boolean;
    connectedAt?: Date;
  }[];
  uptimeMs: number;
}

/**
 * Every call is tried again while the server cannot be reached, for at most timeoutMs; none of them has a second
 * effect when it is repeated.
 */
export class Client {
  constructor(options?: ClientOptions);
  timeoutMs: number;
  close(): void;
  /** Accepts one job; resolves to its id when it is committed, or to that of the live job with its unique key. */
  enqueue(kind: string, payload?: Data, options?: JobOptions & IdempotencyOptions): Promise<JobId>;
  /** Accepts up to 1000 jobs, all or none. */
  enqueueMany(jobs: Iterable<NewJob>, options?: IdempotencyOptions): Promise<Accepted[]>;
  /** Sends a durable message to a machine; resolves to whether it was waiting for it and is due now. */
  signal(id: JobIdLike, name: string, payload?: Data, options?: IdempotencyOptions): Promise<boolean>;
  /** Resolves to the job's state: cancelled, or running when it was asked to stop. */
  cancel(id: JobIdLike, reason?: string): Promise<JobState>;
  cancelMany(ids: Iterable<JobIdLike>, reason?: string): Promise<CancelAnswer[]>;
  get(id: JobIdLike, options?: { withoutData?: boolean }): Promise<JobView>;
  /** One page of jobs, newest first, without payloads and results. */
  list(options?: ListOptions): Promise<{ jobs: JobView[]; nextPage: string }>;
  /** The same, page by page. */
  listAll(options?: ListOptions): AsyncGenerator<JobView, void, undefined>;
  /** Waits until the job has ended, however it did. */
  wait(id: JobIdLike, options?: WaitOptions): Promise<JobView>;
  /** Waits for the job and resolves to its result; JobFailedError when it failed or was cancelled. */
  result<T = any>(id: JobIdLike, options?: WaitOptions): Promise<T>;
  /** Stops claiming from a queue ('*': all). Resolves to whether it was paused already. */
  pause(queue: string, reason?: string): Promise<boolean>;
  /** Starts claiming again. Resolves to whether it was paused. */
  resume(queue: string): Promise<boolean>;
  stats(queues?: string[]): Promise<Stats>;
}

// ------------------------------------------------------------------------------------------------------------------
// working

export type StopReason = 'cancelled' | 'lost' | 'timeout' | 'shutdown';

/** A signal that a step has awaited. */
export interface ReceivedSignal {
  readonly id: string;
  readonly name: string;
  readonly payloadBytes: Buffer;
  readonly sentAt?: Date;
  /** Read as JSON; throws NotJSONError. */
  readonly payload: any;
}

/** How a child ended. */
export interface ChildResult {
  readonly id: JobId;
  readonly kind: string;
  readonly state: 'done' | 'failed' | 'cancelled';
  readonly resultBytes: Buffer;
  readonly error: string;
  /** Read as JSON; throws NotJSONError. */
  readonly result: any;
}

/** What a handler gets. */
export interface Job<P = any, S = any> {
  readonly id: JobId;
  /** The fence: another one in every attempt. */
  readonly token: Buffer;
  readonly kind: string;
  readonly queue: string;
  /** 1 for the first start of its step. */
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly timeoutMs: number;
  readonly priority: number;
  readonly lane: string;
  /** What a tracing system calls the work it belongs to, or empty. */
  readonly trace: string;
  /** Of a machine; empty: the first. */
  readonly step: string;
  /** The input, read as JSON; NotJSONError fails the job unless it is caught. */
  readonly payload: P;
  readonly payloadBytes: Buffer;
  /** What the machine's last step left for this one. */
  readonly state: S;
  readonly stateBytes: Buffer;
  /** Those that this step awaited. */
  readonly signals: ReceivedSignal[];
  /** It awaited a signal, and none came in time. */
  readonly timedOut: boolean;
  /** Children that have ended … */
  readonly children: ChildResult[];
  /** … and how many have not. */
  readonly childrenLeft: number;
  /**
   * Aborted when the run should end; its reason is a JobStopped. To be passed on: fetch(url, { signal: job.signal
   * }).
   */
  readonly signal: AbortSignal;
  readonly stopReason?: StopReason;
  /** The newest signal of that name which this step is shown. */
  received(name: string): ReceivedSignal | undefined;
  /** How far it is, for those who look. Sent soon, at most once a second; the last one counts. */
  progress(percent: number, note?: string): void;
}

/** Returns a result or an outcome. What it throws is a retry, unless it is one of the errors below. */
export type Handler<P = any, S = any> = (job: Job<P, S>) => unknown;

export interface WorkerOptions extends ConnectionOptions {
  /** Default: ["default"]. */
  queues?: string | string[];
  /** Handlers that run at a time; default: 10. */
  concurrency?: number;
  /** Jobs held ready beyond that; default: 0. */
  prefetch?: number;
  /** How long the server believes in this worker without a sign of life; default: the server's. */
  leaseMs?: number;
  /** How long a stop waits for handlers before it tells them to end; default: 25000. */
  drainMs?: number;
  /** It ends by itself when nothing is due for it; default: false. */
  untilEmpty?: boolean;
  /** For people; default: host and process. */
  name?: string;
  /** Where warnings and errors go; default: console. */
  logger?: { warn(message: string): void; error(message: string): void } | false;
}

export interface MachineOptions {
  /** Where a job without a step starts. */
  first: string;
  steps: Record<string, Handler>;
}

export class Worker extends EventEmitter {
  constructor(options?: WorkerOptions);
  readonly id: string;
  readonly name: string;
  /** How many jobs it holds. */
  readonly running: number;
  /** How many it may hold at once: concurrency and prefetch, or less where an operator wants it. */
  readonly credits: number;
  /** How many the server gives it in a second, where an operator has set a limit (`pawl worker limit --rate`). */
  readonly rate: number | undefined;
  /** Says what runs jobs of a kind; before the start. */
  handle<P = any>(kind: string, handler: Handler<P>): this;
  /** A kind whose jobs go on in steps. */
  machine(kind: string, options: MachineOptions): this;
  /** Begins to work. Resolves when the worker has ended, and rejects when the server would not have it at all. */
  start(): Promise<void>;
  /** Takes no more jobs, gives back what was not started, and lets handlers end. Resolves when that is done. */
  stop(): Promise<void>;
  /** start(), and SIGTERM and SIGINT stop it. */
  run(): Promise<void>;

  on(event: 'connected', listener: (to: { serverId: string }) => void): this;
  on(event: 'disconnected', listener: (error: Error) => void): this;
  on(event: 'limit', listener: (now: { credits: number; rate: number | undefined }) => void): this;
  on(event: 'drain', listener: (asked: { reason: string; reconnect: boolean }) => void): this;
  on(event: string | symbol, listener: (...args: any[]) => void): this;
}

// -----------------------------------------------------------------------------------------------------------------
// outcomes

/** Done, with a result of at most 1 MiB. The same as returning the result itself. */
export class Done {
  constructor(result?: Data);
  readonly result: Data;
}

/** The machine goes on with this step, at once or later. Without a state it stays as it is. */
export class Next {
  constructor(step: string, options?: { state?: Data; delayMs?: number });
  readonly step: string;
}

/** The machine goes on with `step` when one of the signals has come, or after timeoutMs: then job.timedOut is true. */
export class Await {
  constructor(signals: string | string[], step: string, options?: { state?: Data; timeoutMs?: number });
  readonly signals: string[];
  readonly step: string;
}

export interface NewChild {
  kind: string;
  payload?: Data;
  /** Default: its parent's. */
  queue?: string;
  priority?: number;
  maxAttempts?: number;
}

/**
 * The machine starts children and goes on with `step` when they have ended: all of them, or `quorum`, or with the
 * first that fails.
 */
export class Spawn {
  constructor(
    children: Iterable<NewChild>,
    step: string,
    options?: {
      state?: Data;
      failFast?: boolean;
      quorum?: number;
      /** those that are left are cancelled */ cancel?: boolean;
    },
  );
  readonly step: string;
}

export class PawlError extends Error {}
/** Trying again is of no use: the job fails, or is parked where its kind says so. */
export class PermanentError extends PawlError {}
/** A rule of the business says no: the job fails, is never parked, and is no sign of trouble. */
export class Reject extends PawlError {}
/** Not this time. Without a delay the retry policy of the kind decides when it is tried again. */
export class Retry extends PawlError {
  constructor(message?: string, options?: { delayMs?: number; cause?: unknown });
  readonly delayMs?: number;
}
/** Not yet: again after a delay, and this start was no attempt. */
export class Snooze extends PawlError {
  constructor(delayMs: number);
  readonly delayMs: number;
}
/** The job is not wanted any more: cancelled. */
export class Cancel extends PawlError {}
/** The reason of job.signal. */
export class JobStopped extends PawlError {
  readonly reason: StopReason;
  readonly detail: string;
}

// -------------------------------------------------------------------------------------------------------------------
// errors

/** A call was refused, or could not be made. */
export class ServerError extends PawlError {
  /** gRPC's name of the status: "NOT_FOUND" and the like. */
  readonly code: string;
  readonly details: string;
  readonly method: string;
  /** The same call may work later. */
  readonly retryable: boolean;
}
export class InvalidError extends ServerError {}
export class NotFoundError extends ServerError {}
export class StateError extends ServerError {}
/** The unique key is taken, and onConflict says refuse. */
export class ExistsError extends StateError {}
export class AuthError extends ServerError {}
export class UnavailableError extends ServerError {}
/** Bytes that were to be read as JSON and are none. */
export class NotJSONError extends PawlError {}
/** The job that was waited for has failed or was cancelled. */
export class JobFailedError extends PawlError {
  readonly job: JobView;
}
export class WaitTimeoutError extends PawlError {}

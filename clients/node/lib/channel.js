// The connection: addresses, TLS, tokens, and the calls of the contract.
'use strict';

const { readFileSync } = require('node:fs');
const path = require('node:path');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');
const { fromRpc } = require('./errors');

const DEFAULT_ADDRESS = '127.0.0.1:7295';
const LAST_TRY_MS = 500;
const MESSAGE_MAX = 64 * 1024 * 1024; // a payload has at most 16 MiB, and an assignment may carry several

// int64 as text, so that no id loses a digit.
const definition = loader.loadSync('pawl/v1/pawl.proto', {
  includeDirs: [path.join(__dirname, '..', 'proto')],
  longs: String,
  enums: String,
  defaults: true,
  oneofs: true,
});
const contract = grpc.loadPackageDefinition(definition).pawl.v1;

const OPTIONS = {
  'grpc.max_receive_message_length': MESSAGE_MAX,
  'grpc.max_send_message_length': MESSAGE_MAX,
  // A peer that is gone without a word is noticed, also while nothing is to be said.
  'grpc.keepalive_time_ms': 10_000,
  'grpc.keepalive_timeout_ms': 5_000,
  'grpc.keepalive_permit_without_calls': 1,
  // A lost connection is tried again soon, and then less and less often.
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 5_000,
  'grpc.enable_retries': 0,
  // A worker and a client in one process do not share a connection, so that closing one is harmless to the other.
  'grpc.use_local_subchannel_pool': 1,
};

const SERVICES = ['WorkerService', 'JobService', 'QueueService'];

function credentials(tls) {
  if (!tls) return grpc.credentials.createInsecure();
  const { ca, key, cert } = tls === true ? {} : tls;
  const read = (file) => (file === undefined ? null : readFileSync(file));
  return grpc.credentials.createSsl(read(ca), read(key), read(cert));
}

/** One connection to the server, with every call of the contract on it. */
class Channel {
  #clients = {};
  #token;

  constructor({ address, token, tls } = {}) {
    const where = address || process.env.PAWL_SERVER || DEFAULT_ADDRESS;
    const given = token ?? process.env.PAWL_TOKEN;
    this.#token = typeof given === 'function' ? given : () => given;
    const options = { ...OPTIONS };
    if (tls?.serverName) {
      options['grpc.ssl_target_name_override'] = tls.serverName;
      options['grpc.default_authority'] = tls.serverName;
    }
    let shared; // all services on one connection
    for (const name of SERVICES) {
      const client = new contract[name](
        where,
        credentials(tls),
        shared ? { ...options, channelOverride: shared } : options,
      );
      shared ??= client.getChannel();
      for (const method of Object.keys(contract[name].service)) this.#clients[method] = client;
    }
  }

  async #metadata(waitForReady = true) {
    const metadata = new grpc.Metadata({ waitForReady }); // else it fails at once while there is no connection
    const token = await this.#token();
    if (token) metadata.set('authorization', `Bearer ${token}`);
    return metadata;
  }

  /** One call, as a promise; rejects with a ServerError. */
  async call(method, request, timeoutMs, waitForReady) {
    const metadata = await this.#metadata(waitForReady);
    return new Promise((done, fail) => {
      this.#clients[method][method](
        request,
        metadata,
        { deadline: Date.now() + Math.max(1, timeoutMs) },
        (error, answer) => {
          if (error) fail(fromRpc(error, method));
          else done(answer);
        },
      );
    });
  }

  /**
   * A call that waited for a connection until its deadline cannot say why there was none. One that does not wait
   * can.
   */
  async lastTry(method, request, error) {
    try {
      return await this.call(method, request, LAST_TRY_MS, false);
    } catch (why) {
      throw why.code === 'UNAVAILABLE' ? why : error;
    }
  }

  /** The worker's stream. */
  async stream(request) {
    return this.#clients.StreamJobs.StreamJobs(request, await this.#metadata());
  }

  close() {
    this.#clients.StreamJobs.close();
  }
}

module.exports = { Channel };

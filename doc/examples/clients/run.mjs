// SPDX-License-Identifier: Apache-2.0
//
// A minimal client of the pool for Node.js, written from the page "Protocol": it
// sends standard input through an accelerator and writes the output to standard
// output. It connects to the slot's worker over the network, with TLS if the
// worker has it. It does not resume, and a lost slot ends it.
//
// FPGAPOOL_SOCKET=PATH node run.mjs ACCELERATOR [PARAMS-AS-JSON] <IN >OUT

import { createHash, randomUUID } from "node:crypto";
import { once } from "node:events";
import net from "node:net";
import tls from "node:tls";

const [HELLO, OPENED, INPUT, ACK, OUTPUT, CLOSE, CLOSED, ERROR, PING, PONG] = [
  1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
];
const END = 1;
const OPTIONAL = 128;
const HEADER_BYTES = 32;
const MAX_JSON_BYTES = 65536;

const refusal = ({ code, message }) => new Error(`${code}: ${message}`);

/** A connection of which a program reads as many bytes as it wants. */
class Connection {
  constructor(socket) {
    this.socket = socket;
    this.pieces = socket[Symbol.asyncIterator]();
    this.rest = Buffer.alloc(0);
  }

  async read(length) {
    const found = [this.rest];
    let have = this.rest.length;
    while (have < length) {
      const { value, done } = await this.pieces.next();
      if (done) throw new Error("the pool closed the connection");
      found.push(value);
      have += value.length;
    }
    const all = Buffer.concat(found);
    this.rest = all.subarray(length);
    return all.subarray(0, length);
  }

  async write(...buffers) {
    for (const buffer of buffers)
      if (!this.socket.write(buffer)) await once(this.socket, "drain");
  }
}

/** The front door: messages of a length and JSON. */
class Door extends Connection {
  static async open(path) {
    const socket = net.connect(path);
    await once(socket, "connect");
    return new Door(socket);
  }

  async request(id, op, members) {
    const body = Buffer.from(JSON.stringify({ id, op, ...members }));
    const length = Buffer.alloc(4);
    length.writeUInt32BE(body.length);
    await this.write(length, body);
  }

  async message() {
    const length = (await this.read(4)).readUInt32BE();
    if (length < 1 || length > MAX_JSON_BYTES)
      throw new Error(`a message of ${length} bytes`);
    const found = JSON.parse(await this.read(length));
    if (found.ok === false) throw refusal(found.error);
    return found;
  }

  /** Await a slot; return what the pool says of the session. */
  async ready() {
    for (;;) {
      const { session } = await this.message();
      if (session?.state === "READY") return session;
      // Of the states without a slot, all others are final.
      if (session && !["QUEUED", "PREPARING"].includes(session.state))
        throw refusal({ code: session.reason, message: session.message });
    }
  }
}

/** The data port: frames of a header and a payload. */
class Worker extends Connection {
  static async connect(session) {
    const place = session.endpoints.find(({ network }) => network !== "local");
    if (!place) throw new Error("the slot has no address in a network");
    const { address: host, port } = place;
    const wanted = session.certificate_sha256;
    const socket = wanted
      ? tls.connect({ host, port, rejectUnauthorized: false, minVersion: "TLSv1.3" })
      : net.connect({ host, port });
    await once(socket, wanted ? "secureConnect" : "connect");
    socket.setNoDelay(true);
    if (wanted) {
      const { raw } = socket.getPeerCertificate();
      if (createHash("sha256").update(raw).digest("hex") !== wanted)
        throw new Error("the worker has another certificate");
    }
    return new Worker(socket);
  }

  async send(type, { flags = 0, task = 0, offset = 0, payload = Buffer.alloc(0) } = {}) {
    const header = Buffer.alloc(HEADER_BYTES);
    header.write("FP\x01", "latin1");
    header.writeUInt8(type, 3);
    header.writeUInt16BE(flags, 4);
    header.writeUInt32BE(task, 12);
    header.writeBigUInt64BE(BigInt(offset), 16);
    header.writeUInt32BE(payload.length, 24);
    await this.write(header, payload);
  }

  async frame() {
    const header = await this.read(HEADER_BYTES);
    if (header.toString("latin1", 0, 3) !== "FP\x01")
      throw new Error("that is no frame");
    const payload = await this.read(header.readUInt32BE(24));
    const type = header.readUInt8(3);
    if (type === ERROR) throw refusal(JSON.parse(payload));
    return {
      type,
      flags: header.readUInt16BE(4),
      task: header.readUInt32BE(12),
      // Exact up to 2 ** 53.
      offset: Number(header.readBigUInt64BE(16)),
      payload,
    };
  }
}

/** Send the input piece by piece, each when the one before is computed. */
async function* run(worker, opened, data) {
  const multiple = opened.chunk_multiple_bytes;
  const most = opened.chunk_bytes - (opened.chunk_bytes % multiple);
  let [task, sent, received, acknowledged, ended] = [0, 0, 0, 0, false];
  while (!ended) {
    const payload = data.subarray(sent, sent + most);
    const flags = sent + payload.length === data.length ? END : 0;
    await worker.send(INPUT, { flags, task: ++task, offset: sent, payload });
    sent += payload.length;
    for (let computed = false; !computed; ) {
      const frame = await worker.frame();
      if (frame.type === OUTPUT) {
        yield frame.payload;
        received = frame.offset + frame.payload.length;
        ended = Boolean(frame.flags & END);
      } else if (frame.type === ACK) {
        computed = frame.offset === sent && (!flags || ended);
      } else if (frame.type === PING) {
        await worker.send(PONG, { task: frame.task, offset: frame.offset });
      } else if (frame.type < OPTIONAL) {
        throw new Error(`a frame of type ${frame.type}`);
      }
      if (received - acknowledged >= opened.window_bytes / 4) {
        acknowledged = received;
        await worker.send(ACK, { offset: received });
      }
    }
  }
  await worker.send(ACK, { offset: received });
  await worker.send(CLOSE);
  while ((await worker.frame()).type !== CLOSED);
}

async function main([accelerator, params = "{}", ...more]) {
  if (!accelerator || more.length)
    throw new Error("usage: run.mjs ACCELERATOR [PARAMS-AS-JSON] <IN >OUT");
  const pieces = [];
  for await (const piece of process.stdin) pieces.push(piece);
  const data = Buffer.concat(pieces);
  const path = process.env.FPGAPOOL_SOCKET ?? "/run/fpgapool/front-door.sock";
  const door = await Door.open(path);
  await door.request(1, "hello", { version: 1 });
  await door.request(2, "open", {
    request_id: randomUUID(),
    accelerator,
    size_bytes: Math.max(data.length, 1),
  });
  const session = await door.ready();
  const worker = await Worker.connect(session);
  await worker.send(HELLO, {
    payload: Buffer.from(
      JSON.stringify({
        features: [],
        session_id: session.session_id,
        generation: session.generation,
        secret: session.secret,
        transport: "stream",
        params: JSON.parse(params),
      }),
    ),
  });
  const opened = await worker.frame();
  if (opened.type !== OPENED) throw new Error("the worker did not open");
  for await (const output of run(worker, JSON.parse(opened.payload), data))
    if (!process.stdout.write(output)) await once(process.stdout, "drain");
  worker.socket.destroy();
  door.socket.destroy();
}

main(process.argv.slice(2)).catch((error) => {
  process.stderr.write(`run.mjs: ${error.message}\n`);
  process.exitCode = 1;
  // What is still open would keep the process.
  process.stderr.write("", () => process.exit());
});

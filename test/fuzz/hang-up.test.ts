/** The HTTP sender of `webhooks-workerd`: which closed connection is an early refusal, and which is a fault. */
import { createServer, type Server, type Socket } from "node:net";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { judgeHangUp } from "../../fuzz/delivery.ts";
import { exchange, type Exchanged } from "../../fuzz/exchange.ts";

let server: Server | null = null;
const sockets: Socket[] = [];

afterEach(async () => {
  const open = server;
  server = null;
  for (const socket of sockets.splice(0)) socket.destroy();
  await new Promise((resolve) => (open === null ? resolve(null) : open.close(resolve)));
});

/** What is seen of a server that does this as soon as it has the first bytes of a request, while eight MiB are being sent. */
async function seen(answer: (socket: Socket) => void): Promise<Exchanged> {
  server = createServer((socket) => {
    sockets.push(socket);
    socket.on("error", () => undefined);
    socket.once("data", () => {
      socket.pause();
      answer(socket);
    });
  });
  const started = server;
  await new Promise<void>((resolve) => started.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(started.address() as AddressInfo).port}`;
  return exchange(url, "POST", "/", {}, [new Uint8Array(8 * 1024 * 1024)]);
}

const REFUSAL = "Too large.";
const head = (length: number) => `HTTP/1.1 413 Payload Too Large\r\ncontent-length: ${length}\r\n\r\n`;

describe("a request that is cut off while it is being sent", () => {
  it("has its answer, when that came whole before the end", async () => {
    const answer = await seen((socket) => {
      socket.end(head(REFUSAL.length) + REFUSAL);
    });
    expect(answer).toMatchObject({ kind: "answered", status: 413, text: REFUSAL });
  });

  it("has none, when the server only closes", async () => {
    const answer = await seen((socket) => socket.resetAndDestroy());
    expect(answer).toMatchObject({ kind: "hung-up", status: null });
  });

  it("has none, when the answer breaks off in its middle", async () => {
    const answer = await seen((socket) => {
      socket.end(head(REFUSAL.length * 2) + REFUSAL);
    });
    expect(answer).toMatchObject({ kind: "hung-up", status: 413 });
  });

  it("is a fault of another kind, when the answer is no HTTP or nobody listens", async () => {
    await expect(seen((socket) => socket.end("what?\r\n\r\n"))).rejects.toMatchObject({ code: /^HPE_/ });
    await expect(exchange("http://127.0.0.1:1", "GET", "/", {}, [])).rejects.toMatchObject({ code: "ECONNREFUSED" });
  });
});

describe("what a closed connection may mean", () => {
  const early = { refusedUnread: true, signed: false };
  const closed = { code: "EPIPE", status: null };

  it("is an early refusal, of what need not be read", () => {
    expect(judgeHangUp(early, closed, false)).toBeNull();
    expect(judgeHangUp(early, { code: "ECONNRESET", status: 413 }, false)).toBeNull();
  });

  it.each([
    ["a delivery that has to be read", { ...early, refusedUnread: false }, closed, false],
    ["an answer that takes it", early, { ...closed, status: 202 }, false],
    ["an answer of a fault", early, { ...closed, status: 500 }, false],
    ["something stored of what nobody signed", early, closed, true],
  ] as const)("is nothing else: %s", (_what, sent, answer, changed) => {
    expect(judgeHangUp(sent, answer, changed)).not.toBeNull();
  });
});

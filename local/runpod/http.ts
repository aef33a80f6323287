/** Plain HTTP pieces of the local RunPod: answers as data, problem documents, bounded bodies, listening and closing. */
import { createServer } from "node:http";
import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http";

/** Larger bodies are not read to their end. */
const MAX_BODY_BYTES = 1_048_576;

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Keeps the response open and writes to it; the function is told when the client has left. */
  readonly stream?: (write: (text: string) => void, end: () => void) => () => void;
}

export function json(status: number, body: unknown): Answer {
  return { status, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
}

const titles: Readonly<Record<number, string>> = {
  400: "Bad Request",
  401: "Unauthorized",
  402: "Payment Required",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  409: "Conflict",
  410: "Gone",
  413: "Payload Too Large",
  422: "Unprocessable Entity",
  429: "Too Many Requests",
  500: "Internal Server Error",
  502: "Bad Gateway",
  503: "Service Unavailable",
};

/** RunPod v2's error document (`ErrorResponse`, RFC 9457 media type). */
export function problem(status: number, detail: string, errors?: readonly string[]): Answer {
  const body = { title: titles[status] ?? "Error", status, detail, ...(errors ? { errors } : {}) };
  return { status, headers: { "Content-Type": "application/problem+json" }, body: JSON.stringify(body) };
}

export function text(status: number, body: string): Answer {
  return { status, headers: { "Content-Type": "text/plain; charset=utf-8" }, body };
}

/** The whole body, cut at 1 MiB. */
export async function readBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request) {
    const bytes = chunk as Buffer;
    size += bytes.length;
    if (size > MAX_BODY_BYTES) break;
    chunks.push(bytes);
  }
  return Buffer.concat(chunks);
}

/** The value, or undefined for text that is not JSON. */
export function parseJson(source: string): unknown {
  try {
    return JSON.parse(source);
  } catch {
    return undefined;
  }
}

export function send(response: ServerResponse, answer: Answer): void {
  if (response.destroyed) return;
  response.writeHead(answer.status, answer.headers);
  if (!answer.stream) {
    response.end(answer.body === "" ? undefined : answer.body);
    return;
  }
  response.flushHeaders();
  const stop = answer.stream(
    (chunk) => response.write(chunk),
    () => response.end(),
  );
  response.on("close", stop);
}

export interface Listening {
  readonly url: string;
  readonly server: Server;
  readonly close: () => Promise<void>;
}

/** Listens on 127.0.0.1; port 0 means any free one. */
export async function listen(handler: RequestListener, port: number): Promise<Listening> {
  const server = createServer(handler);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", resolve);
  });
  const address = server.address();
  const bound = typeof address === "object" && address !== null ? address.port : port;
  return {
    url: `http://127.0.0.1:${bound}`,
    server,
    close: async () => {
      const closed = new Promise<void>((resolve) => {
        server.close(() => resolve());
      });
      server.closeAllConnections();
      await closed;
    },
  };
}

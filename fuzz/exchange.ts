/** One request by hand over HTTP: chunked when there are several pieces, with its length when there is one. */
import { request } from "node:http";

export type Exchanged =
  | { readonly kind: "answered"; readonly status: number; readonly text: string; readonly headers: string }
  /** The server closed the connection before the answer was read whole. `status`: of an answer that had begun. */
  | { readonly kind: "hung-up"; readonly code: "EPIPE" | "ECONNRESET"; readonly status: number | null };

/**
 * Sends `pieces` and reads the answer. An answer that was read whole counts although the server, which had no use for the rest
 * of the body, closed the connection under the sender. Rejects on every other error of the connection.
 */
export function exchange(
  base: string,
  method: string,
  path: string,
  headers: Readonly<Record<string, string>>,
  pieces: readonly Uint8Array[],
): Promise<Exchanged> {
  return new Promise((resolve, reject) => {
    const length = pieces.length === 1 ? { "content-length": String(pieces[0]?.byteLength ?? 0) } : {};
    let status: number | null = null;
    const failed = (error: NodeJS.ErrnoException): void => {
      const { code } = error;
      if (code === "EPIPE" || code === "ECONNRESET") resolve({ kind: "hung-up", code, status });
      else reject(error);
    };
    const sending = request(
      `${base.replace(/\/$/, "")}${path}`,
      { method, headers: { ...headers, ...length } },
      (answer) => {
        status = answer.statusCode ?? 0;
        const chunks: Buffer[] = [];
        answer.on("data", (chunk: Buffer) => chunks.push(chunk));
        answer.on("end", () =>
          resolve({
            kind: "answered",
            status: answer.statusCode ?? 0,
            text: Buffer.concat(chunks).toString(),
            headers: JSON.stringify(answer.rawHeaders),
          }),
        );
        answer.on("error", failed);
      },
    );
    // While an answer is being read, its own end or error says what became of it.
    sending.on("error", (error) => {
      if (status === null) failed(error);
    });
    for (const piece of pieces) sending.write(piece);
    sending.end();
  });
}

/**
 * Request bodies: read as bytes up to a limit, and turned into text without changing a bit of them.
 */
import { err, ok, type Result } from "../shared/result.ts";

export type BodyProblem = "too-large" | "interrupted";

/** Reads at most `limit` bytes. A larger body is refused by its declared length, or as soon as it shows. */
export async function readBytes(
  request: Request,
  limit: number,
): Promise<Result<Uint8Array<ArrayBuffer>, BodyProblem>> {
  if (declaredTooLarge(request, limit)) return err("too-large");
  if (request.body === null) return ok(new Uint8Array());
  const chunks: Uint8Array[] = [];
  let seen = 0;
  const reader: ReadableStreamDefaultReader<Uint8Array> = request.body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      seen += value.byteLength;
      if (seen > limit) {
        await reader.cancel();
        return err("too-large");
      }
      chunks.push(value);
    }
  } catch {
    return err("interrupted");
  }
  const bytes = new Uint8Array(seen);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.byteLength;
  }
  return ok(bytes);
}

/** Whether the sender announces more than `limit` bytes. A missing length says nothing. */
export function declaredTooLarge(request: Request, limit: number): boolean {
  const declared = request.headers.get("content-length");
  return declared !== null && Number(declared) > limit;
}

/**
 * The text whose UTF-8 form is exactly these bytes, a byte order mark included; null when there is none. Encoding the text
 * again gives the same bytes, so what is verified over the text is verified over the bytes.
 */
export function exactText(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

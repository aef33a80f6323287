/**
 * GitHub's signature over a webhook: `sha256=` and the lower-case hex HMAC-SHA256 of the raw body bytes.
 *
 * The form of the header is checked first, because the library throws for a header it cannot read, and would read hex it
 * should not. Both secrets of a rotation count. Neither a secret nor a digest ever leaves this file.
 */
import { verify } from "@octokit/webhooks-methods";
import { exactText } from "./body.ts";

const FORM = /^sha256=[0-9a-f]{64}$/;

/** Whether the header has the only form GitHub sends. Says nothing about the body. */
export function isSignatureForm(header: string | undefined): header is string {
  return header !== undefined && FORM.test(header);
}

export type Verified =
  /** Signed by one of the secrets; the text encodes to exactly the bytes received. */
  | { readonly kind: "text"; readonly text: string }
  /** Signed, but not UTF-8: nothing GitHub sends. */
  | { readonly kind: "not-text" }
  | { readonly kind: "refused" };

/** `header` must have passed `isSignatureForm`, `bytes` must not be empty. */
export async function verifyBody(
  bytes: Uint8Array<ArrayBuffer>,
  header: string,
  secrets: readonly string[],
): Promise<Verified> {
  const text = exactText(bytes);
  for (const secret of secrets) {
    // The library takes text only; bytes that are no text are compared as they are.
    const good = text === null ? await verifyBytes(bytes, header, secret) : await verify(secret, text, header);
    if (good) return text === null ? { kind: "not-text" } : { kind: "text", text };
  }
  return { kind: "refused" };
}

async function verifyBytes(bytes: Uint8Array<ArrayBuffer>, header: string, secret: string): Promise<boolean> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", new TextEncoder().encode(secret), algorithm, false, ["verify"]);
  const digest = Uint8Array.from(header.match(/[0-9a-f]{2}/g)?.slice(-32) ?? [], (pair) => Number.parseInt(pair, 16));
  return crypto.subtle.verify("HMAC", key, digest, bytes);
}

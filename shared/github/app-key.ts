/**
 * The App's private key, in whatever spelling a person pasted it.
 *
 * GitHub hands out PKCS#1 (`BEGIN RSA PRIVATE KEY`); WebCrypto reads PKCS#8 only. The first is the second without its
 * wrapper, so it is wrapped here (RFC 5208 around RFC 8017, A.1.2) and nobody has to run openssl. Keys that came
 * through an environment variable often have `\n` as two characters: accepted. Anything else is a typed problem that
 * says what was found and what to do; no problem ever quotes the key.
 */

import { err, ok, type Result } from "../result.ts";

export type AppKeyProblem = {
  readonly reason: "missing" | "encrypted" | "wrong-kind" | "not-pem" | "damaged" | "unusable";
  /** One sentence: what was found and what to do. */
  readonly message: string;
};

const REMEDY = "set GITHUB_APP_PRIVATE_KEY to the whole .pem file that GitHub gave you for the App";

/** Gives the key as PKCS#8 PEM with 64 columns and a final newline, as `openssl pkcs8 -topk8 -nocrypt` writes it. */
export function normalizeAppKey(text: string): Result<string, AppKeyProblem> {
  const pem = text.replaceAll("\\r", "").replaceAll("\\n", "\n").replaceAll("\r", "").trim();
  if (pem === "") return problem("missing", "the key is empty");
  const block = /^-----BEGIN ([A-Z0-9 ]+)-----\n([\s\S]*?)-----END ([A-Z0-9 ]+)-----$/.exec(pem);
  if (block === null) {
    return pem.includes("-----BEGIN")
      ? problem("damaged", "the key has a first line but no complete block after it")
      : problem("not-pem", "the key is not in PEM form");
  }
  const [, label = "", body = "", endLabel = ""] = block;
  if (label !== endLabel) return problem("damaged", "the key's first and last line do not belong together");
  if (label === "ENCRYPTED PRIVATE KEY" || body.includes("ENCRYPTED")) {
    return problem("encrypted", "the key is protected by a passphrase");
  }
  if (label !== "RSA PRIVATE KEY" && label !== "PRIVATE KEY") {
    return problem("wrong-kind", `the block is a ${label.toLowerCase()}, not an RSA private key`);
  }
  const der = fromBase64(body);
  if (der === null || !isWholeSequence(der)) return problem("damaged", "the key's body is cut or mistyped");
  if (label === "RSA PRIVATE KEY") return ok(toPem(wrapPkcs1(der)));
  if (!startsWith(der, afterHeader(der), PKCS8_RSA_PREFIX)) return problem("wrong-kind", "the key is not an RSA key");
  return ok(toPem(der));
}

/** Proves that the key can sign: makes one RS256 signature with WebCrypto. Gives the key's size in bits. */
export async function checkAppKey(text: string): Promise<Result<{ readonly bits: number }, AppKeyProblem>> {
  const pem = normalizeAppKey(text);
  if (!pem.ok) return pem;
  const der = fromBase64(pem.value.split("\n").slice(1, -2).join(""));
  if (der === null) return problem("damaged", "the key's body is cut or mistyped");
  try {
    const algorithm = { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" };
    const key = await crypto.subtle.importKey("pkcs8", der, algorithm, false, ["sign"]);
    const signature = await crypto.subtle.sign(algorithm.name, key, new TextEncoder().encode("gpu-gate health check"));
    return ok({ bits: signature.byteLength * 8 });
  } catch {
    return problem("unusable", "the key has the right form but cannot sign");
  }
}

function problem(reason: AppKeyProblem["reason"], what: string): Result<never, AppKeyProblem> {
  return err({ reason, message: `The App's private key cannot be used: ${what}; ${REMEDY}.` });
}

/** `INTEGER 0, SEQUENCE { OID 1.2.840.113549.1.1.1 rsaEncryption, NULL }`: what PKCS#8 puts before an RSA key. */
const PKCS8_RSA_PREFIX = Uint8Array.of(
  0x02,
  0x01,
  0x00,
  0x30,
  0x0d,
  0x06,
  0x09,
  0x2a,
  0x86,
  0x48,
  0x86,
  0xf7,
  0x0d,
  0x01,
  0x01,
  0x01,
  0x05,
  0x00,
);

function wrapPkcs1(pkcs1: Uint8Array): Uint8Array {
  return element(0x30, join(PKCS8_RSA_PREFIX, element(0x04, pkcs1)));
}

/** One DER element: tag, length in the shortest form, content. */
function element(tag: number, content: Uint8Array): Uint8Array {
  const length: number[] = [];
  for (let rest = content.length; rest > 0; rest = Math.floor(rest / 256)) length.unshift(rest % 256);
  const header = content.length < 0x80 ? [tag, content.length] : [tag, 0x80 + length.length, ...length];
  return join(Uint8Array.from(header), content);
}

function join(first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> {
  const joined = new Uint8Array(first.length + second.length);
  joined.set(first, 0);
  joined.set(second, first.length);
  return joined;
}

/** Where the content of the outermost element begins. */
function afterHeader(der: Uint8Array): number {
  const length = der[1] ?? 0;
  return length < 0x80 ? 2 : 2 + (length - 0x80);
}

/** Whether the bytes are one SEQUENCE of exactly their own length that begins with INTEGER 0, as both forms do. */
function isWholeSequence(der: Uint8Array): boolean {
  const start = afterHeader(der);
  let declared = der[1] ?? 0;
  if (declared >= 0x80) {
    declared = 0;
    for (let at = 2; at < start; at += 1) declared = declared * 256 + (der[at] ?? 0);
  }
  return der[0] === 0x30 && start + declared === der.length && startsWith(der, start, Uint8Array.of(0x02, 0x01, 0x00));
}

function startsWith(bytes: Uint8Array, at: number, prefix: Uint8Array): boolean {
  return prefix.every((byte, index) => bytes[at + index] === byte);
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> | null {
  try {
    const binary = atob(text.replaceAll(/\s/g, ""));
    return Uint8Array.from(binary, (char) => char.charCodeAt(0));
  } catch {
    return null;
  }
}

function toPem(der: Uint8Array): string {
  const base64 = btoa(Array.from(der, (byte) => String.fromCharCode(byte)).join(""));
  const lines = base64.match(/.{1,64}/g) ?? [];
  return `-----BEGIN PRIVATE KEY-----\n${lines.join("\n")}\n-----END PRIVATE KEY-----\n`;
}

/**
 * The issuer's keys, and the proof that a token was signed by one of them.
 *
 * Keys are fetched through the port and kept: GitHub rotates them without notice, so a key id that is not known is worth
 * one new look, and, because anybody can invent key ids, no more than one in `COOL_DOWN_MS`. While the issuer does not
 * answer, known keys stay good for `STALE_MS`; an unknown key is then not a forgery but "cannot say now".
 *
 * Only RS256 is accepted, whatever the token's header says: `none`, and HMAC with a public key for a secret, are the two
 * oldest forgeries there are.
 */
import { compactVerify, decodeProtectedHeader, errors, importJWK, type CryptoKey } from "jose";
import * as z from "zod";
import { readBodyText, safeText, timeoutSignal, untilAborted } from "../http.ts";
import type { Clock, FetchLike, Millis } from "../ports.ts";
import { err, ok, type Result } from "../result.ts";
import type { Refusal } from "./refusal.ts";

/** How long a fetched key set is used without looking again. */
export const FRESH_MS: Millis = 3_600_000;
/** How long a known key may be used while the issuer cannot be asked. */
export const STALE_MS: Millis = 6 * 3_600_000;
/** Pause between two looks for a key id that is not known. */
export const COOL_DOWN_MS: Millis = 30_000;

const FETCH_TIMEOUT_MS: Millis = 5_000;
const BODY_LIMIT_BYTES = 256 * 1024;
/** A token of GitHub's is about 2 KB; longer ones are not looked into. */
const TOKEN_LIMIT_CHARS = 16_384;
const ALGORITHM = "RS256";

export type SignatureProblem =
  | { readonly kind: "refused"; readonly refusal: Refusal }
  /** The issuer's keys cannot be read now: nobody's fault here, and no verdict on the token. */
  | { readonly kind: "unavailable"; readonly why: string };

export interface TokenKeys {
  /** The payload of a token signed by the issuer. Never throws. */
  verify(token: string): Promise<Result<unknown, SignatureProblem>>;
}

const keySetSchema = z.object({ keys: z.array(z.looseObject({ kty: z.string() })).max(100) });
/** The public part of an RSA key; a private or symmetric key in the set would be a sign of a wrong address. */
const rsaKeySchema = z.object({
  kty: z.literal("RSA"),
  kid: z.string().min(1),
  n: z.string(),
  e: z.string(),
  use: z.literal("sig").optional(),
  alg: z.literal(ALGORITHM).optional(),
});

interface Held {
  readonly keys: ReadonlyMap<string, CryptoKey>;
  readonly at: Millis;
}

/** `issuer` as in the token's `iss`; its keys are at `<issuer>/.well-known/jwks`. */
export function createTokenKeys(issuer: string, deps: { readonly fetch: FetchLike; readonly clock: Clock }): TokenKeys {
  const address = `${issuer.replace(/\/+$/, "")}/.well-known/jwks`;
  let held: Held | null = null;
  /** When the set was last asked for, answered or not. */
  let lookedAt: Millis | null = null;
  let lookFailed = false;
  let running: { readonly look: Promise<Result<Held, string>>; readonly since: Millis } | null = null;

  /** Calls that come while a look is under way wait for that one, unless it has taken longer than it may. */
  async function look(): Promise<Result<Held, string>> {
    const now = deps.clock.now();
    if (running === null || now - running.since >= FETCH_TIMEOUT_MS) running = { look: fetchKeys(), since: now };
    const mine = running;
    try {
      return await untilAborted(mine.look, timeoutSignal(FETCH_TIMEOUT_MS));
    } catch {
      return err("the issuer did not answer in time");
    } finally {
      if (running === mine) running = null;
    }
  }

  async function fetchKeys(): Promise<Result<Held, string>> {
    lookedAt = deps.clock.now();
    lookFailed = true;
    const signal = timeoutSignal(FETCH_TIMEOUT_MS);
    let text: string;
    try {
      // A redirect is not followed: keys that another address answers with are another issuer's.
      const init: RequestInit = { headers: { accept: "application/json" }, redirect: "manual", signal };
      const response = await untilAborted(deps.fetch(address, init), signal);
      const body = await untilAborted(readBodyText(response, BODY_LIMIT_BYTES), signal);
      if (response.status !== 200) return err(`the issuer answered ${response.status}`);
      if (!body.ok) return err(`the issuer's answer was ${body.error.reason}`);
      text = body.value;
    } catch {
      return err("the issuer did not answer");
    }
    const keys = await importKeys(text);
    if (keys === null) return err("the issuer's keys could not be read");
    held = { keys, at: deps.clock.now() };
    lookFailed = false;
    return ok(held);
  }

  async function keyOf(kid: string): Promise<Result<CryptoKey, SignatureProblem>> {
    const now = deps.clock.now();
    const known = held?.keys.get(kid);
    if (known !== undefined && held !== null && now - held.at < FRESH_MS) return ok(known);
    const coolingDown = lookedAt !== null && now - lookedAt < COOL_DOWN_MS;
    if (!coolingDown || running !== null) {
      const fetched = await look();
      const key = fetched.ok ? fetched.value.keys.get(kid) : undefined;
      if (key !== undefined) return ok(key);
      if (fetched.ok) return err(refusedFor({ reason: "unknown-key", kid: safeText(kid, 100) }));
      if (known === undefined) return err({ kind: "unavailable", why: fetched.error });
    }
    if (known !== undefined && held !== null && now - held.at < STALE_MS) return ok(known);
    // Nobody can say now whether this key is the issuer's: not a forgery until the set has been read without it.
    if (lookFailed) return err({ kind: "unavailable", why: "the issuer's keys could not be read a moment ago" });
    return err(refusedFor({ reason: "unknown-key", kid: safeText(kid, 100) }));
  }

  return {
    async verify(token) {
      const header = readHeader(token);
      if (!header.ok) return err(refusedFor(header.error));
      const key = await keyOf(header.value);
      if (!key.ok) return key;
      try {
        const { payload } = await compactVerify(token, key.value, { algorithms: [ALGORITHM] });
        return ok(JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(payload)) as unknown);
      } catch (error) {
        return err(refusedFor(refusalFor(error)));
      }
    },
  };
}

/** The key id of a token in compact form, if its header asks for the one permitted algorithm. */
function readHeader(token: string): Result<string, Refusal> {
  if (token.length > TOKEN_LIMIT_CHARS) return err({ reason: "malformed", what: "too long" });
  if (!/^[\w-]+\.[\w-]+\.[\w-]*$/.test(token)) return err({ reason: "malformed", what: "not a token" });
  let header: { readonly alg?: unknown; readonly kid?: unknown };
  try {
    header = decodeProtectedHeader(token);
  } catch {
    return err({ reason: "malformed", what: "header" });
  }
  const { alg, kid } = header;
  // Whatever JSON can hold may stand there; only a word is repeated.
  if (alg !== ALGORITHM)
    return err({ reason: "algorithm", got: safeText(typeof alg === "string" ? alg : `no word, ${typeof alg}`, 40) });
  if (typeof kid !== "string" || kid === "") return err({ reason: "malformed", what: "kid" });
  return ok(kid);
}

function refusalFor(error: unknown): Refusal {
  if (error instanceof errors.JWSSignatureVerificationFailed) return { reason: "signature" };
  return { reason: "malformed", what: error instanceof errors.JOSEError ? safeText(error.code, 60) : "payload" };
}

function refusedFor(refusal: Refusal): SignatureProblem {
  return { kind: "refused", refusal };
}

/** Null: not a key set. A key of another kind is passed over; two keys of one id make the id mean nothing. */
async function importKeys(text: string): Promise<ReadonlyMap<string, CryptoKey> | null> {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return null;
  }
  const set = keySetSchema.safeParse(json);
  if (!set.success) return null;
  const keys = new Map<string, CryptoKey>();
  const twice = new Set<string>();
  for (const entry of set.data.keys) {
    const parsed = rsaKeySchema.safeParse(entry);
    if (!parsed.success) continue;
    const { kid, n, e } = parsed.data;
    if (keys.has(kid)) twice.add(kid);
    try {
      const key = await importJWK({ kty: "RSA", n, e, alg: ALGORITHM }, ALGORITHM);
      if (!(key instanceof Uint8Array)) keys.set(kid, key);
    } catch {
      // A key that cannot be used signs nothing.
    }
  }
  for (const kid of twice) keys.delete(kid);
  return keys;
}

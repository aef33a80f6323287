/**
 * The virtual issuer of GitHub's identity tokens: its key set, which it changes without notice, and the tokens it signs. Keys
 * and signatures are real, made once for the whole process; which key it is at what time is the world's.
 */
import { generateKeyPairSync, sign, type KeyObject } from "node:crypto";
import type { Millis } from "../shared/ports.ts";
import { json, notFound } from "./github-wire.ts";
import type { NetAnswer, NetRequest, Server } from "./net.ts";

export const ISSUER = "https://issuer.test";

/** Claims as they are signed; what the product does not read is left out. */
export type TokenClaims = Readonly<Record<string, string | number>>;

/** A key of the issuer's, and between which instants its set had it. */
export interface PublishedKey {
  readonly kid: string;
  readonly from: Millis;
  until: Millis | null;
}

export class VirtualIssuer implements Server {
  readonly name = "issuer" as const;
  /** Oldest first; the last one signs. */
  readonly keys: PublishedKey[];
  readonly #now: () => Millis;

  constructor(now: () => Millis) {
    this.#now = now;
    this.keys = [{ kid: "key-1", from: now(), until: null }];
  }

  operation(_method: string, path: string): string {
    return path === "/.well-known/jwks" ? "keys" : path;
  }

  perform({ path }: NetRequest): NetAnswer {
    if (path !== "/.well-known/jwks") return notFound();
    const published = this.keys.filter((key) => key.until === null || key.until > this.#now());
    return json(200, {
      keys: published.map(({ kid }) => ({
        ...keyOf(kid).publicKey.export({ format: "jwk" }),
        kid,
        use: "sig",
        alg: "RS256",
      })),
    });
  }

  fault(): NetAnswer {
    return { status: 503, body: "<html>Unavailable</html>", headers: { "content-type": "text/html" } };
  }

  /** From now on another key signs; the one before stays in the set for so long. */
  rotate(overlapMs: Millis): void {
    const last = this.keys.at(-1);
    if (last !== undefined) last.until = this.#now() + overlapMs;
    this.keys.push({ kid: `key-${this.keys.length + 1}`, from: this.#now(), until: null });
  }

  /** The id of the key that signs now. */
  get kid(): string {
    return this.keys.at(-1)?.kid ?? "";
  }
}

/** A token in compact form. `signer` names the key; `header` says what it says, which need not be true. */
export function signed(claims: TokenClaims, signer: string, header: Readonly<Record<string, unknown>>): string {
  const text = `${part(header)}.${part(claims)}`;
  return `${text}.${sign("sha256", Buffer.from(text), keyOf(signer).privateKey).toString("base64url")}`;
}

export function part(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}

const pairs = new Map<string, { readonly publicKey: KeyObject; readonly privateKey: KeyObject }>();

/** One for each name and process, because making one takes longer than a request's whole life. */
function keyOf(name: string): { readonly publicKey: KeyObject; readonly privateKey: KeyObject } {
  // No more than a few are ever needed: a set that was changed thrice has the first key's numbers under a new name.
  const slot = name.replace(/\d+$/, (number) => String(Number(number) % 3));
  let pair = pairs.get(slot);
  if (pair === undefined) {
    pair = generateKeyPairSync("rsa", { modulusLength: 2048 });
    pairs.set(slot, pair);
  }
  return pair;
}

/**
 * What the product takes from the platform and a simulation must own: time-outs and cryptography.
 *
 * `AbortSignal.timeout` would wait on this machine's clock, and Web Crypto answers from a thread pool, in an order nobody
 * chose. While a simulation runs, time-outs belong to the virtual clock of whoever asked (found by async context), digests
 * are made on the spot, and a signature of ours is 256 zero bytes: the virtual GitHub takes any. A signature that we check is
 * checked in earnest, by the same algorithm on this thread. Everything else stays the product's own code.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import {
  constants,
  createHash,
  createPublicKey,
  generateKeyPairSync,
  verify,
  webcrypto,
  type JsonWebKey,
  type KeyObject,
} from "node:crypto";
import type { Millis } from "../shared/ports.ts";
import type { Timer } from "./scheduler.ts";

/** One running instance of something: a gate between two crashes, the account, the cron tick. */
export interface Owner {
  /** False: it crashed. Nothing it waits for will ever come. */
  alive: boolean;
  inFlight: number;
  timer(delay: Millis, run: () => void): Timer;
  /** What it meets at an await that is no call; nothing where none is given. */
  readonly pauses?: Pauses;
}

/** An await that is no call: null lets it go on at once, a promise is waited for, and for an instance that has ended it never settles. */
export type Pauses = (owner: Owner, what: string) => Promise<void> | null;

const owners = new AsyncLocalStorage<Owner>();

export function runAs<T>(owner: Owner, body: () => T): T {
  return owners.run(owner, body);
}

/** The await of whoever runs now. */
export function pauseHere(what: string): Promise<void> | null {
  const owner = owners.getStore();
  return owner?.pauses?.(owner, what) ?? null;
}

const timers = new WeakMap<AbortSignal, Timer>();

/** The call that a signal guards was answered: its time-out has nothing left to end. */
export function disarm(signal: AbortSignal | null | undefined): void {
  const timer = signal === null || signal === undefined ? undefined : timers.get(signal);
  if (timer !== undefined) timer.cancelled = true;
}

function virtualTimeout(delay: number): AbortSignal {
  const controller = new AbortController();
  const owner = owners.getStore();
  if (owner === undefined) throw new Error("a time-out outside of the simulation");
  const timer = owner.timer(delay, () =>
    controller.abort(new DOMException("The operation timed out.", "TimeoutError")),
  );
  timers.set(controller.signal, timer);
  return controller.signal;
}

function isVirtual(timer: unknown): timer is Timer {
  return typeof timer === "object" && timer !== null && "cancelled" in timer;
}

function bytesOf(data: ArrayBuffer | ArrayBufferView): Uint8Array {
  return data instanceof ArrayBuffer
    ? new Uint8Array(data)
    : new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

/** The key that signatures are checked with, as Web Crypto shows one; the App's own key is never looked into. */
class VerifyingKey {
  readonly [Symbol.toStringTag] = "CryptoKey";
  readonly type = "public";
  readonly usages = ["verify"];
  readonly extractable = true;
  readonly algorithm: object;
  readonly key: KeyObject;

  constructor(jwk: JsonWebKey) {
    this.key = createPublicKey({ key: jwk, format: "jwk" });
    const modulusLength = this.key.asymmetricKeyDetails?.modulusLength;
    this.algorithm = { name: "RSASSA-PKCS1-v1_5", hash: { name: "SHA-256" }, modulusLength };
  }
}

function importKey(format: string, data: unknown, algorithm: unknown): Promise<object> {
  if (format !== "jwk") return Promise.resolve({});
  const { name, hash } = algorithm as { name?: string; hash?: string };
  if (name !== "RSASSA-PKCS1-v1_5" || hash !== "SHA-256") throw new Error(`no key of ${name} ${hash} is simulated`);
  return Promise.resolve(new VerifyingKey(data as JsonWebKey));
}

function verifies(key: unknown, signature: Uint8Array, data: Uint8Array): boolean {
  if (!(key instanceof VerifyingKey)) throw new Error("only a key of an issuer checks signatures here");
  return verify("sha256", data, { key: key.key, padding: constants.RSA_PKCS1_PADDING }, signature);
}

const hashNames: Readonly<Record<string, string>> = { "SHA-256": "sha256", "SHA-1": "sha1" };

/** Puts the simulation's platform in place; gives the function that takes it away again. */
export function installPlatform(): () => void {
  const { subtle } = webcrypto;
  const own: Readonly<Record<string, (...given: never[]) => Promise<unknown>>> = {
    digest: async (algorithm: unknown, data: ArrayBuffer | ArrayBufferView): Promise<ArrayBuffer> => {
      const name = typeof algorithm === "string" ? algorithm : (algorithm as { name: string }).name;
      const digest = createHash(hashNames[name.toUpperCase()] ?? "sha256")
        .update(bytesOf(data))
        .digest();
      return digest.buffer.slice(digest.byteOffset, digest.byteOffset + digest.byteLength);
    },
    importKey: async (format: string, data: unknown, algorithm: unknown): Promise<object> =>
      importKey(format, data, algorithm),
    sign: async (): Promise<ArrayBuffer> => new ArrayBuffer(256),
    verify: async (_algorithm: unknown, key: unknown, signature: ArrayBufferView, data: ArrayBufferView) =>
      verifies(key, bytesOf(signature), bytesOf(data)),
  };
  for (const [name, does] of Object.entries(own)) {
    const value = async (...given: never[]): Promise<unknown> => {
      const pause = pauseHere(name);
      if (pause !== null) await pause;
      return does(...given);
    };
    Object.defineProperty(subtle, name, { value, configurable: true, writable: true });
  }
  const real = Object.getOwnPropertyDescriptor(AbortSignal, "timeout");
  AbortSignal.timeout = virtualTimeout;
  const { setTimeout: realSet, clearTimeout: realClear } = globalThis;
  const set = (run: () => void, delay?: number): unknown =>
    owners.getStore()?.timer(delay ?? 0, run) ?? realSet(run, delay);
  const clear = (timer: unknown): void => {
    if (isVirtual(timer)) timer.cancelled = true;
    else realClear(timer as Parameters<typeof realClear>[0]);
  };
  Object.assign(globalThis, { setTimeout: set, clearTimeout: clear });
  return () => {
    Object.assign(globalThis, { setTimeout: realSet, clearTimeout: realClear });
    if (real !== undefined) Object.defineProperty(AbortSignal, "timeout", real);
    for (const name of Object.keys(own)) Reflect.deleteProperty(subtle, name);
  };
}

let key: string | null = null;

/** The App's key: one for the whole process, because making one takes longer than a hundred request lives. */
export function appKey(): string {
  if (key === null) {
    const pair = generateKeyPairSync("rsa", { modulusLength: 2048 });
    key = pair.privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  }
  return key;
}

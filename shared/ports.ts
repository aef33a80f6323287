/**
 * The ports through which everything impure reaches the code: time, randomness, ids and HTTP.
 *
 * The same code runs in workerd, under a virtual clock and under the simulator because none of it reads the clock,
 * draws a random number or calls the network except through these.
 */

/** Milliseconds since the Unix epoch, UTC. Every instant in this project has this unit unless its name says otherwise. */
export type Millis = number;

export interface Clock {
  now(): Millis;
}

export interface Random {
  /** A number in [0, 1). */
  next(): number;
  /** `length` bytes fit for secrets (labels, nonces). */
  bytes(length: number): Uint8Array;
}

/** The part of `fetch` the clients use. Injected so that tests and the simulator own the network. */
export type FetchLike = (input: string, init?: RequestInit) => Promise<Response>;

export const systemClock: Clock = { now: () => Date.now() };

export const systemRandom: Random = {
  next: () => {
    const word = new Uint32Array(1);
    crypto.getRandomValues(word);
    return (word[0] ?? 0) / 2 ** 32;
  },
  bytes: (length) => crypto.getRandomValues(new Uint8Array(length)),
};

/** Lower-case hex of random bytes: 16 bytes are unguessable, 8 are unique. */
export function randomHex(random: Random, length: number): string {
  return Array.from(random.bytes(length), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

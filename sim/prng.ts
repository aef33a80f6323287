/**
 * The simulator's only source of chance. One seed gives one history: every stream is made from the seed and a name, so that
 * switching one kind of fault off does not shift what all the others draw.
 */
import type { Random } from "../shared/ports.ts";

/** sfc32: small, fast, good enough to explore with; nothing secret depends on it here. */
export class Prng implements Random {
  #a: number;
  #b: number;
  #c: number;
  #d = 1;

  constructor(seed: number, stream: string) {
    const words = [0x9e3779b9 ^ seed, 0x243f6a88 ^ Math.floor(seed / 2 ** 32), 0xb7e15162];
    for (let index = 0; index < stream.length; index += 1) {
      const at = index % 3;
      words[at] = Math.imul((words[at] ?? 0) ^ stream.charCodeAt(index), 0x01000193);
    }
    [this.#a, this.#b, this.#c] = [words[0] ?? 0, words[1] ?? 0, words[2] ?? 0];
    for (let round = 0; round < 15; round += 1) this.#word();
  }

  next(): number {
    return this.#word() / 2 ** 32;
  }

  bytes(length: number): Uint8Array {
    const bytes = new Uint8Array(length);
    for (let index = 0; index < length; index += 1) bytes[index] = this.#word() & 0xff;
    return bytes;
  }

  /** A whole number from `low` to `high`, both included. */
  int(low: number, high: number): number {
    return low + Math.floor(this.next() * (high - low + 1));
  }

  /** A duration from `low` to `high`, both above 0: each doubling is as likely as the next, so most are short, as in life. */
  lasting(low: number, high: number): number {
    return Math.round(low * (high / low) ** this.next());
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<T>(list: readonly T[]): T {
    const one = list[this.int(0, list.length - 1)];
    if (one === undefined) throw new Error("nothing to pick from");
    return one;
  }

  /** One of the names, by weight. */
  weighted<K extends string>(weights: Readonly<Record<K, number>>): K {
    const entries = Object.entries(weights) as [K, number][];
    let left = this.next() * entries.reduce((sum, [, weight]) => sum + weight, 0);
    for (const [name, weight] of entries) {
      left -= weight;
      if (left < 0) return name;
    }
    const last = entries.at(-1);
    if (last === undefined) throw new Error("nothing to weigh");
    return last[0];
  }

  hex(length: number): string {
    let text = "";
    while (text.length < length) text += this.#word().toString(16).padStart(8, "0");
    return text.slice(0, length);
  }

  #word(): number {
    const sum = (((this.#a + this.#b) | 0) + this.#d) | 0;
    this.#d = (this.#d + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = (this.#c << 21) | (this.#c >>> 11);
    this.#c = (this.#c + sum) | 0;
    return sum >>> 0;
  }
}

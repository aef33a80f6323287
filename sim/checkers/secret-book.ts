/**
 * Every secret that was ever made in a world, and whether a text holds one. A text that was found clean need only be held
 * against what was made since; one that is new, in a world of many secrets, is searched by the secrets' first characters.
 */

/** What the search by first characters looks up; a shorter secret is looked for by itself. */
const START = 12;
/** Up to so many secrets are looked for one by one. */
const FEW = 100;
/** Texts that are remembered as clean; all are dropped when there are more. */
const REMEMBERED = 5_000;

export class SecretBook {
  readonly #all: string[] = [];
  readonly #known = new Set<string>();
  readonly #short: string[] = [];
  readonly #byStart = new Map<string, string[]>();
  /** How many secrets there were when this text was found to hold none. */
  readonly #clean = new Map<string, number>();

  add(secret: string): void {
    if (secret === "" || this.#known.has(secret)) return;
    this.#known.add(secret);
    this.#all.push(secret);
    if (secret.length < START) return void this.#short.push(secret);
    const start = secret.slice(0, START);
    const alike = this.#byStart.get(start);
    if (alike === undefined) this.#byStart.set(start, [secret]);
    else alike.push(secret);
  }

  /** Whether any secret stands in the text, those aside that may. */
  isIn(text: string, but: ReadonlySet<string> = NONE): boolean {
    if (text === "") return false;
    const from = this.#clean.get(text) ?? 0;
    const count = this.#all.length;
    if (from === count) return false;
    const held = count - from <= FEW ? this.#oneByOne(text, from, but) : this.#byStarts(text, but);
    // What held a secret that may stand there is not clean for the next who asks.
    if (!held && but.size === 0) {
      if (this.#clean.size >= REMEMBERED) this.#clean.clear();
      this.#clean.set(text, count);
    }
    return held;
  }

  #oneByOne(text: string, from: number, but: ReadonlySet<string>): boolean {
    for (let index = from; index < this.#all.length; index += 1) {
      const secret = this.#all[index] ?? "";
      if (text.includes(secret) && !but.has(secret)) return true;
    }
    return false;
  }

  #byStarts(text: string, but: ReadonlySet<string>): boolean {
    if (this.#short.some((secret) => text.includes(secret) && !but.has(secret))) return true;
    for (let at = 0; at + START <= text.length; at += 1) {
      const alike = this.#byStart.get(text.slice(at, at + START));
      if (alike?.some((secret) => text.startsWith(secret, at) && !but.has(secret)) === true) return true;
    }
    return false;
  }
}

const NONE: ReadonlySet<string> = new Set();

/**
 * Answers as the clients read them: a status, headers, and a body that is read piece by piece. The clients, and all they do
 * with it, are the product's own; only the platform's `Response` is not made, which would cost more than the call it answers.
 */

import { pauseHere } from "./platform.ts";

/** Headers of either direction, by name without regard to case. */
export class SimHeaders {
  readonly #values: ReadonlyMap<string, string>;

  constructor(init: HeadersInit | undefined) {
    const entries: Iterable<Iterable<string>> =
      init === undefined ? [] : Symbol.iterator in init ? init : Object.entries<string>(init);
    const values = new Map<string, string>();
    for (const [name = "", value = ""] of entries) values.set(name.toLowerCase(), value);
    this.#values = values;
  }

  get(name: string): string | null {
    return this.#values.get(name.toLowerCase()) ?? null;
  }

  [Symbol.iterator](): Iterator<[string, string]> {
    return this.#values.entries();
  }
}

/** A body of one piece; null when the status has none. */
class SimBody {
  #left: string | null;

  constructor(text: string) {
    this.#left = text;
  }

  getReader(): this {
    return this;
  }

  async read(): Promise<{ readonly done: boolean; readonly value: Uint8Array | undefined }> {
    const text = this.#left;
    this.#left = null;
    if (text === null || text === "") return { done: true, value: undefined };
    const pause = pauseHere("a body");
    if (pause !== null) await pause;
    return { done: false, value: encoder.encode(text) };
  }

  cancel(): Promise<void> {
    this.#left = null;
    return Promise.resolve();
  }
}

const encoder = new TextEncoder();

/** What `fetch` resolves with. */
export function simResponse(status: number, body: string | null, headers: Readonly<Record<string, string>>): Response {
  const made = {
    status,
    ok: status >= 200 && status < 300,
    headers: new SimHeaders(headers),
    body: body === null ? null : new SimBody(body),
  };
  return made as unknown as Response;
}

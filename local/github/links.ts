/** Download links as GitHub gives them: another address, no credentials, good for one minute. */

import { randomBytes } from "node:crypto";
import type { Clock, Millis } from "../../shared/ports.ts";

export type LinkTarget =
  | { readonly kind: "log"; readonly jobId: number }
  | { readonly kind: "artifact"; readonly artifactId: number };

const lifetimeMs = 60_000;

export class Links {
  readonly #clock: Clock;
  readonly #base: () => string;
  readonly #links = new Map<string, { readonly target: LinkTarget; readonly expiresAt: Millis }>();

  constructor(clock: Clock, base: () => string) {
    this.#clock = clock;
    this.#base = base;
  }

  make(target: LinkTarget): string {
    const key = randomBytes(18).toString("base64url");
    this.#links.set(key, { target, expiresAt: this.#clock.now() + lifetimeMs });
    return `${this.#base()}/_download/${key}`;
  }

  /** What a link leads to; undefined when it never was, or is over. */
  follow(key: string): LinkTarget | undefined {
    const link = this.#links.get(key);
    return link !== undefined && link.expiresAt > this.#clock.now() ? link.target : undefined;
  }
}

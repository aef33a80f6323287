/**
 * What happened, as lines. The hash of all lines tells whether two runs of one seed were the same; the lines themselves are
 * only kept when somebody wants to read them.
 */
import { createHash, type Hash } from "node:crypto";
import type { Scheduler } from "./scheduler.ts";

export class Trace {
  readonly #hash: Hash = createHash("sha256");
  readonly #kept: string[] | null;
  readonly #scheduler: Scheduler;
  readonly #start: number;
  lines = 0;
  /** Lines that are not hashed yet: many at once cost a fraction of one by one. */
  #unhashed = "";

  constructor(scheduler: Scheduler, keep: boolean) {
    this.#scheduler = scheduler;
    this.#start = scheduler.now;
    this.#kept = keep ? [] : null;
  }

  note(text: string): void {
    this.lines += 1;
    const at = this.#scheduler.now - this.#start;
    this.#unhashed += `${at} ${text}\n`;
    if (this.#unhashed.length > 65_536) this.#flush();
    this.#kept?.push(`${(at / 1000).toFixed(3).padStart(10)}  ${text}`);
  }

  call(phase: "ask" | "answer", service: string, operation: string, fate: string, value?: unknown): void {
    const mark = fate === "done" ? "" : ` [${fate}]`;
    if (phase === "ask") {
      this.note(`${service} <- ${operation}${mark}`);
      return;
    }
    const status = typeof value === "object" && value !== null && "status" in value ? ` ${String(value.status)}` : "";
    this.note(`${service} -> ${operation}${status}${mark}`);
  }

  #flush(): void {
    this.#hash.update(this.#unhashed);
    this.#unhashed = "";
  }

  digest(): string {
    this.#flush();
    return this.#hash.copy().digest("hex");
  }

  text(): readonly string[] {
    return this.#kept ?? [];
  }
}

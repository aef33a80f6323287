/**
 * One target in a thread of its own. The thread writes each case into shared memory before it begins, so that a case that
 * never ends, or that eats the thread's memory, can still be named when the thread is gone.
 */
import { join } from "node:path";
import process from "node:process";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import type { Finding, Tally } from "./run.ts";

export interface Task {
  /** Module that exports `targets`, a list; a file address. */
  readonly module: string;
  readonly target: string;
  readonly seed: number;
  readonly cases: number;
  /** Stop after so long; null: when the cases are done. */
  readonly forMs: number | null;
  /** A single case instead, as JSON. */
  readonly only?: string;
}

export interface Report {
  readonly target: string;
  readonly tally: Tally;
  /** Cases of the corpus among them. */
  readonly kept: number;
  readonly finding: Finding | null;
  /** Heap after a collection, at the first and at the last chunk's end; bytes. */
  readonly heapFirst: number;
  readonly heapLast: number;
}

/** What the thread says. */
export type Word =
  | { readonly kind: "progress"; readonly tally: Tally }
  | { readonly kind: "done"; readonly report: Report };

export const CASE_BYTES = 256 * 1024;
const HEADER_BYTES = 16;

/** Shared between both threads: when the present case began (0: none), its length, and its JSON. */
export class CaseBoard {
  readonly buffer: SharedArrayBuffer;
  readonly #head: Float64Array;
  readonly #text: Uint8Array;

  constructor(buffer = new SharedArrayBuffer(HEADER_BYTES + CASE_BYTES)) {
    this.buffer = buffer;
    this.#head = new Float64Array(buffer, 0, 2);
    this.#text = new Uint8Array(buffer, HEADER_BYTES);
  }

  begin(given: unknown): void {
    const { written } = new TextEncoder().encodeInto(JSON.stringify(given) ?? "null", this.#text);
    this.#head[1] = written;
    this.#head[0] = Date.now();
  }

  end(): void {
    this.#head[0] = 0;
  }

  /** How long the present case has been running, milliseconds; 0 between cases. */
  runningMs(): number {
    const since = this.#head[0] ?? 0;
    return since === 0 ? 0 : Date.now() - since;
  }

  present(): unknown {
    // A copy: a decoder takes no shared memory.
    const text = new TextDecoder().decode(Uint8Array.from(this.#text.subarray(0, this.#head[1] ?? 0)));
    try {
      return JSON.parse(text) as unknown;
    } catch {
      return text;
    }
  }
}

const LOOK_EVERY_MS = 200;
const MEMORY_MB = 1_024;

/** Runs a task to its end, its finding, or its hang. Rejects only when the thread itself cannot be started. */
export async function watched(
  task: Task,
  options: { readonly hangMs: number; readonly onProgress?: (tally: Tally) => void },
): Promise<Report> {
  const board = new CaseBoard();
  const worker = new Worker(join(import.meta.dirname, "thread.ts"), {
    workerData: { task, buffer: board.buffer },
    resourceLimits: { maxOldGenerationSizeMb: MEMORY_MB },
    execArgv: process.execArgv.filter((one) => !one.startsWith("--expose")),
  });
  const began = performance.now();
  const last: { tally: Tally } = { tally: { cases: 0, ms: 0, slowestMs: 0, slowest: null, slow: 0 } };
  const lost = (what: string): Report => {
    const finding = { target: task.target, what, given: board.present(), seed: null };
    const tally = { ...last.tally, slowestMs: Math.max(last.tally.slowestMs, board.runningMs()) };
    return { target: task.target, tally, kept: 0, finding, heapFirst: 0, heapLast: 0 };
  };
  const ended = new Promise<Report>((resolve) => {
    worker.on("message", (word: Word) => {
      if (word.kind === "done") return resolve(word.report);
      last.tally = word.tally;
      options.onProgress?.(word.tally);
    });
    worker.on("error", (error) => resolve(lost(`the thread ended: ${error.message.slice(0, 300)}`)));
    worker.on("exit", (code) =>
      resolve(lost(`the thread ended with ${code} after ${Math.round(performance.now() - began)} ms`)),
    );
  });
  const done = { yes: false };
  const hung = (async (): Promise<Report> => {
    while (!done.yes) {
      await sleep(LOOK_EVERY_MS);
      const ms = board.runningMs();
      if (ms > options.hangMs) return lost(`it has not ended after ${Math.round(ms)} ms`);
    }
    return lost("nobody looks any more");
  })();
  try {
    return await Promise.race([ended, hung]);
  } finally {
    done.yes = true;
    await worker.terminate();
  }
}

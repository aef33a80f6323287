/** A pod's log: the last lines of container and system, and who is listening (`GET /v2/pods/{id}/logs`). */

export type LogSource = "container" | "system";

export interface LogLine {
  readonly ts: string;
  readonly source: LogSource;
  readonly line: string;
}

const MAX_LINES = 5_000;
const MAX_LINE_LENGTH = 4_000;

export class LogBook {
  readonly #now: () => number;
  readonly #lines: LogLine[] = [];
  readonly #listeners = new Set<(line: LogLine | null) => void>();
  #ended = false;

  constructor(now: () => number) {
    this.#now = now;
  }

  add(source: LogSource, text: string): void {
    const line = { ts: new Date(this.#now()).toISOString(), source, line: text.slice(0, MAX_LINE_LENGTH) };
    this.#lines.push(line);
    if (this.#lines.length > MAX_LINES) this.#lines.shift();
    for (const listener of this.#listeners) listener(line);
  }

  /** The last `count` lines, oldest first. */
  tail(count: number, source?: LogSource): readonly LogLine[] {
    const wanted = source ? this.#lines.filter((line) => line.source === source) : this.#lines;
    return count === 0 ? [] : wanted.slice(-count);
  }

  /** Calls back for every new line, with null when the pod is gone. Gives the function that stops listening. */
  listen(listener: (line: LogLine | null) => void): () => void {
    if (this.#ended) {
      listener(null);
      return () => undefined;
    }
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  end(): void {
    this.#ended = true;
    for (const listener of this.#listeners) listener(null);
    this.#listeners.clear();
  }
}

/** One server-sent event as RunPod writes it. */
export function sseEvent(line: LogLine): string {
  return `id: ${line.ts}\ndata: ${JSON.stringify(line)}\n\n`;
}

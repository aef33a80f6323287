/** Every timer of the local GitHub, so that `close()` can end them all and the process can exit. */

export class Timers {
  readonly #pending = new Set<NodeJS.Timeout>();
  readonly #onProblem: (problem: string) => void;
  #closed = false;

  constructor(onProblem: (problem: string) => void) {
    this.#onProblem = onProblem;
  }

  /** Runs `action` after `delayMs`. A failure is reported, never thrown into the event loop. */
  after(delayMs: number, action: () => void): () => void {
    if (this.#closed) return () => {};
    const timer = setTimeout(() => {
      this.#pending.delete(timer);
      try {
        action();
      } catch (problem) {
        this.#onProblem(problem instanceof Error ? (problem.stack ?? problem.message) : String(problem));
      }
    }, delayMs);
    this.#pending.add(timer);
    return () => {
      clearTimeout(timer);
      this.#pending.delete(timer);
    };
  }

  wait(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.after(delayMs, resolve);
    });
  }

  close(): void {
    this.#closed = true;
    for (const timer of this.#pending) clearTimeout(timer);
    this.#pending.clear();
  }
}

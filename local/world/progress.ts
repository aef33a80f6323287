/** What becomes of requests, by the status API, for whoever watches or waits. */
import * as z from "zod";
import type { World } from "./world.ts";

/** Key of a pull request's head, as the day or a person calls it: its number and commit. */
export type Heads = Map<string, { readonly pull: number; readonly sha: string }>;

const gateSchema = z.object({
  recent: z.array(
    z.object({
      id: z.string(),
      prNumber: z.number().nullable(),
      headSha: z.string(),
      generation: z.number(),
      state: z.string(),
      step: z.string().nullable(),
      headline: z.string(),
      verdict: z.string().nullable(),
      reason: z.string().nullable(),
      detail: z.string().nullable(),
      published: z.boolean(),
      gpu: z.string().nullable(),
      pricePerHour: z.number().nullable(),
      paidMs: z.number(),
      costMicros: z.number(),
      pods: z.number(),
      concludedAt: z.number().nullable(),
    }),
  ),
  queue: z.array(z.object({ id: z.string() })),
  lock: z.object({ holder: z.string().nullable() }),
  ledger: z.array(
    z.object({
      pod_id: z.string(),
      attempt_id: z.string(),
      paid_from: z.number(),
      closed_at: z.number().nullable(),
      proven_at: z.number().nullable(),
      estimate_micros: z.number().nullable(),
      price_per_hour: z.number().nullable(),
      outcome: z.string().nullable(),
    }),
  ),
});

const viewSchema = z.object({ repositories: z.array(z.object({ view: gateSchema.nullable() })) });

export type View = z.infer<typeof gateSchema>;
export type RequestRow = View["recent"][number];

const POLL_MS = 200;

/** Follows the status API, tells every change of a request's headline, and waits for what the day needs. */
export class Progress {
  readonly #world: World;
  readonly #heads: Heads;
  readonly #say: (text: string) => void;
  readonly #last = new Map<string, string>();

  constructor(world: World, heads: Heads, say: (text: string) => void) {
    this.#world = world;
    this.#heads = heads;
    this.#say = say;
  }

  async view({ tell } = { tell: true }): Promise<View> {
    for (;;) {
      const answer = await fetch(`${this.#world.worker.url}/api/status`).catch(() => null);
      if (answer?.ok) {
        const parsed = viewSchema.parse(await answer.json());
        const view = parsed.repositories[0]?.view ?? null;
        if (view !== null) {
          if (tell) this.#tell(view);
          return view;
        }
      }
      await pause(POLL_MS);
    }
  }

  /** Takes everything there is as told already: only what changes from here on is said. */
  async catchUp(): Promise<void> {
    for (const row of (await this.view({ tell: false })).recent) this.#last.set(row.id, row.headline);
  }

  row(view: View, key: string): RequestRow | undefined {
    const head = this.#heads.get(key);
    return view.recent.filter((row) => row.headSha === head?.sha).toSorted((a, b) => b.generation - a.generation)[0];
  }

  async until(key: string, ready: (row: RequestRow) => boolean, limitMs: number): Promise<void> {
    await this.#wait(`${key} to move on`, limitMs, (view) => {
      const row = this.row(view, key);
      return row !== undefined && (ready(row) || (row.state === "concluded" && row.published));
    });
  }

  async settled(ready: (view: View) => boolean, limitMs: number): Promise<void> {
    await this.#wait("everything to settle", limitMs, ready);
  }

  async #wait(what: string, limitMs: number, ready: (view: View) => boolean): Promise<void> {
    const until = Date.now() + limitMs;
    for (;;) {
      const view = await this.view();
      if (ready(view)) return;
      if (Date.now() > until) throw new Error(`the day is over and still waits for ${what}`);
      await pause(POLL_MS);
    }
  }

  #tell(view: View): void {
    for (const row of view.recent.toReversed()) {
      const text = row.headline;
      if (this.#last.get(row.id) === text) continue;
      this.#last.set(row.id, text);
      this.#say(`#${row.prNumber ?? "?"} ${row.headSha.slice(0, 7)}  ${text}`);
    }
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

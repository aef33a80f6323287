/**
 * The fleet board as everybody else sees it: a typed value to read and to write. Hides itty-durable completely.
 *
 * The library carries arguments as JSON in a request header, so the text is kept small (documented cap of a request's
 * headers: 128 KB) and plain ASCII, and instants are numbers.
 */
import { proxyDurable } from "itty-durable/proxy-durable.js";
import * as z from "zod";
import { err, ok, type Result } from "../shared/result.ts";

const count = z.int().nonnegative();

/** What one cron tick saw. All instants are milliseconds UTC. */
export const boardSchema = z.object({
  at: z.number(),
  tookMs: z.number(),
  gates: z.array(z.object({ id: z.string(), open: count, overdue: count, answered: z.boolean() })),
  /** Gates that were visited and did not fit on the board. */
  moreGates: count,
  /** Null: RunPod's list could not be read at that tick. */
  pods: z
    .object({
      listed: count,
      own: count,
      otherDeployments: count,
      /** Looks like ours and does not prove it: left alone, to be looked at by a person. */
      unclear: count,
      foreign: count,
      suspected: count,
      handedOver: count,
      deleted: count,
    })
    .nullable(),
  duties: z.array(z.object({ name: z.string(), ok: z.boolean(), ms: z.number(), what: z.string() })),
  problems: z.array(z.string()),
});

export type Board = z.infer<typeof boardSchema>;

export interface BoardClient {
  /** The last tick; null when cron has never written one. Never throws. */
  read(): Promise<Result<Board | null, BoardProblem>>;
  /** Replaces the board. Only cron calls this. Never throws. */
  write(board: Board): Promise<Result<null, BoardProblem>>;
}

export interface BoardProblem {
  readonly reason: "no-answer" | "unreadable" | "too-large";
  readonly message: string;
}

/** Name of the one board of a deployment. */
const BOARD_NAME = "fleet";
/** Characters of text: escaped once more in the header it stays below half of what a request's headers may hold. */
export const BOARD_LIMIT = 30_000;
const GATES_SHOWN = 100;
const PROBLEMS_SHOWN = 20;
const SENTENCE_LIMIT = 200;

const stored = z.object({ text: z.string().nullable() });
const written = z.object({ written: z.literal(true) });

/** Calls the library's proxy makes: method names become requests. Everything it gives back is unknown. */
interface BoardProxy {
  read(): Promise<unknown>;
  write(text: string): Promise<unknown>;
}

export function boardClient(namespace: Env["FLEET_BOARD"]): BoardClient {
  const open: { get(name: string): BoardProxy } = proxyDurable(namespace, { name: "FLEET_BOARD", parse: true });
  return {
    async read() {
      const answer = await asked(() => open.get(BOARD_NAME).read());
      if (!answer.ok) return answer;
      const kept = stored.safeParse(answer.value);
      if (!kept.success) return problem("unreadable", "the fleet board answered something else than a board");
      if (kept.data.text === null) return ok(null);
      const board = boardSchema.safeParse(jsonOf(kept.data.text));
      // An older deployment's board: cron writes a new one within a minute.
      return board.success ? ok(board.data) : problem("unreadable", "the fleet board holds an older form");
    },
    async write(board) {
      const text = asciiJson(bounded(board));
      if (text.length > BOARD_LIMIT) return problem("too-large", "the board does not fit into a request's header");
      const answer = await asked(() => open.get(BOARD_NAME).write(text));
      if (!answer.ok) return answer;
      return written.safeParse(answer.value).success
        ? ok(null)
        : problem("no-answer", "the fleet board did not store it");
    },
  };
}

/** Keeps what fits: gates with work first, in a stable order. */
function bounded(board: Board): Board {
  const byNeed = board.gates.toSorted((a, b) => need(b) - need(a) || (a.id < b.id ? -1 : 1));
  const gates = byNeed.slice(0, GATES_SHOWN);
  return {
    ...board,
    gates,
    moreGates: board.moreGates + (board.gates.length - gates.length),
    duties: board.duties.map((duty) => ({ ...duty, what: duty.what.slice(0, SENTENCE_LIMIT) })),
    problems: board.problems.slice(0, PROBLEMS_SHOWN).map((text) => text.slice(0, SENTENCE_LIMIT)),
  };
}

function need(gate: Board["gates"][number]): number {
  return (gate.answered ? 0 : 1_000_000) + gate.overdue * 1_000 + gate.open;
}

/** JSON whose every character is printable ASCII: fit for a header, and still the same JSON. */
function asciiJson(value: unknown): string {
  return JSON.stringify(value).replaceAll(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
}

async function asked(call: () => Promise<unknown>): Promise<Result<unknown, BoardProblem>> {
  try {
    return ok(await call());
  } catch (error) {
    const why = error instanceof Error ? error.message : "unknown error";
    return problem("no-answer", `the fleet board did not answer: ${why}`);
  }
}

function problem(reason: BoardProblem["reason"], message: string): Result<never, BoardProblem> {
  return err({ reason, message });
}

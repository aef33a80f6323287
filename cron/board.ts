/**
 * Writes what this tick saw to the fleet board. The last duty: it is the board's only writer, and nothing waits for it.
 */
import type { Board } from "../durable-objects/board-client.ts";
import { safeText } from "../shared/http.ts";
import type { Millis } from "../shared/ports.ts";
import type { CronPorts, DutyReport } from "./ports.ts";
import type { ReapStatus } from "./reap.ts";
import type { WakeStatus } from "./wake-gates.ts";

/** What the duties before brought back; null where a duty failed. */
export interface Tick {
  readonly startedAt: Millis;
  readonly wake: WakeStatus | null;
  readonly reap: ReapStatus | null;
  readonly duties: readonly DutyReport[];
  /** What other duties found that somebody should see. */
  readonly problems?: readonly string[];
}

/** Gives the board it wrote. Throws when the board did not store it: the tick's report says so. */
export async function writeBoard(ports: CronPorts, tick: Tick): Promise<Board> {
  const board = boardOf(tick, ports.clock.now());
  const written = await ports.board.write(board);
  if (!written.ok) throw new Error(written.error.message);
  return board;
}

export function boardOf(tick: Tick, now: Millis): Board {
  const { wake, reap } = tick;
  return {
    at: tick.startedAt,
    tookMs: now - tick.startedAt,
    gates: (wake?.visits ?? []).map(({ id, open, overdue, answered }) => ({ id, open, overdue, answered })),
    moreGates: 0,
    pods:
      reap === null || reap.kind !== "swept"
        ? null
        : {
            listed: reap.listed,
            own: reap.own,
            otherDeployments: reap.otherDeployments,
            unclear: reap.unclear,
            foreign: reap.foreign,
            suspected: reap.suspected,
            handedOver: reap.reaped.filter((pod) => pod.how === "handed-over").length,
            deleted: reap.reaped.filter((pod) => pod.how === "deleted").length,
          },
    duties: tick.duties.map((duty) => ({ ...duty, what: safeText(duty.what) })),
    problems: [
      ...tick.duties.filter((duty) => !duty.ok).map((duty) => `The duty "${duty.name}" failed: ${duty.what}`),
      ...(wake?.problems ?? []),
      ...(reap?.problems ?? []),
      ...(tick.problems ?? []),
      // The board has room for so many, and these can wait.
      ...(wake?.notices ?? []),
    ].map((problem) => safeText(problem)),
  };
}

/**
 * What the status page and `GET /api/status` show: the fleet board, and the view of every gate that is served or has
 * bought something. One gate that does not answer does not hide the others.
 */
import type { Board } from "../durable-objects/board-client.ts";
import type { GateView } from "../durable-objects/gate/view.ts";
import type { Settings } from "../durable-objects/settings.ts";
import { timeoutSignal, untilAborted } from "../shared/http.ts";
import type { Millis } from "../shared/ports.ts";
import type { AppPorts } from "./ports.ts";

export interface RepositoryStatus {
  readonly id: string;
  /** Null: the gate did not answer in time. */
  readonly view: GateView | null;
}

export interface Status {
  readonly at: Millis;
  readonly deployment: string;
  /** What cron saw at its last tick; null when there is none to show. */
  readonly board: Board | null;
  readonly repositories: readonly RepositoryStatus[];
  readonly tallies: Readonly<Record<string, number>>;
}

const GATE_TIMEOUT_MS = 5_000;

export async function readStatus(settings: Settings, ports: AppPorts): Promise<Status> {
  const [board, registered] = await Promise.all([ports.board.read(), ports.registered().catch(() => [])]);
  const ids = [...new Set([...settings.allowedRepositories, ...registered.map((one) => one.id)])];
  return {
    at: ports.clock.now(),
    deployment: settings.deployment,
    board: board.ok ? board.value : null,
    repositories: await Promise.all(
      ids.map(async (id) => ({
        id,
        view: await untilAborted(ports.gate(id).view(), timeoutSignal(GATE_TIMEOUT_MS)).catch(() => null),
      })),
    ),
    tallies: ports.tallies.all(),
  };
}

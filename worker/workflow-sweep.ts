/**
 * `POST /v1/sweep`: does at once what cron does every minute, for a platform whose Cron Triggers have stopped while its Worker
 * still answers. A scheduled workflow on GitHub asks; while cron is alive the answer is cron's own last tick and nothing is done.
 *
 * It can do no more than a tick can, and no oftener than every STALE_MS, so a job on the default branch is trusted with it.
 */
import type { Context, Hono } from "hono";
import * as z from "zod";
import type { Board } from "../durable-objects/board-client.ts";
import type { TickReport } from "../cron/index.ts";
import type { Millis } from "../shared/ports.ts";
import type { Result } from "../shared/result.ts";
import { workflowRoutes } from "./workflow-api.ts";
import { problem, unavailable, type WorkflowAnswer } from "./workflow-answer.ts";
import { readJson } from "./workflow-body.ts";
import { readingCaller } from "./workflow-caller.ts";
import { platformWorkflowPorts, type WorkflowPorts } from "./workflow-ports.ts";

/** Cron ticks every minute (design section 5); two lost ones and a late third are no longer bad luck. */
export const STALE_MS: Millis = 180_000;

/** Cron as this route sees it. */
export interface SweepPorts {
  /** The board of the last tick; null: none was ever written. */
  readonly board: () => Promise<Result<Board | null, { readonly message: string }>>;
  /** One tick now; null: the deployment is not configured. Never throws. */
  readonly tick: () => Promise<TickReport | null>;
}

/** What has begun is gone on with when whoever asked has hung up; the platform gives it half a minute from then. */
export type GoOn = (work: Promise<unknown>) => void;

const EVENTS = new Set(["schedule", "workflow_dispatch"]);
const nothing = z.strictObject({});

export function mountSweepApi(
  app: Hono<{ Bindings: Env }>,
  sweepOf: (env: Env) => SweepPorts,
  portsOf: (env: Env) => WorkflowPorts = platformWorkflowPorts,
): void {
  const on = workflowRoutes(app, portsOf);
  on("POST", "/v1/sweep", (context: Context<{ Bindings: Env }>, ports) =>
    receiveSweep(context.req.raw, ports, sweepOf(context.env), (work) => context.executionCtx.waitUntil(work)),
  );
}

async function receiveSweep(
  request: Request,
  ports: WorkflowPorts,
  cron: SweepPorts,
  goOn: GoOn,
): Promise<WorkflowAnswer> {
  const caller = await readingCaller(request, ports);
  if (!caller.ok) return caller.error;
  const { claims, defaultBranch } = caller.value;
  if (claims.ref !== `refs/heads/${defaultBranch}` || !EVENTS.has(claims.event_name)) {
    return problem(403, "not-trusted", "Only a scheduled or dispatched run of the default branch may ask for a sweep.");
  }
  const body = await readJson(request, nothing);
  if (!body.ok) return body.error;
  // The answer is what the workflow turns red by, so it waits for the work; the work does not wait for its reader.
  const work = sweepIfSilent(claims.run_id, ports, cron);
  goOn(work);
  return work;
}

async function sweepIfSilent(runId: string, ports: WorkflowPorts, cron: SweepPorts): Promise<WorkflowAnswer> {
  const board = await cron.board();
  const now = ports.clock.now();
  // A board that cannot be read says nothing about cron: sweep anyway, as overlapping ticks are harmless.
  const last = board.ok ? board.value : null;
  if (last !== null && now - last.at < STALE_MS) {
    const ageSeconds = Math.round((now - last.at) / 1000);
    return {
      status: 200,
      body: {
        swept: false,
        message: `Cron is alive: its last tick was ${ageSeconds} s ago.`,
        duties: named(last.duties),
      },
    };
  }
  const report = await cron.tick();
  if (report === null) return unavailable("This deployment is not configured; see /healthz.");
  ports.log({ event: "workflow-api.swept", run: runId, lastTick: last?.at ?? null });
  const when = last === null ? "has never ticked" : `last ticked ${Math.round((now - last.at) / 60_000)} min ago`;
  return {
    status: 200,
    body: {
      swept: true,
      message: `Cron ${when}; its duties were done now. Look at the Worker's Cron Triggers.`,
      duties: named(report.duties),
    },
  };
}

/** Without their words, which name other repositories: those are for the operators, on the board and in the log. */
function named(duties: Board["duties"] | TickReport["duties"]): readonly object[] {
  return duties.map(({ name, ok, ms }) => ({ name, ok, ms }));
}

/** What `workflow_job` deliveries may do to a request: wake it, and nothing else, in whatever order and from whatever attempt. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { route, type RouteView } from "../../shared/lifecycle/route.ts";
import type { Signal } from "../../shared/lifecycle/signal.ts";
import { requestIn, states } from "./fixtures.ts";

type JobSignal = Extract<Signal, { kind: "workflow-job" }>;

const ACTIONS = ["queued", "waiting", "in_progress", "completed"] as const;
const running = requestIn(states.executing());
const view: RouteView = {
  appId: "1",
  repositoryId: "101",
  ofHead: () => [running],
  ofPull: () => [running],
  open: () => [running],
  ofRun: (runId) => (runId === "900" ? running : null),
  ofCheckRun: () => null,
  ofRunner: (runnerId) => (runnerId === "41" ? running : null),
};

function job(action: JobSignal["action"], more: Partial<JobSignal> = {}): JobSignal {
  return {
    kind: "workflow-job",
    action,
    jobId: "1",
    jobName: "GPU tests",
    runId: "900",
    runAttempt: 1,
    status: action,
    conclusion: action === "completed" ? "cancelled" : null,
    labels: ["self-hosted", "linux", "gpu"],
    runnerId: null,
    ...more,
  };
}

function ordersOf<T>(items: readonly T[]): readonly (readonly T[])[] {
  if (items.length <= 1) return [items];
  return items.flatMap((first, index) => ordersOf(items.toSpliced(index, 1)).map((rest) => [first, ...rest]));
}

describe("deliveries about a job", () => {
  it("N40: in all 24 orders each only asks the request to look, so none can buy, end or undo anything", () => {
    const orders = ordersOf(ACTIONS);
    expect(orders).toHaveLength(24);
    for (const order of orders) {
      const actions = order.flatMap((action) => route(job(action), view));
      expect(actions).toEqual(ACTIONS.map(() => ({ kind: "hint", requestId: running.id })));
    }
  });

  it("N39: a late word about the first attempt does not touch what a newer attempt is; that one is judged by itself", () => {
    const newer = { kind: "uninvited", requestId: running.id, run: { runId: "900", attempt: 2 } };
    expect(route(job("queued", { runAttempt: 2 }), view)).toEqual([newer]);
    expect(route(job("completed", { runAttempt: 1 }), view)).toEqual([{ kind: "hint", requestId: running.id }]);
  });

  it("N32: labels identify nobody: a job that shares all of ours, on a run and a runner that are not ours, reaches no request", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...ACTIONS),
        fc.array(fc.constantFrom("self-hosted", "linux", "gpu", "x64")),
        fc.constantFrom(null, "42", "410"),
        (action, labels, runnerId) => {
          const actions = route(job(action, { runId: "901", labels, runnerId }), view);
          expect(actions.map((one) => one.kind)).toEqual(["note"]);
        },
      ),
    );
  });
});

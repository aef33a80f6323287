/** A preparation whose start was certainly not sent before the process died is started; one that may have been is looked for. */
import { afterEach, expect, it } from "vitest";
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import { isLookedUp, taskSchema } from "../../shared/lifecycle/tasks.ts";
import type { FetchLike } from "../../shared/ports.ts";
import { startLife, type Life } from "./life.ts";

let life: Life | null = null;

afterEach(async () => {
  await life?.close();
  life = null;
});

/** Cuts the power once, at the first call of that kind that is made after the pull request is open. */
function cutAt(path: RegExp, when: "before" | "after"): { fetch: (next: FetchLike) => FetchLike; done: () => boolean } {
  let met = false;
  let done = false;
  const fetch = (next: FetchLike): FetchLike => {
    return async (input, init) => {
      if (met || !path.test(input.replace(/\?.*$/, ""))) return next(input, init);
      // At once: such calls are made side by side, and a second one must not cut the power of the next life.
      met = true;
      if (when === "after") await next(input, init);
      done = true;
      life?.powerCut();
      throw new Error("the process is dead");
    };
  };
  return { fetch, done: () => done };
}

const TREES = /\/git\/trees\//;
const START = /gpu-gate-prepare\.yml\/dispatches$/;

/** Dies there, comes back, and goes on until the request has come that far. */
async function revived(
  path: RegExp,
  when: "before" | "after",
  far: (request: GateRequest) => boolean,
): Promise<{ readonly request: GateRequest; readonly starts: number }> {
  const cut = cutAt(path, when);
  life = await startLife({ fetch: cut.fetch });
  const { github } = life;
  const head = life.openCode("one");
  await expect.poll(cut.done, { timeout: 20_000 }).toBe(true);
  const gate = life.powerOn();
  void gate.run();
  const newest = () => gate.store.requestsOfHead(head, "pull-request").at(-1);
  await expect.poll(() => far(newest() ?? fail()), { timeout: 60_000 }).toBe(true);
  const starts = github.books.dispatches.filter((one) => one.workflowPath.includes("gpu-gate-prepare"));
  return { request: newest() ?? fail(), starts: starts.length };
}

function fail(): never {
  throw new Error("there is no request");
}

const hasRun = ({ prepared }: GateRequest): boolean => prepared !== null;

it.each(["before", "after"] as const)("dead %s what is read ahead of the start: started, once", async (when) => {
  expect((await revived(TREES, when, hasRun)).starts).toBe(1);
});

it.each([
  ["and dead before the start", true],
  ["before the start", false],
])("told to end %s: nothing is started that would have to be cancelled", async (_when, dies) => {
  let head = "";
  let told = false;
  const fetch = (next: FetchLike): FetchLike => {
    return async (input, init) => {
      if (told || life === null || !TREES.test(input)) return next(input, init);
      told = true;
      const requestId = life.request(head)?.id ?? fail();
      life.gate.operator({ action: "cancel", requestId, by: "op", reason: "not wanted", micros: null });
      if (!dies) return next(input, init);
      life.powerCut();
      throw new Error("the process is dead");
    };
  };
  life = await startLife({ fetch });
  head = life.openCode("one");
  await expect.poll(() => told, { timeout: 20_000 }).toBe(true);
  const gate = dies ? life.powerOn() : life.gate;
  void gate.run();
  const newest = () => gate.store.requestsOfHead(head, "pull-request").at(-1) ?? fail();
  await expect.poll(() => newest().state.kind, { timeout: 60_000 }).toBe("concluded");
  expect(newest().state).toMatchObject({ verdict: { reason: "cancelled-by-operator" } });
  expect(life.github.books.dispatches.filter((one) => one.workflowPath.includes("gpu-gate-prepare"))).toEqual([]);
});

it("dead at the start: looked for and not sent again, and the request says that no run was found", async () => {
  const { request, starts } = await revived(START, "before", ({ state }) => state.kind === "concluded");
  expect(request.state).toMatchObject({ verdict: { kind: "infrastructure", reason: "workflow-unavailable" } });
  expect(starts).toBe(0);
});

it("dead at the answer to the start: the run is found, and there is no second one", async () => {
  expect((await revived(START, "after", hasRun)).starts).toBe(1);
});

it("a fault of ours after the start was sent: the run is found, and there is no second one", async () => {
  life = await startLife();
  const { github, gate, until } = life;
  const { store } = gate;
  const finishing = store.finishing.bind(store);
  let faults = 0;
  store.finishing = (task, takeIn) => {
    if (task.kind !== "dispatch-prepare" || faults > 0) return finishing(task, takeIn);
    faults += 1;
    throw new Error("a fault of ours");
  };
  await until(life.openCode("one"), "its run", hasRun);
  expect([faults, github.books.dispatches.filter((one) => one.workflowPath.includes("prepare")).length]).toEqual([
    1, 1,
  ]);
});

it.each([
  [{ kind: "dispatch-prepare", sent: false }, false],
  [{ kind: "dispatch-prepare", sent: true }, true],
  // Stored by a deployment before this word: it may have been sent.
  [{ kind: "dispatch-prepare" }, true],
  [{ kind: "dispatch-execute", attemptId: "r1-1" }, true],
  [{ kind: "find-prepare" }, false],
])("begun and not finished, %j: looked up is %j", (task, expected) => {
  expect(isLookedUp(taskSchema.parse(task))).toBe(expected);
});

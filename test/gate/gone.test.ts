/**
 * What happens to a request when GitHub no longer lets us work in its repository, or no longer lets this person: the App
 * removed or suspended, the repository renamed, archived or deleted, a role taken away, a fork. Deletion needs RunPod alone.
 */
import { describe, expect, it, type TestContext } from "vitest";
import { EXECUTE, PREPARE, SLOW_TESTS } from "../../local/world/workflows.ts";
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import { CONFIG, startLife, verdictOf, type Life } from "./life.ts";

async function life(test: TestContext, more = ""): Promise<Life> {
  const world = await startLife({ config: CONFIG.replace("limits:\n", `${more}limits:\n`) });
  test.onTestFinished(() => world.close());
  return world;
}

const running = ({ state }: GateRequest) => state.kind === "executing" && state.testsStarted;
const concluded = ({ state }: GateRequest) => state.kind === "concluded";

/** Every pod is gone by RunPod's own books, and closed in ours. */
function allGone(world: Life): boolean {
  return (
    world.runpod.pods().every((pod) => pod.releasedAtMs !== null) && world.gate.store.openLedgerPodIds().length === 0
  );
}

/** A pull request whose tests take so long that the pod would stay for half a minute. */
function openSlow(world: Life): string {
  return world.openCode("slow", { [SLOW_TESTS]: "" });
}

describe("in the middle of a run", () => {
  it.concurrent("the App is uninstalled: the pod goes at once, the audit says why, and a new installation begins afresh", async (test) => {
    const world = await life(test);
    const head = openSlow(world);
    await world.until(head, "its tests", running);
    const at = Date.now();
    world.github.installation("acme").uninstall();
    const request = await world.until(head, "the end", concluded);
    expect(verdictOf(request)).toMatchObject({ kind: "cancelled", reason: "app-removed" });
    expect(allGone(world)).toBe(true);
    expect(world.runpod.pods()[0]?.releasedAtMs ?? Infinity).toBeLessThan(at + 10_000);
    expect(world.audits().find((entry) => entry.act === "request.stop")).toMatchObject({ reason: "app-removed" });
    // What the books cost is closed as well: no GitHub is needed for that.
    expect(request.spentMicros).toBeGreaterThan(0);
    // The check cannot be concluded where the App may not speak; nothing waits for it in the main lane.
    expect(world.gate.store.taskOf("main", request.id)).toBeNull();

    world.github.install("acme");
    const fresh = await world.until(head, "a new request", (one) => one.generation === 2);
    expect(fresh.openedBy.row).toBe(1);
  });

  it.concurrent("the App is suspended, which names no repository: the same, and what another installation does is nobody's", async (test) => {
    const world = await life(test);
    world.github.createRepository({ owner: "others", name: "tensors" });
    const head = openSlow(world);
    await world.until(head, "its tests", running);
    world.github.installation("others").suspend();
    world.github.installation("others").uninstall();
    world.github.installation("acme").suspend();
    const ending = await world.until(head, "the proof", () => allGone(world));
    expect(world.audits().find((entry) => entry.act === "request.stop")).toMatchObject({ reason: "app-removed" });
    expect(ending.generation).toBe(1);
    // What is left to say to GitHub waits until GitHub listens again.
    world.github.installation("acme").unsuspend();
    await world.until(head, "a new request", (one) => one.generation === 2);
    const [first] = world.gate.store.requestsOfHead(head, "pull-request");
    expect(first === undefined ? null : verdictOf(first)).toMatchObject({ kind: "cancelled", reason: "app-removed" });
    expect(first === undefined ? "" : verdictOf(first).detail).toContain("suspended");
  });

  it.concurrent("the repository is renamed: the run goes on under the new name", async (test) => {
    const world = await life(test);
    const head = world.openCode("matmul");
    // The machine has been told the name by then.
    await world.until(head, "its pod", ({ state }) => state.kind === "provisioning" && state.step === "start");
    world.repository.rename("tensors-two");
    const request = await world.concluded(head);
    expect(verdictOf(request)).toMatchObject({ kind: "passed" });
    expect(world.gate.store.repository()?.repository).toEqual({ id: "101", owner: "acme", name: "tensors-two" });
    expect(world.repository.checkRuns(head).find((run) => run.name === "CI GPU gate")?.conclusion).toBe("success");
    expect(allGone(world)).toBe(true);
  });

  it.concurrent("the repository is deleted: the pod goes, and the audit says why", async (test) => {
    const world = await life(test);
    const head = openSlow(world);
    await world.until(head, "its tests", running);
    world.repository.delete();
    const request = await world.until(head, "the end", concluded);
    expect(verdictOf(request)).toMatchObject({ kind: "cancelled", reason: "repository-gone" });
    expect(allGone(world)).toBe(true);
  });
});

describe("while it waits", () => {
  it.concurrent("the author's role is taken away: the look inside the lock refuses, and nothing is bought", async (test) => {
    const world = await life(test);
    const holder = openSlow(world);
    await world.until(holder, "the lock", running);
    world.repository.addCollaborator("mona", "maintain");
    const head = world.repository.openPullRequest({ author: "mona", files: { "src/m.rs": "1" } }).headSha;
    await world.until(head, "its place in the queue", ({ state }) => state.kind === "queued");
    world.repository.setRole("mona", "write");
    world.gate.stop(world.request(holder)?.id ?? "", {
      kind: "cancelled",
      reason: "cancelled-by-operator",
      detail: "Makes room.",
    });
    const request = await world.until(head, "the end", (one) => concluded(one) && one.check.completed);
    expect(verdictOf(request)).toMatchObject({ kind: "refused", reason: "author-not-permitted" });
    expect(request.counts.pods).toBe(0);
    expect(world.github.books.dispatches.filter((entry) => entry.workflowPath === EXECUTE)).toHaveLength(1);
  });
});

describe("a fork", () => {
  it.concurrent("that needs the GPU is refused and shown the way forward; one that needs none is green", async (test) => {
    const world = await life(test);
    const code = world.repository.openPullRequest({ author: "frida", fork: true, files: { "src/f.rs": "1" } });
    const refused = await world.until(code.headSha, "the refusal", (one) => concluded(one) && one.check.completed);
    expect(verdictOf(refused)).toMatchObject({ kind: "refused", reason: "fork" });
    const check = world.repository.checkRuns(code.headSha).find((run) => run.name === "CI GPU gate");
    expect(check?.conclusion).toBe("action_required");
    expect(check?.summary).toContain("Ask a maintainer.");

    const words = world.repository.openPullRequest({
      author: "fiona",
      fork: true,
      files: { "README.md": "# fixed\n" },
    });
    const green = await world.until(words.headSha, "the verdict", (one) => concluded(one) && one.check.completed);
    // Each file is named once.
    const because = { kind: "not-required", reason: "docs-only", detail: "documentation: README.md" };
    expect(verdictOf(green)).toMatchObject(because);
    expect(world.github.books.dispatches.filter((entry) => entry.workflowPath === PREPARE)).toEqual([]);
    expect(world.runpod.pods()).toEqual([]);
  });
});

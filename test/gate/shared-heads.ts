/** A life in which several pull requests share one commit, and words to follow what each of them is told. */
import type { TestContext } from "vitest";
import type { OpenPull } from "../../local/github/control-pulls.ts";
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import type { FetchLike } from "../../shared/ports.ts";
import { CONFIG, startLife, type Life } from "./life.ts";

const NAME = "CI GPU gate";

/** No trigger workflow and no pre-gate: who opened a pull request is known by its webhook alone. */
export const UNTRIGGERED = `${CONFIG}pre_gate: []\nworkflows:\n  trigger: none\n`;

/** A repository with a branch `stage`, for which every commit here is code, and with walt, who may write but not spend. */
export async function sharedLife(
  test: TestContext,
  config: string = CONFIG,
  fetch?: (next: FetchLike) => FetchLike,
): Promise<Life> {
  const world = await startLife({ config, ...(fetch === undefined ? {} : { fetch }) });
  test.onTestFinished(() => world.close());
  world.repository.addCollaborator("walt", "write");
  world.repository.commit({ branch: "stage", author: "mira", files: { "src/more.rs": "x" } });
  return world;
}

/** Somebody's pull request of the commit that the branch `topic` has already, for this base. */
export function at(author: string, base: string): OpenPull {
  return { author, base, branch: "topic", asItIs: true, files: {} };
}

/** The end of a generation, with its check completed. */
export function ended(world: Life, head: string, generation: number): Promise<GateRequest> {
  return world.until(
    head,
    `the end of generation ${generation}`,
    (one) => one.generation === generation && one.state.kind === "concluded" && one.check.completed,
  );
}

function generations({ gate }: Life, head: string): readonly GateRequest[] {
  return gate.store.requestsOfHead(head, "pull-request");
}

/** Every generation at the head: whose it was, and what came of it. */
export function said(world: Life, head: string): readonly string[] {
  return generations(world, head).map(
    ({ prNumber, state }) => `#${prNumber} ${state.kind === "concluded" ? state.verdict.reason : state.kind}`,
  );
}

/** The pods that all of them bought. */
export function podsOf(world: Life, head: string): number {
  return generations(world, head).reduce((sum, { counts }) => sum + counts.pods, 0);
}

/** What the commit's newest check says. */
export function conclusion({ repository }: Life, head: string): string | null | undefined {
  return repository
    .checkRuns(head)
    .filter(({ name }) => name === NAME)
    .at(-1)?.conclusion;
}

/** Compares with GitHub once, with every webhook heard, to its end and that of what it began. */
export async function compare(world: Life): Promise<void> {
  const { gate, github } = world;
  const done = (): number => gate.store.counters()["reconcile.done"] ?? 0;
  await github.webhooks.settled();
  const before = done();
  gate.store.putTask("reconcile", "repository", "reconcile", {}, Date.now(), Date.now());
  // A loop that was just about to end leaves it to the alarm.
  await gate.run();
  await eventually("the comparison", () => done() > before && gate.store.taskOf("reconcile", "repository") === null);
  await gate.run();
}

/** Until something outside the newest request's record is so. */
export async function eventually(what: string, so: () => boolean): Promise<void> {
  const limit = Date.now() + 60_000;
  while (!so()) {
    if (Date.now() > limit) throw new Error(`waited for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** GitHub tells a comment's time in whole seconds: one of the second in which a check spoke counts as earlier. */
export async function nextSecond(): Promise<void> {
  const second = Math.floor(Date.now() / 1_000);
  await eventually("the next second", () => Math.floor(Date.now() / 1_000) > second);
}

/**
 * The start of a run whose answer was lost, while a writer starts runs of the same name: request ids are public. Only the run
 * that the App itself dispatched at the default branch is taken for ours.
 */
import { describe, expect, it } from "vitest";
import { EXECUTE, PREPARE } from "../../local/world/workflows.ts";
import type { FetchLike } from "../../shared/ports.ts";
import { startLife, verdictOf, type Life } from "./life.ts";

const LOST = "network";

/** Loses the answer to the first start of `workflow`, or the start itself; `then` is what a writer does meanwhile. */
async function worldWhere(
  workflow: string,
  arrives: boolean,
  then: (life: Life, inputs: Readonly<Record<string, string>>) => void,
): Promise<Life> {
  const held: { life: Life | null; lost: boolean } = { life: null, lost: false };
  const start = `/${workflow.split("/").at(-1) ?? ""}/dispatches`;
  const fetch =
    (next: FetchLike): FetchLike =>
    async (input, init) => {
      if (held.lost || held.life === null || !input.endsWith(start)) return next(input, init);
      held.lost = true;
      if (arrives) await next(input, init);
      const said = typeof init?.body === "string" ? init.body : "{}";
      const { inputs } = JSON.parse(said) as { inputs: Readonly<Record<string, string>> };
      then(held.life, inputs);
      throw new TypeError(LOST);
    };
  held.life = await startLife({ fetch });
  held.life.repository.addCollaborator("walt", "write");
  return held.life;
}

/** The writer's own edition of the file, started under the name that the gate looks for. */
function startEvil(life: Life, workflow: string, inputs: Readonly<Record<string, string>>): number {
  const { repository } = life;
  const files = { [workflow]: "name: mine\n# builds what walt likes\n", "src/evil.rs": "x" };
  repository.commit({ branch: "evil", author: "walt", files });
  return repository.dispatchWorkflow(workflow, "walt", { ...inputs, tested_sha: repository.sha("evil") }, "evil");
}

const byApp = (life: Life, workflow: string): readonly string[] =>
  life.repository
    .runs(workflow)
    .filter((run) => run.actor.login === `${life.github.appSlug}[bot]`)
    .map((run) => String(run.id));

const titles = (life: Life, workflow: string): number =>
  new Set(life.repository.runs(workflow).map((run) => run.displayTitle)).size;

describe("a lost start", () => {
  it.each([
    ["at a branch of the writer's", startEvil],
    [
      "at the default branch",
      (life: Life, workflow: string, inputs: Readonly<Record<string, string>>) =>
        life.repository.dispatchWorkflow(workflow, "walt", inputs),
    ],
  ] as const)(
    "that never arrived is not a run of its name %s",
    async (_, theirs) => {
      const life = await worldWhere(PREPARE, false, (world, inputs) => void theirs(world, PREPARE, inputs));
      const request = await life.concluded(life.openCode("one"));
      const pods = life.runpod.pods().length;
      const mine = byApp(life, PREPARE);
      await life.close();
      expect(verdictOf(request)).toMatchObject({ kind: "infrastructure", reason: "workflow-unavailable" });
      expect([mine, request.prepared, pods]).toEqual([[], null, 0]);
    },
    120_000,
  );

  it.each([PREPARE, EXECUTE])(
    "of %s is found among the writer's",
    async (workflow) => {
      const theirs: number[] = [];
      const life = await worldWhere(workflow, true, (world, inputs) => {
        theirs.push(startEvil(world, workflow, inputs), world.repository.dispatchWorkflow(workflow, "walt", inputs));
      });
      const request = await life.concluded(life.openCode("one"));
      const ours = byApp(life, workflow);
      const audits = life.audits();
      const names = titles(life, workflow);
      const owners = [...ours, ...theirs].map((id) => life.gate.store.requestOfRun(String(id))?.id ?? null);
      await life.close();
      expect(verdictOf(request).kind).toBe("passed");
      expect([theirs.length, ours.length, names]).toEqual([2, 1, 1]);
      const step = workflow === PREPARE ? "prepare.look-up" : "execute.look-up";
      expect(audits.filter(({ act }) => act === step)).toHaveLength(1);
      expect(owners).toEqual([request.id, null, null]);
    },
    120_000,
  );
});

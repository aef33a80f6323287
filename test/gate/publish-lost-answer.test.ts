/** A concluded check run is never written to again, also when the answer to its conclusion was lost. */
import { afterEach, describe, expect, it } from "vitest";
import { CONFIG } from "../../local/world/opening-day.ts";
import { REPOSITORY_ID, startGateWorld, type GateWorld } from "./world.ts";

let world: GateWorld | null = null;

afterEach(async () => {
  await world?.close();
  world = null;
});

describe("a conclusion whose answer is lost", () => {
  it("is found done, and the completed check run is left alone", async () => {
    world = await startGateWorld();
    const { github, gate } = world;
    const repository = github.createRepository({
      owner: "acme",
      name: "tensors",
      id: Number(REPOSITORY_ID),
      files: { "README.md": "x\n", ".github/gpu-gate.yml": CONFIG },
    });
    repository.addCollaborator("mira", "admin");
    github.faults.next({ method: "PATCH", path: /\/check-runs\/\d+$/ }, "done-but-500");
    const pull = repository.openPullRequest({ author: "mira", files: { "docs/a.md": "x\n" }, title: "docs" });
    await expect
      .poll(() => gate.store.requestsOfHead(pull.headSha, "pull-request")[0]?.check.completed, { timeout: 20_000 })
      .toBe(true);
    const writes = github.books.requests.filter((call) => call.operation === "checks/update");
    expect(writes).toHaveLength(1);
    expect(repository.checkRuns(pull.headSha).find((run) => run.name === "CI GPU gate")?.conclusion).toBe("success");
  });
});

/** What may be used again without paying: a green gate, and an archive. */
import { describe, expect, it } from "vitest";
import {
  TRUSTED_PRODUCER_EVENTS,
  findArtifact,
  type ArtifactRow,
  type ProducerRun,
} from "../../shared/policy/artifact-reuse.ts";
import { GATE_PAGE_SIZE, findReusableGate, reusableGate, type EarlierGate } from "../../shared/policy/reuse.ts";

const INPUTS = { treeSha: "tree", workflows: "blobs", configHash: "config" };

function gate(more: Partial<EarlierGate> = {}): EarlierGate {
  return {
    id: "1",
    inputs: INPUTS,
    kind: "paid",
    success: true,
    evidence: true,
    completedAt: "2026-11-30T12:00:00Z",
    ...more,
  };
}

describe("I4: a green gate", () => {
  it("is reused for the identical tree and inputs, also when it was itself reused", () => {
    expect(reusableGate([gate()], INPUTS)?.id).toBe("1");
    expect(reusableGate([gate({ kind: "reused" })], INPUTS)?.id).toBe("1");
  });

  it.each(["treeSha", "workflows", "configHash"] as const)("is not when its %s differs or is empty", (part) => {
    expect(reusableGate([gate()], { ...INPUTS, [part]: "other" })).toBeNull();
    const empty = { ...INPUTS, [part]: "" };
    expect(reusableGate([gate({ inputs: empty })], empty)).toBeNull();
  });

  it.each([
    ["failed", { success: false }],
    ["was not-required", { kind: "not-required" }],
    ["was skipped", { kind: "skipped" }],
    ["was validated elsewhere", { kind: "local" }],
    ["has no complete evidence", { evidence: false }],
    ["is not concluded", { completedAt: null }],
  ] as const)("is not when it %s", (_, more) => {
    expect(reusableGate([gate(more)], INPUTS)).toBeNull();
  });

  it("the newest with the same inputs decides alone; a later failure ends the reuse", () => {
    const failed = gate({ id: "2", success: false, completedAt: "2026-11-30T13:00:00Z" });
    expect(reusableGate([failed, gate()], INPUTS)).toBeNull();
    expect(reusableGate([{ ...failed, inputs: { ...INPUTS, treeSha: "other" } }, gate()], INPUTS)?.id).toBe("1");
  });

  it("in the same second the higher id is the newer, also beyond 2^53", () => {
    const failed = gate({ id: "9007199254740993", success: false });
    expect(reusableGate([failed, gate({ id: "9007199254740992" })], INPUTS)).toBeNull();
    expect(reusableGate([gate({ id: "10" }), gate({ id: "9", success: false })], INPUTS)?.id).toBe("10");
  });
});

describe("reading earlier gates", () => {
  const full = Array.from({ length: GATE_PAGE_SIZE }, () => null);

  it("reads page after page until the list is complete", async () => {
    const asked: number[] = [];
    const pages = [full, [gate()]];
    const found = await findReusableGate((page) => {
      asked.push(page);
      return Promise.resolve({ rows: pages[page - 1] ?? [], total: null });
    }, INPUTS);
    expect([found?.id, asked]).toEqual(["1", [1, 2]]);
  });

  it("stops when the list's own total is reached", async () => {
    let asked = 0;
    await findReusableGate(() => Promise.resolve({ rows: full, total: (asked += 1) && GATE_PAGE_SIZE }), INPUTS);
    expect(asked).toBe(1);
  });

  it("a page that failed, or more pages than a head can have, means no reuse", async () => {
    expect(
      await findReusableGate(
        (page) => Promise.resolve(page === 1 ? { rows: [...full.slice(1), gate()], total: null } : null),
        INPUTS,
      ),
    ).toBeNull();
    let asked = 0;
    const endless = { rows: [...full.slice(1), gate()], total: null };
    expect(await findReusableGate(() => Promise.resolve((asked += 1) > 0 ? endless : null), INPUTS)).toBeNull();
    expect(asked).toBe(10);
  });

  it("asks for nothing when there is nothing to compare with", async () => {
    const never = () => Promise.reject(new Error("asked"));
    expect(await findReusableGate(never, { ...INPUTS, treeSha: "" })).toBeNull();
  });
});

describe("an archive of an earlier run", () => {
  const TRUST = {
    repository: "o/r",
    currentRunId: "999",
    workflowPaths: new Set([".github/workflows/prepare.yml"]),
    branch: "main",
    actor: "7",
    events: TRUSTED_PRODUCER_EVENTS,
  };
  const row = (more: Partial<ArtifactRow> = {}): ArtifactRow => ({
    id: "11",
    name: "key",
    expired: false,
    runId: "100",
    ...more,
  });
  const producer = (more: Partial<ProducerRun> = {}): ProducerRun => ({
    id: "100",
    workflowPath: ".github/workflows/prepare.yml",
    event: "workflow_dispatch",
    headRepository: "o/r",
    headBranch: "main",
    actor: "7",
    ...more,
  });
  const find = (rows: ArtifactRow[], run: ProducerRun | null) =>
    findArtifact("key", rows, TRUST, () => Promise.resolve(run));

  it("is found by its exact name and a trusted producer", async () => {
    expect(await find([row()], producer())).toEqual({ ok: true, value: { artifactId: "11", runId: "100" } });
  });

  it.each([
    ["the current run", { id: "999" }],
    ["a fork", { headRepository: "evil/r" }],
    ["a deleted fork", { headRepository: null }],
    ["another branch", { headBranch: "main-2" }],
    ["no branch", { headBranch: null }],
    ["somebody else's dispatch", { actor: "8" }],
    ["nobody's dispatch", { actor: null }],
    ["another workflow", { workflowPath: ".github/workflows/other.yml" }],
    ["a look-alike path", { workflowPath: ".github/workflows/prepare.yml@evil" }],
    ["a pull request's own workflow file", { event: "pull_request" }],
    ["pull_request_target", { event: "pull_request_target" }],
  ] as const)("is not taken from %s", async (_, more) => {
    expect(await find([row()], producer(more))).toEqual({ ok: true, value: null });
  });

  it("expired ones, other names and those without a run are passed over without a look-up", async () => {
    const rows = [row({ expired: true }), row({ name: "key-part00" }), row({ runId: null })];
    const looked: string[] = [];
    const result = await findArtifact("key", rows, TRUST, (runId) => {
      looked.push(runId);
      return Promise.resolve(producer());
    });
    expect([result, looked]).toEqual([{ ok: true, value: null }, []]);
  });

  it("a run that cannot be read ends the search, and the archive is built", async () => {
    expect(await find([row(), row({ id: "12" })], null)).toMatchObject({
      ok: false,
      error: { reason: "look-up-failed" },
    });
  });
});

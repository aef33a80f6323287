/** Which run a lost start is found in, and when nobody can say. */
import { describe, expect, it, vi } from "vitest";
import { findOwnRun, type OwnRun } from "../../shared/authorize/own-run.ts";
import { ok } from "../../shared/result.ts";
import { json, stubClient } from "../github/stub.ts";

const R = "/repos/octo/engine";
const LIST = `GET ${R}/actions/workflows/prepare.yml/runs`;
const NAME = "gpu-gate prepare r1";
const T0 = Date.parse("2026-11-30T12:00:00Z");
const WANTED: OwnRun = {
  repositoryId: "101",
  workflowPath: ".github/workflows/prepare.yml",
  branch: "main",
  name: NAME,
  since: T0,
};
const run = (more: object = {}) => ({
  id: 7001,
  run_attempt: 1,
  status: "queued",
  conclusion: null,
  event: "workflow_dispatch",
  path: ".github/workflows/prepare.yml",
  workflow_id: 5,
  display_title: NAME,
  head_sha: "c".repeat(40),
  head_branch: "main",
  repository: { id: 101 },
  head_repository: { id: 101 },
  actor: { id: 900, login: "gpu-gate[bot]" },
  triggering_actor: { id: 900, login: "gpu-gate[bot]" },
  html_url: "https://github.test/r",
  ...more,
});
const asApp = () => json({ id: 1234, slug: "gpu-gate", name: "GPU gate", permissions: {}, events: [] });
const listing = (...runs: object[]) => json({ total_count: runs.length, workflow_runs: runs });

function find(runs: readonly object[], who = asApp) {
  const { client, stub } = stubClient({ [LIST]: () => listing(...runs), "GET /app": who });
  return { found: findOwnRun(client, WANTED), stub };
}

describe("a run of our own", () => {
  it("is found by its name and by everything that says where it comes from", async () => {
    const { found } = find([run()]);
    expect(await found).toEqual({ kind: "found", runId: "7001" });
  });

  it.each([
    ["at another branch", { head_branch: "evil" }],
    ["at no branch", { head_branch: null }],
    ["from a fork", { head_repository: { id: 102 } }],
    ["from a deleted fork", { head_repository: null }],
    ["of another file", { path: ".github/workflows/other.yml" }],
    ["of another event", { event: "push" }],
    ["by a writer", { actor: { id: 7, login: "walt" } }],
    ["by somebody whose login looks like the bot's", { actor: { id: 7, login: "gpu-gate" } }],
    ["by another App", { actor: { id: 8, login: "gpu-gate-2[bot]" } }],
    ["by nobody", { actor: null }],
    ["of another name", { display_title: `${NAME}.again` }],
  ])("is not one %s, nor does one hide ours", async (_, theirs) => {
    const other = run({ id: 6999, ...theirs });
    expect(await find([other]).found).toEqual({ kind: "none" });
    expect(await find([other, run()]).found).toEqual({ kind: "found", runId: "7001" });
  });

  it("stays the first starter's when a writer has run it again", async () => {
    const again = run({ run_attempt: 2, triggering_actor: { id: 7, login: "walt" } });
    expect(await find([again]).found).toEqual({ kind: "found", runId: "7001" });
  });

  it("is unknown where two could be it, and never the first", async () => {
    const answer = await find([run(), run({ id: 7002 })]).found;
    expect(answer).toMatchObject({ kind: "unknown", why: expect.stringMatching(/7001.*7002/u) as string });
  });

  it("is unknown while GitHub does not say who the App is, or says it without a name", async () => {
    const down = () => json({ message: "sorry" }, { status: 502 });
    expect(await find([run()], down).found).toMatchObject({ kind: "unknown" });
    expect(await find([run()], () => json({ id: 1234, name: "GPU gate" })).found).toMatchObject({ kind: "unknown" });
  });

  it("is unknown where the list failed or was cut, and nobody asks who the App is for a list without it", async () => {
    const failing = stubClient({ [LIST]: () => json({ message: "sorry" }, { status: 502 }) });
    expect(await findOwnRun(failing.client, WANTED)).toMatchObject({ kind: "unknown" });
    const whose = vi.fn();
    const cut = { findRunsByName: async () => ok({ items: [], complete: false }), getOwnLogin: whose };
    expect(await findOwnRun(cut, WANTED)).toEqual({ kind: "unknown", why: "the list of runs was cut" });
    expect(whose).not.toHaveBeenCalled();
  });
});

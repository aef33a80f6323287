import { describe, expect, it } from "vitest";
import { aggregateHint, isAggregateCheck } from "../../shared/lifecycle/aggregate-hints.ts";
import { route } from "../../shared/lifecycle/route.ts";
import type { Signal } from "../../shared/lifecycle/signal.ts";

const APP = "4711";
const HEAD = "a".repeat(40);
const sender = { id: "501", login: "mira" };

function checkRun(more: Partial<Extract<Signal, { kind: "check-run" }>> = {}): Extract<Signal, { kind: "check-run" }> {
  return {
    kind: "check-run",
    action: "completed",
    checkRunId: "1",
    name: "Docs",
    headSha: HEAD,
    externalId: null,
    appId: "15368",
    identifier: null,
    sender,
    ...more,
  };
}

const OWN = { appId: APP, externalId: `aggregate:${HEAD.slice(0, 12)}:1`, name: "Required checks" };

describe("what the aggregator hears", () => {
  it.each([
    ["another check of the head", checkRun(), "look"],
    ["the gate's own check of a request", checkRun({ appId: APP, externalId: "r1:0" }), "look"],
    ["its own check as it writes it", checkRun(OWN), null],
    ["its own check as it is created", checkRun({ ...OWN, action: "created" }), null],
    ["a press on re-run at its own check", checkRun({ ...OWN, action: "rerequested" }), "again"],
    ["another App's check under an id like its own", checkRun({ ...OWN, appId: "666" }), "look"],
  ] as const)("%s", (_, signal, kind) => {
    expect(aggregateHint(signal, APP)?.kind ?? null).toBe(kind);
  });

  it.each([
    ["opened", "open"],
    ["reopened", "open"],
    ["synchronize", "open"],
    ["ready_for_review", "open"],
    ["converted_to_draft", "open"],
    ["edited", "open"],
    ["closed", "look"],
    ["labeled", null],
  ] as const)("a pull request that is %s", (action, kind) => {
    const pull = { prNumber: 7, headSha: HEAD, headRepositoryId: "101", draft: false, label: null, sender };
    const hint = aggregateHint({ kind: "pull-request", action, ...pull }, APP);
    expect(hint).toEqual(kind === null ? null : { headSha: HEAD, prNumber: 7, kind });
  });

  it.each([
    ["checks_requested", "open"],
    ["destroyed", "look"],
  ] as const)("a merge group: %s", (action, kind) => {
    const group = { headSha: HEAD, headRef: "refs/heads/q", baseSha: HEAD, baseRef: "refs/heads/main" };
    expect(aggregateHint({ kind: "merge-group", action, ...group }, APP)).toEqual({
      headSha: HEAD,
      prNumber: null,
      kind,
    });
  });

  it("all checks re-requested: its own answer too, if it is this App's suite", () => {
    const suite = { kind: "check-suite", action: "rerequested", headSha: HEAD, headBranch: null, sender } as const;
    expect(aggregateHint({ ...suite, appId: APP }, APP)?.kind).toBe("again");
    expect(aggregateHint({ ...suite, appId: "15368" }, APP)).toBeNull();
  });
});

it("a press on re-run at the aggregator's check never opens a request: nothing is rented for it", () => {
  const nobody = () => {
    throw new Error("no request has anything to do with it");
  };
  const view = {
    appId: APP,
    repositoryId: "101",
    ofHead: nobody,
    ofPull: nobody,
    open: () => [],
    ofRun: nobody,
    ofCheckRun: nobody,
    ofRunner: nobody,
  };
  const actions = route(checkRun({ ...OWN, action: "rerequested" }), view);
  expect(actions.map(({ kind }) => kind)).toEqual(["note"]);
  expect(isAggregateCheck({ appId: null, externalId: OWN.externalId }, APP)).toBe(false);
});

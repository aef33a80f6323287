/** Who asks for keeping with the request itself: a comment that starts it, or a dispatched run. */
import { describe, expect, it } from "vitest";
import { openDispatched } from "../../durable-objects/gate/dispatched.ts";
import { migrate } from "../../durable-objects/gate/schema.ts";
import { Store } from "../../durable-objects/gate/store.ts";
import { configFrom } from "../../shared/config/load.ts";
import { termsFrom } from "../../shared/config/terms.ts";
import { requestSchema } from "../../shared/lifecycle/model.ts";
import { newRequest, type NewRequest } from "../../shared/lifecycle/new-request.ts";
import { route, type RouteView } from "../../shared/lifecycle/route.ts";
import { nodeSql } from "../support/node-sql.ts";

const T0 = Date.UTC(2026, 10, 30, 12);
const MIRA = { id: "11", login: "mira" };

const waiting = requestSchema.parse({
  ...newRequest(
    "r1",
    {
      kind: "pull-request",
      prNumber: 7,
      headSha: "a".repeat(40),
      generation: 1,
      row: 1,
      actor: null,
      approvedBy: null,
    },
    T0,
  ),
  terms: termsFrom(configFrom({ version: 1, start: "comment" }), "hash"),
  state: { kind: "concluded", at: T0, verdict: { kind: "awaiting-approval", reason: "awaiting-approval", detail: "" } },
});

const view: RouteView = {
  appId: "1",
  repositoryId: "101",
  ofHead: () => [waiting],
  ofPull: () => [waiting],
  open: () => [],
  ofRun: () => null,
  ofCheckRun: () => null,
  ofRunner: () => null,
};

function opened(firstLine: string): NewRequest | null {
  const createdAt = new Date(T0 + 60_000).toISOString();
  const signal = { kind: "comment", prNumber: 7, firstLine, createdAt, sender: MIRA } as const;
  const [action] = route({ ...signal, action: "created" } as unknown as Parameters<typeof route>[0], view);
  return action?.kind === "open" ? action.request : null;
}

describe("the comment that starts a run", () => {
  it("may ask for keeping in the same line", () => {
    expect(opened("/gpu run")).toMatchObject({ generation: 2, approvedBy: MIRA });
    expect(opened("/gpu run")?.keepMinutes).toBeUndefined();
    expect(opened("/gpu run keep 60")?.keepMinutes).toBe(60);
    const request = newRequest("r2", opened("/gpu run keep 60") ?? expect.fail("it opens a request"), T0);
    expect(request.keep).toMatchObject({ by: "mira", duration: 3_600_000, attemptId: null, failuresOnly: false });
  });

  it.each([
    "/gpu run keep",
    "/gpu run keep 0",
    "/gpu run keep 1000",
    "/gpu run keep -5",
    "/gpu runkeep 60",
    "/gpu run 60",
  ])("%j is not a command", (line) => {
    expect(opened(line)).toBeNull();
  });
});

describe("a dispatched run", () => {
  it("hands its word on to the request it opens", () => {
    const sql = nodeSql();
    migrate(sql);
    const given: NewRequest[] = [];
    const hands = {
      open: (what: NewRequest) => (given.push(what), "r1"),
      stop: () => undefined,
      keep: () => expect.unreachable(),
      audit: () => undefined,
    };
    const ask = { kind: "validation", revision: "b".repeat(40), headSha: "b".repeat(40) } as const;
    const what = { repository: { id: "101", owner: "o", name: "n" }, runId: "5", actor: MIRA, ask };
    openDispatched({ ...what, keepMinutes: 30 }, sql, new Store(sql), T0, hands);
    openDispatched({ ...what, runId: "6" }, sql, new Store(sql), T0, hands);
    expect(given.map((one) => one.keepMinutes)).toEqual([30, undefined]);
  });
});

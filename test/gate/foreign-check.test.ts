/** A check of the gate's own name that another App made: it is nobody's verdict here, and the audit has it. */
import { describe, expect, it } from "vitest";
import { goOn, lives, repositoryOf, restore } from "../recovery/stored-lives.ts";
import { nodeSql } from "../support/node-sql.ts";

function executing() {
  const life = lives.find((one) => one.name.startsWith("executing"));
  if (life === undefined) throw new Error("there is a stored life that executes");
  const sql = nodeSql();
  restore(life, sql);
  const outside = goOn(sql, life.at, repositoryOf(life));
  const { store } = outside.gate;
  const request = store.request(life.request);
  if (request === null) throw new Error("it has its request");
  const known = store.repository();
  let guid = 0;
  const hear = (change: Readonly<Record<string, unknown>> = {}) =>
    outside.gate.accept({
      guid: `g${(guid += 1)}`,
      event: "check_run",
      repository: known?.repository ?? { id: "", owner: "", name: "" },
      installationId: known?.installationId ?? null,
      signal: {
        kind: "check-run",
        action: "completed",
        checkRunId: "99",
        name: request.terms?.checkName ?? "",
        headSha: request.headSha,
        externalId: null,
        appId: "666",
        identifier: null,
        sender: { id: "5", login: "walt" },
        ...change,
      } as never,
    });
  const noted = () => store.auditOf(life.request).filter((row) => row.act === "check.look-alike");
  return { ...outside, store, request, hear, noted };
}

describe("N97: a check of our name by another App", () => {
  it("is in the audit of its request once for each App, with the reason that says what to do", () => {
    const { request, hear, noted } = executing();
    const before = JSON.stringify(request.state);
    hear({ action: "created" });
    hear();
    expect(noted().map(({ reason, facts }) => [reason, JSON.parse(facts)])).toEqual([
      ["foreign-check", { head: request.headSha, name: request.terms?.checkName, app: "666" }],
    ]);
    hear({ appId: "667" });
    expect(noted()).toHaveLength(2);
    expect(JSON.stringify(request.state)).toBe(before);
  });

  it.each([
    ["our own", { appId: "4711" }],
    ["of another name", { name: "Unit tests" }],
    ["on a head that is none of ours", { headSha: "e".repeat(40) }],
    ["asked for again", { action: "rerequested" }],
    ["of nobody", { appId: null }],
  ])("is not seen in one that is %s", (_what, change) => {
    const { hear, noted } = executing();
    hear(change);
    expect(noted()).toEqual([]);
  });
});

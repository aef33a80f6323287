/**
 * Confused deputies: a word that is genuine, about something it has no say in. Tokens of one repository about another, and
 * of one run about another's request: test/oidc/forged.test.ts and test/oidc/workflow-api.test.ts.
 */
import { describe, expect, it } from "vitest";
import { purposeOf, narrowed } from "../../shared/github/purpose.ts";
import { requestIn, attemptAt, states } from "../lifecycle/fixtures.ts";
import { ask } from "../worker/ports.ts";
import { HEAD, openBoundary, pullRequest } from "./boundary.ts";

const nonceOf = (letter: string) => letter.repeat(32);

describe("a delivery whose parts do not belong together", () => {
  it("a pull request of repository 102 reaches 102's gate alone, whatever its number and head are elsewhere", async () => {
    const world = openBoundary();
    await world.deliver("pull_request", pullRequest());
    await world.deliver("pull_request", pullRequest({ repositoryId: 102 }));
    expect([world.requests("101").length, world.requests("102").length]).toEqual([1, 1]);
    await world.deliver("pull_request", pullRequest({ repositoryId: 102, action: "closed" }));
    expect(world.gates["101"]?.gate.store.openRequests()).toHaveLength(1);
  });

  it("the name of a served repository with another id makes no gate", async () => {
    const world = openBoundary();
    const answer = await world.deliver("pull_request", pullRequest({ repositoryId: 1010, name: "r101" }));
    expect(answer).toContain("not on the allow-list");
    expect(world.requests()).toEqual([]);
  });

  it("an id as text, with a sign, an exponent or a blank is not the id", async () => {
    const world = openBoundary();
    const body = JSON.stringify(pullRequest());
    for (const id of [
      '"0101"',
      '" 101"',
      '"+101"',
      '"101.0"',
      '"1.01e2"',
      '"101\\n"',
      "101.5",
      "-101",
      '["101"]',
      "null",
    ]) {
      const answer = await world.deliver(
        "pull_request",
        body.replace('"repository":{"id":101', `"repository":{"id":${id}`),
      );
      expect(answer).toMatch(/^(?:400|202 Ignored)/);
    }
    expect(world.requests()).toEqual([]);
  });

  it("another App's check, suite and button of our name ask for nothing", async () => {
    const world = openBoundary();
    await world.deliver("pull_request", pullRequest());
    const { action: _action, pull_request: _pull, ...common } = pullRequest();
    const check = { id: 9, name: "CI GPU gate", head_sha: HEAD, external_id: "", app: { id: 666 } };
    const words = [
      ["check_run", { ...common, action: "rerequested", check_run: check }],
      [
        "check_run",
        {
          ...common,
          action: "requested_action",
          check_run: check,
          requested_action: { identifier: "approve-gpu-run" },
        },
      ],
      [
        "check_suite",
        { ...common, action: "rerequested", check_suite: { head_sha: HEAD, head_branch: "topic", app: { id: 666 } } },
      ],
    ] as const;
    for (const [event, body] of words) expect(await world.deliver(event, body)).toBe("202 Accepted.");
    expect(world.requests()).toHaveLength(1);
    const outcomes = world.gates["101"]?.sql.exec("SELECT outcome FROM deliveries WHERE event <> 'pull_request'");
    expect(outcomes?.every((row) => String(row["outcome"]).startsWith("note:"))).toBe(true);
  });

  it("word of another installation about itself does not end what runs here", async () => {
    const world = openBoundary();
    await world.deliver("pull_request", pullRequest());
    for (const action of ["deleted", "suspend"]) {
      await world.deliver("installation", { action, installation: { id: 78 }, sender: { id: 5, login: "x" } });
    }
    expect(world.gates["101"]?.gate.store.openRequests()).toHaveLength(1);
    await world.deliver("installation", { action: "suspend", installation: { id: 77 }, sender: { id: 5, login: "x" } });
    const [request] = world.gates["101"]?.gate.store.openRequests() ?? [];
    expect(request?.stop ?? request?.state.kind ?? "ended").not.toBe("received");
  });
});

describe("a pod that speaks for another", () => {
  /** Repository 101 has an attempt with nonces of x and y; 102 has none. */
  async function twoPods() {
    const world = openBoundary();
    const { sha256Hex } = await import("../../shared/config/hash.ts");
    const attempt = attemptAt("bought", {
      proofHash: await sha256Hex(nonceOf("a")),
      exitHash: await sha256Hex(nonceOf("b")),
    });
    const executing = states.executing();
    world.gates["101"]?.gate.store.saveRequest(requestIn({ ...executing, attempt }));
    const call = (path: string, nonce: string) =>
      ask(world.ports, `/pod/v1/${path}`, {
        method: "POST",
        headers: { authorization: `Bearer ${nonce}` },
        body: JSON.stringify({ reason: "terminated", code: 1 }),
      });
    return { world, call, id: attempt.id };
  }

  it.each([
    ["under another repository's address", (id: string) => [`102/${id}/exit`, nonceOf("b")]],
    ["under another attempt", (id: string) => [`101/${id}x/exit`, nonceOf("b")]],
    ["with the nonce of its proof where the exit is asked for", (id: string) => [`101/${id}/exit`, nonceOf("a")]],
    ["with the hash that is stored", (id: string) => [`101/${id}/exit`, "0".repeat(64)]],
    ["of a repository nobody serves", (id: string) => [`103/${id}/exit`, nonceOf("b")]],
    ["with a path in place of the attempt", () => ["101/..%2f..%2fv1/exit", nonceOf("b")]],
  ])("%s is answered like nothing", async (_name, attack) => {
    const { world, call, id } = await twoPods();
    const [path = "", nonce = ""] = attack(id);
    const before = JSON.stringify(world.gates["101"]?.gate.store.openRequests());
    const answer = await call(path, nonce);
    expect([answer.status, await answer.text()]).toEqual([404, "There is nothing at this address."]);
    expect(JSON.stringify(world.gates["101"]?.gate.store.openRequests())).toBe(before);
  });

  it("is heard about itself", async () => {
    const { call, id } = await twoPods();
    expect((await call(`101/${id}/exit`, nonceOf("b"))).status).toBe(204);
  });
});

describe("a token minted for one thing", () => {
  it.each([
    ["DELETE", "/repos/a/b"],
    ["PATCH", "/repos/a/b"],
    ["PUT", "/repos/a/b/contents/x"],
    ["POST", "/repos/a/b/git/refs"],
    ["PUT", "/repos/a/b/pulls/7/merge"],
    ["POST", "/repos/a/b/statuses/abc"],
    ["PUT", "/repos/a/b/collaborators/evil"],
    ["POST", "/repos/a/b/hooks"],
    ["PUT", "/repos/a/b/actions/secrets/X"],
    ["POST", "/orgs/a/actions/runner-groups"],
    ["POST", "/repos/a/b/actions/runners/registration-token"],
    ["DELETE", "/repos/a/b/actions/caches"],
    ["PUT", "/repos/a/b/actions/permissions"],
    ["POST", "/repos/a/b/actions/runs/1/approve"],
  ] as const)("%s %s would get the one that only reads, for one repository", (method, path) => {
    const purpose = purposeOf({ method, path });
    const body = narrowed({ installationId: "77", repositoryId: "101", purpose }) as {
      readonly repository_ids?: readonly unknown[];
      readonly permissions: Readonly<Record<string, string>>;
    };
    expect(body.repository_ids).toHaveLength(1);
    expect(Object.values(body.permissions)).not.toContain("write");
  });

  it("is for one repository also where its id is none: GitHub refuses it, where a wider one would be taken", () => {
    for (const repositoryId of ["", "0", "-1", "1e3x", "99999999999999999999"]) {
      const body = narrowed({ installationId: "77", repositoryId, purpose: "checks" });
      expect(body).toHaveProperty("repository_ids", [0]);
    }
  });
});

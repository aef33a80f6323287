/** A genuine delivery, sent again by somebody who has it: later, elsewhere, under another name. */
import { describe, expect, it } from "vitest";
import { requestIn, states } from "../lifecycle/fixtures.ts";
import { HEAD, openBoundary, pullRequest, signature, type Boundary } from "./boundary.ts";

const { pull_request: _pull, action: _action, ...COMMON } = pullRequest();
const AGAIN = {
  ...COMMON,
  action: "rerequested",
  check_suite: { head_sha: HEAD, head_branch: "topic", app: { id: 1234 } },
};

function conclude(world: Boundary): void {
  const store = world.gates["101"]?.gate.store;
  for (const request of store?.openRequests() ?? []) {
    store?.saveRequest(requestIn(states.concluded(), { ...request, state: states.concluded() }));
  }
}

describe("a delivery that was processed", () => {
  it("changes nothing when it comes again, however often", async () => {
    const world = openBoundary();
    await world.deliver("pull_request", pullRequest(), "guid-1");
    for (let copy = 0; copy < 5; copy += 1) {
      expect(await world.deliver("pull_request", pullRequest(), "guid-1")).toContain("202 Processed before");
    }
    expect(world.requests()).toHaveLength(1);
  });

  it("opens nothing under another guid: a guid is a header, and nobody signs it", async () => {
    const world = openBoundary();
    await world.deliver("pull_request", pullRequest());
    conclude(world);
    for (let copy = 0; copy < 5; copy += 1) await world.deliver("pull_request", pullRequest());
    expect(world.requests()).toHaveLength(1);
  });

  it("buys one run for each time a person pressed the button, not for each time it is told", async () => {
    const world = openBoundary();
    await world.deliver("pull_request", pullRequest());
    conclude(world);
    expect(await world.deliver("check_suite", AGAIN, "guid-a")).toBe("202 Accepted.");
    expect(world.requests()).toHaveLength(2);
    conclude(world);
    expect(await world.deliver("check_suite", AGAIN, "guid-b")).toContain("202 Processed before");
    expect(world.requests()).toHaveLength(2);
    // The person presses it once more: GitHub's body is another one.
    const later = { ...AGAIN, check_suite: { ...AGAIN.check_suite, updated_at: "2026-11-30T12:00:01Z" } };
    expect(await world.deliver("check_suite", later, "guid-c")).toBe("202 Accepted.");
    expect(world.requests()).toHaveLength(3);
  });

  it("is not the same in another repository: a changed id breaks the signature", async () => {
    const world = openBoundary();
    const body = JSON.stringify(pullRequest());
    const moved = body.replaceAll("101", "102");
    const answer = await world.post(moved, { "x-hub-signature-256": signature(body) });
    expect(answer.status).toBe(401);
    expect(world.requests("102")).toEqual([]);
  });

  it("ends what runs once, not again when it is told of a suspension that is over", async () => {
    const world = openBoundary();
    await world.deliver("pull_request", pullRequest());
    const suspended = { action: "suspend", installation: { id: 77 }, sender: { id: 5, login: "mira" } };
    await world.deliver("installation", suspended, "guid-s");
    conclude(world);
    await world.deliver("installation", { ...suspended, action: "unsuspend" });
    await world.deliver("pull_request", pullRequest({ headSha: "b".repeat(40) }));
    await world.deliver("installation", suspended, "guid-t");
    const [request] = world.gates["101"]?.gate.store.openRequests() ?? [];
    expect(request).toMatchObject({ headSha: "b".repeat(40), stop: null, state: { kind: "authorizing" } });
  });

  it("but a second removal of the repository is heard, although its bytes are those of the first", async () => {
    const world = openBoundary();
    await world.deliver("pull_request", pullRequest());
    const names = [{ id: 101, name: "r101", full_name: "octo/r101" }];
    const base = { installation: { id: 77 }, repository_selection: "selected", sender: { id: 5, login: "mira" } };
    const removed = { ...base, action: "removed", repositories_added: [], repositories_removed: names };
    await world.deliver("installation_repositories", removed, "guid-r1");
    conclude(world);
    const added = { ...base, action: "added", repositories_added: names, repositories_removed: [] };
    await world.deliver("installation_repositories", added, "guid-a");
    await world.deliver("pull_request", pullRequest({ headSha: "b".repeat(40) }));
    await world.deliver("installation_repositories", removed, "guid-r2");
    const store = world.gates["101"]?.gate.store;
    const [request] = store?.requestsOfHead("b".repeat(40), "pull-request") ?? [];
    expect([request?.stop, request?.state]).toMatchObject([
      null,
      { kind: "concluded", verdict: { reason: "app-removed" } },
    ]);
  });
});

describe("an event of the past", () => {
  it("does not bring back the name that the repository had then", async () => {
    const world = openBoundary();
    await world.deliver("pull_request", pullRequest({ owner: "octo", name: "engine" }), "guid-old");
    await world.deliver("pull_request", pullRequest({ owner: "octo", name: "motor", action: "edited" }), "guid-new");
    await world.deliver("pull_request", pullRequest({ owner: "octo", name: "engine" }), "guid-old");
    expect(world.gates["101"]?.gate.store.repository()?.repository.name).toBe("motor");
  });

  it("the end of an installation that the repository has left ends nothing, even where it is named", async () => {
    const world = openBoundary();
    await world.deliver("pull_request", pullRequest({ installationId: 77 }));
    await world.deliver("pull_request", pullRequest({ installationId: 88, action: "edited" }));
    const repositories = [{ id: 101, name: "r101", full_name: "octo/r101" }];
    const left = { action: "deleted", installation: { id: 77 }, repositories, sender: { id: 5, login: "mira" } };
    expect(await world.deliver("installation", left)).toBe("202 Accepted.");
    const store = world.gates["101"]?.gate.store;
    expect(store?.openRequests().map(({ stop }) => stop)).toEqual([null]);
    expect(store?.repository()?.installationId).toBe("88");
  });

  it("a head that was replaced is opened at most, and what is open for the new head goes on", async () => {
    const world = openBoundary();
    const second = "b".repeat(40);
    await world.deliver("pull_request", pullRequest());
    await world.deliver("pull_request", pullRequest({ action: "synchronize", headSha: second }));
    await world.deliver("pull_request", pullRequest({ action: "synchronize" }));
    expect(world.requests()).toHaveLength(2);
    expect(world.gates["101"]?.gate.store.openRequests().some(({ headSha }) => headSha === second)).toBe(true);
  });
});

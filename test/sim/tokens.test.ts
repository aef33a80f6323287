/** Identity tokens in the simulator: what is shown, what is true about it, and a checker that can object. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createTokenKeys } from "../../shared/oidc/jwks.ts";
import { checkersFor } from "../../sim/checkers/index.ts";
import { SCENES, type FaultKind } from "../../sim/faults.ts";
import { LANE, RECOVERY, SWEEP, type Repository, type Run } from "../../sim/github-model.ts";
import { ISSUER, signed, VirtualIssuer } from "../../sim/issuer.ts";
import { installPlatform, runAs } from "../../sim/platform.ts";
import { claimsOf, mint, READ_ONLY, showing, type Asked, type Shown } from "../../sim/tokens.ts";
import type { Act } from "../../sim/worker.ts";
import { World } from "../../sim/world.ts";
import { checker, HEAD, MERGE, MINUTE, repository, run, world } from "./views.ts";

let uninstall: () => void = () => undefined;
beforeAll(() => {
  uninstall = installPlatform();
});
afterAll(() => uninstall());

const NOW = 60 * MINUTE;
const mona = { id: "1000", login: "mona", role: "maintain" };
const issuer = new VirtualIssuer(() => NOW);

function repositoryWith(more: object = {}): Repository {
  return repository({ ownTurns: [{ at: 0, on: true, ready: true }], ...more });
}

function runOf(path: string, more: Partial<Run> = {}): Run {
  const event = path === LANE ? "pull_request" : "workflow_dispatch";
  const headSha = path === LANE ? HEAD : MERGE;
  return run({
    path,
    event,
    headSha,
    headBranch: "main",
    actor: mona,
    triggering: mona,
    status: "in_progress",
    ...more,
  });
}

function shownFor(asked: Asked, change: Partial<Shown> & { readonly bent?: object } = {}): Shown {
  const own = runOf(asked === "probe" || asked === "classify" ? LANE : RECOVERY);
  const repo = change.repository ?? repositoryWith();
  const of = { asked, repository: repo, run: change.run ?? own, fromFork: change.fromFork ?? false };
  const claims = { ...claimsOf(repo, of.run, asked, "jti-00001", NOW), ...change.bent };
  const { bent: _bent, ...rest } = change;
  return { ...showing(mint(issuer, of, claims), NOW), ...rest };
}

const OPENED: Act = { kind: "answers", status: 202, body: { request: "r1" } };
const LET_THROUGH: Act = { kind: "answers", status: 200, body: { enabled: true, available: true, fail: false } };
const GPU: Act = { kind: "answers", status: 200, body: { outputs: { run_gpu: "true" } } };

function judged(...acts: readonly (readonly [Shown, Act])[]): string | null {
  return judgedBeside(null, ...acts);
}

/** As judged while cron's last tick was then. */
function judgedBeside(tickedAt: number | null, ...acts: readonly (readonly [Shown, Act])[]): string | null {
  const repo = acts[0]?.[0].repository ?? repositoryWith();
  return (
    checker("tokens").step?.(
      world({
        now: NOW,
        repository: repo,
        board: tickedAt === null ? null : { at: tickedAt },
        rows: { dispatches: [{ id: "r1" }] },
        acts: acts.map(([shown, act]) => ({ at: NOW, shown, act })),
      }),
    ) ?? null
  );
}

describe("the checker of tokens", () => {
  test("has nothing against what an honest job is told", () => {
    expect(judged([shownFor("recover"), OPENED])).toBeNull();
    expect(judged([shownFor("progress"), OPENED])).toBeNull();
    expect(judged([shownFor("probe"), LET_THROUGH])).toBeNull();
    expect(judged([shownFor("classify"), GPU])).toBeNull();
  });

  test.each<[string, Partial<Shown> & { readonly bent?: object }]>([
    ["never signed", { signedBy: null }],
    ["no key of the issuer's", { signedBy: "key-77" }],
    ["meant for", { bent: { aud: READ_ONLY } }],
    ["it is of", { bent: { iss: `${ISSUER}/mallory` } }],
    ["expired", { bent: { exp: (NOW - 2 * MINUTE) / 1000 } }],
    ["not served", { bent: { repository_id: "999" } }],
    ["another name", { bent: { repository: "acme/other" } }],
    ["workflow_ref", { bent: { workflow_ref: `acme/repo0/${RECOVERY}@refs/heads/topic` } }],
    [
      "job_workflow_ref",
      { bent: { job_workflow_ref: "acme/repo0/.github/workflows/gpu-gate-validation.yml@refs/heads/main" } },
    ],
    ["attempt 2", { bent: { run_attempt: "2" } }],
    ["self-hosted", { bent: { runner_environment: "self-hosted" } }],
    ["does not exist", { bent: { run_id: "10" } }],
    ["somebody else's", { bent: { actor_id: "7" } }],
    ["is over", { run: runOf(RECOVERY, { status: "completed" }) }],
    ["the role write", { run: runOf(RECOVERY, { actor: { ...mona, role: "write" } }) }],
  ])("objects when a request is opened although: %s", (what, change) => {
    expect(judged([shownFor("recover", change), OPENED])).toContain(what);
  });

  test("objects to a token that is heard twice, and to a gate that hears of a stranger's", () => {
    const shown = shownFor("recover");
    expect(judged([shown, OPENED], [{ ...shown }, OPENED])).toContain("a second time");
    const stranger = shownFor("probe", { bent: { repository_id: "999" } });
    expect(judged([stranger, { kind: "asks-gate", repositoryId: "999" }])).toContain("reaches the gate of 999");
  });

  test("objects when a lane is let through, or left out, on less than a machine that is there", () => {
    const lane = (turns: object, act: Act = LET_THROUGH): string | null =>
      judged([shownFor("probe", { repository: repositoryWith({ ownTurns: turns }) }), act]);
    expect(lane([{ at: 0, on: true, ready: false }])).toContain("without a machine");
    expect(lane([{ at: 0, on: false, ready: true }])).toContain("is off");
    // It changed while the call was under way: either answer is right.
    expect(
      lane([
        { at: 0, on: false, ready: true },
        { at: NOW, on: true, ready: true },
      ]),
    ).toBeNull();
    const off: Act = { kind: "answers", status: 200, body: { enabled: false, available: false, fail: false } };
    expect(lane([{ at: 0, on: true, ready: true }], off)).toContain("called off");
    const mild: Act = { kind: "answers", status: 200, body: { enabled: true, available: false, fail: false } };
    expect(lane([{ at: 0, on: true, ready: false }], mild)).toContain("does not fail");
    expect(judged([shownFor("probe", { fromFork: true }), LET_THROUGH])).toContain("of a fork");
    const none: Act = { kind: "answers", status: 200, body: { outputs: { run_gpu: "false" } } };
    expect(judged([shownFor("classify"), none])).toContain("leave the GPU out");
  });
});

describe("the checker of tokens, where cron is asked after", () => {
  const scheduled = runOf(SWEEP, { event: "schedule", headSha: MERGE });
  const asked = shownFor("sweep", { run: scheduled });
  const alive: Act = { kind: "answers", status: 200, body: { swept: false } };

  test("lets a silent cron's duties be done, and no other's", () => {
    expect(judgedBeside(NOW - 4 * MINUTE, [asked, { kind: "sweeps" }])).toBeNull();
    expect(judgedBeside(NOW - 2 * MINUTE, [asked, { kind: "sweeps" }])).toContain("which were done 120000 ms ago");
    expect(judgedBeside(null, [shownFor("probe"), { kind: "sweeps" }])).toContain("does cron's duties");
  });

  test("wants a tick behind the word that cron is alive, and the default branch's schedule behind the question", () => {
    expect(judgedBeside(NOW - 2 * MINUTE, [asked, alive])).toBeNull();
    expect(judgedBeside(NOW - 4 * MINUTE, [asked, alive])).toContain("without a tick");
    const elsewhere = shownFor("sweep", { run: scheduled, bent: { ref: "refs/heads/topic" } });
    expect(judgedBeside(null, [elsewhere, { kind: "sweeps" }])).toContain("default branch's schedule");
  });
});

describe("the simulated platform", () => {
  test("checks an issuer's signature in earnest, with the product's own verifier", async () => {
    const keys = createTokenKeys(ISSUER, {
      fetch: async () => new Response(issuer.perform({ path: "/.well-known/jwks" } as never).body),
      clock: { now: () => NOW },
    });
    const { claims, token } = shownFor("recover");
    const header = { alg: "RS256", typ: "JWT", kid: issuer.kid };
    // Its time limits are the virtual clock's, which does not go on here.
    const nobody = { alive: true, inFlight: 0, timer: () => ({ cancelled: false }) };
    const verify = (text: string) => runAs(nobody, () => keys.verify(text));
    expect(await verify(token ?? "")).toEqual({ ok: true, value: claims });
    const forged = await verify(signed(claims, "forger", header));
    expect(forged).toMatchObject({ ok: false, error: { refusal: { reason: "signature" } } });
  });

  test("a world in which somebody collects tokens holds, is the same twice, and meets nearly every refusal", async () => {
    const weights = new Map(Object.entries(SCENES["somebody collects tokens"] ?? {}) as [FaultKind, number][]);
    const refusals = new Set<string>();
    const digests: string[] = [];
    for (const seed of [1, 2, 1]) {
      const played = new World({
        plan: { seed, weights, scene: null },
        keepTrace: false,
        maxPulls: 3,
        maxRepositories: 1,
        checkers: checkersFor(),
      });
      await played.run(12 * 60 * MINUTE);
      played.close();
      expect(played.violation).toBeNull();
      digests.push(played.trace.digest());
      for (const reason of played.coverage.refusals.keys()) refusals.add(reason);
    }
    expect(digests[2]).toBe(digests[0]);
    expect([...refusals].toSorted()).toEqual(
      expect.arrayContaining(["audience", "expired", "replayed", "run-attempt"]),
    );
    expect(refusals.size).toBeGreaterThan(9);
  });
});

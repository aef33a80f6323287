/**
 * Goal: whoever is not a maintainer's own run of the trusted workflow opens nothing, and learns nothing from being refused.
 *
 * Method: the whole API with real signatures. Each row changes one thing of a call that is otherwise accepted (the first
 * test), so that no row is refused for another row's reason. Expected: the one public text, and this reason in the log.
 */
import { describe, expect, it } from "vitest";
import {
  base64url,
  claims,
  GATE_URL,
  HEAD,
  ISSUER,
  KEY,
  MIRA,
  NOW,
  openBench,
  READ_ONLY,
  RECOVERY,
  runOf,
  sign,
  signingKey,
  signWithPublicKey,
  VALIDATION,
  WALT,
  type Json,
  type Setup,
} from "./harness.ts";

const SECONDS = Math.floor(NOW / 1000);
const STRANGER = signingKey("key-1");
const UNKNOWN = signingKey("key-of-nobody");
const recovery = (ref: string, repository = "octo/engine", path = RECOVERY): string => `${repository}/${path}@${ref}`;
const from = (workflow: string, more: Json = {}): Json => ({
  job_workflow_ref: workflow,
  workflow_ref: workflow,
  ...more,
});

interface Forged {
  readonly what: string;
  /** The whole token, or the claims that differ from a good one. */
  readonly token: string | Json;
  readonly status: 401 | 403;
  /** Fields of the log line. */
  readonly reason: Json;
  readonly setup?: Setup;
}

const without = (name: string): string =>
  sign(Object.fromEntries(Object.entries(claims()).filter(([key]) => key !== name)));

const TABLE: readonly Forged[] = [
  // The signature and its header.
  { what: "not a token at all", token: "let-me-in", status: 401, reason: { reason: "malformed", what: "not a token" } },
  {
    what: "two parts",
    token: `${base64url({ alg: "RS256" })}.${base64url({})}`,
    status: 401,
    reason: { reason: "malformed" },
  },
  {
    what: "alg none, without a signature",
    token: `${base64url({ alg: "none", kid: KEY.kid })}.${base64url(claims())}.`,
    status: 401,
    reason: { reason: "algorithm", got: "none" },
  },
  {
    what: "alg None in other letters",
    token: sign(claims(), { header: { alg: "None" } }),
    status: 401,
    reason: { reason: "algorithm" },
  },
  {
    what: "HMAC with the public key as secret",
    token: signWithPublicKey(claims()),
    status: 401,
    reason: { reason: "algorithm", got: "HS256" },
  },
  {
    what: "HMAC that calls itself RS256",
    token: signWithPublicKey(claims(), "RS256"),
    status: 401,
    reason: { reason: "signature" },
  },
  {
    what: "another RSA algorithm",
    token: sign(claims(), { header: { alg: "RS512" } }),
    status: 401,
    reason: { reason: "algorithm" },
  },
  {
    what: "a stranger's key under GitHub's key id",
    token: sign(claims(), { key: STRANGER }),
    status: 401,
    reason: { reason: "signature" },
  },
  {
    what: "a key the issuer does not have",
    token: sign(claims(), { key: UNKNOWN }),
    status: 401,
    reason: { reason: "unknown-key", kid: "key-of-nobody" },
  },
  {
    what: "no key id",
    token: sign(claims(), { header: { kid: "" } }),
    status: 401,
    reason: { reason: "malformed", what: "kid" },
  },
  {
    what: "a key of its own in the header",
    token: sign(claims(), { key: STRANGER, header: { jwk: STRANGER.publicKey.export({ format: "jwk" }) } }),
    status: 401,
    reason: { reason: "signature" },
  },
  {
    what: "a critical header nobody knows",
    token: sign(claims(), { header: { crit: ["exp-not"], "exp-not": true } }),
    status: 401,
    reason: { reason: "malformed" },
  },
  {
    what: "a payload changed after signing",
    token: sign(claims()).replace(/\.[^.]+\./, `.${base64url(claims({ actor_id: "1" }))}.`),
    status: 401,
    reason: { reason: "signature" },
  },
  {
    what: "a token of 20,000 characters",
    token: sign(claims({ pad: "x".repeat(20_000) })),
    status: 401,
    reason: { reason: "malformed", what: "too long" },
  },
  {
    what: "a payload that is no object",
    token: sign([] as unknown as Json),
    status: 401,
    reason: { reason: "malformed" },
  },

  // Claims that are missing or not what GitHub sends.
  { what: "no jti", token: without("jti"), status: 401, reason: { what: "claim jti" } },
  { what: "no iat: ageless", token: without("iat"), status: 401, reason: { what: "claim iat" } },
  { what: "no exp: endless", token: without("exp"), status: 401, reason: { what: "claim exp" } },
  { what: "no workflow_ref", token: without("workflow_ref"), status: 401, reason: { what: "claim workflow_ref" } },
  {
    what: "a repository id that is a number",
    token: { repository_id: 101 },
    status: 401,
    reason: { what: "claim repository_id" },
  },
  {
    what: "a repository id with a leading zero",
    token: { repository_id: "0101" },
    status: 401,
    reason: { what: "claim repository_id" },
  },
  { what: "a time that is text", token: { exp: "9999999999" }, status: 401, reason: { what: "claim exp" } },

  // Issuer, audience, times.
  { what: "another issuer", token: { iss: "https://issuer.test.evil" }, status: 401, reason: { reason: "issuer" } },
  {
    what: "the issuer of an enterprise",
    token: { iss: `${ISSUER}/acme` },
    status: 401,
    reason: { reason: "issuer", expected: ISSUER },
  },
  {
    what: "another service's audience",
    token: { aud: "https://packages.example.org" },
    status: 401,
    reason: { reason: "audience" },
  },
  {
    what: "GitHub's default audience",
    token: { aud: "https://github.com/octo" },
    status: 401,
    reason: { reason: "audience" },
  },
  {
    what: "our audience among others",
    token: { aud: [GATE_URL, "https://packages.example.org"] },
    status: 401,
    reason: { reason: "audience" },
  },
  {
    what: "our audience with a slash",
    token: { aud: `${GATE_URL}/` },
    status: 401,
    reason: { reason: "audience", expected: GATE_URL },
  },
  {
    what: "a token that may only read",
    token: { aud: READ_ONLY },
    status: 401,
    reason: { reason: "audience", got: READ_ONLY },
  },
  { what: "expired", token: { exp: SECONDS - 61 }, status: 401, reason: { reason: "expired", secondsAgo: 61 } },
  {
    what: "not valid yet",
    token: { nbf: SECONDS + 61 },
    status: 401,
    reason: { reason: "not-yet-valid", claim: "nbf" },
  },
  {
    what: "issued in the future",
    token: { iat: SECONDS + 61, nbf: SECONDS },
    status: 401,
    reason: { reason: "not-yet-valid", claim: "iat" },
  },
  {
    what: "valid for six hours and eleven minutes old",
    token: { iat: SECONDS - 601, exp: SECONDS + 20_000 },
    status: 401,
    reason: { reason: "too-old", ageSeconds: 601, maxSeconds: 600 },
  },

  // The repository.
  {
    what: "another repository with the same workflow, name and branch",
    token: { repository_id: "999" },
    status: 403,
    reason: { reason: "repository-not-served", repositoryId: "999" },
  },
  {
    what: "our id under another name",
    token: { repository: "octo/other" },
    status: 403,
    reason: { reason: "repository", got: "octo/other" },
    setup: { routes: {} },
  },
  {
    what: "a served repository's id and our name",
    token: { repository_id: "102" },
    status: 403,
    reason: { reason: "repository", got: "101", expected: "102" },
  },
  {
    what: "another owner",
    token: { repository_owner_id: "10" },
    status: 403,
    reason: { reason: "owner", got: "10", expected: "9" },
  },

  // The workflow file and the ref it was read at.
  {
    what: "a tag named main",
    token: from(recovery("refs/tags/main")),
    status: 403,
    reason: { reason: "workflow", fault: "ref" },
  },
  {
    what: "a branch main-evil",
    token: from(recovery("refs/heads/main-evil")),
    status: 403,
    reason: { reason: "workflow", fault: "ref" },
  },
  {
    what: "a branch below main",
    token: from(recovery("refs/heads/main/x")),
    status: 403,
    reason: { reason: "workflow", fault: "ref" },
  },
  {
    what: "a branch that ends in main",
    token: from(recovery("refs/heads/not/main")),
    status: 403,
    reason: { reason: "workflow", fault: "ref" },
  },
  {
    what: "Main with a capital",
    token: from(recovery("refs/heads/Main")),
    status: 403,
    reason: { reason: "workflow", fault: "ref" },
  },
  {
    what: "main without refs",
    token: from(recovery("main")),
    status: 403,
    reason: { reason: "workflow", fault: "unreadable" },
  },
  {
    what: "a pull request's merge ref",
    token: from(recovery("refs/pull/7/merge")),
    status: 403,
    reason: { reason: "workflow", fault: "ref" },
  },
  {
    what: "a commit instead of the branch",
    token: from(recovery(HEAD)),
    status: 403,
    reason: { reason: "workflow", fault: "unreadable" },
  },
  {
    what: "a ref behind the ref",
    token: from(`${recovery("refs/heads/main")}@refs/heads/evil`),
    status: 403,
    reason: { reason: "workflow", fault: "ref" },
  },
  {
    what: "a file whose name ends like the reference",
    token: from(`octo/engine/${RECOVERY}@refs/heads/main.yml@refs/heads/main`),
    status: 403,
    reason: { reason: "workflow" },
  },
  {
    what: "another repository's workflow called from main",
    token: { job_workflow_ref: recovery("refs/heads/main", "evil/engine") },
    status: 403,
    reason: { reason: "workflow", claim: "job_workflow_ref", fault: "repository" },
  },
  {
    what: "a repository whose name begins like ours",
    token: { job_workflow_ref: recovery("refs/heads/main", "octo/engine-evil") },
    status: 403,
    reason: { reason: "workflow", fault: "repository" },
  },
  {
    what: "our workflow called by another one",
    token: { workflow_ref: recovery("refs/heads/main", "octo/engine", ".github/workflows/other.yml") },
    status: 403,
    reason: { reason: "workflow", claim: "workflow_ref", fault: "file" },
  },
  {
    what: "the validation workflow, which may not recover",
    token: from(recovery("refs/heads/main", "octo/engine", VALIDATION)),
    status: 403,
    reason: { reason: "workflow", fault: "file" },
  },
  {
    what: "prepare, which runs a pull request's code",
    token: from(recovery("refs/heads/main", "octo/engine", ".github/workflows/gpu-gate-prepare.yml")),
    status: 403,
    reason: { reason: "workflow", fault: "file" },
  },
  {
    what: "execute, which runs on the pod",
    token: from(recovery("refs/heads/main", "octo/engine", ".github/workflows/gpu-gate-execute.yml")),
    status: 403,
    reason: { reason: "workflow", fault: "file" },
  },
  {
    what: "main, where the default branch is another",
    token: {},
    status: 403,
    reason: { reason: "workflow", fault: "ref", expected: recovery("refs/heads/trunk") },
    setup: { repository: { default_branch: "trunk" } },
  },

  // How and where the job ran.
  {
    what: "a ref that is a tag",
    token: { ref: "refs/tags/main" },
    status: 403,
    reason: { reason: "ref", expected: "refs/heads/main" },
  },
  {
    what: "another branch's ref",
    token: { ref: "refs/heads/topic" },
    status: 403,
    reason: { reason: "ref", got: "refs/heads/topic" },
  },
  {
    what: "pull_request_target",
    token: { event_name: "pull_request_target" },
    status: 403,
    reason: { reason: "event" },
  },
  {
    what: "workflow_run",
    token: { event_name: "workflow_run" },
    status: 403,
    reason: { reason: "event", got: "workflow_run" },
  },
  { what: "a push", token: { event_name: "push" }, status: 403, reason: { reason: "event" } },
  {
    what: "a self-hosted machine",
    token: { runner_environment: "self-hosted" },
    status: 403,
    reason: { reason: "runner-environment" },
  },
  { what: "a second attempt", token: { run_attempt: "2" }, status: 403, reason: { reason: "run-attempt", got: "2" } },

  // The run as GitHub knows it: permission laundering.
  {
    what: "a run that does not exist",
    token: {},
    status: 403,
    reason: { reason: "run-unknown" },
    setup: { run: null },
  },
  {
    what: "a writer's re-run of a maintainer's recovery, with attempt 1's token",
    token: {},
    status: 403,
    reason: { reason: "run-differs", what: "attempt", got: "2", expected: "1" },
    setup: { run: runOf({ run_attempt: 2, triggering_actor: WALT }) },
  },
  {
    what: "another person's hand on the same attempt",
    token: {},
    status: 403,
    reason: { reason: "actor", token: "501", actor: "501", triggeringActor: "502" },
    setup: { run: runOf({ triggering_actor: WALT }) },
  },
  {
    what: "a maintainer's hand on a writer's run",
    token: { actor_id: "502" },
    status: 403,
    reason: { reason: "actor", token: "502", actor: "502", triggeringActor: "501" },
    setup: { run: runOf({ actor: WALT }) },
  },
  {
    what: "a token that names the maintainer, on a writer's run",
    token: {},
    status: 403,
    reason: { reason: "actor", token: "501", actor: "502", triggeringActor: "502" },
    setup: { run: runOf({ actor: WALT, triggering_actor: WALT }) },
  },
  {
    what: "a run whose actors GitHub does not name",
    token: {},
    status: 403,
    reason: { reason: "actor", actor: "", triggeringActor: "" },
    setup: { run: runOf({ actor: null, triggering_actor: null }) },
  },
  {
    what: "a login taken over: same name, other account",
    token: {},
    status: 403,
    reason: { reason: "actor", actor: "777" },
    setup: { run: runOf({ actor: { id: 777, login: "mira" }, triggering_actor: MIRA }) },
  },
  {
    what: "a run of another workflow",
    token: {},
    status: 403,
    reason: { reason: "run-differs", what: "workflow" },
    setup: { run: runOf({ path: ".github/workflows/ci.yml" }) },
  },
  {
    what: "a run of another branch",
    token: {},
    status: 403,
    reason: { reason: "run-differs", what: "branch", got: "topic" },
    setup: { run: runOf({ head_branch: "topic" }) },
  },
  {
    what: "a run of another commit",
    token: {},
    status: 403,
    reason: { reason: "run-differs", what: "sha", got: HEAD },
    setup: { run: runOf({ head_sha: HEAD }) },
  },
  {
    what: "a run of another event",
    token: {},
    status: 403,
    reason: { reason: "run-differs", what: "event", got: "schedule" },
    setup: { run: runOf({ event: "schedule" }) },
  },
  {
    what: "a run of another repository",
    token: {},
    status: 403,
    reason: { reason: "run-differs", what: "repository", got: "102" },
    setup: { run: runOf({ repository: { id: 102 } }) },
  },
  {
    what: "a token that outlived its run",
    token: {},
    status: 403,
    reason: { reason: "run-finished", runId: "7001" },
    setup: { run: runOf({ status: "completed", conclusion: "success" }) },
  },
];

describe("forged and confused tokens", () => {
  it("open nothing under a configuration in which execute would also recover: it is refused as a whole", async () => {
    const config =
      "version: 1\nworkflows: { execute: .github/workflows/one.yml, recovery: .github/workflows/one.yml }\n";
    const bench = openBench({ config });
    const token = claims(from(recovery("refs/heads/main", "octo/engine", ".github/workflows/one.yml")));
    const answer = await bench.call("/v1/recover", sign(token), { pr_number: 7 });
    expect(answer.status).toBe(422);
    expect(await answer.json()).toMatchObject({ error: "configuration" });
    expect(bench.opened).toEqual([]);
  });

  it("begin from a call that is accepted", async () => {
    const bench = openBench();
    const answer = await bench.call("/v1/recover", sign(claims()), { pr_number: 7 });
    expect(answer.status).toBe(202);
    expect(bench.opened).toHaveLength(1);
    expect(bench.log).toEqual([]);
  });

  it("are at least forty, each another one", () => {
    expect(new Set(TABLE.map((row) => row.what)).size).toBe(TABLE.length);
    expect(TABLE.length).toBeGreaterThanOrEqual(40);
  });

  it.each(TABLE)("$what", async ({ token, status, reason, setup }) => {
    const bench = openBench(setup);
    const text = typeof token === "string" ? token : sign(claims(token));
    const answer = await bench.call("/v1/recover", text, { pr_number: 7 });
    // The same words for every row: which check refused is nobody's business outside.
    expect(await answer.json()).toEqual({ error: "token", message: "This token is not accepted here." });
    expect(answer.status).toBe(status);
    expect(bench.opened).toEqual([]);
    expect(bench.log).toHaveLength(1);
    expect(bench.log[0]).toMatchObject({ event: "workflow-api.refused", path: "/v1/recover", ...reason });
    // The log says why without becoming a place to find tokens.
    const logged = JSON.stringify(bench.log);
    expect(text.split(".").filter((part) => part.length > 40 && logged.includes(part))).toEqual([]);
  });

  it("a call without a token is refused like a wrong one", async () => {
    const bench = openBench();
    const answer = await bench.call("/v1/recover", null, { pr_number: 7 });
    expect([answer.status, await answer.json()]).toEqual([
      401,
      { error: "token", message: "This token is not accepted here." },
    ]);
    expect(bench.log[0]).toMatchObject({ reason: "no-token" });
  });

  it("a token is good for one call", async () => {
    const bench = openBench();
    const token = sign(claims());
    expect((await bench.call("/v1/recover", token, { pr_number: 7 })).status).toBe(202);
    const second = await bench.call("/v1/recover", token, { pr_number: 7 });
    expect(second.status).toBe(401);
    expect(bench.log[0]).toMatchObject({ reason: "replayed" });
    expect(bench.opened).toHaveLength(1);
  });

  it("two calls with one token at the same time open one request", async () => {
    const bench = openBench();
    const token = sign(claims());
    const both = await Promise.all([1, 2].map(() => bench.call("/v1/recover", token, { pr_number: 7 })));
    expect(new Set(both.map((answer) => answer.status))).toEqual(new Set([202, 401]));
  });

  it("a spent token stays spent for as long as any token could be accepted", async () => {
    const bench = openBench({ config: "version: 1\nlimits: { oidc_max_age: 3600 }\n" });
    const token = sign(claims({ exp: SECONDS + 20_000 }));
    expect((await bench.call("/v1/recover", token, { pr_number: 7 })).status).toBe(202);
    bench.setNow(NOW + 3_580_000);
    // Another token's call forgets what is old enough.
    await bench.call("/v1/recover", sign(claims({ exp: SECONDS + 20_000 })), { pr_number: 7 });
    expect((await bench.call("/v1/recover", token, { pr_number: 7 })).status).toBe(401);
    expect(bench.log.at(-1)).toMatchObject({ reason: "replayed" });
  });

  it("a stranger's token asks GitHub nothing and makes no gate", async () => {
    const bench = openBench();
    await bench.call("/v1/recover", sign(claims({ repository_id: "999" })), { pr_number: 7 });
    expect(bench.asked).toEqual([]);
  });

  it.each([
    ["the form before July 2026", "repo:octo/engine:ref:refs/heads/main"],
    ["the form with ids", "repo:octo@9/engine@101:ref:refs/heads/main"],
    ["an environment's", "repo:octo/engine:environment:production"],
    ["another repository's", "repo:evil/engine:ref:refs/heads/main"],
    ["a customised one", "actor:mira"],
  ])("sub decides nothing: %s neither helps nor harms", async (_what, sub) => {
    const good = openBench();
    expect((await good.call("/v1/recover", sign(claims({ sub })), { pr_number: 7 })).status).toBe(202);
    const bad = openBench();
    const wrong = sign(claims({ sub, ref: "refs/heads/topic" }));
    expect((await bad.call("/v1/recover", wrong, { pr_number: 7 })).status).toBe(403);
  });

  it.each([
    ["expiry", { exp: SECONDS - 60 }],
    ["not before", { nbf: SECONDS + 60 }],
    ["issue", { iat: SECONDS + 60 }],
    ["age", { iat: SECONDS - 600 }],
  ])("clocks may differ by a minute, and no second less is refused: %s", async (_what, change) => {
    const bench = openBench();
    expect((await bench.call("/v1/recover", sign(claims(change)), { pr_number: 7 })).status).toBe(202);
  });
});

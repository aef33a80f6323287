import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { describe, expect, it } from "vitest";
import * as z from "zod";
import type { Signal } from "../../shared/lifecycle/signal.ts";
import { parseWebhook } from "../../shared/github/webhook.ts";
import { shaOf } from "./stub.ts";

const catalogue = z
  .array(z.object({ name: z.string(), examples: z.array(z.looseObject({ action: z.string().optional() })) }))
  .parse(JSON.parse(readFileSync(createRequire(import.meta.url).resolve("@octokit/webhooks-examples"), "utf8")));

function parse(event: string, payload: unknown, guid = "guid-1"): ReturnType<typeof parseWebhook> {
  return parseWebhook({ event, guid, text: JSON.stringify(payload) });
}

/** The signals of a payload that must be heard. */
function signalsOf(event: string, payload: unknown): Signal[] {
  const parsed = parse(event, payload);
  if (!parsed.ok || "ignored" in parsed.value) throw new Error(`not heard: ${JSON.stringify(parsed)}`);
  return parsed.value.deliveries.map((delivery) => delivery.signal);
}

function example(event: string, index: number): Record<string, unknown> {
  const payload = catalogue.find((entry) => entry.name === event)?.examples[index];
  if (payload === undefined) throw new Error(`no example ${event} ${index}`);
  return payload;
}

const HEARD: Readonly<Record<string, readonly string[]>> = {
  pull_request: [
    "opened",
    "reopened",
    "synchronize",
    "ready_for_review",
    "converted_to_draft",
    "labeled",
    "unlabeled",
    "closed",
    "edited",
  ],
  workflow_run: ["requested", "in_progress", "completed"],
  workflow_job: ["queued", "waiting", "in_progress", "completed"],
  check_run: ["created", "completed", "rerequested", "requested_action"],
  check_suite: ["rerequested"],
  merge_group: ["checks_requested", "destroyed"],
  repository: ["renamed", "transferred", "archived", "unarchived", "deleted"],
  installation: ["created", "deleted"],
  installation_repositories: ["added", "removed"],
};

describe("the public webhook examples", () => {
  const all = catalogue.flatMap((entry) =>
    entry.examples.map((payload, index) => ({ event: entry.name, index, action: payload.action ?? "", payload })),
  );

  it("are all there", () => {
    expect(all.length).toBeGreaterThan(300);
  });

  it.each(all)(
    "$event $index ($action) is heard or ignored as designed, without an error",
    ({ event, action, payload }) => {
      const parsed = parse(event, payload);
      expect(parsed).toMatchObject({ ok: true });
      const wanted = HEARD[event]?.includes(action) ?? false;
      expect(parsed.ok && "deliveries" in parsed.value).toBe(wanted);
    },
  );

  it("give a pull request's signal", () => {
    const payload = example("pull_request", 12);
    expect(parse("pull_request", payload)).toEqual({
      ok: true,
      value: {
        deliveries: [
          {
            guid: "guid-1",
            event: "pull_request",
            repository: { id: "186853002", owner: "Codertocat", name: "Hello-World" },
            installationId: "1",
            signal: {
              kind: "pull-request",
              action: "opened",
              prNumber: 2,
              headSha: "ec26c3e57ca3a959ca5aad62de7213c562f8c821",
              headRepositoryId: "186853002",
              baseRef: "master",
              draft: false,
              label: null,
              sender: { id: "21031067", login: "Codertocat" },
            },
          },
        ],
      },
    });
  });

  it("give a workflow run's signal, also where the run itself names no path", () => {
    expect(signalsOf("workflow_run", example("workflow_run", 4))).toEqual([
      {
        kind: "workflow-run",
        action: "requested",
        runId: "289782451",
        runAttempt: 1,
        workflowPath: ".github/workflows/test.yml",
        event: "repository_dispatch",
        status: "completed",
        conclusion: "action_required",
        headSha: "3484a3fb816e0859fd6e1cea078d76385ff50625",
        headBranch: "master",
        headRepositoryId: "300029405",
        headRepositoryOwner: "octo-org",
        triggeringActor: { id: "15669918", login: "Codertocat" },
      },
    ]);
    expect(signalsOf("workflow_run", example("workflow_run", 0))).toMatchObject([
      { workflowPath: ".github/workflows/syntax.yml" },
    ]);
  });

  it("give a job that waits for an environment with its status, not its action", () => {
    expect(signalsOf("workflow_job", example("workflow_job", 6))).toMatchObject([
      { action: "queued", status: "waiting", runnerId: null, labels: ["self-hosted", "k8s"] },
    ]);
  });

  it("give the identifier of a pressed button and an empty external id as none", () => {
    expect(signalsOf("check_run", example("check_run", 6))).toMatchObject([
      {
        kind: "check-run",
        action: "requested_action",
        identifier: expect.any(String),
        externalId: null,
        appId: "25811",
      },
    ]);
  });

  it("give a merge group's four coordinates", () => {
    const payload = z
      .object({
        merge_group: z.object({
          head_sha: z.string(),
          head_ref: z.string(),
          base_sha: z.string(),
          base_ref: z.string(),
        }),
      })
      .parse(example("merge_group", 1));
    expect(signalsOf("merge_group", example("merge_group", 1))).toEqual([
      {
        kind: "merge-group",
        action: "checks_requested",
        headSha: payload.merge_group.head_sha,
        headRef: payload.merge_group.head_ref,
        baseSha: payload.merge_group.base_sha,
        baseRef: payload.merge_group.base_ref,
      },
    ]);
  });

  it("give installation events to each repository they name", () => {
    const parsed = parse("installation_repositories", example("installation_repositories", 1));
    expect(parsed).toMatchObject({
      ok: true,
      value: { deliveries: [{ installationId: "957387", signal: { kind: "installation", action: "added" } }] },
    });
  });

  it("say of a comment on an issue that it is none on a pull request", () => {
    expect(parse("issue_comment", example("issue_comment", 3))).toEqual({
      ok: true,
      value: { ignored: "issue_comment on an issue" },
    });
  });
});

// What the package has no example of, written by hand from GitHub's documented shapes.
const repository = { id: 101, name: "engine", full_name: "octo/engine", owner: { id: 9, login: "octo" } };
const base = { repository, sender: { id: 7, login: "mona", type: "User" }, installation: { id: 77, node_id: "x" } };
const forkPull = {
  ...base,
  action: "synchronize",
  number: 12,
  pull_request: {
    number: 12,
    draft: true,
    mergeable: true,
    mergeable_state: "clean",
    head: { sha: shaOf("a"), ref: "main", repo: { id: 555, fork: true } },
    base: { sha: shaOf("b"), ref: "main", repo: { id: 101, fork: false } },
  },
};

describe("what the examples lack", () => {
  it("a fork's pull request names the fork", () => {
    const signals = signalsOf("pull_request", forkPull);
    expect(signals).toMatchObject([{ headRepositoryId: "555", draft: true, prNumber: 12 }]);
    // Mergeability in a payload is not to be trusted, so it does not get in.
    expect(JSON.stringify(signals)).not.toContain("merge");
  });

  it("a pull request whose fork was deleted has no head repository", () => {
    const head = { ...forkPull.pull_request.head, repo: null };
    const payload = { ...forkPull, pull_request: { ...forkPull.pull_request, head } };
    expect(signalsOf("pull_request", payload)).toMatchObject([{ headRepositoryId: null }]);
  });

  it("a label's name comes along", () => {
    const payload = { ...forkPull, action: "labeled", label: { id: 1, name: "run-gpu" } };
    expect(signalsOf("pull_request", payload)).toMatchObject([{ action: "labeled", label: "run-gpu" }]);
  });

  it("a comment on a pull request gives its first line, cut at 200 characters", () => {
    const comment = (body: string): unknown => ({
      ...base,
      action: "created",
      issue: { number: 12, pull_request: { url: "https://github.test/x" } },
      comment: { id: 99, body, created_at: "2026-11-30T12:00:00Z", user: base.sender },
    });
    expect(signalsOf("issue_comment", comment("/gpu run\r\nplease\nsecret plans"))).toEqual([
      {
        kind: "comment",
        prNumber: 12,
        commentId: "99",
        firstLine: "/gpu run",
        createdAt: "2026-11-30T12:00:00Z",
        sender: { id: "7", login: "mona" },
      },
    ]);
    expect(signalsOf("issue_comment", comment("x".repeat(500)))).toMatchObject([{ firstLine: "x".repeat(200) }]);
  });

  const run = {
    ...base,
    action: "in_progress",
    workflow: { id: 3, path: ".github/workflows/ci.yml" },
    workflow_run: {
      id: 1001,
      run_attempt: 2,
      path: ".github/workflows/ci.yml@refs/heads/main",
      event: "pull_request",
      status: "in_progress",
      conclusion: null,
      head_sha: shaOf("a"),
      head_branch: "patch-1",
      head_repository: { id: 555, owner: { login: "mona" } },
      actor: { id: 7, login: "mona" },
      triggering_actor: { id: 8, login: "hubot" },
    },
  };

  it("a re-run that is in progress names its attempt and who started that one", () => {
    expect(signalsOf("workflow_run", run)).toEqual([
      {
        kind: "workflow-run",
        action: "in_progress",
        runId: "1001",
        runAttempt: 2,
        workflowPath: ".github/workflows/ci.yml",
        event: "pull_request",
        status: "in_progress",
        conclusion: null,
        headSha: shaOf("a"),
        headBranch: "patch-1",
        headRepositoryId: "555",
        headRepositoryOwner: "mona",
        triggeringActor: { id: "8", login: "hubot" },
      },
    ]);
  });

  it("a run without any path cannot be read", () => {
    const payload = { ...run, workflow: null, workflow_run: { ...run.workflow_run, path: null } };
    expect(parse("workflow_run", payload)).toEqual({
      ok: false,
      error: { reason: "unreadable", what: "workflow_run.path (custom)" },
    });
  });

  it("a destroyed merge group needs no sender", () => {
    const payload = {
      repository,
      action: "destroyed",
      reason: "dequeued",
      merge_group: {
        head_sha: shaOf("c"),
        head_ref: "refs/heads/gh-readonly-queue/main/pr-1-x",
        base_sha: shaOf("b"),
        base_ref: "refs/heads/main",
      },
    };
    expect(signalsOf("merge_group", payload)).toMatchObject([{ action: "destroyed", headSha: shaOf("c") }]);
  });

  it("an App's ping is ignored", () => {
    const ping = { zen: "Keep it logically awesome.", hook_id: 1, hook: { type: "App", id: 1, app_id: 1234 } };
    expect(parse("ping", ping)).toEqual({ ok: true, value: { ignored: "event ping" } });
  });

  const job = {
    ...base,
    action: "queued",
    workflow_job: {
      id: 5,
      name: "gpu",
      run_id: 1001,
      run_attempt: 1,
      status: "queued",
      conclusion: null,
      labels: ["x"],
    },
  };
  it.each([[undefined], [null], [0], [""]])("a job's runner %s is no runner", (runner_id) => {
    const payload = { ...job, workflow_job: { ...job.workflow_job, runner_id } };
    expect(signalsOf("workflow_job", payload)).toMatchObject([{ runnerId: null }]);
  });

  it("a job's runner is a string", () => {
    const payload = { ...job, workflow_job: { ...job.workflow_job, runner_id: 31 } };
    expect(signalsOf("workflow_job", payload)).toMatchObject([{ runnerId: "31" }]);
  });

  it("ids beyond 2^53 stay exact, everywhere", () => {
    const text = JSON.stringify({ ...job, workflow_job: { ...job.workflow_job, runner_id: 31 } })
      .replace('"id":5', '"id":9007199254740993')
      .replace('"run_id":1001', '"run_id":9007199254740995')
      .replace('"runner_id":31', '"runner_id":9007199254740997')
      .replace('"id":101', '"id":9007199254740999')
      .replace('"id":77', '"id":18446744073709551615');
    expect(parseWebhook({ event: "workflow_job", guid: "g", text })).toMatchObject({
      ok: true,
      value: {
        deliveries: [
          {
            repository: { id: "9007199254740999" },
            installationId: "18446744073709551615",
            signal: { jobId: "9007199254740993", runId: "9007199254740995", runnerId: "9007199254740997" },
          },
        ],
      },
    });
  });

  it("an installation that is suspended names no repository: it is about every one of its own", () => {
    const payload = { action: "suspend", installation: { id: 77 }, sender: base.sender };
    expect(parse("installation", payload)).toEqual({
      ok: true,
      value: {
        ignored: "installation.suspend that names no repository",
        everywhere: {
          guid: "guid-1",
          event: "installation",
          installationId: "77",
          signal: { kind: "installation", action: "suspend" },
        },
      },
    });
  });

  it("a new installation tells every repository it names", () => {
    const repositories = [1, 2, 3].map((id) => ({ id, name: `r${id}`, full_name: `octo/r${id}` }));
    const parsed = parse("installation", { action: "created", installation: { id: 77 }, repositories });
    expect(parsed.ok && "deliveries" in parsed.value && parsed.value.deliveries.map((one) => one.repository)).toEqual([
      { id: "1", owner: "octo", name: "r1" },
      { id: "2", owner: "octo", name: "r2" },
      { id: "3", owner: "octo", name: "r3" },
    ]);
  });
});

describe("bodies that are wrong", () => {
  it.each([["{"], [""], ["payload=%7B%7D"], ["<xml/>"]])("that are no JSON: %s", (text) => {
    expect(parseWebhook({ event: "pull_request", guid: "g", text })).toEqual({
      ok: false,
      error: { reason: "not-json" },
    });
  });

  it.each([["null"], ["[]"], ['"text"'], ["7"], ["{}"], ['{"action":7}']])("without an action: %s", (text) => {
    expect(parseWebhook({ event: "pull_request", guid: "g", text })).toMatchObject({
      ok: false,
      error: { reason: "unreadable" },
    });
  });

  it("with a commit name that is none: the place is named, the value is not", () => {
    const head = { ...forkPull.pull_request.head, sha: "../../secret" };
    const parsed = parse("pull_request", { ...forkPull, pull_request: { ...forkPull.pull_request, head } });
    expect(parsed).toEqual({
      ok: false,
      error: { reason: "unreadable", what: "pull_request.head.sha (invalid_format)" },
    });
  });

  it.each(["constructor", "__proto__", "toString", "pull_request "])("of an event called %s are ignored", (event) => {
    expect(parse(event, forkPull)).toEqual({ ok: true, value: { ignored: `event ${event}` } });
  });

  it("with a new action of a known event are ignored by name", () => {
    expect(parse("pull_request", { ...forkPull, action: "enqueued" })).toEqual({
      ok: true,
      value: { ignored: "pull_request.enqueued" },
    });
  });
});

/**
 * GitHub's answers, damaged on their way into the client. Never an exception, never a word or an id that the text itself
 * does not have: a run is not over, a check not green, a person no maintainer, because something could not be read.
 */
import * as fc from "fast-check";
import { createGitHubClient, type GitHubClient } from "../../shared/github/client.ts";
import { REPOSITORY, stubApp, tokenAnswer } from "../../test/github/stub.ts";
import { byteChange, damagedBytes, type ByteChange } from "../bytes.ts";
import { damagedJson, jsonChange, type JsonChange } from "../json.ts";
import { target, thrown, unfit, type Session } from "../target.ts";

const A = "a".repeat(40);
const B = "b".repeat(40);
const AT = "2026-11-30T11:59:00Z";
const MIRA = { id: 501, login: "mira", type: "User" };

const RUN = {
  id: 9007199254740991,
  run_attempt: 2,
  status: "in_progress",
  conclusion: null,
  event: "workflow_dispatch",
  path: ".github/workflows/gpu-gate-execute.yml@main",
  workflow_id: 55,
  display_title: "gpu-gate execute r1-1",
  head_sha: A,
  head_branch: "main",
  repository: { id: 101 },
  head_repository: { id: 101 },
  actor: MIRA,
  triggering_actor: MIRA,
  created_at: AT,
  updated_at: AT,
  run_started_at: AT,
  html_url: "https://github.test/octo/engine/actions/runs/7001",
};
const JOB = {
  id: 8001,
  run_id: 7001,
  run_attempt: 1,
  name: "GPU tests",
  status: "completed",
  conclusion: "failure",
  head_sha: A,
  labels: ["gpu-x"],
  runner_id: 31,
  runner_name: "gpu-gate-x",
  check_run_url: "https://api.github.test/repos/octo/engine/check-runs/9001",
  steps: [{ number: 1, name: "Test", status: "completed", conclusion: "skipped", started_at: AT, completed_at: AT }],
  created_at: AT,
  started_at: AT,
  completed_at: AT,
  html_url: null,
};
const CHECK = {
  id: 9001,
  name: "rustfmt",
  head_sha: A,
  status: "completed",
  conclusion: "failure",
  external_id: "r1",
  app: { id: 15368 },
  details_url: null,
  html_url: null,
  output: { title: "x", summary: "y" },
  started_at: AT,
  completed_at: AT,
};
const PULL = {
  number: 7,
  state: "open",
  draft: false,
  merged: false,
  title: "A change",
  labels: [{ name: "x" }],
  user: MIRA,
  head: { sha: A, ref: "topic", repo: { id: 101, full_name: "octo/engine" } },
  base: { sha: B, ref: "main", repo: { id: 101 } },
  changed_files: 2,
  mergeable: null,
};
const FILES = [
  { filename: "src/a.rs", status: "modified", sha: A, changes: 3, patch: "@@" },
  { filename: "docs/b.md", previous_filename: "src/b.rs", status: "renamed", sha: B, changes: 0 },
];
const RUNNER = { id: 31, name: "gpu-gate-x", status: "offline", busy: false, labels: [{ name: "gpu-x" }], os: "linux" };

interface Question {
  readonly body: unknown;
  readonly ask: (client: GitHubClient) => Promise<unknown>;
}

const QUESTIONS = {
  getRun: { body: RUN, ask: (client) => client.getRun("7001") },
  getRunAttempt: { body: RUN, ask: (client) => client.getRunAttempt("7001", 2) },
  listRuns: { body: { total_count: 1, workflow_runs: [RUN] }, ask: (client) => client.listRuns({ headSha: A }) },
  findRunsByName: {
    body: { total_count: 1, workflow_runs: [RUN] },
    ask: (client) => client.findRunsByName("x.yml", "gpu-gate execute r1-1", 0),
  },
  listJobs: { body: { total_count: 1, jobs: [JOB] }, ask: (client) => client.listJobs("7001", 1) },
  listArtifacts: {
    body: {
      total_count: 1,
      artifacts: [
        {
          id: 5,
          name: "a",
          size_in_bytes: 9,
          expired: false,
          digest: `sha256:${"c".repeat(64)}`,
          created_at: AT,
          expires_at: AT,
          workflow_run: { id: 7001, repository_id: 101, head_repository_id: 101 },
        },
      ],
    },
    ask: (client) => client.listArtifacts("7001"),
  },
  getPull: { body: PULL, ask: (client) => client.getPull(7) },
  listPullFiles: { body: FILES, ask: (client) => client.listPullFiles(7) },
  listOpenPulls: { body: [PULL], ask: (client) => client.listOpenPulls() },
  compareFiles: {
    body: { status: "ahead", merge_base_commit: { sha: B }, files: FILES },
    ask: (client) => client.compareFiles(B, A),
  },
  listCommitsBetween: {
    body: { total_commits: 1, commits: [{ sha: A }] },
    ask: (client) => client.listCommitsBetween(B, A),
  },
  getRole: { body: { permission: "read", role_name: "triage", user: MIRA }, ask: (client) => client.getRole("mira") },
  getRepository: {
    body: { id: 101, full_name: "octo/engine", owner: { id: 9 }, default_branch: "main", archived: false },
    ask: (client) => client.getRepository(),
  },
  getBranchHead: { body: { commit: { sha: A } }, ask: (client) => client.getBranchHead("main") },
  getFile: {
    body: { type: "file", sha: A, encoding: "base64", content: "dmVyc2lvbjogMQo=" },
    ask: (client) => client.getFile("x.yml", "main"),
  },
  getTree: {
    body: { sha: A, truncated: false, tree: [{ path: "a", mode: "100644", type: "blob", sha: B }] },
    ask: (client) => client.getTree(A, { recursive: true }),
  },
  getCommit: { body: { sha: A, tree: { sha: B }, parents: [{ sha: B }] }, ask: (client) => client.getCommit(A) },
  getRef: { body: { object: { sha: A } }, ask: (client) => client.getRef("heads/main") },
  getQueueTimeout: {
    body: [{ type: "merge_queue", parameters: { check_response_timeout_minutes: 60 } }],
    ask: (client) => client.getQueueTimeout("main"),
  },
  createCheckRun: {
    body: CHECK,
    ask: (client) => client.createCheckRun({ name: "x", headSha: A, state: { status: "queued" } }),
  },
  listCheckRunsForRef: {
    body: { total_count: 1, check_runs: [CHECK] },
    ask: (client) => client.listCheckRunsForRef(A, { filter: "latest" }),
  },
  getCheckRunAnnotations: {
    body: [
      {
        path: "x",
        start_line: 1,
        end_line: 1,
        annotation_level: "notice",
        title: "t",
        message: "m",
        raw_details: null,
      },
    ],
    ask: (client) => client.getCheckRunAnnotations("9001"),
  },
  listRunners: { body: { total_count: 1, runners: [RUNNER] }, ask: (client) => client.listRunners() },
  getRunner: { body: RUNNER, ask: (client) => client.getRunner("31") },
  findRunnerByName: {
    body: { total_count: 1, runners: [RUNNER] },
    ask: (client) => client.findRunnerByName("gpu-gate-x"),
  },
  createJitRunner: {
    body: { runner: RUNNER, encoded_jit_config: "ZmFrZQ" },
    ask: (client) => client.createJitRunner({ name: "gpu-gate-x", labels: ["gpu-x"] }),
  },
  deleteRunner: { body: {}, ask: (client) => client.deleteRunner("31") },
  cancelRun: { body: {}, ask: (client) => client.cancelRun("7001") },
  dispatchWorkflow: {
    body: { workflow_run_id: 7001 },
    ask: (client) => client.dispatchWorkflow("x.yml", "main", { request: "r1" }),
  },
  getRepositoryVariable: {
    body: { name: "DESK_ON", value: "true" },
    ask: (client) => client.getRepositoryVariable("DESK_ON"),
  },
} satisfies Record<string, Question>;

type Name = keyof typeof QUESTIONS;
const NAMES = Object.keys(QUESTIONS) as readonly Name[];
const STATUSES = [
  200, 200, 200, 200, 201, 202, 204, 206, 301, 302, 304, 400, 401, 403, 404, 409, 410, 422, 429, 451, 500, 502, 503,
] as const;
const HEADERS: readonly Readonly<Record<string, string>>[] = [
  { "content-type": "application/json" },
  { link: '<https://github.test/x?page=2>; rel="next"' },
  { link: '<x>; rel=next, <<<>; rel="next', etag: '"x"' },
  { "retry-after": "99999999999999999999", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1e99" },
  { "x-ratelimit-remaining": "-1", "x-ratelimit-reset": "NaN" },
  { location: "https://evil.test/steal" },
  {},
];

export interface GitHubCase {
  readonly ask: Name;
  readonly json: readonly JsonChange[];
  readonly bytes: readonly ByteChange[];
  readonly status: number;
  readonly headers: number;
  readonly broken: "no" | "reject" | "mid-body" | "empty" | "html";
}

export const githubAnswers = target<GitHubCase>({
  name: "github-answers",
  about: "GitHub's answers, damaged on their way into the client",
  share: 40,
  sample: 250,
  cases: fc.record({
    ask: fc.constantFrom(...NAMES),
    json: fc.array(jsonChange, { maxLength: 4 }),
    bytes: fc.oneof(
      { weight: 6, arbitrary: fc.constant([]) },
      { weight: 1, arbitrary: fc.array(byteChange, { minLength: 1, maxLength: 3 }) },
    ),
    status: fc.constantFrom(...STATUSES),
    headers: fc.nat(HEADERS.length - 1),
    broken: fc.oneof(
      { weight: 12, arbitrary: fc.constant("no" as const) },
      { weight: 1, arbitrary: fc.constantFrom("reject", "mid-body", "empty", "html") },
    ),
  }),
  open: async () => openGitHub((client) => client),
});

const TOKEN = "ghs_fuzzTokenFuzzTokenFuzzTokenFuzzToken";

/** `through`: what the questions are asked of. A test puts a faulty reader there. */
export function openGitHub(through: (client: GitHubClient) => GitHubClient): Session<GitHubCase> {
  let text = "";
  let given: GitHubCase | null = null;
  let calls: string[] = [];
  const app = stubApp({
    async fetch(input) {
      if (input.endsWith("/access_tokens")) return tokenAnswer(TOKEN);
      calls.push(input);
      if (given === null || given.broken === "reject") throw new TypeError("fetch failed");
      const none = given.status === 204 || given.status === 304;
      const bytes = Buffer.from(text);
      return new Response(none ? null : given.broken === "mid-body" ? breaking(bytes) : bytes, {
        status: given.status,
        headers: HEADERS[given.headers % HEADERS.length] ?? {},
      });
    },
  });
  const client = through(createGitHubClient({ app, repository: REPOSITORY, runners: { kind: "repository" } }));
  return {
    async judge(what) {
      given = what;
      calls = [];
      const { body, ask }: Question = QUESTIONS[what.ask];
      const json = what.json.length === 0 ? JSON.stringify(body) : damagedJson(body, what.json);
      text =
        what.broken === "empty"
          ? ""
          : what.broken === "html"
            ? "<html>down</html>"
            : Buffer.from(damagedBytes(Buffer.from(json), what.bytes)).toString("utf8");
      let answer: unknown;
      try {
        answer = await ask(client);
      } catch (error) {
        return `${what.ask} threw ${thrown(error)}`;
      }
      const elsewhere = calls.find((address) => !address.startsWith("https://github.test/"));
      if (elsewhere !== undefined) return `${what.ask} asked at ${elsewhere}`;
      if (calls.length > 40) return `${what.ask} asked ${calls.length} times`;
      const wrong = judge(what, text, answer);
      if (wrong !== null)
        return `${what.ask}: ${wrong}: ${JSON.stringify(answer)?.slice(0, 400)} from ${what.status} ${text.slice(0, 300)}`;
      return unfit(JSON.stringify(answer) ?? "", [TOKEN]);
    },
    close: async () => undefined,
  };
}

function breaking(bytes: Uint8Array): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      controller.enqueue(bytes.slice(0, Math.floor(bytes.byteLength / 2)));
      controller.error(new TypeError("terminated"));
    },
  });
}

type Loose = Readonly<Record<string, unknown>>;

/** Keys of the result whose words decide something, and the keys of GitHub's text that may say them. */
const WORDS: Readonly<Record<string, readonly string[]>> = {
  status: ["status"],
  conclusion: ["conclusion"],
  state: ["state"],
  roleName: ["role_name"],
  permission: ["permission"],
};

function judge(given: GitHubCase, text: string, answer: unknown): string | null {
  const told = answer as Loose;
  if (typeof told["ok"] !== "boolean") return "no result";
  if (!told["ok"]) {
    const error = told["error"];
    return typeof (error as Loose)["reason"] === "string" ? null : "a failure without a reason";
  }
  const good = given.status >= 200 && given.status <= 299 && given.broken !== "reject";
  const { value } = told;
  // Some refusals are answers of their own: no such ref, no such runner, nothing to cancel.
  if (!good && !["not-cancellable", "gone", "busy", null].includes(value as string | null))
    return "a refusal was read as an answer";
  if (!good || typeof value !== "object" || value === null) return null;
  const raw = jsonOf(text);
  return unsaid(value, raw, text) ?? completeness(value as Loose, raw);
}

function unsaid(value: unknown, raw: unknown, text: string): string | null {
  if (Array.isArray(value)) {
    for (const item of value as readonly unknown[]) {
      const wrong = unsaid(item, raw, text);
      if (wrong !== null) return wrong;
    }
    return null;
  }
  if (typeof value !== "object" || value === null) return null;
  for (const [key, member] of Object.entries(value)) {
    const sources = Object.hasOwn(WORDS, key) ? WORDS[key] : undefined;
    if (sources !== undefined && typeof member === "string" && !says(raw, sources, member))
      return `${key} is ${JSON.stringify(member)}, which nobody said`;
    if (/^(?:id|\w+Id)$/.test(key) && typeof member === "string" && /^\d+$/.test(member) && !hasDigits(text, member))
      return `${key} is ${member}, which is no number of the answer`;
    const wrong = unsaid(member, raw, text);
    if (wrong !== null) return wrong;
  }
  return null;
}

/** The digits stand there as they are, or as a whole number written otherwise. */
function hasDigits(text: string, digits: string): boolean {
  if (digits === "0" || new RegExp(`(?<!\\d)${digits}(?!\\d)`).test(text)) return true;
  return [...text.matchAll(/-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g)].some(
    ([number]) => Number.isSafeInteger(Number(number)) && String(Number(number)) === digits,
  );
}

function says(raw: unknown, keys: readonly string[], word: string): boolean {
  if (Array.isArray(raw)) return raw.some((item) => says(item, keys, word));
  if (typeof raw !== "object" || raw === null) return false;
  return Object.entries(raw).some(
    ([key, member]) => (keys.includes(key) && member === word) || says(member, keys, word),
  );
}

function completeness(value: Loose, raw: unknown): string | null {
  const { complete, items } = value;
  if (complete !== true || !Array.isArray(items) || typeof raw !== "object" || raw === null) return null;
  const total = (raw as Loose)["total_count"] ?? (raw as Loose)["total_commits"];
  return typeof total === "number" && total !== items.length && !Array.isArray(raw)
    ? `complete with ${items.length} of ${total}`
    : null;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

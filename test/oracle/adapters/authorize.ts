/**
 * Feeds the authorize corpus to the product's ways in: a workflow run through routing and the authorisation of its pull
 * request, a manual run through the workflow API and the authorisation that the gate does behind it. GitHub's answers are
 * the case's; reads of the configuration and of the run are not in the corpus's words and are left out of `calls`.
 */
import { authorize, type Authorized } from "../../../shared/authorize/authorize.ts";
import { authorizeValidation } from "../../../shared/authorize/validation.ts";
import type { Dispatched } from "../../../durable-objects/gate/dispatched.ts";
import type { GitHubClient } from "../../../shared/github/client.ts";
import type { Pull } from "../../../shared/github/pulls.ts";
import { route } from "../../../shared/lifecycle/route.ts";
import { err, ok } from "../../../shared/result.ts";
import { receiveRecover, receiveValidate } from "../../../worker/workflow-requests.ts";
import type { WorkflowPorts } from "../../../worker/workflow-ports.ts";
import type { CorpusAdapter, CorpusCase, Outcome } from "../adapter.ts";
import { upstreamNeedsGpu, upstreamPolicy } from "../upstream/policy.ts";

interface RawPull {
  readonly state: string;
  readonly user: string | null;
  readonly head: { readonly sha: string; readonly repo: { readonly full_name: string } | null };
  readonly base: { readonly sha: string };
}

interface Api {
  readonly pulls?: readonly (RawPull | "error")[];
  readonly roles?: Readonly<Record<string, string>> | "error";
  readonly mergeRef?: string | null;
  readonly commit?: string | null;
  readonly files?: readonly string[] | "error";
  readonly labels?: readonly string[] | "error";
}

interface RunEvent {
  readonly event: string;
  readonly status: string;
  readonly actor: string;
  readonly pullRequests?: readonly {
    readonly number: number;
    readonly head?: { readonly sha?: string };
    readonly base?: { readonly sha?: string };
  }[];
}

interface Wanted {
  readonly outcome: string;
  readonly refusal?: string;
  readonly outputs?: Readonly<Record<string, unknown>>;
  readonly calls: readonly string[];
}

interface Decided {
  readonly outcome: "authorized" | "not-required" | "refused" | "skipped-event" | "unknown" | "closed" | "superseded";
  readonly refusal?: string;
  readonly outputs?: Readonly<Record<string, unknown>>;
}

const T0 = Date.UTC(2026, 10, 30, 12);
const REPOSITORY_ID = "101";
const MAIN = "d".repeat(40);
const DOWN = err({ reason: "server", status: 503 } as const);
const NOT_FOUND = err({ reason: "not-found" } as const);
const PAGES = { owner: "owner", audience: "https://gate.test" };

export const adapter: CorpusAdapter = {
  corpus: "authorize",
  run: async (testCase, _corpus, folder) => {
    const wanted = testCase["expected"] as Wanted;
    const github = new GitHub(testCase, folder);
    const event = testCase["event"] as Readonly<Record<string, unknown>>;
    const run = event["workflowRun"] as RunEvent | undefined;
    const decided = run === undefined ? await manual(event, github) : await automatic(run, github);
    return judge(testCase, folder, wanted, decided, github.calls);
  },
};

/** The case's GitHub. Names stand for the ids of people and repositories. */
class GitHub {
  readonly calls: string[] = [];
  readonly api: Api;
  readonly repository: string;
  readonly #config: string;
  #reads = 0;
  #head = "";

  constructor(testCase: CorpusCase, folder: string) {
    this.api = testCase["api"] ?? {};
    this.repository = String(testCase["repository"]);
    // JSON is YAML: upstream's path sets as the file on the default branch.
    this.#config = JSON.stringify({ version: 1, ...upstreamPolicy(folder) });
  }

  idOf(login: string): string {
    return String(
      1_000 + (Array.from(login).reduce((sum, letter) => sum * 31 + (letter.codePointAt(0) ?? 0), 7) % 1_000_003),
    );
  }

  client(): GitHubClient {
    const { api } = this;
    const answers: Partial<GitHubClient> = {
      getRepository: async () =>
        ok({ id: REPOSITORY_ID, ownerId: "9", fullName: this.repository, defaultBranch: "main", archived: false }),
      getBranchHead: async () => ok(MAIN),
      getFile: async (path) =>
        ok({ sha: "1".repeat(40), text: path.endsWith("gpu-gate.yml") ? this.#config : "name: x" }),
      getPull: async (number) => {
        this.calls.push("pull");
        const pulls = api.pulls ?? [];
        const pull = pulls[Math.min(this.#reads, pulls.length - 1)];
        this.#reads += 1;
        if (pull === undefined) return NOT_FOUND;
        return pull === "error" ? DOWN : ok(this.#pull(number, pull));
      },
      getRole: async (login) => {
        this.calls.push(`role ${login}`);
        if (api.roles === "error") return DOWN;
        const role = api.roles?.[login];
        if (role === undefined) return NOT_FOUND;
        return role === "error" ? DOWN : ok({ userId: this.idOf(login), roleName: role, permission: role });
      },
      getRef: async () => {
        this.calls.push("merge-ref");
        return api.mergeRef === "error" ? DOWN : ok(api.mergeRef ?? null);
      },
      listPullFiles: async () => {
        this.calls.push("files");
        if (api.files === undefined || api.files === "error") return DOWN;
        const files = api.files.map((filename) => ({
          filename,
          previousFilename: null,
          status: "modified",
          sha: null,
          changes: 1,
          patch: null,
        }));
        return ok({ files, complete: true });
      },
      getCommit: async (sha) => {
        // The corpus knows no stale test merge: the one it names is of the head as it was read last.
        if (sha === api.mergeRef) return ok({ sha, treeSha: sha, parents: [MAIN, this.#head] });
        this.calls.push("commit");
        if (api.commit === "error") return DOWN;
        return typeof api.commit === "string" ? ok({ sha, treeSha: sha, parents: [] }) : NOT_FOUND;
      },
      compareFiles: async () => ok({ status: "ahead", mergeBaseSha: MAIN, files: [], complete: true }),
    };
    return answers as GitHubClient;
  }

  #pull(number: number, raw: RawPull): Pull {
    const login = raw.user ?? "ghost";
    this.#head = raw.head.sha;
    return {
      number,
      state: raw.state === "open" ? "open" : "closed",
      draft: false,
      merged: false,
      title: "",
      labels: [],
      headSha: raw.head.sha,
      headRef: "topic",
      headRepositoryId: raw.head.repo === null ? null : this.#idOfRepository(raw.head.repo.full_name),
      headRepositoryFullName: raw.head.repo?.full_name ?? null,
      baseSha: raw.base.sha,
      baseRef: "main",
      baseRepositoryId: REPOSITORY_ID,
      author: { id: raw.user === null ? "0" : this.idOf(login), login },
      authorType: "User",
      changedFiles: Array.isArray(this.api.files) ? this.api.files.length : 0,
      // Without a test merge the corpus means a conflict.
      mergeable: this.api.mergeRef !== undefined && this.api.mergeRef !== null,
    };
  }

  #idOfRepository(name: string): string {
    return name === this.repository ? REPOSITORY_ID : "202";
  }
}

/** Rows 1 and 2 of what opens a request: the event is routed, then its pull request is authorised. */
async function automatic(run: RunEvent, github: GitHub): Promise<Decided> {
  const [pull] = run.pullRequests ?? [];
  const actor = { id: github.idOf(run.actor), login: run.actor };
  const first = (github.api.pulls ?? [])[0];
  const known = first === undefined || first === "error" ? "" : first.head.sha;
  const headSha = pull?.head?.sha ?? known;
  const actions = route(
    {
      kind: "workflow-run",
      action: run.status === "in_progress" ? "in_progress" : "requested",
      runId: "1",
      runAttempt: 1,
      workflowPath: ".github/workflows/ci.yml",
      event: run.event,
      status: run.status,
      conclusion: null,
      headSha,
      headBranch: null,
      headRepositoryId: null,
      headRepositoryOwner: null,
      triggeringActor: actor,
    },
    {
      appId: "1",
      repositoryId: "101",
      ofHead: () => [],
      ofPull: () => [],
      open: () => [],
      ofRun: () => null,
      ofCheckRun: () => null,
      ofRunner: () => null,
    },
  );
  if (actions.every((action) => action.kind === "note")) return { outcome: "skipped-event" };
  if (pull === undefined) return { outcome: "refused", refusal: "no-pull-request" };
  const input = { repositoryId: REPOSITORY_ID, prNumber: pull.number, headSha, actor, now: T0 };
  return told(await authorize(github.client(), input), pull.number);
}

/** Row 6: the workflow API hears the run, then the gate authorises what was asked for. */
async function manual(event: Readonly<Record<string, unknown>>, github: GitHub): Promise<Decided> {
  const inputs = event["inputs"] as Readonly<Record<string, string>>;
  const login = String(event["actor"]);
  const actor = { id: github.idOf(login), login };
  const client = github.client();
  const asked: Dispatched[] = [];
  const recovers = inputs["prNumber"] !== "0";
  const workflow = recovers ? "gpu-gate-recovery.yml" : "gpu-gate-validation.yml";
  const ports = apiPorts(github, client, asked, String(event["ref"]), `.github/workflows/${workflow}`, actor);
  const request = (body: object) =>
    new Request("https://gate.test/v1", {
      method: "POST",
      headers: { authorization: "Bearer a.b.c", "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  const number = inputs["prNumber"] ?? "";
  const digits = /^\d+$/.test(number) ? Number(number) : number;
  // A name is resolved to a commit by the workflow, which asks with the commit; the corpus says what it resolves to.
  const revision = github.api.commit ?? "";
  const answer = recovers
    ? await receiveRecover(request({ pr_number: digits, ...combined(inputs) }), ports)
    : await receiveValidate(request({ revision, ...checkHead(inputs) }), ports);
  const [ask] = asked;
  if (answer.status !== 202 || ask === undefined) return { outcome: "refused", refusal: String(answer.body["error"]) };
  const common = { repositoryId: REPOSITORY_ID, headSha: ask.ask.headSha, actor, now: T0 };
  if (ask.ask.kind === "validation") {
    return told(await authorizeValidation(client, { ...common, revision: ask.ask.revision }), 0);
  }
  const { prNumber } = ask.ask;
  return told(await authorize(client, { ...common, prNumber, tested: "head" }), prNumber);
}

/** What a recovery must not be combined with travels as it was typed. */
function combined(inputs: Readonly<Record<string, string>>): object {
  const revision = inputs["ref"] ?? "";
  return { ...(revision === "" ? {} : { revision }), ...checkHead(inputs) };
}

function checkHead(inputs: Readonly<Record<string, string>>): object {
  const head = inputs["gateHeadSha"] ?? "";
  return head === "" ? {} : { check_head: head };
}

function apiPorts(
  github: GitHub,
  client: GitHubClient,
  asked: Dispatched[],
  ref: string,
  path: string,
  actor: { readonly id: string; readonly login: string },
): WorkflowPorts {
  const at = `${github.repository}/${path}@${ref}`;
  const seconds = T0 / 1000;
  const claims = {
    iss: "https://issuer.test",
    aud: PAGES.audience,
    exp: seconds + 300,
    iat: seconds - 10,
    jti: "a-token-of-its-own",
    repository: github.repository,
    repository_id: REPOSITORY_ID,
    repository_owner_id: "9",
    actor_id: actor.id,
    event_name: "workflow_dispatch",
    ref,
    sha: MAIN,
    job_workflow_ref: at,
    workflow_ref: at,
    run_id: "5",
    run_attempt: "1",
    runner_environment: "github-hosted",
  };
  const run = {
    id: "5",
    attempt: 1,
    status: "in_progress",
    event: "workflow_dispatch",
    path,
    headSha: MAIN,
    headBranch: "main",
    repositoryId: REPOSITORY_ID,
    headRepositoryId: REPOSITORY_ID,
    actor,
    triggeringActor: actor,
  };
  const settings = {
    publicUrl: PAGES.audience,
    oidcIssuerUrl: "https://issuer.test",
    allowedRepositories: new Set([REPOSITORY_ID]),
    appId: "1",
    repositoryId: "101",
  };
  const gate = {
    useToken: async () => "fresh",
    openDispatched: async (what: Dispatched) => {
      asked.push(what);
      return { kind: "opened", requestId: "r1" };
    },
  };
  return {
    settings: ok(settings),
    keys: { verify: async () => ok(claims) },
    gate: () => gate,
    github: () => ({
      client: { ...client, getRun: async () => ok(run) },
      get: async () => ({ kind: "failure", what: "" }),
    }),
    clock: { now: () => T0 },
    log: () => undefined,
  } as unknown as WorkflowPorts;
}

function told({ outcome }: Authorized, prNumber: number): Decided {
  switch (outcome.kind) {
    case "admitted": {
      const { testedSha, baseSha, gpuRequired } = outcome.admission;
      return {
        outcome: gpuRequired ? "authorized" : "not-required",
        outputs: { testedRef: testedSha, targetBaseSha: baseSha, prNumber, runGpu: gpuRequired },
      };
    }
    case "refused":
      return { outcome: "refused", refusal: outcome.reason };
    case "moved":
      return { outcome: "superseded" };
    case "closed":
    case "unknown":
      return { outcome: outcome.kind };
    case "members":
    case "reuse":
      throw new Error("only a merge group ends so");
  }
}

/** Upstream's words for our reasons, where both have one. */
const REFUSALS: Readonly<Record<string, string>> = {
  fork: "fork",
  "head-repository-gone": "fork",
  "author-not-permitted": "author-not-allowed",
  "actor-not-permitted": "actor-not-allowed",
  "not-permitted": "actor-not-allowed",
};
const NAMED = new Set(Object.values(REFUSALS));

function judge(
  testCase: CorpusCase,
  folder: string,
  wanted: Wanted,
  decided: Decided,
  calls: readonly string[],
): Outcome {
  const actual = { ...decided, calls };
  const overruled = (overruledBy: string, demanded: string, pass: boolean): Outcome => ({
    pass,
    expected: { outcome: demanded },
    actual,
    overruledBy,
  });
  const api = (testCase["api"] ?? {}) as Api;
  const [first, second = first] = api.pulls ?? [];
  const run = (testCase["event"] as { readonly workflowRun?: RunEvent }).workflowRun;
  const repository = String(testCase["repository"]);

  const same = sameOutcome(wanted, decided);
  if (same && JSON.stringify(wanted.calls) === JSON.stringify(calls)) return { pass: true, expected: wanted, actual };
  if (decided.outcome === "superseded")
    return overruled("moved-head-superseded", "superseded", wanted.outcome === "refused");
  if (first !== undefined && first !== "error" && first.head.repo?.full_name !== repository && run !== undefined) {
    const files = Array.isArray(api.files) ? api.files : [];
    const demanded = upstreamNeedsGpu(folder, files) ? "refused" : "not-required";
    // A fork that closed, or whose files cannot be read, is answered by that.
    const settled = decided.outcome === "closed" || decided.outcome === "unknown" ? decided.outcome : demanded;
    return overruled("forks-classified-first", settled, decided.outcome === settled);
  }
  if (decided.outcome === "closed") {
    const rule = wanted.outcome === "authorized" ? "second-read-last" : "closed-is-cancelled";
    return overruled(rule, "closed", true);
  }
  const bases = [
    run?.pullRequests?.[0]?.base?.sha,
    first === "error" ? undefined : first?.base.sha,
    second === "error" ? undefined : second?.base.sha,
  ];
  const moved = new Set(bases.filter((sha) => sha !== undefined)).size > 1;
  if (wanted.outcome === "refused" && moved && decided.outcome !== "refused") {
    return overruled(
      "base-sha-ignored",
      "authorized",
      decided.outcome === "authorized" || decided.outcome === "not-required",
    );
  }
  if (api.labels === "error" && wanted.outcome === "refused" && decided.outcome !== "refused") {
    return overruled(
      "no-local-word",
      "authorized",
      decided.outcome === "authorized" || decided.outcome === "not-required",
    );
  }
  if (same && decided.outcome === "refused" && run === undefined && calls.length === 0) {
    // What does not fit together is refused by its form, before GitHub is asked about anybody.
    return overruled("form-before-rights", "refused", true);
  }
  if (same && sameReads(wanted.calls, calls)) {
    return { pass: true, expected: wanted, actual, overruledBy: "second-read-last" };
  }
  if (decided.outcome === "refused" && decided.refusal === "fork" && second !== undefined) {
    return overruled("second-read-last", "refused", wanted.outcome === "authorized");
  }
  return { pass: false, expected: wanted, actual };
}

function sameOutcome(wanted: Wanted, decided: Decided): boolean {
  if (wanted.outcome === "refused") {
    // What cannot be read buys nothing either.
    if (decided.outcome === "unknown" || decided.outcome === "skipped-event") return true;
    if (decided.outcome !== "refused") return false;
    return !NAMED.has(wanted.refusal ?? "") || REFUSALS[decided.refusal ?? ""] === wanted.refusal;
  }
  if (wanted.outcome === "skipped-event") return decided.outcome === "skipped-event";
  const needed = wanted.outputs?.["runGpu"] !== false;
  if (decided.outcome !== (needed ? "authorized" : "not-required")) return false;
  return ["testedRef", "targetBaseSha", "prNumber", "runGpu"].every((key) => {
    const value = wanted.outputs?.[key];
    return value === undefined || value === decided.outputs?.[key];
  });
}

/**
 * The same reads in the same order, but for what our rules change: labels are not read, the file list comes before the
 * pull request's second read, nobody is asked about twice, and a commit is a commit however it was named.
 */
function sameReads(wanted: readonly string[], calls: readonly string[]): boolean {
  const order = (list: readonly string[]) =>
    [...new Set(list.map((call) => call.replace(/^commit .*/, "commit")))].filter(
      (call) => call !== "labels" && call !== "files",
    );
  const files = (list: readonly string[]) => list.includes("files");
  const late = calls.lastIndexOf("pull") > calls.indexOf("files") || !files(calls) || calls.at(-1) === "files";
  return JSON.stringify(order(wanted)) === JSON.stringify(order(calls)) && late;
}

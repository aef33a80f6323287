/** The virtual GitHub's routes: what the real client asks, answered in GitHub's shapes from the model's books. */
import { createHash } from "node:crypto";
import type { Millis } from "../shared/ports.ts";
import type { Faults } from "./faults.ts";
import type { HookBook } from "./hook-book.ts";
import { checkJson, iso, jobJson, pullJson, runJson } from "./github-json.ts";
import { APP_ID, CONFIG, type CheckRun, type Repository } from "./github-model.ts";
import { groupRefs, MORE_HANDLERS, MORE_ROUTES, ownRunnerJson, performAsApp } from "./github-more.ts";
import { mintRunner } from "./github-runners.ts";
import { cancelRun, cleanUp, dispatchRun } from "./github-runs.ts";
import { json, list, notFound, route, type Route, type ServerHandler } from "./github-wire.ts";
import type { NetAnswer, NetRequest, Server } from "./net.ts";
import type { Prng } from "./prng.ts";

export interface GitHubOptions {
  readonly repositories: readonly Repository[];
  readonly faults: Faults;
  readonly rng: Prng;
  readonly now: () => Millis;
  readonly nextId: () => string;
  /** Every attempt to deliver a webhook. */
  readonly book: HookBook;
  /** Hears of each check the App writes, after it was written. */
  readonly onCheck: (repository: Repository, check: CheckRun) => void;
}

export class VirtualGitHub implements Server {
  readonly name = "github" as const;
  readonly repositories: readonly Repository[];
  /** Installation tokens ever handed out: none of them may be seen anywhere else. */
  readonly tokens = new Set<string>();
  /** Until then the installation's quota is used up, and every call is refused for it. */
  quotaUntil: Millis = 0;
  readonly #options: GitHubOptions;
  readonly #expiry = new Map<string, Millis>();
  readonly #owners = new Map<string, Repository>();
  readonly #found = new Map<string, Found | null>();
  readonly #etags = new Map<string, string>();
  /** What each caller read of each run, oldest first. */
  readonly #reads = new Map<string, { at: Millis; attempt: number; status: string }[]>();

  constructor(options: GitHubOptions) {
    this.#options = options;
    this.repositories = options.repositories;
  }

  operation(method: string, path: string): string {
    return this.#find(method, path)?.route.name ?? `${method} ${path}`;
  }

  perform(request: NetRequest): NetAnswer {
    const asApp = performAsApp(this, request);
    if (asApp !== null) return asApp;
    if (request.path.startsWith("/app/installations/")) return this.#mintToken(request);
    const token = (request.headers.get("authorization") ?? "").replace("token ", "");
    const found = this.#find(request.method, request.path);
    const repository = this.#repositoryOf(request.path, token);
    if (request.path === "/installation/repositories") {
      if (repository === undefined) return json(401, { message: "Bad credentials" });
      const { id, name, owner } = repository;
      return list(
        request,
        [{ id: Number(id), name, full_name: `${owner}/${name}`, owner: { login: owner } }],
        "repositories",
      );
    }
    if (found === null || repository === undefined) return notFound();
    const { standing } = repository;
    if (standing === "deleted" || standing === "removed") return notFound();
    if (found.route.name !== "installation") {
      const until = this.#expiry.get(token);
      if (until === undefined || until <= this.#options.now()) return json(401, { message: "Bad credentials" });
      if (standing === "suspended") return json(403, { message: "This installation has been suspended" });
      const writes = request.method !== "GET";
      if (standing === "archived" && writes) return json(403, { message: "Repository was archived so is read-only." });
      if (standing === "no-checks" && writes && found.route.name.endsWith("Check")) {
        return json(403, { message: "Resource not accessible by integration" });
      }
    }
    const handler = HANDLERS[found.route.name];
    const answer = handler === undefined ? notFound() : handler(this, repository, request, found.parts);
    if (request.method !== "GET" || answer.status !== 200) return answer;
    const etag = this.#etagOf(answer.body);
    if (request.headers.get("if-none-match") === etag) return { status: 304, body: "", headers: { etag } };
    return { ...answer, headers: { ...answer.headers, etag } };
  }

  /** Looks ask for the same addresses again and again, each of them twice. */
  #find(method: string, path: string): Found | null {
    const key = `${method} ${path}`;
    let found = this.#found.get(key);
    if (found === undefined) {
      found = find(method, path);
      this.#found.set(key, found);
    }
    return found;
  }

  /** The same text has the same one: they are counted, which costs less than a hash of each answer. */
  #etagOf(body: string): string {
    let etag = this.#etags.get(body);
    if (etag === undefined) {
      etag = `"${this.#etags.size + 1}"`;
      this.#etags.set(body, etag);
    }
    return etag;
  }

  /** All tokens handed out so far end now. */
  forgetTokens(): void {
    this.#expiry.clear();
  }

  #mintToken(request: NetRequest): NetAnswer {
    const id = request.path.split("/")[3] ?? "";
    const repository = this.repositories.find((one) => one.installationId === id);
    if (repository === undefined || repository.standing === "removed" || repository.standing === "deleted")
      return notFound();
    if (repository.standing === "suspended") return json(403, { message: "This installation has been suspended" });
    const token = `ghs_${this.#options.rng.hex(36)}`;
    this.tokens.add(token);
    this.#owners.set(token, repository);
    const until = this.#options.now() + 3_600_000;
    this.#expiry.set(token, until);
    return json(201, { token, expires_at: iso(until), permissions: {} });
  }

  #repositoryOf(path: string, token: string): Repository | undefined {
    if (!path.startsWith("/repos/")) return this.#owners.get(token);
    const name = path.split("/")[3];
    return this.repositories.find((one) => one.name === name || one.formerNames.includes(name ?? ""));
  }

  fault(kind: "refuses" | "rate-limit" | "outage"): NetAnswer {
    const quota = this.quotaUntil;
    if (kind === "outage" && quota > this.#options.now()) {
      return {
        status: 403,
        body: JSON.stringify({ message: "API rate limit exceeded for installation" }),
        headers: {
          "x-ratelimit-remaining": "0",
          "x-ratelimit-reset": String(Math.ceil(quota / 1000)),
          "content-type": "application/json",
        },
      };
    }
    if (kind === "rate-limit") {
      const wait = this.#options.rng.int(1, 90);
      return {
        status: 403,
        body: JSON.stringify({ message: "API rate limit exceeded" }),
        headers: { "retry-after": String(wait), "content-type": "application/json" },
      };
    }
    if (kind === "outage")
      return { status: 503, body: "<html>Unicorn!</html>", headers: { "content-type": "text/html" } };
    return this.#options.rng.chance(0.5) ? json(502, { message: "Server Error" }) : json(500, {});
  }

  /** Remembers what was read, so that a later cancel can be held against it. */
  read(request: NetRequest, runId: string, attempt: number, status: string): void {
    const key = `${request.caller} ${runId}`;
    this.#reads.set(key, [...(this.#reads.get(key) ?? []), { at: this.#options.now(), attempt, status }]);
  }

  lastRead(request: NetRequest, runId: string): { attempt: number; status: string } | null {
    // Before it was sent: an order that was long on its way does not know what was read meanwhile (seed 9283).
    const reads = this.#reads.get(`${request.caller} ${runId}`) ?? [];
    return reads.findLast((read) => read.at <= request.askedAt) ?? null;
  }

  get options(): GitHubOptions {
    return this.#options;
  }
}

const HANDLERS: Readonly<Record<string, ServerHandler>> = {
  ...MORE_HANDLERS,
  installation: (_server, repository) => json(200, { id: Number(repository.installationId) }),
  getRepository: (_server, repository) =>
    json(200, {
      id: Number(repository.id),
      full_name: `${repository.owner}/${repository.name}`,
      owner: { id: 9, login: repository.owner },
      default_branch: "main",
      archived: repository.standing === "archived",
    }),
  getBranch: (_server, repository) => json(200, { name: "main", commit: { sha: repository.mainSha } }),
  getFile: (_server, repository, _request, [path = ""]) => {
    const name = decodeURIComponent(path);
    if (name === CONFIG && repository.config === "") return notFound();
    if (name !== CONFIG && repository.blobs[name] === undefined) return notFound();
    const text = name === CONFIG ? repository.config : `# ${name}`;
    const sha = repository.blobs[name] ?? createHash("sha1").update(text).digest("hex");
    return json(200, { type: "file", sha, encoding: "base64", content: Buffer.from(text).toString("base64") });
  },
  getCommit: (_server, repository, _request, [sha = ""]) => {
    if (!repository.knows(sha)) return notFound();
    return json(200, {
      sha,
      tree: { sha: repository.treeOf(sha) },
      parents: repository.parentsOf(sha).map((one) => ({ sha: one })),
    });
  },
  getTree: (_server, repository, _request, [sha = ""]) =>
    json(200, {
      sha,
      truncated: false,
      tree: [
        { path: "Cargo.lock", mode: "100644", type: "blob", sha: repository.mainSha },
        { path: "src/kernel.rs", mode: "100644", type: "blob", sha },
      ],
    }),
  getRef: (_server, repository, _request, [ref = ""]) => {
    const queued = groupRefs(repository).find((one) => one.ref === `refs/${decodeURIComponent(ref)}`);
    if (queued !== undefined) return json(200, queued);
    const number = Number(/^pull\/(\d+)\/merge$/.exec(decodeURIComponent(ref))?.[1] ?? "0");
    const pull = repository.pulls.get(number);
    if (pull === undefined || pull.conflict) return notFound();
    const change = repository.changes.get(pull.headSha)?.get(pull.baseRef);
    return change === undefined ? notFound() : json(200, { ref: `refs/${ref}`, object: { sha: change.mergeSha } });
  },
  getPull: (_server, repository, _request, [number = ""]) => {
    const pull = repository.pulls.get(Number(number));
    return pull === undefined ? notFound() : json(200, pullJson(repository, pull));
  },
  listPulls: (_server, repository, request) =>
    list(
      request,
      [...repository.pulls.values()].filter((pull) => pull.state === "open").map((pull) => pullJson(repository, pull)),
      null,
    ),
  listPullFiles: (_server, repository, request, [number = ""]) => {
    const pull = repository.pulls.get(Number(number));
    if (pull === undefined) return notFound();
    return list(
      request,
      pull.files.map((file) => ({ ...file, sha: null, changes: 3, patch: "@@" })),
      null,
    );
  },
  getRole: (_server, repository, _request, [login = ""]) => {
    const user = repository.user(decodeURIComponent(login));
    if (user === undefined) return notFound();
    const permission = user.role === "maintain" ? "write" : user.role;
    return json(200, { permission, role_name: user.role, user: { id: Number(user.id), login: user.login } });
  },
  dispatch: (server, repository, request, [file = ""]) => {
    const body = JSON.parse(request.body) as { ref: string; inputs: Record<string, string> };
    if (body.ref !== "main") return json(422, { message: "No ref found" });
    const run = dispatchRun(repository, `.github/workflows/${file}`, body.inputs);
    if (server.options.faults.strikes("dispatch-without-id", 0.15)) return { status: 204, body: "" };
    return json(200, { workflow_run_id: Number(run.id), run_url: "", html_url: "" });
  },
  listWorkflowRuns: (server, repository, request, [file]) => {
    const since = (request.query.get("created") ?? "").replace(">=", "");
    const event = request.query.get("event");
    const head = request.query.get("head_sha");
    const runs = [...repository.runs.values()]
      .filter((run) => !run.gone && run.listedFrom <= server.options.now())
      .filter((run) => file === undefined || run.path === `.github/workflows/${file}`)
      .filter((run) => event === null || run.event === event)
      .filter((run) => head === null || run.headSha === head)
      .filter((run) => since === "" || Math.floor(run.createdAt / 1000) * 1000 >= Date.parse(since));
    return list(
      request,
      runs.toReversed().map((run) => runJson(repository, run)),
      "workflow_runs",
    );
  },
  getRun: (server, repository, request, [id = ""]) => {
    const run = repository.runs.get(id);
    if (run === undefined || run.gone) return notFound();
    server.read(request, id, run.attempt, run.status);
    return json(200, runJson(repository, run));
  },
  getRunAttempt: (server, repository, request, [id = "", attempt = "1"]) => {
    const run = repository.runs.get(id);
    if (run === undefined || run.gone || Number(attempt) > run.attempt) return notFound();
    if (Number(attempt) === run.attempt) server.read(request, id, run.attempt, run.status);
    return json(200, runJson(repository, run, Number(attempt)));
  },
  listJobs: (_server, repository, request, [id = "", attempt = "1"]) => {
    const run = repository.runs.get(id);
    if (run === undefined || run.gone) return notFound();
    const jobs = run.jobs[Number(attempt) - 1] ?? [];
    return list(
      request,
      jobs.map((job) => jobJson(repository, run, job, Number(attempt))),
      "jobs",
    );
  },
  listArtifacts: (_server, repository, request, [id = ""]) => {
    const run = repository.runs.get(id);
    if (run === undefined || run.gone) return notFound();
    cleanUp(repository, run);
    return list(
      request,
      run.artifacts.map((artifact) => ({
        id: Number(artifact.id),
        name: artifact.name,
        size_in_bytes: 1000,
        expired: artifact.expired,
        digest: `sha256:${"a".repeat(64)}`,
        created_at: iso(run.updatedAt),
        expires_at: iso(run.updatedAt + 7 * 86_400_000),
        workflow_run: {
          id: Number(run.id),
          repository_id: Number(repository.id),
          head_repository_id: Number(repository.id),
        },
      })),
      "artifacts",
    );
  },
  cancelRun: (server, repository, request, [id = ""]) => {
    const run = repository.runs.get(id);
    if (run === undefined || run.gone) return notFound();
    repository.cancels.push({
      at: server.options.now(),
      run,
      attempt: run.attempt,
      lastRead: server.lastRead(request, id),
    });
    return cancelRun(repository, run, false)
      ? json(202, {})
      : json(409, { message: "Cannot cancel a workflow run that is completed" });
  },
  mint: (server, repository, request) => {
    if (server.options.faults.strikes("github-mint-refused", 0.3))
      return json(403, { message: "Resource not accessible by integration" });
    const body = JSON.parse(request.body) as { name: string; labels: string[] };
    const runner = mintRunner(repository, body.name, body.labels);
    if (runner === null) return json(409, { message: "Already exists - A runner with the name already exists." });
    return json(201, { runner: runnerJson(runner), encoded_jit_config: runner.jit });
  },
  listRunners: (_server, repository, request) => {
    const name = request.query.get("name");
    const runners = [...repository.runners.values()].filter((runner) => name === null || runner.name === name);
    const own = name === null ? repository.ownRunners : [];
    return list(request, [...runners.map(runnerJson), ...own.map(ownRunnerJson)], "runners");
  },
  getRunner: (_server, repository, _request, [id = ""]) => {
    const runner = repository.runners.get(id);
    return runner === undefined ? notFound() : json(200, runnerJson(runner));
  },
  deleteRunner: (server, repository, _request, [id = ""]) => {
    const runner = repository.runners.get(id);
    if (runner === undefined) return notFound();
    // GitHub may believe for hours that a job runs on a machine that is gone.
    const { faults } = server.options;
    runner.kept ||= faults.strikes("github-keeps-runner", 0.3);
    if (runner.busy || (runner.kept && !faults.healed))
      return json(422, { message: `Runner "${runner.name}" is still running a job` });
    repository.removeRunner(runner, "deregistered");
    return { status: 204, body: "" };
  },
  createCheck: (server, repository, request) => {
    const body = JSON.parse(request.body) as Record<string, unknown>;
    const check: CheckRun = {
      id: server.options.nextId(),
      appId: APP_ID,
      name: String(body["name"]),
      headSha: String(body["head_sha"]),
      externalId: null,
      status: "queued",
      conclusion: null,
      startedAt: server.options.now(),
      completedAt: null,
      title: "",
      summary: "",
      text: "",
    };
    repository.checks.set(check.id, check);
    return write(server, repository, check, body, 201);
  },
  updateCheck: (server, repository, request, [id = ""]) => {
    const check = repository.checks.get(id);
    if (check === undefined || check.appId !== APP_ID) return notFound();
    return write(server, repository, check, JSON.parse(request.body) as Record<string, unknown>, 200);
  },
  listChecks: (_server, repository, request, [ref = ""]) => {
    const name = request.query.get("check_name");
    const app = request.query.get("app_id");
    let checks = [...repository.checks.values()]
      .filter((check) => check.headSha === ref)
      .filter((check) => (name === null || check.name === name) && (app === null || check.appId === app));
    if (request.query.get("filter") !== "all") {
      checks = [...new Map(checks.map((check) => [`${check.appId} ${check.name}`, check])).values()];
    }
    return list(request, checks.map(checkJson), "check_runs");
  },
  listAnnotations: (_server, repository, request, [id = ""]) => {
    const job = [...repository.jobs.values()].find((one) => one.checkRunId === id);
    return list(
      request,
      (job?.annotations ?? []).map((one) => ({
        path: ".github",
        start_line: 1,
        end_line: 1,
        annotation_level: one.level,
        title: one.title,
        message: one.message,
        raw_details: null,
      })),
      null,
    );
  },
};

function write(
  server: VirtualGitHub,
  repository: Repository,
  check: CheckRun,
  body: Readonly<Record<string, unknown>>,
  status: number,
): NetAnswer {
  if (typeof body["name"] === "string") check.name = body["name"];
  if (typeof body["external_id"] === "string") check.externalId = body["external_id"];
  if (typeof body["status"] === "string") check.status = body["status"];
  if (typeof body["conclusion"] === "string") {
    check.conclusion = body["conclusion"];
    check.completedAt = server.options.now();
  }
  const output = body["output"] as { title?: string; summary?: string; text?: string } | undefined;
  if (output !== undefined) {
    check.title = output.title ?? "";
    check.summary = output.summary ?? "";
    check.text = output.text ?? "";
  }
  server.options.onCheck(repository, check);
  return json(status, checkJson(check));
}

function runnerJson(runner: { id: string; name: string; status: string; busy: boolean; labels: readonly string[] }) {
  return {
    id: Number(runner.id),
    name: runner.name,
    os: "linux",
    status: runner.status,
    busy: runner.busy,
    labels: runner.labels.map((name) => ({ name, type: "custom" })),
    runner_group_id: 7,
  };
}

const ROUTES: readonly Route[] = [
  ...MORE_ROUTES,
  route("GET", "", "getRepository"),
  route("GET", "/installation", "installation"),
  route("GET", "/branches/(.+)", "getBranch"),
  route("GET", "/contents/(.+)", "getFile"),
  route("GET", "/git/commits/([^/]+)", "getCommit"),
  route("GET", "/git/trees/([^/]+)", "getTree"),
  route("GET", "/git/ref/(.+)", "getRef"),
  route("GET", "/pulls", "listPulls"),
  route("GET", String.raw`/pulls/(\d+)`, "getPull"),
  route("GET", String.raw`/pulls/(\d+)/files`, "listPullFiles"),
  route("GET", "/collaborators/([^/]+)/permission", "getRole"),
  route("POST", "/actions/workflows/([^/]+)/dispatches", "dispatch"),
  route("GET", "/actions/workflows/([^/]+)/runs", "listWorkflowRuns"),
  route("GET", String.raw`/actions/runs/(\d+)`, "getRun"),
  route("GET", String.raw`/actions/runs/(\d+)/attempts/(\d+)`, "getRunAttempt"),
  route("GET", String.raw`/actions/runs/(\d+)/attempts/(\d+)/jobs`, "listJobs"),
  route("GET", String.raw`/actions/runs/(\d+)/artifacts`, "listArtifacts"),
  route("POST", String.raw`/actions/runs/(\d+)/cancel`, "cancelRun"),
  route("POST", "/actions/runners/generate-jitconfig", "mint"),
  route("GET", "/actions/runners", "listRunners"),
  route("GET", String.raw`/actions/runners/(\d+)`, "getRunner"),
  route("DELETE", String.raw`/actions/runners/(\d+)`, "deleteRunner"),
  route("POST", "/check-runs", "createCheck"),
  route("PATCH", String.raw`/check-runs/(\d+)`, "updateCheck"),
  route("GET", "/commits/([^/]+)/check-runs", "listChecks"),
  route("GET", String.raw`/check-runs/(\d+)/annotations`, "listAnnotations"),
];

interface Found {
  readonly route: Route;
  readonly parts: readonly string[];
}

function find(method: string, path: string): Found | null {
  if (path.startsWith("/app/installations/")) return { route: TOKEN, parts: [] };
  for (const one of ROUTES) {
    if (one.method !== method) continue;
    const match = one.pattern.exec(path);
    if (match !== null) return { route: one, parts: match.slice(1) };
  }
  return null;
}

const TOKEN: Route = route("POST", "", "installationToken");

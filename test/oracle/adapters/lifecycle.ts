/**
 * Feeds the lifecycle corpus to the clients and to what the gate makes of their answers: the pull request's look, the
 * removal's DELETE with its repeats, the cancel with its last read, the list of jobs. The scripted answers hold only the
 * fields upstream reads; the others that GitHub always sends are filled in.
 */
import { observe } from "../../../durable-objects/gate/observe.ts";
import { perform, type PerformContext } from "../../../durable-objects/gate/perform.ts";
import { createGitHubClient } from "../../../shared/github/client.ts";
import type { GitHubCall } from "../../../shared/github/call.ts";
import { failureFromAnswer } from "../../../shared/github/failure.ts";
import { githubId, sha } from "../../../shared/github/schema.ts";
import { countPullLooks, obsolete } from "../../../shared/lifecycle/judge.ts";
import { taskSchema, type Done } from "../../../shared/lifecycle/tasks.ts";
import { err, ok } from "../../../shared/result.ts";
import { createRunPodClient } from "../../../shared/runpod/client.ts";
import { attemptAt, requestIn, SECOND, states, T0, teardownAt } from "../../lifecycle/fixtures.ts";
import { Story } from "../../lifecycle/story.ts";
import type { CorpusAdapter, CorpusCase, Outcome } from "../adapter.ts";

interface Answer {
  readonly status?: number;
  readonly body?: unknown;
}

interface Wanted {
  readonly calls: readonly string[];
  readonly sleeps?: readonly number[];
  readonly error?: string;
  readonly [field: string]: unknown;
}

/** What an operation came to; an unknown is upstream's error. */
type Result = { readonly error: true } | Readonly<Record<string, unknown>>;

const ERROR: Result = { error: true };
const REPOSITORY = { id: "101", owner: "octo", name: "engine", installationId: "77" };

export const adapter: CorpusAdapter = {
  corpus: "lifecycle",
  run: async (testCase) => {
    const wanted = testCase["expected"] as Wanted;
    const server = new Server(testCase["api"] as Readonly<Record<string, readonly Answer[]>>);
    const [first = "", second = ""] = (testCase["args"] as readonly unknown[]).map(String);
    switch (testCase["op"]) {
      case "obsolete":
        return compare(wanted, await isObsolete(server, first, second), server.calls);
      case "jobs":
        return compare(wanted, await jobs(server, first, second), server.calls);
      case "cancel": {
        const result = await cancel(server, first, second);
        const gone = server.answered("GET", `actions/runs/${first}`).some((status) => status === 404);
        if (gone && wanted.error !== undefined && result["ok"] === true) {
          return { pass: true, expected: { ok: true }, actual: result, overruledBy: "gone-run-needs-no-cancel" };
        }
        return compare(wanted, result, server.calls);
      }
      case "delete":
        return deletion(testCase, wanted, server, first);
      default:
        return { pass: false, expected: wanted, actual: `no operation ${String(testCase["op"])}` };
    }
  },
};

/** Answers by script, in turn; the last one repeats, and what is not scripted is 404. */
class Server {
  readonly calls: string[] = [];
  readonly #script: Readonly<Record<string, readonly Answer[]>>;
  readonly #statuses = new Map<string, (number | null)[]>();

  constructor(script: Readonly<Record<string, readonly Answer[]>>) {
    this.#script = script;
  }

  answer(call: string): Answer {
    const given = this.calls.filter((earlier) => earlier === call).length;
    this.calls.push(call);
    const answers = this.#script[call] ?? [{ status: 404 }];
    const answer = answers[Math.min(given, answers.length - 1)] ?? { status: 404 };
    this.#statuses.set(call, [...(this.#statuses.get(call) ?? []), answer.status ?? null]);
    return answer;
  }

  answered(method: string, path: string): readonly (number | null)[] {
    return this.#statuses.get(`${method} ${path}`) ?? [];
  }

  github() {
    const asRepository = async (_: unknown, call: GitHubCall) => {
      const path = call.path.replace(`/repos/${REPOSITORY.owner}/${REPOSITORY.name}/`, "");
      const { status, body } = this.answer(`${call.method} ${path}`);
      if (status === undefined) return err({ reason: "transport", timeout: false } as const);
      const text = JSON.stringify(complete(path, body) ?? {});
      if (status >= 200 && status <= 299) return ok({ status, text, etag: null, link: null });
      return err(failureFromAnswer({ status, headers: new Headers(), text }, T0));
    };
    return createGitHubClient({ app: { asRepository }, repository: REPOSITORY, runners: { kind: "repository" } });
  }

  /** Reads that prove absence are not scripted: the pod is gone once its DELETE was taken. */
  runpod() {
    return createRunPodClient({
      apiKey: "key",
      baseUrl: "https://runpod.test",
      graphqlUrl: "https://runpod.test/graphql",
      userAgent: "test",
      clock: { now: () => T0 },
      fetch: (url, init) => {
        const path = new URL(url).pathname.replace("/v2/", "");
        if (path === "pods") return Promise.resolve(Response.json({ pods: [] }));
        const { status, body } = this.answer(`${init?.method ?? "GET"} ${path}`);
        if (status === undefined) return Promise.reject(new TypeError("no answer"));
        const empty = status === 204 || status === 304;
        // REST v2 says what was not found; a bare 404 could be a route that is not there.
        const told = status === 404 ? { title: "Not Found", detail: "pod not found" } : (body ?? {});
        return Promise.resolve(new Response(empty ? null : JSON.stringify(told), { status }));
      },
    });
  }
}

/** The fields upstream does not look at and our schemas require. What the script says of a field stays. */
function complete(path: string, body: unknown): unknown {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return body;
  const told = body as Readonly<Record<string, unknown>>;
  if (path.startsWith("pulls/")) {
    const side = (name: string) => (typeof told[name] === "object" ? told[name] : {}) as object;
    const repo = { id: 101, full_name: "octo/engine" };
    return {
      number: 7,
      title: "",
      labels: [],
      user: { id: 11, login: "alice" },
      changed_files: 0,
      ...told,
      head: { ref: "topic", repo, ...side("head") },
      base: { ref: "main", sha: "c".repeat(40), repo, ...side("base") },
    };
  }
  if (/\/jobs\?/.test(path)) {
    const all = told["jobs"];
    if (!Array.isArray(all)) return told;
    const filled = all.map((one: unknown, index) =>
      typeof one === "object" && one !== null
        ? { id: jobId(path, index), run_id: 123, status: "queued", head_sha: "a".repeat(40), labels: [], ...one }
        : one,
    );
    return { ...told, jobs: filled };
  }
  const run = {
    id: 123,
    event: "workflow_dispatch",
    path: ".github/workflows/execute.yml",
    workflow_id: 1,
    head_sha: "a".repeat(40),
    repository: { id: 101 },
    html_url: "https://github.test/run",
  };
  return path.startsWith("actions/runs/") ? { ...run, ...told } : told;
}

/** Two jobs of two pages are two jobs. */
function jobId(path: string, index: number): number {
  return Number(/[?&]page=(\d+)/.exec(path)?.[1] ?? 1) * 1_000 + index;
}

async function isObsolete(server: Server, prNumber: string, head: string): Promise<Result> {
  const followed = Number(prNumber) === 0 ? {} : { pull: Number(prNumber) };
  const task = taskSchema.safeParse({ kind: "observe", want: followed });
  if (!task.success || task.data.kind !== "observe" || !sha.safeParse(head).success) return ERROR;
  const pull = task.data.want.pull;
  const kind = pull === undefined ? ("validation" as const) : ("pull-request" as const);
  const request = requestIn(states.executing(), { kind, prNumber: pull ?? null, headSha: head });
  const seen = await observe(task.data.want, { github: server.github(), dueAt: T0 } as never);
  const verdict = obsolete(countPullLooks(request, seen.pull), seen.pull);
  if (verdict !== null) return { obsolete: verdict.kind === "closed" ? "closed" : "head-moved" };
  const undecided = seen.pull !== undefined && (!seen.pull.known || seen.pull.value === "gone");
  return undecided ? ERROR : { obsolete: null };
}

async function jobs(server: Server, runId: string, attempt: string): Promise<Result> {
  if (!wellFormed(runId, attempt)) return ERROR;
  const listed = await server.github().listJobs(runId, Number(attempt));
  return listed.ok ? { jobs: listed.value.items.length } : ERROR;
}

async function cancel(server: Server, runId: string, attempt: string): Promise<Readonly<Record<string, unknown>>> {
  if (!wellFormed(runId, attempt)) return ERROR;
  const task = { kind: "cancel-run", run: { runId, attempt: Number(attempt) } } as const;
  const done = await perform(task, { github: server.github() } as PerformContext);
  return done.task === "cancel-run" && done.outcome.kind !== "unknown" ? { ok: true } : ERROR;
}

function wellFormed(runId: string, attempt: string): boolean {
  return githubId.safeParse(runId).success && /^[1-9]\d*$/.test(attempt);
}

/** Our removal never gives up; upstream does after three tries, so that is how far it is followed. */
async function deletion(testCase: CorpusCase, wanted: Wanted, server: Server, podId: string): Promise<Outcome> {
  const attempt = attemptAt("online", { createSentAt: T0 - 600 * SECOND });
  const pod = attempt.pod === null ? null : { ...attempt.pod, id: podId };
  const story = new Story(
    requestIn(states.cleaning("delete", { attempt: { ...attempt, pod }, teardown: teardownAt("delete") })),
  );
  story.task = { task: { kind: "delete-pod", podId }, dueAt: T0 };
  const list = { ok: true, value: { startedAt: T0, complete: true, pods: [] } };
  const ports = {
    runpod: server.runpod(),
    clock: { now: () => T0 },
    account: {
      listPods: (at: number) => ({ ...list, value: { ...list.value, startedAt: at } }),
      // Nobody else has had the pod deleted.
      goneSince: () => ({ ok: true, value: null }),
    },
  };
  const sleeps: number[] = [];
  const deletes = () => server.calls.filter((call) => call.startsWith("DELETE "));
  const proven = () => story.state("cleaning").teardown.provenAt !== null;
  const step = async (): Promise<void> => {
    const task = story.task?.task ?? { kind: "sleep" };
    const done: Done = await perform(task, { ports } as unknown as PerformContext);
    story.answer(done.task, done.outcome);
  };
  for (let steps = 0; steps < 50 && !proven(); steps += 1) {
    if (story.asks === "delete-pod") {
      if (deletes().length === 3) break;
      if (deletes().length > 0) sleeps.push(((story.task?.dueAt ?? 0) - story.now) / SECOND);
    }
    await step();
  }
  const result: Result = proven() ? { confirmed: true } : ERROR;
  const actual = { ...result, calls: server.calls, sleeps };
  const sameWay = equal(wanted.calls, deletes()) && equal(wanted.sleeps ?? [], sleeps);
  if (sameWay && sameResult(wanted, result)) {
    // The reads behind a confirmed DELETE are ours: without them it proves nothing.
    const extra = server.calls.length > deletes().length;
    return { pass: true, expected: wanted, actual, ...(extra ? { overruledBy: "absence-needs-proof" } : {}) };
  }
  const refused = server.answered("DELETE", `pods/${podId}`).some((status) => status !== null && !isTransient(status));
  const goesOn =
    wanted.calls.every((call, index) => deletes()[index] === call) && deletes().length > wanted.calls.length;
  if (refused && goesOn) {
    const demanded = [...wanted.calls, "and again"];
    return { pass: true, expected: { calls: demanded }, actual, overruledBy: "deletion-never-gives-up" };
  }
  return { pass: false, expected: wanted, actual: { ...actual, id: testCase.id } };
}

/** Upstream repeats after these; every other answer that is no success ends its deletion at once. */
function isTransient(status: number): boolean {
  return (
    status === 404 ||
    status === 408 ||
    status === 429 ||
    (status >= 500 && status <= 599) ||
    (status >= 200 && status <= 299)
  );
}

function compare(wanted: Wanted, result: Result, calls: readonly string[]): Outcome {
  return {
    pass: sameResult(wanted, result) && equal(wanted.calls, calls),
    expected: wanted,
    actual: { ...result, calls },
  };
}

function sameResult(wanted: Wanted, result: Result): boolean {
  if (wanted.error !== undefined) return "error" in result;
  if ("error" in result) return false;
  return Object.entries(result).every(([key, value]) => wanted[key] === value);
}

function equal(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a.length === b.length && a.every((item, index) => item === b[index]);
}

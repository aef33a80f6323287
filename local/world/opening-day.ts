/**
 * The opening day: ten things that happen to a repository with a GPU gate, played against the running world.
 *
 * Everything here is what people and providers do (open, push, run out of capacity, answer 500). The product under test
 * decides alone; the time limits it uses come from the repository's own configuration file.
 */
import { isDeepStrictEqual } from "node:util";
import { podName } from "../../shared/runpod/tags.ts";
import { judgeRuns } from "./judge-runs.ts";
import { Progress, type Heads, type RequestRow, type View } from "./progress.ts";
import { BROKEN_TESTS, projectFiles, SLOW_TESTS } from "./project.ts";
import { DEPLOYMENT, REPOSITORY_ID, type World } from "./world.ts";

export const OWNER = "acme";
export const NAME = "tensors";

/** The gate's configuration in the local world: the product's rules, a thousand times faster. */
export const CONFIG = `# yaml-language-server: $schema=../docs/gpu-gate.schema.json
version: 1
paths:
  docs:
    files: [README.md]
    prefixes: [docs/]
  ci:
    prefixes: [.github/workflows/]
lanes:
  rust: {}
  docs:
    asked_by: [docs]
  ci_config:
    asked_by: [ci]
  macos: {}
evidence:
  min_seconds: 0.2
gpu:
  tiers:
    - name: cost-preferred
      gpu_ids: [NVIDIA RTX A4000, NVIDIA RTX A5000, NVIDIA L4, NVIDIA A40]
    - name: a100
      gpu_ids: [NVIDIA A100 80GB PCIe]
  cuda_versions: ["12.6", "12.8"]
fork_fallback:
  instructions: Ask a maintainer to push this commit to a branch of this repository.
limits:
  create_walk: 20
  backoff_base: 0.2
  create_look_up: 3
  dispatch_look_up: 5
  preparation: 60
  trigger_start: 20
  acceptance: 20
  no_machine: 10
  idle_runner: 10
  setup: 30
  lifetime: 60
  backstop: 120
  watch_poll: 0.4
  watch_poll_tests: 0.3
  delete_retry: 0.2
  delete_pause_base: 0.2
  absence_after_create: 1
  absence_list_gap: 0.3
  reconcile: 2
  reservation: 100
`;

/** One row of the day: who opens what, and what must become of it. */
export interface Act {
  readonly key: string;
  readonly what: string;
  readonly verdict: string;
  readonly pods: number | null;
}

export const ACTS: readonly Act[] = [
  { key: "docs", what: "docs only", verdict: "not-required", pods: 0 },
  { key: "code", what: "code; two GPUs out of capacity", verdict: "passed", pods: 1 },
  { key: "second", what: "code; queues second", verdict: "passed", pods: 1 },
  { key: "third", what: "code; queues third", verdict: "passed", pods: 1 },
  { key: "fork", what: "from a fork", verdict: "refused", pods: 0 },
  { key: "moving", what: "head moves in mid-run", verdict: "superseded", pods: 1 },
  { key: "moved", what: "the new head of the same", verdict: "passed", pods: 1 },
  { key: "broken", what: "GPU tests fail", verdict: "failed", pods: 1 },
  { key: "ambiguous", what: "create answers 500, pod exists", verdict: "passed", pods: 1 },
];

export interface DayOptions {
  readonly world: World;
  /** A line for the person watching. */
  readonly say: (text: string) => void;
  /** Kill the Worker's process with SIGKILL in the middle, while a pod is paid for. */
  readonly crashWorker: boolean;
}

export interface DayResult {
  readonly rows: readonly DayRow[];
  readonly problems: readonly string[];
}

export interface DayRow {
  readonly pull: string;
  readonly what: string;
  readonly verdict: string;
  readonly reason: string;
  readonly gpu: string;
  readonly price: string;
  readonly paidSeconds: string;
  readonly cost: string;
}

const DAY_LIMIT_MS = 110_000;

export async function playOpeningDay(options: DayOptions): Promise<DayResult> {
  const { world, say } = options;
  const { github, runpod } = world;
  const started = Date.now();
  const problems: string[] = [];
  const left = () => DAY_LIMIT_MS - (Date.now() - started);

  const repository = github.createRepository({
    owner: OWNER,
    name: NAME,
    id: Number(REPOSITORY_ID),
    files: projectFiles(CONFIG, world.tool),
  });
  repository.addCollaborator("mira", "admin");
  repository.addCollaborator("theo", "maintain");

  // Somebody else's pod and another deployment's pod share the account all day.
  const foreign = runpod.rentForeignPod({ name: "somebody-elses-notebook" });
  const otherDeployment = runpod.rentForeignPod({
    name: podName({ deployment: "staging", repositoryId: REPOSITORY_ID, attemptId: "r1-1" }),
    env: {
      GPU_GATE_DEPLOYMENT: "staging",
      GPU_GATE_REPOSITORY_ID: REPOSITORY_ID,
      GPU_GATE_REQUEST: "r1",
      GPU_GATE_ATTEMPT: "r1-1",
      GPU_GATE_RUN_ID: "1",
      GPU_GATE_KEEP: "false",
    },
  });

  const heads: Heads = new Map();
  const watch = new Progress(world, heads, say);
  const open = (key: string, author: string, files: Record<string, string>, fork?: boolean) => {
    const act = ACTS.find((row) => row.key === key);
    const pull = repository.openPullRequest({
      author,
      files,
      title: act?.what ?? key,
      ...(fork ? { fork: true } : {}),
    });
    heads.set(key, { pull: pull.number, sha: pull.headSha });
    say(`#${pull.number} opened by ${author}: ${act?.what ?? key}`);
    return pull;
  };
  const code = (name: string) => ({ [`src/${name}.rs`]: `pub fn ${name}() {}\n` });

  open("docs", "mira", { "docs/guide.md": "# Guide\n" });
  await watch.until("docs", (row) => row.state === "concluded", left());

  // The two cheapest GPUs are listed as in stock and refused all the same: stock is a hint.
  runpod.faults.next({ method: "POST", route: "/v2/pods", gpuId: "NVIDIA RTX A4000" }, { kind: "capacity" });
  runpod.faults.next({ method: "POST", route: "/v2/pods", gpuId: "NVIDIA RTX A5000" }, { kind: "capacity" });
  open("code", "mira", code("matmul"));
  await watch.until(
    "code",
    (row) => row.state === "provisioning" || row.state === "executing" || row.state === "concluded",
    left(),
  );
  open("second", "theo", code("conv"));
  await watch.until("second", (row) => row.state === "queued" || past(row), left());
  open("third", "mira", code("norm"));
  open("fork", "stranger", code("miner"), true);
  await watch.until(
    "code",
    (row) => row.state === "executing" || row.state === "cleaning" || row.state === "concluded",
    left(),
  );
  if (options.crashWorker) {
    say("the Worker's process is killed with SIGKILL while a pod is paid for");
    await world.worker.crash();
    say("the Worker is back on its stored state");
  }
  await watch.until("third", (row) => row.state === "queued" || past(row), left());

  open("moving", "theo", { ...code("fft"), [SLOW_TESTS]: "yes\n" });
  await watch.until("moving", (row) => row.state === "executing" && row.headline.includes("running"), left());
  const moving = heads.get("moving");
  if (moving !== undefined) {
    const sha = repository.push(moving.pull, {
      author: "theo",
      files: { [SLOW_TESTS]: null, "src/fft.rs": "pub fn fft(n: u32) {}\n" },
    });
    heads.set("moved", { pull: moving.pull, sha });
    say(`#${moving.pull} pushed by theo in mid-run`);
  }
  open("broken", "mira", { ...code("sum"), [BROKEN_TESTS]: "yes\n" });
  await watch.until("broken", (row) => row.state === "queued" || past(row), left());

  // The create of this one is done and answered 500: the pod exists and is billed.
  open("ambiguous", "mira", code("gather"));
  await watch.until("ambiguous", (row) => row.state === "preparing" || past(row), left());
  const waiting = watch.row(await watch.view(), "ambiguous");
  runpod.faults.next(
    { method: "POST", route: "/v2/pods", name: new RegExp(`-${waiting?.id ?? "?"}-`) },
    { kind: "done-but", status: 500 },
  );
  await watch.until("broken", (row) => row.state === "concluded", left());
  await watch.until("ambiguous", (row) => row.pods > 0 || row.state === "concluded", left());
  if (!runpod.requests().some((entry) => entry.create !== null && entry.status === 500)) {
    problems.push("no create was answered 500, so nothing was adopted");
  }

  say("an orphan appears: a pod of ours whose run nobody knows any more");
  const orphan = runpod.rentForeignPod({
    name: podName({ deployment: DEPLOYMENT, repositoryId: REPOSITORY_ID, attemptId: "r999-1" }),
    env: {
      GPU_GATE_DEPLOYMENT: DEPLOYMENT,
      GPU_GATE_REPOSITORY_ID: REPOSITORY_ID,
      GPU_GATE_REQUEST: "r999",
      GPU_GATE_ATTEMPT: "r999-1",
      GPU_GATE_RUN_ID: "999",
      GPU_GATE_KEEP: "false",
    },
  });
  for (const act of ACTS) await watch.until(act.key, (row) => row.state === "concluded" && row.published, left());
  await watch.settled((view) => view.ledger.every((line) => line.proven_at !== null) && reaped(world, orphan), left());
  const view = await watch.view();

  // What must hold at the end, by RunPod's and GitHub's own books.
  for (const act of ACTS) problems.push(...judgeAct(act, watch.row(view, act.key), world, heads.get(act.key)?.sha));
  const bills = new Map(runpod.bills().map((bill) => [bill.podId, bill]));
  for (const pod of runpod.pods()) {
    const untouched = pod.id === foreign || pod.id === otherDeployment;
    if (untouched && pod.releasedAtMs !== null) problems.push(`${pod.name} is not ours and was deleted`);
    if (!untouched && pod.releasedAtMs === null) problems.push(`pod ${pod.name} is still being paid for`);
    if (!untouched && !view.ledger.some((line) => line.pod_id === pod.id && line.proven_at !== null)) {
      problems.push(`pod ${pod.name} has no closing line in the ledger`);
    }
  }
  for (const line of view.ledger) {
    const bill = bills.get(line.pod_id);
    if (bill === undefined) problems.push(`the ledger has a pod RunPod does not know: ${line.pod_id}`);
    else problems.push(...judgeBill(line, bill));
  }
  const order = ["code", "second", "third"].map((key) => watch.row(view, key)?.concludedAt ?? 0);
  if (
    !isDeepStrictEqual(
      order,
      order.toSorted((a, b) => a - b),
    )
  )
    problems.push("the queue was not served in order");
  problems.push(...judgeRuns(github, `${OWNER}/${NAME}`));
  const buyers = runpod.requests().filter((entry) => entry.create !== null).length;
  say(`RunPod was asked to create ${buyers} times; ${runpod.pods().length - 3} pods were ours`);

  say("");
  say(ledgerTable(view, bills));
  return { rows: ACTS.map((act) => tableRow(act, watch.row(view, act.key), heads.get(act.key)?.pull)), problems };
}

function past(row: RequestRow): boolean {
  return ["revalidating", "provisioning", "executing", "cleaning", "concluded"].includes(row.state);
}

function reaped(world: World, podId: string): boolean {
  return world.runpod.pods().some((pod) => pod.id === podId && pod.releasedAtMs !== null);
}

function judgeAct(act: Act, row: RequestRow | undefined, world: World, sha: string | undefined): string[] {
  if (row === undefined) return [`${act.what}: no request was opened`];
  const problems: string[] = [];
  if (row.verdict !== act.verdict) {
    problems.push(
      `${act.what}: ${act.verdict} expected, ${row.verdict ?? row.state} seen (${row.reason ?? ""}: ${row.detail ?? ""})`,
    );
  }
  if (act.pods !== null && row.pods !== act.pods)
    problems.push(`${act.what}: ${act.pods} pods expected, ${row.pods} bought`);
  const published = world.github.repository(`${OWNER}/${NAME}`).checkRuns(sha ?? "");
  const ours = published.filter((run) => run.name === "CI GPU gate");
  if (ours.length !== 1) problems.push(`${act.what}: ${ours.length} check runs named CI GPU gate on its head`);
  if (ours[0]?.status !== "completed") problems.push(`${act.what}: its check is not concluded`);
  return problems;
}

/** Our estimate never looks at the bill; it must come within 2 s plus one request's duration of it. */
function judgeBill(
  line: View["ledger"][number],
  bill: { readonly microDollars: number; readonly ratePerHour: number; readonly gpuId: string },
): string[] {
  if (line.estimate_micros === null) return [`pod ${line.pod_id} has no estimate`];
  const allowedMs = 2_000 + REQUEST_MS;
  const drift = Math.abs(line.estimate_micros - bill.microDollars);
  const allowed = (bill.ratePerHour * 1_000_000 * allowedMs) / 3_600_000;
  return drift <= allowed
    ? []
    : [`pod ${line.pod_id}: estimate ${line.estimate_micros}, billed ${bill.microDollars} micro-dollars`];
}

/** The longest a single request takes in the local world. */
const REQUEST_MS = 500;

function ledgerTable(view: View, bills: ReadonlyMap<string, { readonly microDollars: number }>): string {
  const rows = view.ledger
    .toSorted((a, b) => a.paid_from - b.paid_from)
    .map((line) => [
      line.attempt_id,
      line.outcome ?? "open",
      line.closed_at === null ? "" : ((line.closed_at - line.paid_from) / 1000).toFixed(2),
      micro(line.estimate_micros),
      micro(bills.get(line.pod_id)?.microDollars ?? null),
    ]);
  return table(["pod of attempt", "ended as", "paid s", "our estimate USD", "RunPod's bill USD"], rows);
}

function micro(micros: number | null): string {
  return micros === null ? "" : (micros / 1_000_000).toFixed(6);
}

function tableRow(act: Act, row: RequestRow | undefined, pull: number | undefined): DayRow {
  const paid = (row?.pods ?? 0) > 0;
  const price = row?.pricePerHour ?? null;
  return {
    pull: `#${pull ?? "?"}`,
    what: act.what,
    verdict: row?.verdict ?? row?.state ?? "missing",
    reason: row?.reason ?? "",
    gpu: paid ? (row?.gpu ?? "") : "",
    price: paid && price !== null ? `${price.toFixed(2)}/h` : "",
    paidSeconds: paid ? ((row?.paidMs ?? 0) / 1000).toFixed(1) : "",
    cost: paid ? micro(row?.costMicros ?? null) : "",
  };
}

export function dayTable(rows: readonly DayRow[]): string {
  return table(
    ["PR", "what happened", "verdict", "GPU", "price", "paid s", "cost USD", "reason"],
    rows.map((row) => [row.pull, row.what, row.verdict, row.gpu, row.price, row.paidSeconds, row.cost, row.reason]),
  );
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) => Math.max(title.length, ...rows.map((row) => (row[column] ?? "").length)));
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd();
  return [line(head), line(widths.map((width) => "-".repeat(width))), ...rows.map(line)].join("\n");
}

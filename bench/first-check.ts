/**
 * From a webhook sent to the first check published, and the calls a gated pull request costs, with GitHub and RunPod
 * answering after 50 ms each.
 */
import { startWorld } from "../local/world/world.ts";
import { CONFIG, NAME, OWNER } from "../local/world/opening-day.ts";
import { CI, ciScript, EXECUTE, executeScript, PREPARE, prepareScript } from "../local/world/workflows.ts";
import { REPOSITORY_ID } from "../local/world/world.ts";
import { percentile, type BenchRow } from "./row.ts";

const ROUNDS = 5;
const LATENCY_MS = 50;

export async function run(): Promise<readonly BenchRow[]> {
  const world = await startWorld({ port: 0, latencyMs: LATENCY_MS, progress: () => undefined });
  try {
    const { github, runpod } = world;
    const repository = github.createRepository({
      owner: OWNER,
      name: NAME,
      id: Number(REPOSITORY_ID),
      files: {
        "README.md": "# tensors\n",
        ".github/gpu-gate.yml": CONFIG,
        [CI]: "name: CI\n",
        [PREPARE]: "name: GPU gate prepare\n",
        [EXECUTE]: "name: GPU gate execute\n",
      },
    });
    repository.addCollaborator("mira", "admin");
    github.setWorkflowScript(CI, ciScript);
    github.setWorkflowScript(PREPARE, prepareScript);
    github.setWorkflowScript(
      EXECUTE,
      executeScript((sha) => repository.filesAt(sha)),
    );

    const first: number[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const before = Date.now();
      const pull = repository.openPullRequest({
        author: "mira",
        files: { [`docs/${round}.md`]: "x\n" },
        title: "docs",
      });
      await until(() => repository.checkRuns(pull.headSha).some((check) => check.name === "CI GPU gate"));
      first.push(Date.now() - before);
      await until(() =>
        repository
          .checkRuns(pull.headSha)
          .some((check) => check.name === "CI GPU gate" && check.status === "completed"),
      );
    }
    const github0 = github.books.requests.length;
    const runpod0 = runpod.requests().length;
    const pull = repository.openPullRequest({ author: "mira", files: { "src/a.rs": "x\n" }, title: "code" });
    await until(() =>
      repository.checkRuns(pull.headSha).some((check) => check.name === "CI GPU gate" && check.status === "completed"),
    );
    const calls = github.books.requests.slice(github0);
    const kinds = new Map<string, number>();
    for (const call of calls) kinds.set(call.operation ?? "other", (kinds.get(call.operation ?? "other") ?? 0) + 1);
    const top = [...kinds].toSorted((a, b) => b[1] - a[1]).slice(0, 8);
    const provider = runpod.requests().slice(runpod0);
    const routes = new Map<string, number>();
    for (const call of provider)
      routes.set(`${call.method} ${call.route}`, (routes.get(`${call.method} ${call.route}`) ?? 0) + 1);
    return [
      {
        name: "webhook sent to first check, median",
        value: percentile(first, 0.5),
        unit: "ms",
        note: "target 500 or less; GitHub answers in 50 ms",
      },
      {
        name: "GitHub calls per gated pull request",
        value: calls.length,
        unit: "calls",
        note: top.map(([kind, n]) => `${kind} ${n}`).join(", "),
      },
      {
        name: "RunPod calls per gated pull request",
        value: provider.length,
        unit: "calls",
        note: [...routes].map(([kind, n]) => `${kind} ${n}`).join(", "),
      },
    ];
  } finally {
    await world.close();
  }
}

async function until(ready: () => boolean): Promise<void> {
  const limit = Date.now() + 30_000;
  while (!ready()) {
    if (Date.now() > limit) throw new Error("the benchmark waited for thirty seconds");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** A repository with everything a gated pull request needs, in the world of world.ts, and words to follow one by. */
import { CI, ciScript, EXECUTE, executeScript, PREPARE, prepareScript } from "../../local/world/workflows.ts";
import type { RepositoryControl } from "../../local/github/index.ts";
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import { startGateWorld, REPOSITORY_ID, type GateWorld, type GateWorldOptions } from "./world.ts";

/** The product's polls, a hundred times faster; its limits wide enough for a machine that is busy with other things. */
export const CONFIG = `version: 1
paths:
  docs:
    files: [README.md]
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
  instructions: Ask a maintainer.
limits:
  create_walk: 20
  backoff_base: 0.2
  create_look_up: 1
  dispatch_look_up: 1
  preparation: 60
  trigger_start: 60
  acceptance: 60
  no_machine: 40
  idle_runner: 40
  setup: 80
  lifetime: 100
  backstop: 120
  watch_poll: 0.3
  watch_poll_tests: 0.2
  delete_retry: 0.2
  delete_pause_base: 0.2
  absence_after_create: 1
  absence_list_gap: 0.2
  reconcile: 60
  reservation: 200
`;

export interface Life extends GateWorld {
  readonly repository: RepositoryControl;
  /** Opens a pull request that needs the GPU; gives its head. */
  openCode(name: string, files?: Readonly<Record<string, string>>): string;
  /** The newest request of a head. */
  request(head: string): GateRequest | null;
  /** Waits until the head's request is as described. Fails with what it is instead. */
  readonly until: (head: string, what: string, ready: (request: GateRequest) => boolean) => Promise<GateRequest>;
  /** Waits for the verdict, published and with every pod proven gone. */
  concluded(head: string): Promise<GateRequest>;
  /** Every audit entry so far: act and facts. */
  audits(): readonly {
    readonly act: string;
    readonly reason: string | null;
    readonly facts: Readonly<Record<string, unknown>>;
  }[];
}

const PATIENCE_MS = 90_000;

export async function startLife(
  options: GateWorldOptions & { readonly config?: string; readonly organization?: boolean } = {},
): Promise<Life> {
  const world = await startGateWorld(options);
  const { github, gate, sql } = world;
  const repository = github.createRepository({
    owner: "acme",
    name: "tensors",
    id: Number(REPOSITORY_ID),
    organization: options.organization ?? false,
    files: {
      "README.md": "# tensors\n",
      ".github/gpu-gate.yml": options.config ?? CONFIG,
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

  const request = (head: string) => gate.store.requestsOfHead(head, "pull-request").at(-1) ?? null;
  const until: Life["until"] = async (head, what, ready) => {
    const limit = Date.now() + PATIENCE_MS;
    for (;;) {
      const now = request(head);
      if (now !== null && ready(now)) return now;
      if (Date.now() > limit) throw new Error(`waited for ${what}; the request is ${JSON.stringify(now?.state)}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  return {
    ...world,
    repository,
    openCode: (name, files = {}) =>
      repository.openPullRequest({
        author: "mira",
        title: name,
        files: { [`src/${name}.rs`]: "pub fn f() {}\n", ...files },
      }).headSha,
    request,
    until,
    concluded: (head) =>
      until(
        head,
        "the verdict",
        (one) => one.state.kind === "concluded" && one.check.completed && gate.store.openLedgerPodIds().length === 0,
      ),
    audits: () =>
      sql
        .exec<{ act: string; reason: string | null; facts: string }>(
          `SELECT act, reason, facts FROM audit ORDER BY seq`,
        )
        .map((row) => ({ ...row, facts: JSON.parse(row.facts) as Record<string, unknown> })),
  };
}

/** The verdict of a concluded request. */
export function verdictOf(request: GateRequest) {
  if (request.state.kind !== "concluded") throw new Error("not concluded");
  return request.state.verdict;
}

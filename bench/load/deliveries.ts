/**
 * What the load run sends: webhook deliveries in a mix like life, each with what must become of it.
 *
 * A plan is data, so that the sending thread makes the bodies itself and the judge knows every guid.
 */
import { createHmac } from "node:crypto";

/** What must be found in the end: heard once by its gate, answered and forgotten, or refused without a trace. */
export type Expected = "heard" | "ignored" | "refused";

export interface Planned {
  readonly guid: string;
  readonly event: string;
  readonly action: string | null;
  readonly repository: { readonly id: string; readonly name: string };
  readonly pull: { readonly number: number; readonly headSha: string };
  readonly expected: Expected;
  /** Sent a second time at once, under the same guid. */
  readonly doubled: boolean;
}

export interface Target {
  readonly id: string;
  readonly name: string;
  readonly pull: { readonly number: number; readonly headSha: string };
}

export const OWNER = "acme";
/** A pull request that no repository here has. */
const NOBODYS = { number: 99_999, headSha: "f".repeat(40) };

/** Shares of a hundred. Most of what an App hears is about checks and jobs of others. */
const MIX: readonly (readonly [number, string, string | null])[] = [
  [16, "check_run", "created"],
  [16, "check_run", "completed"],
  [8, "workflow_job", "queued"],
  [8, "workflow_job", "in_progress"],
  [8, "workflow_job", "completed"],
  [10, "workflow_run", "completed"],
  [4, "pull_request", "opened"],
  [6, "pull_request", "synchronize"],
  [5, "pull_request", "labeled"],
  [2, "pull_request", "closed"],
  [2, "pull_request", "edited"],
  [10, "push", null],
  [3, "star", "created"],
  [2, "check_suite", "completed"],
];
const BAD_SIGNATURES = 0.05;
const DOUBLED = 0.05;

/** `count` deliveries over all targets. `next` is the source of chance, in [0, 1). */
export function planDeliveries(
  count: number,
  targets: readonly Target[],
  prefix: string,
  next: () => number,
): Planned[] {
  return Array.from({ length: count }, (_, index) => {
    const target = targets[Math.floor(next() * targets.length)];
    if (target === undefined) throw new Error("there is nothing to send to");
    const [, event, action] = pick(next() * 100);
    const refused = next() < BAD_SIGNATURES;
    const ignored = event === "push" || event === "star" || event === "check_suite";
    return {
      guid: `${prefix}-${index}`,
      event,
      action,
      repository: { id: target.id, name: target.name },
      // An end that did not happen is told about a pull request that is not there.
      pull: action === "closed" ? NOBODYS : target.pull,
      expected: refused ? "refused" : ignored ? "ignored" : "heard",
      doubled: !refused && next() < DOUBLED,
    };
  });
}

function pick(at: number): (typeof MIX)[number] {
  let left = at;
  for (const row of MIX) {
    left -= row[0];
    if (left < 0) return row;
  }
  return [0, "push", null];
}

export interface Delivery {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Real payloads of these events have 8 to 30 KB. */
const FILLER = "x".repeat(12_000);

export function makeDelivery(planned: Planned, secret: string): Delivery {
  const body = JSON.stringify({
    ...(planned.action === null ? {} : { action: planned.action }),
    ...partsOf(planned),
    repository: {
      id: Number(planned.repository.id),
      name: planned.repository.name,
      full_name: `${OWNER}/${planned.repository.name}`,
      owner: { login: OWNER, id: 1, type: "User" },
      description: FILLER,
    },
    sender: { id: 2, login: "mira", type: "User" },
  });
  const key = planned.expected === "refused" ? `${secret}-not` : secret;
  return {
    body,
    headers: {
      "content-type": "application/json",
      "user-agent": "GitHub-Hookshot/load",
      "x-github-event": planned.event,
      "x-github-delivery": planned.guid,
      "x-hub-signature-256": `sha256=${createHmac("sha256", key).update(body).digest("hex")}`,
    },
  };
}

function partsOf({ event, action, pull, repository }: Planned): Readonly<Record<string, unknown>> {
  const { number, headSha } = pull;
  const completed = action === "completed";
  const status = completed ? "completed" : (action ?? "queued");
  const conclusion = completed ? "success" : null;
  switch (event) {
    case "pull_request":
      return {
        number,
        pull_request: {
          number,
          draft: false,
          head: { sha: headSha, ref: "change", repo: { id: Number(repository.id) } },
        },
        ...(action === "labeled" ? { label: { id: 1, name: "documentation" } } : {}),
      };
    case "check_run":
      return {
        check_run: { id: 1_000_001, name: "somebody's lint", head_sha: headSha, external_id: "", app: { id: 77 } },
      };
    case "workflow_job":
      return {
        workflow_job: {
          id: 2_000_001,
          name: "somebody's build",
          run_id: 3_000_001,
          run_attempt: 1,
          status,
          conclusion,
          labels: ["ubuntu-24.04"],
          runner_id: null,
        },
      };
    case "workflow_run":
      return {
        workflow: { path: ".github/workflows/site.yml" },
        workflow_run: {
          id: 3_000_001,
          run_attempt: 1,
          path: ".github/workflows/site.yml",
          event: "push",
          status,
          conclusion,
          head_sha: headSha,
          head_branch: "main",
          head_repository: { id: Number(repository.id), owner: { login: OWNER } },
          triggering_actor: { id: 2, login: "mira", type: "User" },
        },
      };
    default:
      return { ref: "refs/heads/main", after: headSha };
  }
}

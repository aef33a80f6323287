/**
 * The local GitHub's own records of everything that happened, kept apart from the state it serves.
 *
 * Tests and the opening day judge the product by these, never by what the product says of itself. Plain data, oldest
 * first. No token, key or signature is ever written here.
 */

import type { Millis } from "../../shared/ports.ts";

export interface RequestRecord {
  readonly at: Millis;
  readonly method: string;
  readonly path: string;
  readonly query: string;
  /** The OpenAPI operation id, or null for a path nobody serves. */
  readonly operation: string | null;
  readonly status: number | "dropped";
  readonly tookMs: number;
  readonly as: "app" | "installation" | "job" | "none";
  readonly installationId: number | null;
  readonly apiVersion: string | null;
  readonly userAgent: string | null;
  /** The parsed JSON body of a write. */
  readonly body: unknown;
  /** The injected fault, if one hit this request. */
  readonly fault: string | null;
}

export interface CheckWrite {
  readonly at: Millis;
  readonly checkRunId: number;
  readonly repository: string;
  readonly headSha: string;
  readonly appId: number;
  readonly kind: "create" | "update" | "annotate";
  readonly name: string;
  readonly externalId: string;
  readonly status: string;
  readonly conclusion: string | null;
  readonly title: string | null;
  readonly summary: string | null;
  readonly text: string | null;
  readonly actions: readonly string[];
  /** True when the run was completed already before this write: the rule of ours that a product test holds. */
  readonly afterCompleted: boolean;
}

export interface WebhookRecord {
  /** The delivery id: one per try. */
  readonly id: number;
  /** One per event, the same on a redelivery. */
  readonly guid: string;
  readonly at: Millis;
  readonly event: string;
  readonly action: string | null;
  readonly installationId: number | null;
  readonly repositoryId: number | null;
  readonly redelivery: boolean;
  /** What the receiver answered; 0 when there was no answer. */
  readonly statusCode: number;
  readonly status: string;
  readonly tookMs: number;
  readonly requestHeaders: Readonly<Record<string, string>>;
  /** The exact bytes that were signed and sent, as text. */
  readonly body: string;
  readonly responseHeaders: Readonly<Record<string, string>>;
  readonly responseBody: string;
}

export interface RunRecord {
  readonly at: Millis;
  readonly runId: number;
  readonly attempt: number;
  readonly repository: string;
  readonly workflowPath: string;
  readonly event: string;
  readonly headSha: string;
  readonly displayTitle: string;
  readonly actor: string;
  readonly what: "created" | "started" | "cancel-requested" | "completed";
  readonly conclusion: string | null;
  /** What the run's page says of a workflow file that is not understood, one line each. */
  readonly problems: readonly string[];
}

export interface JobRecord {
  readonly at: Millis;
  readonly jobId: number;
  readonly runId: number;
  readonly attempt: number;
  readonly name: string;
  readonly what: "queued" | "in_progress" | "completed";
  readonly conclusion: string | null;
  readonly runnerId: number | null;
  readonly runnerName: string | null;
}

export interface RunnerRecord {
  readonly at: Millis;
  readonly runnerId: number;
  readonly name: string;
  readonly labels: readonly string[];
  readonly what: "registered" | "connected" | "offline" | "job-started" | "job-ended" | "lost" | "removed" | "refused";
  readonly detail: string | null;
}

export interface DispatchRecord {
  readonly at: Millis;
  readonly repository: string;
  readonly workflowPath: string;
  readonly ref: string;
  readonly inputs: Readonly<Record<string, string>>;
  readonly runId: number;
}

export interface Books {
  readonly requests: RequestRecord[];
  readonly checkWrites: CheckWrite[];
  readonly webhooks: WebhookRecord[];
  readonly runs: RunRecord[];
  readonly jobs: JobRecord[];
  readonly runners: RunnerRecord[];
  readonly dispatches: DispatchRecord[];
  /** Faults of the local GitHub itself: empty in a healthy run. */
  readonly problems: string[];
}

export function emptyBooks(): Books {
  return { requests: [], checkWrites: [], webhooks: [], runs: [], jobs: [], runners: [], dispatches: [], problems: [] };
}

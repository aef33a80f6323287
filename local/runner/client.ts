/** The runner's side of the protocol described in `local/github/runner-protocol.ts`. */

import * as z from "zod";
import { serviceAnswerSchema, type ServiceAnswer, type ServiceAsk } from "../machine/services.ts";
import {
  jobFactsSchema,
  nextStepSchema,
  type AnnotationReport,
  type JobConclusion,
  type NextAsk,
  type NextStep,
} from "../machine/work.ts";

const sessionAnswer = z.object({ sessionToken: z.string(), runnerId: z.number(), runnerName: z.string() });

const jobAnswer = z.object({
  jobId: z.number(),
  jobName: z.string(),
  facts: jobFactsSchema,
  env: z.record(z.string(), z.string()),
  interpreted: z.boolean(),
  steps: z.array(
    z.object({
      number: z.number(),
      name: z.string(),
      run: z.string().optional(),
      env: z.record(z.string(), z.string()),
      sleepMs: z.number(),
      conclusion: z.enum(["success", "failure"]),
      always: z.boolean(),
    }),
  ),
});

export type JobMessage = z.infer<typeof jobAnswer>;
export type StepMessage = JobMessage["steps"][number];

export interface StepReport {
  readonly number?: number;
  readonly name: string;
  readonly status: "queued" | "in_progress" | "completed";
  readonly conclusion: "success" | "failure" | "cancelled" | "skipped" | null;
}

export interface Report {
  readonly steps?: readonly StepReport[];
  readonly annotations?: readonly AnnotationReport[];
  readonly log?: string;
}

export type Removed = "removed";

/** How long the runner goes on trying while the server does not answer. The real one is as patient. */
const patienceMs = 15 * 60_000;
const longestPauseMs = 5_000;

export class ServerClient {
  readonly #base: string;
  #token = "";

  constructor(serverUrl: string) {
    this.#base = serverUrl;
  }

  /** Connects with the single-use config. A string is the server's refusal. */
  async connect(jitConfig: string): Promise<{ runnerName: string } | string> {
    const response = await this.#ask("POST", "session", { jitConfig });
    const body: unknown = await response.json();
    if (response.status !== 200) return z.object({ message: z.string() }).parse(body).message;
    const session = sessionAnswer.parse(body);
    this.#token = session.sessionToken;
    return { runnerName: session.runnerName };
  }

  /** Waits until there is a job, however long that takes. */
  async nextJob(): Promise<JobMessage | Removed> {
    for (;;) {
      const response = await this.#ask("GET", "job");
      if (response.status === 410) return "removed";
      if (response.status === 200) return jobAnswer.parse(await response.json());
      await response.arrayBuffer();
    }
  }

  /** Reports progress; the answer says whether the job has been cancelled (or taken away). */
  async report(jobId: number, report: Report): Promise<{ cancel: boolean }> {
    const response = await this.#ask("POST", "steps", { jobId, ...report });
    const body: unknown = await response.json();
    if (response.status !== 200) return { cancel: true };
    return z.object({ cancel: z.boolean() }).parse(body);
  }

  /** The next step of an interpreted job. A job that has been taken away ends as cancelled. */
  async next(jobId: number, ask: NextAsk): Promise<NextStep> {
    const response = await this.#ask("POST", "next", { jobId, ...ask });
    const body: unknown = await response.json();
    return response.status === 200 ? nextStepSchema.parse(body) : { kind: "ended", conclusion: "cancelled" };
  }

  async service(jobId: number, ask: ServiceAsk): Promise<ServiceAnswer> {
    const response = await this.#ask("POST", "service", { jobId, ask });
    const body: unknown = await response.json();
    return response.status === 200 ? serviceAnswerSchema.parse(body) : { problem: "The job has been taken away." };
  }

  async complete(jobId: number, conclusion: JobConclusion): Promise<void> {
    const response = await this.#ask("POST", "complete", { jobId, conclusion });
    await response.arrayBuffer();
  }

  /** One call, repeated while the server is away or answers 5xx. Every call of the protocol may be repeated. */
  async #ask(method: "GET" | "POST", what: string, body?: unknown): Promise<Response> {
    const until = Date.now() + patienceMs;
    for (let pause = 100; ; pause = Math.min(pause * 2, longestPauseMs)) {
      try {
        const response = await fetch(`${this.#base}/_runner/${what}`, {
          method,
          headers: {
            authorization: `Bearer ${this.#token}`,
            "content-type": "application/json",
            "user-agent": "local-runner",
          },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        });
        if (response.status < 500) return response;
        await response.arrayBuffer();
      } catch (problem) {
        if (Date.now() > until) throw problem;
      }
      if (Date.now() > until)
        throw new Error(`the server at ${this.#base} has not answered for ${patienceMs / 60_000} minutes`);
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
}

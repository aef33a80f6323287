/**
 * How the stand-in runner talks to the local GitHub. GitHub's own runner protocol is not public; this one is small.
 *
 * All bodies are JSON. After the first call the session token goes along as `Authorization: Bearer`.
 *
 * - `POST /_runner/session {jitConfig}` -> 200 `{sessionToken, runnerId, runnerName}`; the runner is online from here.
 *   401: no such runner (deleted, or never minted). 409: this config has been used already.
 * - `GET /_runner/job` -> 200 a job message, or 204 after a bounded wait: ask again. 410: the runner has been removed.
 *   Message: `{jobId, jobName, runId, facts, env, interpreted, steps}`; `facts` are those of `local/machine/work.ts`. A script's
 *   job brings all its steps: `[{number, name, run?, env, sleepMs, conclusion, always}]`. An interpreted job brings none.
 * - `POST /_runner/next {jobId, places, done}` -> 200 the next step of an interpreted job, decided after the result of the
 *   last one, or how the job ended (`local/machine/work.ts`). The same question gets the same answer.
 * - `POST /_runner/service {jobId, ask}` -> 200 what an action of an interpreted job asks for (`local/machine/services.ts`).
 * - `POST /_runner/steps {jobId, steps: [{number?, name, status, conclusion}], annotations: [{title?, message, level?}],
 *   log?}` -> 200 `{cancel}`. Also the heartbeat: an empty report is fine. A step without a planned number is one the runner
 *   added itself (its job-started hook). `cancel: true` means: stop the work now, then complete as cancelled.
 * - `POST /_runner/complete {jobId, conclusion}` -> 200. The runner is gone from the list after this.
 *
 * A runner that is not heard of for `runnerLostMs` (no open poll, no report) is lost: offline, its job failed.
 */

import type { ServerResponse } from "node:http";
import * as z from "zod";
import { serviceAskSchema } from "../machine/services.ts";
import { annotationSchema, nextAskSchema, type JobFacts } from "../machine/work.ts";
import type { Hub } from "./hub.ts";
import type { Job } from "./model.ts";
import { fullName, latestAttempt } from "./model.ts";
import { jobVariables, runEvent } from "./run-event.ts";
import type { Session } from "./runner-desk.ts";

const conclusion = z.enum(["success", "failure", "cancelled", "skipped"]);
const sessionBody = z.object({ jitConfig: z.string() });
const stepsBody = z.object({
  jobId: z.number(),
  steps: z
    .array(
      z.object({
        number: z.number().optional(),
        name: z.string(),
        status: z.enum(["queued", "in_progress", "completed"]),
        conclusion: conclusion.nullable(),
      }),
    )
    .default([]),
  annotations: z.array(annotationSchema).default([]),
  log: z.string().default(""),
});
const completeBody = z.object({ jobId: z.number(), conclusion });
const nextBody = nextAskSchema.extend({ jobId: z.number() });
const serviceBody = z.object({ jobId: z.number(), ask: serviceAskSchema });

const maxLog = 1_000_000;

interface RunnerRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: { readonly authorization?: string | undefined };
  readonly rawBody: Buffer;
}

export async function handleRunnerRequest(hub: Hub, request: RunnerRequest, response: ServerResponse): Promise<void> {
  const answer = (status: number, json?: unknown): void => {
    response.writeHead(status, json === undefined ? {} : { "content-type": "application/json" });
    response.end(json === undefined ? undefined : JSON.stringify(json));
  };
  const body = parse(request.rawBody);
  const asked = `${request.method} ${request.path}`;
  if (asked === "POST /_runner/session") {
    const parsed = sessionBody.safeParse(body);
    if (!parsed.success) return answer(400, { message: "The body must be {jitConfig}." });
    const connected = hub.desk.connect(parsed.data.jitConfig);
    if (!connected.ok) return answer(connected.status, { message: connected.why });
    const { token, runner } = connected.session;
    return answer(200, { sessionToken: token, runnerId: runner.id, runnerName: runner.name });
  }
  const session = hub.desk.session(request.headers.authorization?.replace(/^Bearer /i, "") ?? "");
  if (session === undefined) return answer(410, { message: "This runner has been removed." });
  if (asked === "GET /_runner/job") {
    const onClose = (): void => session.wake?.();
    response.on("close", onClose);
    const job = await hub.desk.poll(session, hub.timing.pollMs);
    response.off("close", onClose);
    if (hub.desk.session(session.token) === undefined) return answer(410, { message: "This runner has been removed." });
    return job === null ? answer(204) : answer(200, jobMessage(hub, job));
  }
  hub.desk.heard(session);
  if (asked === "POST /_runner/steps") return answer(...report(hub, session, body));
  if (asked === "POST /_runner/next") return answer(...next(hub, session, body));
  if (asked === "POST /_runner/service") return answer(...service(hub, session, body));
  if (asked === "POST /_runner/complete") return answer(...complete(hub, session, body));
  answer(404, { message: "No such runner call." });
}

function report(hub: Hub, session: Session, body: unknown): [number, unknown] {
  const parsed = stepsBody.safeParse(body);
  const { job } = session.runner;
  if (!parsed.success) return [400, { message: "The report does not have the documented form." }];
  if (job === null || job.id !== parsed.data.jobId) return [409, { message: "This runner does not have that job." }];
  const now = hub.world.clock.now();
  const planned = (hub.engine.planOf(job)?.steps.length ?? 0) + 2;
  for (const told of parsed.data.steps) {
    // A step of the runner's own sits right after "Set up job" and moves the planned ones down.
    const added = job.steps.length - planned;
    let step =
      told.number === undefined
        ? job.steps.find((one) => one.name === told.name)
        : job.steps[told.number === 1 ? 0 : told.number - 1 + added];
    if (step === undefined) {
      step = { number: 2, name: told.name, status: "queued", conclusion: null, startedAt: null, completedAt: null };
      job.steps.splice(1, 0, step);
      job.steps.forEach((one, index) => {
        one.number = index + 1;
      });
    }
    step.status = told.status;
    step.conclusion = told.conclusion;
    step.startedAt ??= now;
    if (told.status === "completed") step.completedAt = now;
  }
  const check = hub.world.checkRuns.get(job.id);
  for (const { title, message, level } of parsed.data.annotations) {
    check?.annotations.push({ path: ".github", startLine: 1, endLine: 1, level, title, message, rawDetails: null });
  }
  if (job.log.length < maxLog) job.log += parsed.data.log;
  return [200, { cancel: job.cancelRequested }];
}

function next(hub: Hub, session: Session, body: unknown): [number, unknown] {
  const parsed = nextBody.safeParse(body);
  const { job } = session.runner;
  const interpreted = job === null ? undefined : hub.engine.interpretedJob(job);
  if (!parsed.success) return [400, { message: "The question does not have the documented form." }];
  if (job === null || job.id !== parsed.data.jobId || interpreted === undefined)
    return [409, { message: "This runner does not have that job." }];
  return [200, interpreted.next(parsed.data)];
}

function service(hub: Hub, session: Session, body: unknown): [number, unknown] {
  const parsed = serviceBody.safeParse(body);
  const { job } = session.runner;
  if (!parsed.success) return [400, { message: "The question does not have the documented form." }];
  if (job === null || job.id !== parsed.data.jobId) return [409, { message: "This runner does not have that job." }];
  return [200, hub.engine.serve(job, parsed.data.ask)];
}

function complete(hub: Hub, session: Session, body: unknown): [number, unknown] {
  const parsed = completeBody.safeParse(body);
  const { job } = session.runner;
  if (!parsed.success) return [400, { message: "The body must be {jobId, conclusion}." }];
  if (job === null || job.id !== parsed.data.jobId) return [409, { message: "This runner does not have that job." }];
  hub.engine.completeJob(job, parsed.data.conclusion);
  return [200, {}];
}

function jobMessage(hub: Hub, job: Job): Record<string, unknown> {
  const plan = hub.engine.planOf(job);
  const interpreted = hub.engine.interpretedJob(job);
  return {
    jobId: job.id,
    jobName: job.name,
    runId: job.run.id,
    facts: interpreted?.facts() ?? scriptedFacts(hub, job),
    env: plan?.env ?? {},
    interpreted: interpreted !== undefined,
    steps: (interpreted === undefined ? (plan?.steps ?? []) : []).map((step, index) => ({
      number: index + 2,
      name: step.name,
      ...(step.run === undefined ? {} : { run: step.run }),
      env: step.env ?? {},
      sleepMs: step.durationMs ?? 0,
      conclusion: step.conclusion ?? "success",
      always: step.always ?? false,
    })),
  };
}

function scriptedFacts(hub: Hub, job: Job): JobFacts {
  const { run } = job;
  return {
    repository: fullName(run.repository),
    apiUrl: hub.url,
    variables: jobVariables(hub, job, job.name),
    event: runEvent(hub, run, latestAttempt(run)).payload,
    token: hub.credentials.issueForJob(run.repository),
  };
}

function parse(bytes: Buffer): unknown {
  if (bytes.length === 0) return {};
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch {
    return null;
  }
}

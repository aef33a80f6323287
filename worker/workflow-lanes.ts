/**
 * `POST /v1/classify` and `POST /v1/probe`: what a hosted job may read about its own run, without a checkout.
 *
 * The decisions are the gate's own functions. A job that gets no answer must run everything, or fail: nothing here can be
 * read as "no lane is needed" but a complete classification.
 */
import * as z from "zod";
import { changedFiles } from "../shared/authorize/authorize.ts";
import { REASONS } from "../shared/audit/reasons.ts";
import { describeFailure } from "../shared/github/failure.ts";
import { classify, type Classification } from "../shared/policy/classify.ts";
import { classificationDocument } from "../shared/policy/document.ts";
import { outputValues } from "../shared/policy/outputs.ts";
import { admitProbe, decideProbe, describeSeen, probeReasonCode, type ProbeVerdict } from "../shared/policy/probe.ts";
import { probeLive } from "../shared/policy/read-runners.ts";
import { err, ok } from "../shared/result.ts";
import { githubUnavailable, problem, unavailable, type WorkflowAnswer } from "./workflow-answer.ts";
import { readJson } from "./workflow-body.ts";
import { readingCaller, type Called, type ReadingCaller } from "./workflow-caller.ts";
import type { WorkflowPorts } from "./workflow-ports.ts";

const nothing = z.strictObject({});
const probeBody = z.strictObject({ lane: z.string().min(1).max(100), organisation: z.boolean().default(false) });

/** The calling run's own lanes, in the words of `gpu-gate classify`, with step outputs ready to be written. */
export async function receiveClassify(request: Request, ports: WorkflowPorts): Promise<WorkflowAnswer> {
  const caller = await readingCaller(request, ports);
  if (!caller.ok) return caller.error;
  const body = await readJson(request, nothing);
  if (!body.ok) return body.error;
  const classified = await classifyRun(caller.value, ports);
  if (!classified.ok) return classified.error;
  const { config, run } = caller.value;
  return {
    status: 200,
    body: {
      ...classificationDocument(config, classified.value),
      outputs: Object.fromEntries(outputValues(classified.value)),
      run: run.id,
      head_sha: run.headSha,
    },
  };
}

async function classifyRun(caller: ReadingCaller, ports: WorkflowPorts): Called<Classification> {
  const { claims, config } = caller;
  switch (claims.event_name) {
    case "pull_request":
      return classifyPull(caller, ports);
    case "push":
      return ok(classify(config, { event: "push", files: [], problem: null }));
    default: {
      // Nobody has listed what such a run is about: it runs everything.
      const detail = `runs of ${claims.event_name} are not classified here`;
      return ok(classify(config, { event: claims.event_name, files: [], problem: { kind: "unreadable", detail } }));
    }
  }
}

async function classifyPull(caller: ReadingCaller, ports: WorkflowPorts): Called<Classification> {
  const { claims, config, github, run } = caller;
  const now = ports.clock.now();
  const number = Number(/^refs\/pull\/([1-9]\d{0,9})\/merge$/.exec(claims.ref)?.[1] ?? "0");
  if (number === 0) return err(problem(422, "no-pull-request", "This run's ref names no pull request."));
  const before = await github.client.getPull(number);
  if (!before.ok) return err(githubUnavailable(before.error, now));
  if (before.value.headRepositoryId !== caller.repository.id) {
    return err(problem(403, "fork", "A fork's pull request classifies itself: run gpu-gate classify in the job."));
  }
  const moved = (headSha: string) =>
    problem(409, "head-moved", `The head is ${headSha} by now; its own run has its own lanes.`);
  if (before.value.headSha !== run.headSha) return err(moved(before.value.headSha));
  const listed = await changedFiles(github.client, before.value, config);
  if ("kind" in listed) {
    return err(
      unavailable(`The list of changed files could not be read${listed.kind === "unknown" ? `: ${listed.why}` : ""}.`),
    );
  }
  // The list is of the head as it was while it was read.
  const after = await github.client.getPull(number);
  if (!after.ok) return err(githubUnavailable(after.error, now));
  return after.value.headSha === run.headSha ? ok(listed.classification) : err(moved(after.value.headSha));
}

/** Whether a lane of the maintainers' own machines can take a job now: for the asking job, not to be kept. */
export async function receiveProbe(request: Request, ports: WorkflowPorts): Promise<WorkflowAnswer> {
  const caller = await readingCaller(request, ports);
  if (!caller.ok) return caller.error;
  const body = await readJson(request, probeBody);
  if (!body.ok) return body.error;
  const { lane, organisation } = body.value;
  const { lanes } = caller.value.config;
  const own = Object.hasOwn(lanes, lane) ? (lanes[lane]?.own ?? null) : null;
  if (own === null) {
    return problem(422, "no-lane", "The configuration has no lane of this name on a machine of your own.");
  }
  const shared = organisation || caller.value.config.runner.scope === "organization";
  const verdict = await probe(caller.value, own.switch, own.runs_on, shared);
  const code = probeReasonCode(verdict.reason);
  const { enabled, registered, available, fail, seen } = verdict;
  return {
    status: 200,
    body: {
      lane,
      code,
      ...verdict,
      outputs: { enabled: String(enabled), registered: String(registered), available: String(available) },
      message: fail ? `${REASONS[code].sentence} Seen: ${describeSeen(seen)}` : REASONS[code].sentence,
      runbook: own.runbook,
    },
  };
}

/** A switch that is off asks nothing more. One that cannot be read counts as on, and as failed. */
async function probe(
  caller: ReadingCaller,
  switchName: string,
  requiredLabels: readonly string[],
  organisation: boolean,
): Promise<ProbeVerdict> {
  const { client, get } = caller.github;
  const value = await client.getRepositoryVariable(switchName);
  if (!value.ok && value.error.reason !== "not-found") {
    const what = `the switch ${switchName} could not be read: ${describeFailure(value.error)}`;
    return decideProbe({ switchValue: "true", requiredLabels, listing: { kind: "failure", what } });
  }
  const admitted = admitProbe({ switchValue: value.ok ? value.value : null, requiredLabels });
  if (!admitted.ask) return admitted.verdict;
  const { owner, name } = caller.repository;
  // A rented machine is nobody's own capacity, and it may not have proven its GPU yet.
  const rented = new Set(await caller.gate.rentedRunnerIds());
  return probeLive(admitted.labels, get, { owner, repository: name, organisation }, rented);
}

/**
 * What one pod cost and why, as it is stored, shown on the check and given out by the API.
 *
 * The paid window is the ledger's own: from the moment we knew of the pod to DELETE's answer. The stages cut exactly this
 * window, so their times and costs add up to the ledger's line. Unknown stays null and is never zero.
 */
import * as z from "zod";
import type { RepositoryConfig } from "../config/schema.ts";
import type { PodCostRecord, RecordSource } from "./record.ts";
import { defaultStageRules, stageCost, type BootTimes, type JobTimes, type StageRules } from "./stage-cost.ts";

const millis = z.number();
const micros = z.int();

/** All instants milliseconds UTC, durations milliseconds, money whole micro-dollars. Stored: fields are only added. */
export const costReportSchema = z.object({
  attemptId: z.string(),
  podId: z.string(),
  /** Null for a pod that no request owned. */
  requestId: z.string().nullable(),
  attemptNumber: z.int().nullable(),
  prNumber: z.int().nullable(),
  headSha: z.string().nullable(),
  /** The revision that was tested. */
  testedSha: z.string().nullable(),
  gpu: z.string().nullable(),
  tier: z.string().nullable(),
  /** Data centre; RunPod v2 names no host. */
  dataCenter: z.string().nullable(),
  pricePerHour: z.number().nullable(),
  /** `pod`: the rate RunPod showed for this pod. `list`: the catalog's price. */
  priceSource: z.enum(["pod", "list"]).nullable(),
  /** The record the price is from: read just before the deletion, or the one of the pod's start. */
  recordSource: z.enum(["pre_delete", "startup"]).nullable(),
  paidFrom: millis,
  deletedAt: millis,
  provenAt: millis,
  paidMs: millis,
  cost: micros.nullable(),
  /** How long the create request took: the bill may begin anywhere within it. */
  createMs: millis.nullable(),
  /** Reason code of this pod's end. */
  outcome: z.string(),
  /** The pod proved its GPU and its runner came online. */
  accepted: z.boolean(),
  /** Conclusion of its GPU job; `not_run` without one, null while GitHub says nothing. */
  gpuJob: z.string().nullable(),
  stages: z.array(z.object({ name: z.string(), durationMs: millis, cost: micros.nullable() })).nullable(),
  flags: z.array(z.string()),
  /** Facts read from which steps ran, such as cache hits: yes, no, or unknown. */
  observations: z.record(z.string(), z.boolean().nullable()),
});

export type CostReport = z.infer<typeof costReportSchema>;

/** A report as the API gives it: with what became of its request, and the bill once there is one. */
export const toldCostSchema = costReportSchema.extend({
  repositoryId: z.string(),
  verdict: z.object({ kind: z.string(), reason: z.string() }).nullable(),
  /** This pod's job gave the request its verdict about the tests. False: paid for nothing, as far as is known. */
  decisive: z.boolean(),
  /** What RunPod charged, micro-dollars; null until it was reported. */
  billed: micros.nullable(),
});

export type ToldCost = z.infer<typeof toldCostSchema>;

/** Answer of `GET /api/costs`. */
export const costsAnswerSchema = z.object({
  from: millis,
  to: millis,
  /** False: a gate did not answer, or held more lines than one answer carries. */
  complete: z.boolean(),
  costs: z.array(toldCostSchema),
});

export type CostsAnswer = z.infer<typeof costsAnswerSchema>;

export interface CostFacts {
  readonly about: Pick<
    CostReport,
    | "attemptId"
    | "podId"
    | "requestId"
    | "attemptNumber"
    | "prNumber"
    | "headSha"
    | "testedSha"
    | "outcome"
    | "accepted"
  >;
  readonly place: Pick<CostReport, "gpu" | "tier" | "dataCenter">;
  /** Dollars per hour, each where it is known. */
  readonly prices: { readonly preDelete: number | null; readonly startup: number | null; readonly list: number | null };
  readonly paidFrom: number;
  readonly deletedAt: number;
  readonly provenAt: number;
  readonly createMs: number | null;
  /** How the pod came up, by our clock; null for a pod of no attempt, left out in lines of earlier deployments. */
  readonly boot?: BootTimes | null;
}

/** What GitHub says about the jobs of the attempt's run; null while it was not read. Times in milliseconds. */
export interface CostJobs {
  readonly jobs: readonly JobTimes[];
  readonly rules: StageRules;
  readonly observations: Readonly<Record<string, boolean | null>>;
}

export function costReport(facts: CostFacts, read: CostJobs | null): CostReport {
  const { prices } = facts;
  const source: RecordSource | null =
    prices.preDelete !== null ? "pre_delete" : prices.startup !== null ? "startup" : null;
  const record: PodCostRecord = {
    podId: facts.about.podId,
    startedAt: facts.paidFrom * 1000,
    adjustedPrice: prices.preDelete ?? prices.startup,
    listPrice: prices.list,
    machineId: null,
    dataCenterId: facts.place.dataCenter,
  };
  const report = stageCost({
    record,
    gpuTypeId: facts.place.gpu ?? "",
    deletedAt: facts.deletedAt * 1000,
    jobs: (read?.jobs ?? []).map(inMicros),
    rules: read?.rules ?? { gpuJobNameEndsWith: "", steps: [] },
    boot: bootOf(facts, read),
  });
  return {
    ...facts.about,
    ...facts.place,
    pricePerHour: report.pricePerHour,
    priceSource: report.priceSource === null ? null : report.priceSource === "adjusted" ? "pod" : "list",
    recordSource: source,
    paidFrom: facts.paidFrom,
    deletedAt: facts.deletedAt,
    provenAt: facts.provenAt,
    paidMs: (report.paidMicros ?? 0) / 1000,
    cost: report.cost,
    createMs: facts.createMs,
    gpuJob: read === null ? null : report.gpuJobConclusion,
    stages:
      report.stages?.map(({ name, durationMicros, cost }) => ({ name, durationMs: durationMicros / 1000, cost })) ??
      null,
    flags: read === null ? [...report.flags, "jobs-not-read"] : [...report.flags],
    observations: { ...read?.observations },
  };
}

function bootOf({ boot = null }: CostFacts, read: CostJobs | null): BootTimes | null {
  // While nobody knows whether a job ran, a container that was not seen may have been at work all the same.
  if (boot === null || (read === null && boot.containerAt === null)) return null;
  const inMicro = (at: number | null) => (at === null ? null : at * 1000);
  return { machineAt: inMicro(boot.machineAt), containerAt: inMicro(boot.containerAt) };
}

function inMicros(job: JobTimes): JobTimes {
  const times = (of: { readonly startedAt: number | null; readonly completedAt: number | null }) => ({
    startedAt: of.startedAt === null ? null : of.startedAt * 1000,
    completedAt: of.completedAt === null ? null : of.completedAt * 1000,
  });
  return { ...job, ...times(job), steps: job.steps.map((step) => ({ ...step, ...times(step) })) };
}

/** The configured stages win over the product's own; a test step that no stage names counts as tests. */
export function stageRulesOf(config: RepositoryConfig): StageRules {
  const own = defaultStageRules(config.evidence.test_steps, config.evidence.gpu_job);
  return { ...own, steps: [...config.costs.stages.map(({ stage, steps }) => ({ stage, names: steps })), ...own.steps] };
}

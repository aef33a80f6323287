/**
 * What passes between the local GitHub, which decides, and a machine, hosted or rented, which performs: the facts of a
 * job, one step at a time, and how it ended.
 *
 * Every shape is a zod schema because all of it also travels over HTTP, to the stand-in runner.
 */
import * as z from "zod";
import { ACTIONS, type ActionName } from "../workflow/actions.ts";

const texts = z.record(z.string(), z.string());

export const jobFactsSchema = z.object({
  /** `owner/name`. */
  repository: z.string(),
  apiUrl: z.string(),
  /** `GITHUB_*` and `RUNNER_*` as the server knows them; the machine adds those that name a place on it. */
  variables: texts,
  /** The event's payload, for GITHUB_EVENT_PATH. */
  event: z.unknown(),
  /** The job's own token. */
  token: z.string(),
});

export type JobFacts = z.infer<typeof jobFactsSchema>;

const common = {
  /** Place among the job's steps, from 0. */
  index: z.number(),
  name: z.string(),
  env: texts,
  timeoutMinutes: z.number().nullable(),
};

const actionNames = Object.keys(ACTIONS) as [ActionName, ...ActionName[]];

export const stepWorkSchema = z.discriminatedUnion("kind", [
  z.object({
    ...common,
    kind: z.literal("run"),
    script: z.string(),
    pipefail: z.boolean(),
    workingDirectory: z.string().nullable(),
  }),
  z.object({ ...common, kind: z.literal("action"), action: z.enum(actionNames), with: texts }),
]);

export type StepWork = z.infer<typeof stepWorkSchema>;

export const annotationSchema = z.object({
  title: z.string().nullable().default(null),
  message: z.string(),
  level: z.enum(["notice", "warning", "failure"]).default("notice"),
});

export type AnnotationReport = z.output<typeof annotationSchema>;

export const stepDoneSchema = z.object({
  index: z.number(),
  outcome: z.enum(["success", "failure", "cancelled"]),
  outputs: texts,
  /** What the step wrote to GITHUB_ENV. */
  env: texts,
  annotations: z.array(annotationSchema),
  /** Standard output and error as they came. */
  log: z.string(),
  /** What the step wrote to GITHUB_STEP_SUMMARY. */
  summary: z.string(),
});

export type StepDone = z.output<typeof stepDoneSchema>;

/** Where on the machine a job works: parts of the `github` and `runner` contexts. */
export const placesSchema = z.object({ workspace: z.string(), temp: z.string() });

export type Places = z.infer<typeof placesSchema>;

/** Asks for the next step; `done` is the one that has just ended. Asked again with the same, it answers the same. */
export const nextAskSchema = z.object({ places: placesSchema, done: stepDoneSchema.nullable() });

export type NextAsk = z.infer<typeof nextAskSchema>;

export const nextStepSchema = z.discriminatedUnion("kind", [
  /** `cancelled`: the job has been cancelled already, and this step runs all the same. */
  z.object({ kind: z.literal("step"), work: stepWorkSchema, cancelled: z.boolean() }),
  z.object({ kind: z.literal("ended"), conclusion: z.enum(["success", "failure", "cancelled"]) }),
]);

export type NextStep = z.infer<typeof nextStepSchema>;

export type JobConclusion = Extract<NextStep, { kind: "ended" }>["conclusion"];

/**
 * A job's steps from the first to the last, on this machine. `next` decides; `perform` does. A step that runs in spite of a
 * cancel is not stopped by the cancel that came before it, only by `killed`.
 */
export async function playSteps(options: {
  readonly places: Places;
  readonly next: (ask: NextAsk) => Promise<NextStep>;
  readonly perform: (work: StepWork, cancelled: AbortSignal) => Promise<StepDone>;
  readonly cancelled: AbortSignal;
}): Promise<JobConclusion> {
  let done: StepDone | null = null;
  for (;;) {
    const step: NextStep = await options.next({ places: options.places, done });
    if (step.kind === "ended") return step.conclusion;
    done = await options.perform(step.work, step.cancelled ? new AbortController().signal : options.cancelled);
  }
}

/** Check runs: the gate's own, and those it reads of others. */

import * as z from "zod";
import type { Millis } from "../ports.ts";
import { path, type Slashed } from "./call.ts";
import { fitActions, fitOutput, type CheckAction, type CheckOutput } from "./check-output.ts";
import { githubId, instant, optionalText, sha } from "./schema.ts";
import { arrayPage, countedPage, parseAnswer, type Listing, type Reply, type Wire } from "./wire.ts";

/** `neutral` and `skipped` are not here: they satisfy a required check, and the gate never says them. */
export type GateConclusion = "success" | "failure" | "timed_out" | "action_required" | "cancelled";

/** What a check run says: unfinished, or finished with a conclusion. */
export type CheckState =
  | { readonly status: "queued" | "in_progress" }
  | { readonly status: "completed"; readonly conclusion: GateConclusion; readonly completedAt?: Millis };

interface CheckFields {
  readonly externalId?: string;
  readonly detailsUrl?: string;
  readonly startedAt?: Millis;
  /** Cut to GitHub's limits (check-output.ts). */
  readonly output?: CheckOutput;
  /** At most 3. An update without them keeps the old buttons; an empty list takes them away. */
  readonly actions?: readonly CheckAction[];
}

export interface NewCheckRun extends CheckFields {
  readonly name: string;
  readonly headSha: string;
  readonly state: CheckState;
}

export interface CheckRunChange extends CheckFields {
  /** Renames it. */
  readonly name?: string;
  readonly state?: CheckState;
}

export interface CheckRun {
  readonly id: string;
  readonly name: string;
  readonly headSha: string;
  readonly status: string;
  readonly conclusion: string | null;
  readonly externalId: string | null;
  /** The App that made it. Anybody with write access can make a check of any name; only this tells whose it is. */
  readonly appId: string | null;
  readonly detailsUrl: string | null;
  readonly htmlUrl: string | null;
  readonly title: string | null;
  readonly summary: string | null;
  readonly startedAt: Millis | null;
  readonly completedAt: Millis | null;
}

export interface CheckAnnotation {
  readonly path: string;
  readonly startLine: number;
  readonly endLine: number;
  /** `notice`, `warning` or `failure`. */
  readonly level: string | null;
  readonly title: string | null;
  readonly message: string | null;
  readonly rawDetails: string | null;
}

export interface ChecksApi {
  createCheckRun(run: NewCheckRun): Reply<CheckRun>;
  updateCheckRun(id: string, change: CheckRunChange): Reply<CheckRun>;
  /** `latest`: the newest of each name and App; `all`: every one. GitHub looks at the newest 1,000 suites. */
  listCheckRunsForRef(
    ref: string,
    options: { readonly filter: "latest" | "all"; readonly name?: string; readonly appId?: string },
  ): Reply<Listing<CheckRun>>;
  getCheckRunAnnotations(id: string): Reply<Listing<CheckAnnotation>>;
}

const checkRunAnswer = z
  .object({
    id: githubId,
    name: z.string(),
    head_sha: sha,
    status: z.string(),
    conclusion: optionalText,
    external_id: optionalText,
    details_url: optionalText,
    html_url: optionalText,
    started_at: instant,
    completed_at: instant,
    app: z.object({ id: githubId }).nullish(),
    output: z.object({ title: optionalText, summary: optionalText }).nullish(),
  })
  .transform((run): CheckRun => ({
    id: run.id,
    name: run.name,
    headSha: run.head_sha,
    status: run.status,
    conclusion: run.conclusion,
    externalId: run.external_id === "" ? null : run.external_id,
    appId: run.app?.id ?? null,
    detailsUrl: run.details_url,
    htmlUrl: run.html_url,
    title: run.output?.title ?? null,
    summary: run.output?.summary ?? null,
    startedAt: run.started_at,
    completedAt: run.completed_at,
  }));

const annotationAnswer = z
  .object({
    path: z.string(),
    start_line: z.int(),
    end_line: z.int(),
    annotation_level: optionalText,
    title: optionalText,
    message: optionalText,
    raw_details: optionalText,
  })
  .transform((annotation): CheckAnnotation => ({
    path: annotation.path,
    startLine: annotation.start_line,
    endLine: annotation.end_line,
    level: annotation.annotation_level,
    title: annotation.title,
    message: annotation.message,
    rawDetails: annotation.raw_details,
  }));

// Schemas are made once: zod compiles each at its first use, which costs more than the call.
const checkRunsPage = countedPage("check_runs", checkRunAnswer);
const annotationsPage = arrayPage(annotationAnswer);

/** `base` is `{owner}/{name}`. */
export function checksApi(wire: Wire, base: Slashed): ChecksApi {
  return {
    async createCheckRun(run) {
      const body = { name: run.name, head_sha: run.headSha, ...stateBody(run.state), ...fieldsBody(run) };
      const answer = await wire.change("createCheckRun", "POST", path`/repos/${base}/check-runs`, body);
      return answer.ok ? parseAnswer(answer.value, checkRunAnswer) : answer;
    },

    async updateCheckRun(id, change) {
      const body = {
        ...(change.name === undefined ? {} : { name: change.name }),
        ...(change.state === undefined ? {} : stateBody(change.state)),
        ...fieldsBody(change),
      };
      const answer = await wire.change("updateCheckRun", "PATCH", path`/repos/${base}/check-runs/${id}`, body);
      return answer.ok ? parseAnswer(answer.value, checkRunAnswer) : answer;
    },

    listCheckRunsForRef: (ref, { filter, name, appId }) =>
      wire.list("listCheckRunsForRef", path`/repos/${base}/commits/${ref}/check-runs`, checkRunsPage, {
        key: (run) => run.id,
        query: { filter, check_name: name, app_id: appId },
      }),

    async getCheckRunAnnotations(id) {
      let position = 0;
      const address = path`/repos/${base}/check-runs/${id}/annotations`;
      // Annotations have no id, and two may be equal: each counts.
      return wire.list("getCheckRunAnnotations", address, annotationsPage, {
        key: () => String(position++),
      });
    },
  };
}

function stateBody(state: CheckState): object {
  if (state.status !== "completed") return { status: state.status };
  return {
    status: state.status,
    conclusion: state.conclusion,
    ...(state.completedAt === undefined ? {} : { completed_at: new Date(state.completedAt).toISOString() }),
  };
}

function fieldsBody(fields: CheckFields): object {
  return {
    ...(fields.externalId === undefined ? {} : { external_id: fields.externalId }),
    ...(fields.detailsUrl === undefined ? {} : { details_url: fields.detailsUrl }),
    ...(fields.startedAt === undefined ? {} : { started_at: new Date(fields.startedAt).toISOString() }),
    ...(fields.output === undefined ? {} : { output: fitOutput(fields.output) }),
    ...(fields.actions === undefined ? {} : { actions: fitActions(fields.actions) }),
  };
}

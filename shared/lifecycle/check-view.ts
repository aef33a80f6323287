/**
 * What the required check says about a request, as data: written for people first, evidence in a details block.
 *
 * Pure. The publisher compares this with what it last wrote and sends the difference, so every state change reaches the
 * check without any state having to remember to say so (I7).
 */
import { isReasonCode, REASONS } from "../audit/reasons.ts";
import { unreachable } from "../result.ts";
import { codeSpan, inMarkdown } from "../text.ts";
import type { Millis } from "../ports.ts";
import type { GateRequest } from "./model.ts";
import { conclusionOf, verdict, type CheckConclusion, type Verdict } from "./verdict.ts";

export interface QueueInfo {
  /** 1 = next. Null when the request does not wait. */
  readonly place: number | null;
  readonly waiting: number;
  readonly holder: string | null;
  readonly etaMs: Millis | null;
  /** What the last runs cost on average, micro-dollars. */
  readonly expectedMicros?: number | null;
}

export interface CheckView {
  /** Which check run of this request: a concluded one is never touched again. */
  readonly series: number;
  readonly name: string;
  readonly status: "queued" | "in_progress" | "completed";
  readonly conclusion: CheckConclusion | null;
  readonly title: string;
  readonly summary: string;
  readonly text: string;
  readonly approveButton: boolean;
}

const DEFAULT_NAME = "CI GPU gate";
const DETAIL_LIMIT = 4_000;

export function checkView(request: GateRequest, queue: QueueInfo): CheckView {
  const name = checkName(request);
  const state = request.state;
  const unproven = unprovenVerdict(request);
  // Once "deletion unproven" was said, everything after it is a new check run.
  const series = request.check.series;
  if (state.kind === "concluded") return concluded(request, state.verdict, name, series);
  if (unproven !== null && series === 0) return concluded(request, unproven, name, 0);

  const view = (status: "queued" | "in_progress", heading: string, summary: string): CheckView => ({
    series,
    name,
    status,
    conclusion: null,
    title: heading,
    summary,
    text: details(request),
    approveButton: false,
  });
  switch (state.kind) {
    case "received":
    case "authorizing":
      return view("queued", "Looking at the change", "Reading who asks, what changed and what the policy says.");
    case "waiting":
      switch (state.for) {
        case "ready":
          return view("queued", "Draft", "Nothing is started while the pull request is a draft.");
        case "quiet":
          return view(
            "queued",
            "Waiting for the last push",
            "The GPU run starts when no other push follows for a while.",
          );
        case "trigger":
          return view(
            "queued",
            "Waiting for CI to start",
            `A GPU is needed: ${reason(request)} The GPU run starts with CI.`,
          );
        default:
          return unreachable(state.for, "what is waited for");
      }
    case "preparing":
      return view("in_progress", "Building on hosted runners", `${reason(request)} Nothing is rented yet.`);
    case "queued":
      return view("queued", queueTitle(queue), queueText(request, queue));
    case "revalidating":
      return view("in_progress", "Last look before renting", "The GPU lock is held; everything is checked once more.");
    case "provisioning":
      return view("in_progress", "Renting a GPU", provisioningText(request));
    case "executing":
      return view(
        "in_progress",
        state.testsStarted ? "GPU tests are running" : "The GPU machine is starting its job",
        [gpuLine(request), notKept(request)].filter(Boolean).join(" "),
      );
    case "cleaning":
      return state.attempt?.pod === null || state.attempt === null
        ? view("in_progress", "Ending", "Nothing is rented; what was started on GitHub is being ended.")
        : view("in_progress", "Returning the GPU", "The pod is being deleted and proven gone.");
    default:
      return unreachable(state, "state");
  }
}

export function checkName(request: GateRequest): string {
  const name = request.terms?.checkName ?? DEFAULT_NAME;
  return request.terms?.shadow === true ? `${name} (shadow)` : name;
}

/** The verdict to show while a deletion, or that there is no pod at all, stays unproven for too long; null otherwise. */
export function unprovenVerdict(request: GateRequest): Verdict | null {
  const state = request.state;
  if (state.kind === "provisioning" && state.step === "look-up" && state.lookupLoud === true) {
    return verdict(
      "infrastructure",
      "deletion-unproven",
      "RunPod has not said whether it rented a pod. Nothing more is bought until it does; the look-up goes on.",
    );
  }
  const teardown = state.kind === "cleaning" || state.kind === "provisioning" ? state.teardown : null;
  if (teardown === null || !teardown.loud || teardown.provenAt !== null) return null;
  return verdict(
    "infrastructure",
    "deletion-unproven",
    "RunPod has not confirmed that the rented pod is gone. Nothing more is bought until it is; retries go on.",
  );
}

function concluded(request: GateRequest, ended: Verdict, name: string, series: number): CheckView {
  const shadow = request.terms?.shadow === true;
  return {
    series,
    name,
    status: "completed",
    conclusion: shadow ? "success" : conclusionOf[ended.kind],
    title: title(ended, request),
    summary: [detailOf(ended), "", ...costLines(ended, request), ...nextLines(ended, request)].join("\n"),
    text: details(request, ended.reason),
    approveButton: mayBeApproved(ended, request),
  };
}

/**
 * A press of the button approves this commit. Where a person without the right pressed it, another may still do so; where
 * the head has moved on, there is nothing to approve.
 */
function mayBeApproved(ended: Verdict, request: GateRequest): boolean {
  if (request.kind !== "pull-request") return false;
  if (ended.kind === "awaiting-approval") return ended.reason !== "approval-outdated";
  return ended.reason === "actor-not-permitted" && request.openedBy.row === 3;
}

function title(ended: Verdict, request: GateRequest): string {
  switch (ended.kind) {
    case "passed":
      return `Passed: ${request.tests?.count ?? 0} GPU tests, ${dollars(request.spentMicros)}`;
    case "reused":
      return ended.reason === "given-back"
        ? "Passed earlier for this commit and base"
        : "Passed earlier for the identical tree: reused";
    case "not-required":
      return ended.reason === "shadow-mode" ? "Shadow mode: nothing was rented" : "No GPU run is needed";
    case "failed":
      // Whatever failed before a pod was rented is no failed GPU test.
      return ended.reason === "tests-failed" ? "GPU tests failed" : `Not tested on a GPU: ${ended.reason}`;
    case "infrastructure":
      return `Infrastructure, not your tests: ${ended.reason}`;
    case "deadline":
      return `Timed out: ${ended.reason}`;
    case "refused":
      return `Not started: ${ended.reason}`;
    case "over-budget":
      return "Not started: over budget";
    case "awaiting-approval":
      return ended.reason === "approval-outdated" ? "Approved for an older commit" : "Waiting for a maintainer";
    case "superseded":
      return superseded(ended);
    case "closed":
      return "The pull request was closed";
    case "cancelled":
      return "Cancelled";
    default:
      return unreachable(ended.kind, "verdict");
  }
}

function superseded(ended: Verdict): string {
  switch (ended.reason) {
    case "base-moved":
      return "Superseded: the base was changed";
    case "newer-request":
      return "Superseded by a newer request";
    case "draft-gave-way":
      return "A draft: the check is another pull request's";
    default:
      return "Superseded by a newer commit";
  }
}

function costLines(ended: Verdict, request: GateRequest): string[] {
  if (request.counts.pods === 0) return ["Nothing was rented: this cost nothing.", ""];
  const seconds = Math.round(request.paidMs / 1000);
  const until = request.keep?.until ?? null;
  if (until !== null) {
    const end = new Date(until).toISOString();
    const paid = request.pricePerHour === null ? "" : ` and paid at USD ${request.pricePerHour}/h`;
    return [
      `The pod stays for debugging until ${end} at the latest${paid}, on the word of ${inMarkdown(request.keep?.by ?? "")}. ${gpuLine(request)} This check is not written again: \`gpu-gate costs\` has what it cost in the end.`,
      "",
    ];
  }
  const pods = request.counts.pods === 1 ? "one pod" : `${request.counts.pods} pods`;
  const paid = `Paid: ${dollars(request.spentMicros)} for ${seconds} s of ${pods}. ${gpuLine(request)}`;
  const refused = conclusionOf[ended.kind] === "success" ? "" : notKept(request);
  return [paid, ...(refused === "" ? [] : ["", refused]), ""];
}

function nextLines(ended: Verdict, request: GateRequest): string[] {
  const lines: string[] = [];
  if (ended.kind === "failed" && request.failedSteps.length > 0) {
    lines.push("Failing:", ...request.failedSteps.slice(0, 50).map((name) => `- ${codeSpan(name)}`), "");
  }
  if (request.runUrl !== null) lines.push(`[Log of the job](${request.runUrl})`, "");
  if (ended.kind === "infrastructure" && request.tried.length > 0) lines.push(...triedTable(request), "");
  if (saysNext(ended)) lines.push(`Next: ${nextAction(ended)}`);
  return lines;
}

/** Where the detail alone leaves a reader without a next step. Failing tests speak for themselves, a fork's detail is its step. */
function saysNext(ended: Verdict): boolean {
  if (ended.kind === "failed") return ended.reason !== "tests-failed";
  if (ended.kind === "refused") return !isForkEnd(ended);
  return ended.kind === "infrastructure" || ended.kind === "deadline";
}

const isForkEnd = (ended: Verdict): boolean => ended.reason === "fork" || ended.reason === "head-repository-gone";

/**
 * A detail names what others have named: jobs, steps, branches, what a provider said. Only the fallback for forks is the
 * words of the repository's own configuration, which may hold a link.
 */
function detailOf(ended: Verdict): string {
  return isForkEnd(ended) ? ended.detail : inMarkdown(ended.detail, DETAIL_LIMIT);
}

/** What a person can do about it, as the list of reasons has it. */
function nextAction(ended: Verdict): string {
  return isReasonCode(ended.reason) ? REASONS[ended.reason].whatToDo : "Re-run this check to try again.";
}

function triedTable(request: GateRequest): string[] {
  return [
    "| Candidate | USD/h | Answer |",
    "| --- | --- | --- |",
    ...[...request.tried, ...request.leftOut]
      .slice(0, 60)
      .map(
        (row) =>
          `| ${inMarkdown(row.name)} | ${row.price === null ? "list" : row.price.toFixed(2)} | ${inMarkdown(row.answer)} |`,
      ),
  ];
}

const KERNEL_PROOF = {
  passed: ", and a kernel compiled and run on it",
  off: ", by its driver alone: no kernel was run",
} as const;

function details(request: GateRequest, endedAs?: string): string {
  const rows: [string, string][] = [
    ...(endedAs === undefined ? [] : [["Reason", endedAs] satisfies [string, string]]),
    ["Request", request.id],
    ["Head", request.headSha],
    ["Tested revision", request.admission?.testedSha ?? "not resolved"],
    ["Base", request.admission === null ? "unknown" : `${request.admission.baseRef} at ${request.admission.baseSha}`],
    ["Classification", request.admission?.classification ?? "unknown"],
    ["Attempts / pods bought", `${request.counts.attempts} / ${request.counts.pods}`],
  ];
  if (request.runnerNote !== null) rows.push(["Runner release", request.runnerNote]);
  const state = request.state;
  const attempt =
    state.kind === "executing" || state.kind === "cleaning" || state.kind === "provisioning" ? state.attempt : null;
  if (attempt !== null) {
    rows.push(
      ["Attempt", attempt.id],
      ["Pod", attempt.pod?.id ?? "none"],
      ["Execute run", attempt.run?.runId ?? "none"],
    );
    if (attempt.knownBad > 0) rows.push(["Failures of this GPU lately", String(attempt.knownBad)]);
    if (attempt.proof !== null) {
      const { gpuName, driverCuda, kernel } = attempt.proof;
      rows.push(["GPU proof", `${gpuName}, CUDA ${driverCuda}${kernel === undefined ? "" : KERNEL_PROOF[kernel]}`]);
    }
  }
  return [
    "<details><summary>Evidence</summary>",
    "",
    "| Fact | Value |",
    "| --- | --- |",
    ...rows.map(([name, value]) => `| ${name} | ${inMarkdown(value)} |`),
    "",
    "</details>",
    ...(request.costReport ? ["", request.costReport] : []),
  ].join("\n");
}

function queueTitle(queue: QueueInfo): string {
  return queue.place === null ? "Waiting for the GPU lock" : `Waiting for the GPU lock: place ${queue.place}`;
}

function queueText(request: GateRequest, queue: QueueInfo): string {
  const minutes = queue.etaMs === null ? null : Math.max(1, Math.round(queue.etaMs / 60_000));
  const eta = minutes === null ? "" : ` By the last runs it starts in about ${minutes} min.`;
  const cost =
    queue.expectedMicros === null || queue.expectedMicros === undefined
      ? ""
      : ` A run cost ${dollars(queue.expectedMicros)} on average.`;
  return `Prepared and ready. One GPU run at a time in this repository; nobody is passed over.${eta}${cost} ${reason(request)}`;
}

function provisioningText(request: GateRequest): string {
  const state = request.state;
  if (state.kind !== "provisioning") return "";
  const tried = state.walk.tried.length;
  return `${tried === 0 ? "Asking" : `${tried} answers so far; asking on`} in price order.`;
}

function reason(request: GateRequest): string {
  return request.admission === null ? "" : `${inMarkdown(request.admission.reason)}.`;
}

function gpuLine(request: GateRequest): string {
  if (request.gpu === null) return "";
  const price = request.pricePerHour === null ? "" : ` at USD ${request.pricePerHour}/h`;
  const proof = request.kernel === "off" ? ", proven by its driver alone: no kernel was run, `gpu.nvrtc` is empty" : "";
  return `GPU: ${inMarkdown(request.gpu)}${price}${proof}.`;
}

/** What became of the word to keep the pod where there is no money for it; nothing else is told before the end. */
function notKept({ keep }: GateRequest): string {
  if (keep === undefined || keep.refused === null || keep.declined === true) return "";
  return `The pod is not kept for debugging: ${inMarkdown(keep.refused, DETAIL_LIMIT)}`;
}

export function dollars(micros: number): string {
  return `USD ${(micros / 1_000_000).toFixed(4)}`;
}

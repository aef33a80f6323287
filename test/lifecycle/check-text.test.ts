/** What the check says of the proof and of a keeping, where something was not done that a reader may take for granted. */
import { describe, expect, it } from "vitest";
import { REASONS } from "../../shared/audit/reasons.ts";
import { checkView } from "../../shared/lifecycle/check-view.ts";
import { declinedKeep, newKeep, type Keep } from "../../shared/lifecycle/keep.ts";
import type { GateRequest, Proof } from "../../shared/lifecycle/model.ts";
import { verdict, type Verdict } from "../../shared/lifecycle/verdict.ts";
import { attemptAt, PROOF, requestIn, states, T0 } from "./fixtures.ts";

const QUEUE = { place: null, waiting: 0, holder: null, etaMs: null };
const shown = (request: GateRequest) => checkView(request, QUEUE);

function ended(kind: "passed" | "failed", more: Partial<GateRequest>): GateRequest {
  const reason = kind === "passed" ? "tests-passed" : "tests-failed";
  const request = requestIn({ kind: "concluded", at: T0, verdict: verdict(kind, reason, "It ended.") });
  return { ...request, counts: { ...request.counts, pods: 1 }, gpu: "NVIDIA L4", pricePerHour: 0.43, ...more };
}

describe("a proof without a kernel", () => {
  it("is said in the summary of the end, and in that of the run", () => {
    const words = "GPU: NVIDIA L4 at USD 0.43/h, proven by its driver alone: no kernel was run, `gpu.nvrtc` is empty.";
    expect(shown(ended("passed", { kernel: "off" })).summary).toContain(words);
    expect(shown({ ...ended("passed", { kernel: "off" }), state: states.executing() }).summary).toContain(words);
    for (const kernel of ["passed", undefined] as const) {
      expect(shown(ended("passed", { kernel })).summary).toContain("GPU: NVIDIA L4 at USD 0.43/h.\n");
    }
  });

  it.each<[Proof["kernel"], string]>([
    ["off", "GPU A, CUDA 12.8, by its driver alone: no kernel was run |"],
    ["passed", "GPU A, CUDA 12.8, and a kernel compiled and run on it |"],
    [undefined, "GPU A, CUDA 12.8 |"],
  ])("is in the evidence: %s", (kernel, words) => {
    const attempt = attemptAt("online", { proof: { ...PROOF, kernel } });
    expect(shown(requestIn(states.executing({ attempt }))).text).toContain(`| GPU proof | ${words}`);
  });
});

describe("a keeping for which there is no money", () => {
  const refused: Keep = {
    ...newKeep("mira", "a hang", 60_000),
    attemptId: "r1-1",
    refused: "It costs more than the cap.",
  };
  const words = "The pod is not kept for debugging: It costs more than the cap.";

  it("is said while the job runs and at its end", () => {
    expect(shown({ ...ended("failed", { keep: refused }), state: states.executing() }).summary).toContain(words);
    expect(shown(ended("failed", { keep: refused })).summary).toContain(words);
  });

  it("is not said of a green check, of a word that was taken back, or where nobody asked", () => {
    expect(shown(ended("passed", { keep: refused })).summary).not.toContain("kept");
    expect(shown(ended("failed", { keep: declinedKeep("mira", "no need") })).summary).not.toContain("kept");
    expect(shown(ended("failed", {})).summary).not.toContain("kept");
  });
});

describe("an end before anything was tested", () => {
  const end = (kind: Verdict["kind"], reason: string) =>
    shown(requestIn({ kind: "concluded", at: T0, verdict: { kind, reason, detail: "It ended." } }));

  it.each(["pre-gate-failed", "preparation-failed", "members"])("%s is not called a failed GPU test", (reason) => {
    expect(end("failed", reason).title).toBe(`Not tested on a GPU: ${reason}`);
    expect(end("failed", reason).summary).toMatch(/Next: .+$/);
    expect(end("failed", "tests-failed").title).toBe("GPU tests failed");
  });

  it("tells a contributor who was refused what to do next, in the list's words or in the repository's own", () => {
    expect(end("refused", "author-not-permitted").summary).toContain(
      `Next: ${REASONS["author-not-permitted"].whatToDo}`,
    );
    expect(end("refused", "fork").summary).not.toContain("Next:");
  });

  it("names the code by which the list explains it", () => {
    expect(end("refused", "fork").text).toContain("| Reason | fork |");
    expect(end("passed", "tests-passed").text).toContain("| Reason | tests-passed |");
    expect(shown(requestIn(states.executing())).text).not.toContain("| Reason |");
  });
});

describe("the title of an end", () => {
  const titled = (word: Verdict) => shown(requestIn({ kind: "concluded", at: T0, verdict: word })).title;

  it.each([
    [verdict("reused", "identical-tree", "d"), "Passed earlier for the identical tree: reused"],
    [verdict("reused", "given-back", "d"), "Passed earlier for this commit and base"],
    [verdict("superseded", "head-moved", "d"), "Superseded by a newer commit"],
    [verdict("superseded", "base-moved", "d"), "Superseded: the base was changed"],
    [verdict("superseded", "newer-request", "d"), "Superseded by a newer request"],
    [verdict("superseded", "draft-gave-way", "d"), "A draft: the check is another pull request's"],
  ])("says what happened: %o", (word, title) => {
    expect(titled(word)).toBe(title);
  });
});

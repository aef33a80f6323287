/** What the classes of reason codes mean for a reader: for `docs/reason-codes.md` and `gpu-gate explain`. */
import type { ReasonClass } from "./reasons.ts";

/** Each class with the heading and the sentence that introduce it, in the order of the page. */
export const REASON_CLASSES: Readonly<Record<ReasonClass, { readonly title: string; readonly intro: string }>> = {
  passed: { title: "Passed", intro: "The check is green: the tests ran." },
  reused: { title: "Reused", intro: "The check is green without a new run." },
  "not-required": { title: "Not required", intro: "The check is green because the trusted policy asks for no GPU." },
  failed: { title: "Failed", intro: "The check is red, and the change is what made it red." },
  infrastructure: {
    title: "Infrastructure",
    intro: "The check is red, but nothing is said about the change.",
  },
  deadline: { title: "Out of time", intro: "The check concludes `timed_out`." },
  refused: {
    title: "Refused",
    intro: "The check concludes `action_required`: a person has to change something first.",
  },
  "over-budget": { title: "Over budget", intro: "The check concludes `action_required`." },
  "awaiting-approval": { title: "Awaiting approval", intro: "The check concludes `action_required`." },
  superseded: { title: "Superseded", intro: "The check concludes `cancelled`." },
  closed: { title: "Closed", intro: "The check concludes `cancelled`." },
  cancelled: { title: "Cancelled", intro: "The check concludes `cancelled`." },
  attempt: {
    title: "Attempts",
    intro: "Why one attempt ended while its request went on; seen in the table of attempts.",
  },
  reap: { title: "Reaper", intro: "Why the reaper deleted a pod; seen in the audit and the ledger." },
  lane: { title: "Lanes", intro: "What the probe of a lane on your own machines found." },
  note: {
    title: "Notes",
    intro: "Only the audit shows these: a signal that changed nothing, or something found on the way.",
  },
};

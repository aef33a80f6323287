/**
 * The one list of reason codes: why a request, an attempt, a pod or a lane ended or waits as it does.
 *
 * A check's text, the audit, the API, the pages and `docs/reason-codes.md` all take their words from here, so a reader who
 * meets a code anywhere can look it up once. A terminal state carries a `ReasonCode`; the type makes a state without one
 * fail to compile. Codes are stored for ever: rename none, add new ones.
 *
 * Each entry: `class` (which verdict, or which smaller thing, it explains), `sentence` (what happened, for people) and
 * `whatToDo` (the way forward; "Nothing." where there is none to take).
 */

/** The verdicts of the gate (design section 3.2), then three kinds of smaller endings that are not verdicts themselves. */
export type ReasonClass =
  | "passed"
  | "reused"
  | "not-required"
  | "failed"
  | "infrastructure"
  | "deadline"
  | "refused"
  | "over-budget"
  | "awaiting-approval"
  | "superseded"
  | "closed"
  | "cancelled"
  /** Why one attempt ended while its request went on to the next. */
  | "attempt"
  /** Why the reaper deleted a pod. */
  | "reap"
  /** Why a lane of the maintainer's own machines is not available. */
  | "lane"
  /** Why a signal changed nothing, or what was found on the way: only the audit shows it. */
  | "note";

export interface ReasonEntry {
  readonly class: ReasonClass;
  readonly sentence: string;
  readonly whatToDo: string;
}

const PUSH_OR_RERUN = "Re-run the check; no change to the pull request is needed.";

export const REASONS = {
  // Success.
  "tests-passed": {
    class: "passed",
    sentence: "The GPU tests ran on a proven GPU and passed.",
    whatToDo: "Nothing.",
  },
  "identical-tree": {
    class: "reused",
    sentence: "The same tree already passed under the same workflow files and configuration.",
    whatToDo: "Nothing; re-run the check to test again anyway.",
  },
  "given-back": {
    class: "reused",
    sentence: "This commit was tested for this base before and passed; that answer stands again.",
    whatToDo: "Nothing; re-run the check to test again anyway.",
  },
  "docs-only": {
    class: "not-required",
    sentence: "Only documentation changed, so no GPU was rented.",
    whatToDo: "Nothing.",
  },
  "hosted-only": {
    class: "not-required",
    sentence: "Only files that hosted jobs test changed, so no GPU was rented.",
    whatToDo: "Nothing.",
  },
  "policy-not-required": {
    class: "not-required",
    sentence: "The trusted policy does not ask for the GPU for these changes.",
    whatToDo: "Nothing; change the policy on the default branch if it should.",
  },
  "shadow-mode": {
    class: "not-required",
    sentence: "Shadow mode is on: everything was decided and nothing was bought.",
    whatToDo: "Turn shadow mode off in the configuration when the decisions look right.",
  },

  // The tests or the preparation said no.
  "tests-failed": {
    class: "failed",
    sentence: "The GPU tests ran and at least one failed.",
    whatToDo: "Read the failing tests in the job's log, fix them and push.",
  },
  "preparation-failed": {
    class: "failed",
    sentence: "A hosted job that builds or tests the change before the GPU failed.",
    whatToDo: "Read the log of the prepare run, fix it and push.",
  },
  "pre-gate-failed": {
    class: "failed",
    sentence: "A check that must be green before a GPU is rented failed.",
    whatToDo: "Fix that check and push.",
  },
  members: {
    class: "failed",
    sentence: "A commit of the merge group belongs to no pull request with a green gate of its own.",
    whatToDo: "Bring the named pull request's own gate to green, then queue it again.",
  },

  // Infrastructure: never a statement about the change.
  capacity: {
    class: "infrastructure",
    sentence: "No permitted GPU was free: every candidate was refused for lack of capacity.",
    whatToDo: "Re-run the check later, or permit more GPU types in the configuration.",
  },
  "request-invalid": {
    class: "infrastructure",
    sentence: "RunPod refused the request for the pod as invalid.",
    whatToDo: "A maintainer compares the configuration with RunPod's current contract (`gpu-gate doctor`).",
  },
  "image-refused": {
    class: "infrastructure",
    sentence: "RunPod refused the runner image.",
    whatToDo: "A maintainer checks the image reference in the configuration.",
  },
  "image-unresolved": {
    class: "infrastructure",
    sentence: "The runner image could not be resolved to a digest, so nothing was rented.",
    whatToDo: PUSH_OR_RERUN,
  },
  "bad-host": {
    class: "infrastructure",
    sentence: "The rented machine's GPU did not pass its proof.",
    whatToDo: `${PUSH_OR_RERUN} The machine is avoided for six hours.`,
  },
  startup: {
    class: "infrastructure",
    sentence: "Two machines in a row never registered their runner.",
    whatToDo: "Read the attempts' last pod states; a maintainer checks image, start script and runner release.",
  },
  "attempts-exhausted": {
    class: "infrastructure",
    sentence: "Every permitted attempt was used and none gave an accepted machine.",
    whatToDo: "Read the table of attempts, then re-run the check.",
  },
  "pod-lost": {
    class: "infrastructure",
    sentence: "The rented machine vanished or stopped before the tests ended.",
    whatToDo: PUSH_OR_RERUN,
  },
  balance: {
    class: "infrastructure",
    sentence: "The RunPod account has no money left for a pod.",
    whatToDo: "A maintainer tops up the RunPod account, then re-runs the check.",
  },
  "provider-key": {
    class: "infrastructure",
    sentence: "RunPod refused the deployment's API key.",
    whatToDo: "The operator replaces the RunPod key of the deployment.",
  },
  "provider-outage": {
    class: "infrastructure",
    sentence: "RunPod did not give a usable answer.",
    whatToDo: PUSH_OR_RERUN,
  },
  "contract-refused": {
    class: "infrastructure",
    sentence: "RunPod's published contract does not accept a field or GPU type that the configuration uses.",
    whatToDo: "A maintainer brings the configuration in line with the contract named here.",
  },
  "account-unreachable": {
    class: "infrastructure",
    sentence: "The budget of the RunPod account could not be asked, so nothing was bought.",
    whatToDo: PUSH_OR_RERUN,
  },
  preparation: {
    class: "infrastructure",
    sentence: "The preparation never reached a verdict: it did not start, lost its machine or vanished.",
    whatToDo: PUSH_OR_RERUN,
  },
  "artifacts-missing": {
    class: "infrastructure",
    sentence: "An artifact of the preparation is missing, expired or not the one that was recorded.",
    whatToDo: PUSH_OR_RERUN,
  },
  "workflow-unavailable": {
    class: "infrastructure",
    sentence: "GitHub would not start the trusted workflow on the default branch.",
    whatToDo: "A maintainer checks that the workflow file exists there and is enabled.",
  },
  "github-outage": {
    class: "infrastructure",
    sentence: "GitHub did not answer long enough for the run to be followed.",
    whatToDo: "Re-run the check when GitHub is well again.",
  },
  "runner-config": {
    class: "infrastructure",
    sentence: "GitHub would not issue a runner registration.",
    whatToDo: "A maintainer checks the App's runner permission and the runner group.",
  },
  "runner-refused": {
    class: "infrastructure",
    sentence: "GitHub refused the runner, most likely because its release is too old.",
    whatToDo: "A maintainer updates the runner image.",
  },
  "strangers-job": {
    class: "infrastructure",
    sentence: "Our runner was given a job that is not ours; the machine was thrown away.",
    whatToDo: "A maintainer looks for a workflow that targets our labels, then re-runs the check.",
  },
  "idle-runner": {
    class: "infrastructure",
    sentence: "The runner was online but was never given its job, twice.",
    whatToDo: PUSH_OR_RERUN,
  },
  "no-evidence": {
    class: "infrastructure",
    sentence: "The GPU job ended without the evidence that the tests really ran on the GPU.",
    whatToDo: "Read the job's log; the missing evidence is listed in the details.",
  },
  "deletion-unproven": {
    class: "infrastructure",
    sentence: "The pod could not be proven gone; nothing is bought until it is.",
    whatToDo: "Wait: deletion is tried until it is proven. The operator may look at the pod in RunPod's console.",
  },
  "lock-lost": {
    class: "infrastructure",
    sentence: "The request no longer held the repository's GPU lock: it removed its pod and did nothing else.",
    whatToDo: PUSH_OR_RERUN,
  },
  "internal-error": {
    class: "infrastructure",
    sentence: "The control plane met a fault of its own.",
    whatToDo: "Re-run the check, and report the audit entry named here.",
  },

  // Out of time.
  "queue-timeout": {
    class: "deadline",
    sentence: "The request waited for the GPU lock for longer than the permitted time.",
    whatToDo: PUSH_OR_RERUN,
  },
  "preparation-timeout": {
    class: "deadline",
    sentence: "The preparation took longer than the permitted time.",
    whatToDo:
      "Look at the prepare run for the slow step or, where checks are named here, at the workflow that should publish them; then re-run the check.",
  },
  "setup-deadline": {
    class: "deadline",
    sentence: "The tests did not start within the permitted set-up time of the rented machine.",
    whatToDo: "Look at the GPU job for the slow step, then re-run the check.",
  },
  lifetime: {
    class: "deadline",
    sentence: "The rented machine reached its permitted lifetime before the tests ended.",
    whatToDo: "Make the tests faster or raise the lifetime in the configuration.",
  },
  "merge-queue-timeout": {
    class: "deadline",
    sentence: "The merge queue's own time limit would have run out.",
    whatToDo: "Queue the pull request again, or raise the queue's time limit.",
  },
  backstop: {
    class: "deadline",
    sentence: "The pod was deleted at the hard limit of two hours from its creation.",
    whatToDo: "Read the audit for what kept the pod alive; re-run the check.",
  },

  // Refused: a person has to change something first.
  "repository-not-allowed": {
    class: "refused",
    sentence: "This deployment does not serve this repository.",
    whatToDo: "The operator adds the repository's id to the deployment's allow-list.",
  },
  "pull-request-not-found": {
    class: "refused",
    sentence: "No pull request belongs to this run's head.",
    whatToDo: "Open a pull request for the branch.",
  },
  fork: {
    class: "refused",
    sentence: "The change comes from a fork; a fork's code is never run with the project's money.",
    whatToDo: "A maintainer reviews the change and pushes it to a branch of this repository.",
  },
  "head-repository-gone": {
    class: "refused",
    sentence: "The repository that the change comes from does not exist any more.",
    whatToDo: "Push the change to a branch of this repository.",
  },
  "author-not-permitted": {
    class: "refused",
    sentence: "The author of the pull request may not spend on the GPU.",
    whatToDo: "A maintainer opens the change under their own name, or the configuration permits the author's role.",
  },
  "actor-not-permitted": {
    class: "refused",
    sentence: "The person who asked for the run may not spend on the GPU.",
    whatToDo: "A permitted maintainer re-runs the check.",
  },
  "configuration-missing": {
    class: "refused",
    sentence: "The default branch has no `.github/gpu-gate.yml`.",
    whatToDo: "Add the configuration to the default branch.",
  },
  "configuration-invalid": {
    class: "refused",
    sentence: "The configuration on the default branch is not valid.",
    whatToDo: "Fix the line named here on the default branch.",
  },
  "tested-revision-missing": {
    class: "refused",
    sentence: "The commit to test does not exist, most likely because the pull request conflicts with its base.",
    whatToDo: "Resolve the conflict and push; for a validation, name a commit that is there.",
  },
  "revision-not-merged": {
    class: "refused",
    sentence: "The commit to validate is not part of the default branch.",
    whatToDo: "Validate a commit of the default branch; for a pull request use `gpu-gate recover`.",
  },
  "check-target-unrelated": {
    class: "refused",
    sentence: "The commit that should carry the check is not what would be tested.",
    whatToDo: "Name a commit that the validated revision contains, or one with the identical tree.",
  },
  "base-changed": {
    class: "refused",
    sentence: "The pull request now targets another branch than the one it was admitted for.",
    whatToDo: "Nothing; the change against the new base gets its own check.",
  },
  "buying-paused": {
    class: "refused",
    sentence: "The operator has stopped all buying.",
    whatToDo: "Wait until buying is resumed, then re-run the check.",
  },
  "read-only": {
    class: "refused",
    sentence: "The stored state was written by a newer version, so only deletion works.",
    whatToDo: "The operator deploys the newer version again.",
  },
  "deletion-blocks": {
    class: "refused",
    sentence: "An earlier pod of this repository is not yet proven gone, so nothing may be bought.",
    whatToDo: "Re-run the check when the earlier pod is proven gone.",
  },

  // Money and consent.
  "over-budget": {
    class: "over-budget",
    sentence: "The run would exceed a cap on money.",
    whatToDo:
      "The operator may lift the repository's caps for this run (`gpu-gate operator approve`), or a maintainer raises them under `budget`.",
  },
  "awaiting-approval": {
    class: "awaiting-approval",
    sentence: "A maintainer's word is needed before a GPU is rented for this commit.",
    whatToDo:
      "A maintainer approves this commit with the button, the label or the comment that the configuration names.",
  },
  "trigger-not-started": {
    class: "awaiting-approval",
    sentence: "The workflow that the gate follows did not start in time.",
    whatToDo: "Start that workflow, or a maintainer approves this commit.",
  },
  "actor-unknown": {
    class: "awaiting-approval",
    sentence: "Nobody told the gate who caused this commit to be tested, so nobody's permission could be looked at.",
    whatToDo: "A maintainer approves this commit with the button, or re-runs the check.",
  },
  "approval-outdated": {
    class: "awaiting-approval",
    sentence: "The approval was for an older commit than the pull request's head.",
    whatToDo: "Approve the new head named here.",
  },

  // Overtaken by events.
  "head-moved": {
    class: "superseded",
    sentence: "The pull request's head moved on, so this commit is no longer tested.",
    whatToDo: "Nothing; the new head has its own check.",
  },
  "base-moved": {
    class: "superseded",
    sentence: "The pull request targets another branch by now, so it is another change than the one that was admitted.",
    whatToDo: "Nothing; the change against the new base has its own check.",
  },
  "newer-request": {
    class: "superseded",
    sentence: "A newer request for the same commit took over.",
    whatToDo: "Nothing; look at the newer check.",
  },
  "draft-gave-way": {
    class: "superseded",
    sentence: "The pull request is a draft, and another one that is not has the same commit and must not wait for it.",
    whatToDo:
      "Nothing; once the draft is ready it is looked at, where the commit's check says nothing about it by then.",
  },
  closed: {
    class: "closed",
    sentence: "The pull request was closed.",
    whatToDo: "Nothing; reopening it starts a new check.",
  },
  "cancelled-by-user": {
    class: "cancelled",
    sentence: "A user cancelled the run.",
    whatToDo: "Re-run the check when it is wanted again.",
  },
  "cancelled-by-operator": {
    class: "cancelled",
    sentence: "The operator ended this request.",
    whatToDo: "Ask the operator named in the audit, or re-run the check.",
  },
  "merge-group-destroyed": {
    class: "cancelled",
    sentence: "The merge group was dissolved.",
    whatToDo: "Nothing; the queue builds a new group by itself.",
  },
  "repository-gone": {
    class: "cancelled",
    sentence: "The repository was deleted, archived or moved out of this deployment's reach.",
    whatToDo: "Nothing; pods are deleted all the same.",
  },
  "app-removed": {
    class: "cancelled",
    sentence: "The App was uninstalled or suspended.",
    whatToDo: "Install the App again; pods are deleted all the same.",
  },

  // One attempt ended; the request went on.
  "attempt-not-created": {
    class: "attempt",
    sentence: "RunPod's answer was unclear and two complete lists showed no such pod.",
    whatToDo: "Nothing; a pod that appears later under this name is deleted at first sight.",
  },
  "attempt-no-machine": {
    class: "attempt",
    sentence: "The pod was not given a machine in time.",
    whatToDo: "Nothing; the next candidate is tried.",
  },
  "attempt-no-registration": {
    class: "attempt",
    sentence: "The runner did not come online in time.",
    whatToDo: "Nothing; the next candidate is tried.",
  },
  "attempt-proof-refused": {
    class: "attempt",
    sentence: "The machine's GPU failed its proof before the runner registered.",
    whatToDo: "Nothing; the next candidate is tried and the machine is avoided.",
  },
  "attempt-wrong-gpu": {
    class: "attempt",
    sentence: "RunPod assigned another GPU than the one that was asked for.",
    whatToDo: "Nothing; the next candidate is tried.",
  },
  "attempt-pod-died": {
    class: "attempt",
    sentence: "The pod stopped before it was accepted.",
    whatToDo: "Nothing; the next candidate is tried.",
  },
  "attempt-strangers-job": {
    class: "attempt",
    sentence: "Another runner took this attempt's job.",
    whatToDo: "A maintainer looks for a runner that carries the attempt's label; one new attempt is made.",
  },

  // Why the reaper took a pod.
  "reap-superseded": {
    class: "reap",
    sentence: "A newer attempt of the pod's run exists.",
    whatToDo: "Nothing.",
  },
  "reap-completed": {
    class: "reap",
    sentence: "The pod's run ended and its grace period is over.",
    whatToDo: "Nothing; read the audit if this happens often.",
  },
  "reap-run-gone": {
    class: "reap",
    sentence: "The pod's run was not found twice and no live request knows it.",
    whatToDo: "Nothing.",
  },
  "reap-unknown-pod": {
    class: "reap",
    sentence: "The pod carries our tags but no gate knows it.",
    whatToDo: "Read the audit around its creation; its cost is booked as unknown to a request.",
  },
  "reap-backstop": {
    class: "reap",
    sentence: "The pod reached the hard limit on its age.",
    whatToDo: "Read the audit for what kept the pod alive.",
  },
  "reap-late-pod": {
    class: "reap",
    sentence: "The pod appeared under the name of an attempt that was already closed.",
    whatToDo: "Nothing; its cost is booked.",
  },

  // Lanes of the maintainer's own machines.
  "lane-disabled": {
    class: "lane",
    sentence: "The lane's switch is not exactly `true`; GitHub was not asked.",
    whatToDo: "Set the switch to `true` when the machine is ready.",
  },
  "lane-labels-missing": {
    class: "lane",
    sentence: "The lane is switched on but names no runner labels.",
    whatToDo: "Write the exact label set of the lane into the configuration.",
  },
  "lane-probe-failed": {
    class: "lane",
    sentence: "The lane is switched on but GitHub's list of runners could not be read.",
    whatToDo: "Check the token's right to list runners, or switch the lane off.",
  },
  "lane-no-match": {
    class: "lane",
    sentence: "The lane is switched on but no single runner carries every label of its set.",
    whatToDo: "Register a runner with the whole label set, or switch the lane off.",
  },
  "lane-offline": {
    class: "lane",
    sentence: "The lane is switched on but every runner with its label set is offline.",
    whatToDo: "Start the machine, or switch the lane off.",
  },
  "lane-available": {
    class: "lane",
    sentence: "An online runner carries every label of the lane.",
    whatToDo: "Nothing.",
  },

  // Signals that changed nothing.
  "request-open": {
    class: "note",
    sentence: "A request for this commit is already open.",
    whatToDo: "Nothing.",
  },
  "uninvited-attempt": {
    class: "note",
    sentence: "Somebody else started a new attempt of one of our runs; it was cancelled and evaluated afresh.",
    whatToDo: "Use the check's own re-run button.",
  },
  "foreign-check": {
    class: "note",
    sentence: "Another App published a check under the gate's name.",
    whatToDo: "Pin the required check to this App in the branch rule (`gpu-gate doctor`).",
  },
  "ambiguous-create": {
    class: "note",
    sentence: "RunPod's answer to a create was unclear, so the pod is looked up by its name.",
    whatToDo: "Nothing.",
  },
  "dispatch-lost": {
    class: "note",
    sentence: "GitHub's answer to a dispatch was lost, so the run is looked up by its name.",
    whatToDo: "Nothing.",
  },
} as const satisfies Readonly<Record<string, ReasonEntry>>;

export type ReasonCode = keyof typeof REASONS;

/** The codes of one class: `CodesOf<"infrastructure">` is what an infrastructure verdict may carry. */
export type CodesOf<C extends ReasonClass> = {
  [K in ReasonCode]: (typeof REASONS)[K]["class"] extends C ? K : never;
}[ReasonCode];

/** Every code, in the order of the list. */
export const REASON_CODES: readonly ReasonCode[] = Object.keys(REASONS).filter(isReasonCode);

/** The entry of a code: what happened and what to do. */
export function reasonEntry(code: ReasonCode): ReasonEntry {
  return REASONS[code];
}

/** Whether text from outside (a stored row, an API argument) is a code of the list. */
export function isReasonCode(text: string): text is ReasonCode {
  return Object.hasOwn(REASONS, text);
}

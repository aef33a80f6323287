/**
 * Wrong lines in the product, each of which the simulator has to notice: the kinds of fault that such systems really had, and
 * those that were found here. These are about buying, removing and what is stored on the way.
 */
import type { FaultKind } from "./faults.ts";
import type { Mutant } from "./mutant-trial.ts";
import { WORD_MUTANTS } from "./mutant-list-words.ts";

const CREATE_FAULTS: readonly FaultKind[] = ["runpod-done-but-500", "runpod-done-but-dropped", "runpod-list-lag"];
const PEOPLE: readonly FaultKind[] = ["head-moves", "pull-closes", "user-cancels", "operator-stops"];
const RENTING = "shared/lifecycle/states/renting.ts";
const TEARDOWN = "shared/lifecycle/teardown.ts";
const JUDGE = "shared/lifecycle/judge.ts";
const GATE = "durable-objects/gate/gate.ts";
const LOCK = "durable-objects/gate/lock.ts";
const PERFORM = "durable-objects/gate/perform.ts";
const REMOVE_POD = "durable-objects/gate/remove-pod.ts";

const OWN: readonly Mutant[] = [
  {
    name: "unread-is-a-yes",
    kind: "I11",
    file: "durable-objects/gate/create-pod.ts",
    find: '    if (seen.pull?.known === false) return { kind: "unread",',
    replace: '    if (seen.pull?.known === false && task.podName === "") return { kind: "unread",',
    seeds: 60,
    faults: ["github-rate-limit", "github-refuses"],
  },
  {
    name: "no-look-up-before-retry",
    kind: "N02, I1",
    file: RENTING,
    find: "  if (!waited || lists.length < 2) return again(lists);",
    replace: "  void waited;",
    seeds: 60,
    faults: CREATE_FAULTS,
  },
  {
    name: "look-up-adopts-nothing",
    kind: "N02, I1",
    file: RENTING,
    find: "  if (first !== undefined) {",
    replace: "  if (first !== undefined && around.now < 0) {",
    seeds: 60,
    faults: CREATE_FAULTS,
  },
  {
    name: "ambiguous-is-capacity",
    kind: "N02, I1",
    file: RENTING,
    find: `      return { kind: "ambiguous", retryAfterMs: outcome.retryAfterMs };`,
    replace: `      return { kind: "capacity" };`,
    seeds: 60,
    faults: CREATE_FAULTS,
  },
  {
    name: "404-is-gone",
    kind: "N06, I2",
    file: TEARDOWN,
    find: "        if (teardown.deletedAt !== null || now >= grace) {",
    replace: "        if (teardown.deletedAt !== null || now >= 0) {",
    seeds: 150,
    faults: ["runpod-newborn-404", "runpod-list-lag", ...PEOPLE],
  },
  {
    name: "204-is-gone",
    kind: "N04, I2",
    file: TEARDOWN,
    find: `        return enter("verify", { ...teardown, deletedAt }, scope, now);`,
    replace: `        return enter("cancel", { ...teardown, deletedAt, provenAt: now, tries: 0 }, scope, now);`,
    seeds: 60,
    faults: ["runpod-lives-on", "head-moves"],
  },
  {
    name: "alive-after-delete-goes-on",
    kind: "N04, I2",
    file: TEARDOWN,
    find: `        return retreat("delete", { ...teardown, tries }, scope, now, now + deletePause(tries, limits));
      }
      return unanswered(teardown, done.outcome, scope, now);
    }
    case "list": {`,
    replace: `        return enter("cancel", { ...teardown, provenAt: now, tries: 0 }, scope, now);
      }
      return unanswered(teardown, done.outcome, scope, now);
    }
    case "list": {`,
    seeds: 60,
    faults: ["runpod-lives-on", "head-moves"],
  },
  {
    name: "delete-failure-is-done",
    kind: "N14, I2",
    file: REMOVE_POD,
    find: `gone.value === null ? ({ kind: "not-found" } as const)`,
    replace: `gone.value === null ? ({ kind: "deleted" } as const)`,
    seeds: 150,
    faults: ["runpod-newborn-404", "runpod-list-lag", ...PEOPLE],
  },
  {
    name: "cancel-before-delete",
    kind: "I8",
    file: TEARDOWN,
    find: `      return enter("delete", { ...teardown, recordPrice: price ?? teardown.recordPrice }, scope, now);`,
    replace: `      if (scope.run !== null && teardown.provenAt === null && !teardown.cancelSent) {
        const early: Teardown = { ...teardown, step: "cancel" };
        return { kind: "task", teardown: early, task: { kind: "cancel-run", run: scope.run }, dueAt: now };
      }
      return enter("delete", { ...teardown, recordPrice: price ?? teardown.recordPrice }, scope, now);`,
    seeds: 40,
    faults: ["head-moves", "pull-closes"],
  },
  {
    name: "cancel-without-reading",
    kind: "N88, I8",
    file: PERFORM,
    find: '  if (run.value.attempt !== attempt) return { kind: "not-ours" };\n  if (run.value.status === "completed") return { kind: "completed" };',
    replace: "",
    seeds: 120,
    faults: ["user-reruns", "user-cancels", "head-moves", "pull-closes"],
  },
  {
    name: "lock-released-early",
    kind: "N62, I1",
    file: "shared/lifecycle/states/cleaning.ts",
    find: "  const release = proven && state.resume === null && state.hold !== null && !state.lockReleased;",
    replace: "  const release = state.resume === null && state.hold !== null && !state.lockReleased;",
    seeds: 150,
    faults: ["runpod-lives-on", "runpod-delete-fails", "pod-never-boots", "head-moves"],
  },
  {
    name: "lock-never-released",
    kind: "N61, I6",
    file: LOCK,
    find: "    if (lock.holder === requestId && (",
    replace: "    if (lock.holder === requestId && now < 0 && (",
    seeds: 20,
    faults: [],
  },
  {
    name: "no-fencing",
    kind: "N48, I6",
    file: LOCK,
    find: "    if (lock.holder !== null) return;",
    replace: "",
    seeds: 60,
    faults: ["job-hangs"],
  },
  {
    name: "last-in-first-out",
    kind: "I6",
    file: "durable-objects/gate/store.ts",
    find: "FROM queue ORDER BY seq LIMIT 1`)",
    replace: "FROM queue ORDER BY seq DESC LIMIT 1`)",
    seeds: 300,
    faults: ["job-hangs"],
  },
  {
    name: "deliveries-not-deduped",
    kind: "N35, I10",
    file: "durable-objects/gate/store.ts",
    find: "    return this.#sql.exec(`SELECT guid FROM deliveries WHERE guid = ?`, guid).length > 0;",
    replace: '    return guid === "";',
    also: { find: "`INSERT INTO deliveries (", replace: "`INSERT OR IGNORE INTO deliveries (" },
    seeds: 150,
    faults: ["hook-doubled", "pull-closes", "pull-reopens", "user-rerequests", "prepare-fails"],
  },
  {
    name: "second-signal-second-request",
    kind: "N35, I10",
    file: "shared/lifecycle/route.ts",
    find: "  if (newest === undefined) return [...hints, next];",
    replace: '  if (newest === undefined || endedAs(newest, "failed")) return [...hints, next];',
    seeds: 200,
    faults: ["hook-delayed", "hook-doubled", "head-moves-back", "head-moves", "prepare-fails"],
  },
  {
    name: "evidence-not-needed",
    kind: "N100, I4",
    file: JUDGE,
    find: "  if (missing !== null) return verdict(",
    replace: "  if (missing !== null && terms.limits.watchPoll < 0) return verdict(",
    seeds: 60,
    faults: ["job-without-evidence", "job-too-short"],
  },
  {
    name: "skipped-tests-pass",
    kind: "N100, I4",
    file: JUDGE,
    find: `  if (!testsEntered(job, terms)) {`,
    replace: `  if (!testsEntered(job, terms) && job.conclusion !== "success") {`,
    also: {
      find: 'if (step.status !== "completed" || step.conclusion !== "success")',
      replace: 'if (step.status !== "completed")',
    },
    seeds: 60,
    faults: ["job-skips-tests"],
  },
  {
    name: "failed-read-kills",
    kind: "N31, I11",
    file: "shared/lifecycle/states/executing.ts",
    find: "absent: sighting === null ? before.absent : ",
    replace: "absent: sighting === null ? before.absent + 1 : ",
    seeds: 60,
    faults: ["runpod-refuses", "runpod-half-answer"],
  },
  {
    name: "unknown-pull-is-closed",
    kind: "N31, I11",
    file: JUDGE,
    find: "  if (pull === undefined || !pull.known || followsPull(request) === undefined) return null;",
    replace: `  if (pull === undefined || followsPull(request) === undefined) return null;
  if (!pull.known) return verdict("closed", "closed", "Nobody knows.");`,
    seeds: 60,
    faults: ["github-refuses"],
  },
  {
    name: "cap-is-ignored",
    kind: "N164, I9",
    file: "durable-objects/gate/money.ts",
    find: "  if (!admission.admitted) return {",
    replace: "  if (!admission.admitted && now < 0) return {",
    seeds: 200,
    faults: ["tiny-budget", "small-budget", "pod-runner-silent", "pod-never-boots", "user-rerequests"],
  },
  {
    name: "settle-spends-nothing",
    kind: "N164, I9",
    file: "durable-objects/gate/money-table.ts",
    find: "      micros ?? 0,\n      attemptId,\n    );\n  }\n}",
    replace: "      0,\n      attemptId,\n    );\n  }\n}",
    seeds: 20,
    faults: [],
  },
  {
    name: "wrong-hardware-accepted",
    kind: "N84, I4",
    file: JUDGE,
    find: "  if (!accepted.includes(proof.gpuName))",
    replace: "  if (!accepted.includes(proof.gpuName) && proof.count > 1)",
    seeds: 120,
    faults: ["pod-wrong-proof"],
  },
  {
    name: "alarm-not-set-anew",
    kind: "N154, I7",
    file: GATE,
    find: "    this.#loop.recover();\n    const overdue = this.store.dueTasks(now - 5_000, 1000).length;",
    replace: "    const overdue = 0;",
    also: { find: "    this.#loop.arm();\n    const unnamed", replace: "    const unnamed" },
    seeds: 60,
    faults: ["alarm-lost"],
  },
  {
    name: "crash-repeats-the-create",
    kind: "N90, I1",
    file: "shared/lifecycle/tasks.ts",
    find: `  "create-pod": "lost",`,
    replace: `  "create-pod": "again",`,
    seeds: 300,
    faults: ["crash-gate", "runpod-slow"],
  },
  {
    name: "crash-forgets-the-task",
    kind: "N16, I7",
    file: "durable-objects/gate/loop.ts",
    find: "      for (const task of store.unfinishedTasks()) {",
    replace: "      for (const task of store.unfinishedTasks().slice(0, 0)) {",
    seeds: 60,
    faults: ["crash-gate"],
  },
  {
    name: "read-only-acts",
    kind: "N158, I12",
    file: GATE,
    find: "    if (this.#readOnly) return Promise.resolve();",
    replace: "",
    seeds: 60,
    faults: ["newer-schema"],
  },
  {
    name: "cut-answer-is-kept",
    kind: "N42, I7",
    file: "shared/github/wire.ts",
    find: "    if (!parsed.ok) return parsed;\n    if (status !== 304",
    replace:
      "    if (status !== 304 && etag !== null) etags?.set(key, { etag, text, link });\n    if (!parsed.ok) return parsed;\n    if (status !== 304",
    seeds: 100,
    faults: ["github-half-answer", "github-unreachable"],
  },
  {
    name: "twin-check-hangs",
    kind: "N96, I7",
    file: "durable-objects/gate/publish.ts",
    find: "    if (completed && (request.check.mayHaveTwins || written.mayHaveTwins)) {",
    replace: "    if (completed && now < 0) {",
    seeds: 300,
    faults: ["github-slow", "github-hangs"],
  },
  {
    name: "left-runner-stays",
    kind: "N72",
    file: "shared/lifecycle/left-runners.ts",
    find: '      return standing === "closed";',
    replace: "      return false;",
    seeds: 60,
    faults: ["github-keeps-runner", "pod-never-boots", "pod-runner-silent"],
  },
  {
    name: "needed-runner-is-left",
    kind: "N72",
    file: "durable-objects/gate/left-runners.ts",
    find: '  if (attempt === null) return "unheard";',
    replace: '  if (attempt !== null) return "closed";',
    // Once an hour the list seldom meets the minutes in which a machine starts.
    also: { find: "now - before.listedAt < LIST_EVERY_MS", replace: "now - before.listedAt < 60_000" },
    seeds: 60,
    faults: ["pod-never-boots", "pod-runner-silent"],
  },
  {
    name: "secret-in-the-log",
    kind: "N151, I5",
    file: PERFORM,
    find: "    secrets.keep(task.attemptId, {",
    replace:
      '    ports.log({ event: "runner.minted", jit: answer.value.jitConfig });\n    secrets.keep(task.attemptId, {',
    seeds: 20,
    faults: [],
  },
  {
    name: "stray-not-removed",
    kind: "N09, I3",
    file: "shared/lifecycle/reap.ts",
    find: `  if (gate.kind === "closed-attempt") return { kind: "reap", reason: "late-pod" };`,
    replace: `  if (gate.kind === "closed-attempt") return { kind: "keep", why: "active" };`,
    seeds: 60,
    faults: ["runpod-late-pod"],
  },
  {
    name: "ledger-closed-before-proof",
    kind: "N161, I2",
    file: "shared/lifecycle/states/cleaning.ts",
    find: "  const newlyProven = before.provenAt === null && move.teardown.provenAt !== null && state.attempt?.pod !== null;",
    replace:
      "  const newlyProven = before.deletedAt === null && move.teardown.deletedAt !== null && state.attempt?.pod !== null;",
    seeds: 60,
    faults: ["runpod-lives-on", "head-moves"],
  },
  {
    name: "start-is-not-looked-at",
    kind: "I11",
    file: RENTING,
    find: "  if (attempt.proof !== null && attempt.runner !== null && attempt.run !== null) {",
    replace: `  if (attempt.proof !== null && attempt.runner !== null && attempt.run?.runId === "") {`,
    seeds: 30,
    faults: [],
  },
];

export const MUTANTS: readonly Mutant[] = [...OWN, ...WORD_MUTANTS];

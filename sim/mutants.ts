/**
 * `node sim/mutants.ts [name ...]`: the simulator must catch bugs. Each mutant is one wrong line in the product, made in a
 * copy of the tree; its seeds are run until a checker objects. A mutant that survives its seeds, or whose line is no longer
 * there, fails the run. `--help` lists the options.
 */
import { availableParallelism } from "node:os";
import process from "node:process";
import type { FaultKind } from "./faults.ts";
import { tryMutant, type Mutant, type Outcome } from "./mutant-trial.ts";
import { misused, numberOf, optionsOf, type Command } from "./options.ts";

const CREATE_FAULTS: readonly FaultKind[] = ["runpod-done-but-500", "runpod-done-but-dropped", "runpod-list-lag"];
const PEOPLE: readonly FaultKind[] = ["head-moves", "pull-closes", "user-cancels", "operator-stops"];

/** Several pull requests at one head, and what becomes of them. */
const RIVALS: readonly FaultKind[] = ["same-head", "rival-fork", "rival-writer", "rival-acts"];

const NEEDS_ANSWER = "shared/lifecycle/needs-answer.ts";
const FORK_OVER_GREEN =
  "  if (!isGreen(last)) return last.prNumber === prNumber;\n  if (asking.fork === true && testedFor(ofHead).size > 0) return false;";
const TEARDOWN = "shared/lifecycle/teardown.ts";
const RENTING = "shared/lifecycle/states/renting.ts";
const JUDGE = "shared/lifecycle/judge.ts";
const GATE = "durable-objects/gate/gate.ts";
const LOCK = "durable-objects/gate/lock.ts";
const PERFORM = "durable-objects/gate/perform.ts";
const REMOVE_POD = "durable-objects/gate/remove-pod.ts";

export const MUTANTS: readonly Mutant[] = [
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
  {
    name: "audience-not-compared",
    kind: "tokens",
    file: "shared/oidc/verify.ts",
    find: "  if (claims.aud !== rules.audience) {",
    replace: `  if (claims.aud === "") {`,
    seeds: 40,
    faults: ["recovery", "validation", "own-lanes", "token-audience"],
  },
  {
    name: "signature-not-checked",
    kind: "tokens",
    file: "shared/oidc/jwks.ts",
    find: "        const { payload } = await compactVerify(token, key.value, { algorithms: [ALGORITHM] });",
    replace: `        const payload = Uint8Array.from(Buffer.from(token.split(".")[1] ?? "", "base64url"));`,
    seeds: 40,
    faults: ["recovery", "validation", "own-lanes", "token-forged"],
  },
  {
    name: "token-heard-twice",
    kind: "tokens",
    file: "durable-objects/gate/dispatched.ts",
    find: '.length > 0) return "spent";',
    replace: '.length > 0) return "fresh";',
    seeds: 40,
    faults: ["recovery", "validation", "own-lanes", "token-replayed"],
  },
  {
    name: "attempt-of-a-token-ignored",
    kind: "tokens",
    file: "shared/oidc/verify.ts",
    find: '  return claims.run_attempt === "1" ? null : { reason: "run-attempt", got: claims.run_attempt };',
    replace: "  return null;",
    seeds: 60,
    faults: ["recovery", "validation", "token-attempt"],
  },
  {
    name: "reading-of-a-run-ignored",
    kind: "tokens",
    file: "worker/workflow-caller.ts",
    find: "  const wrongRun = checkReadRun(claims, run.value);",
    replace: "  const wrongRun = claims.run_id === run.value.id ? null : checkReadRun(claims, run.value);",
    seeds: 40,
    faults: ["own-lanes", "token-attempt", "token-stranger"],
  },
  {
    name: "sweep-beside-a-living-cron",
    kind: "tokens",
    file: "worker/workflow-sweep.ts",
    find: "  if (last !== null && now - last.at < STALE_MS) {",
    replace: "  if (last !== null && now < last.at) {",
    seeds: 40,
    faults: ["sweep-asked"],
  },
  {
    name: "offline-machine-let-through",
    kind: "tokens",
    file: "shared/policy/probe.ts",
    find: '    if (status === "online") online = true;',
    replace: "    online = true;",
    seeds: 40,
    faults: ["own-lanes"],
  },
  {
    name: "a-reason-is-forgotten",
    kind: "N92, I7",
    file: "shared/lifecycle/verdict.ts",
    find: "  return { kind, reason, detail };",
    replace: `  return { kind, reason: kind === "superseded" ? "moved-on" : reason, detail };`,
    seeds: 40,
    faults: ["head-moves"],
  },
  {
    name: "fork-covers-a-green",
    kind: "shared",
    file: NEEDS_ANSWER,
    find: FORK_OVER_GREEN,
    replace: "  if (!isGreen(last)) return last.prNumber === prNumber;",
    seeds: 60,
    faults: RIVALS,
  },
  {
    name: "forks-refusal-stays",
    kind: "shared",
    file: NEEDS_ANSWER,
    find: FORK_OVER_GREEN,
    replace: "  if (!isGreen(last)) return last.prNumber === prNumber;",
    also: { find: "    isForks(last, word, said, asking)", replace: "    false" },
    seeds: 60,
    faults: RIVALS,
  },
  {
    name: "word-of-one-that-left-stays",
    kind: "shared",
    file: NEEDS_ANSWER,
    find: "    isOfOneThatLeft(last, word, asking) ||",
    replace: "",
    seeds: 60,
    faults: RIVALS,
  },
  {
    name: "heard-sender-forgotten",
    kind: "shared",
    file: NEEDS_ANSWER,
    find: "  return { id: heard.id, login: heard.login };",
    replace: "  return null;",
    seeds: 100,
    faults: RIVALS,
  },
  {
    name: "green-is-for-every-base",
    kind: "shared",
    file: NEEDS_ANSWER,
    find: "  return own === undefined || !isGreen(own);",
    replace: "  return own === undefined && last.openedAt < 0;",
    seeds: 60,
    faults: RIVALS,
  },
  {
    name: "re-run-asks-the-newest",
    kind: "shared",
    file: "shared/lifecycle/route.ts",
    find: "  const pressed = whose?.headSha === headSha ? whose : newest;",
    replace: "  const pressed = newest;",
    seeds: 60,
    faults: RIVALS,
  },
  {
    name: "anybodys-trigger-run",
    kind: "shared",
    file: "durable-objects/gate/observe.ts",
    find: "begun.find((one) => by(one)?.id === want.by);",
    replace: "begun[0];",
    seeds: 100,
    faults: RIVALS,
  },
  {
    name: "look-up-takes-a-strangers-run",
    kind: "runs",
    file: "shared/authorize/own-run.ts",
    find: "{ ...trusted, actor: login.value }",
    replace: "{ ...trusted, actor: null }",
    seeds: 60,
    faults: ["look-alike-run", "dispatch-without-id", "github-list-lag"],
  },
  {
    name: "account-books-nothing-spent",
    kind: "N164, I9",
    file: "durable-objects/account/money.ts",
    find: `    this.#settle(attemptId, repositoryId, "spent", micros, now);`,
    replace: `    this.#settle(attemptId, repositoryId, "spent", 0, now);`,
    seeds: 20,
    faults: [],
  },
  {
    name: "account-never-releases",
    kind: "N164, I9",
    file: "durable-objects/account/money.ts",
    find: `    if (known?.state === "reserved") this.#settle(`,
    replace: `    if (known?.state === "gone") this.#settle(`,
    seeds: 60,
    faults: null,
  },
  {
    name: "kept-longer-without-money",
    kind: "I9",
    file: "durable-objects/gate/retention.ts",
    find: "  if (until > retained.until) {",
    replace: "  if (until < 0) {",
    seeds: 60,
    faults: ["operator-acts", "keep-words", "keep-always", "job-fails"],
  },
  {
    name: "uninvited-cancel-beside-a-pod",
    kind: "N88, I8",
    file: "durable-objects/gate/uninvited.ts",
    find: "  if (current?.run?.runId === runId) return true;\n  return store",
    replace: "  return store.meta(runId) !== null && store",
    seeds: 60,
    faults: ["user-reruns", "runpod-lives-on", "pod-lost-mid-job"],
  },
  {
    name: "comparison-opens-nothing",
    kind: "N51, I7",
    file: "durable-objects/gate/reconcile.ts",
    find: "    let opened = hands.openIfUnknown(what, { ...fork, hasLeft });",
    replace: "    let opened: string | null = null;",
    seeds: 60,
    faults: ["hook-unlisted", "hook-dropped"],
  },
];

const COMMAND: Command = {
  name: "npm run sim:mutants",
  usage: `npm run sim:mutants -- [options] [name ...]

  --list      names only
  --seeds N   most seeds for each, instead of its own number
  --jobs N    so many at a time (one for each core)
`,
};

const { values, positionals } = optionsOf(COMMAND, {
  allowPositionals: true,
  options: { list: { type: "boolean", default: false }, seeds: { type: "string" }, jobs: { type: "string" } },
});
const strange = positionals.filter((name) => !MUTANTS.some((mutant) => mutant.name === name));
if (strange.length > 0) misused(COMMAND, `there is no mutant called ${strange.join(", ")}; --list names them all.`);
const atMost = values.seeds === undefined ? null : numberOf(COMMAND, "seeds", values.seeds, { least: 1 });
const jobs = values.jobs === undefined ? availableParallelism() : numberOf(COMMAND, "jobs", values.jobs, { least: 1 });
if (values.list) {
  for (const mutant of MUTANTS) console.log(mutant.name);
} else {
  const chosen = MUTANTS.filter((mutant) => positionals.length === 0 || positionals.includes(mutant.name));
  const outcomes: Outcome[] = [];
  const waiting = [...chosen];
  const work = async (): Promise<void> => {
    for (let mutant = waiting.shift(); mutant !== undefined; mutant = waiting.shift()) {
      const outcome = await tryMutant(mutant, atMost ?? mutant.seeds);
      outcomes.push(outcome);
      const { verdict, seconds, how } = outcome;
      const name = mutant.name.padEnd(30);
      console.log(`${verdict.padEnd(8)} ${name} ${mutant.kind.padEnd(10)} ${seconds.toFixed(0).padStart(4)} s  ${how}`);
    }
  };
  await Promise.all(Array.from({ length: jobs }, work));
  const bad = outcomes.filter((outcome) => outcome.verdict !== "caught");
  console.log(`${outcomes.length - bad.length} of ${outcomes.length} mutants caught`);
  process.exitCode = bad.length === 0 ? 0 : 1;
}

/**
 * What people do: open pull requests, push, close, cancel, re-run, approve. Drawn from the seed at the start, as a list of
 * acts in time, so that a shrunk history keeps the acts of the full one.
 */
import { verdict } from "../shared/lifecycle/verdict.ts";
import type { Faults } from "./faults.ts";
import {
  ACTIONS_APP_ID,
  APP_ID,
  CI,
  EXECUTE,
  PREPARE,
  type CheckRun,
  type File,
  type Pull,
  type Repository,
  type User,
} from "./github-model.ts";
import { foreignCheck } from "./github-checks.ts";
import { checkJson } from "./github-json.ts";
import { BASES, changePull, commentOn, labelPull, openPull, pushTo } from "./github-pulls.ts";
import { cancelRun, runAgain } from "./github-runs.ts";
import type { GateHost } from "./hosts.ts";
import { Prng } from "./prng.ts";
import type { Scheduler } from "./scheduler.ts";
import type { Trace } from "./trace.ts";

export interface PeopleSurroundings {
  readonly seed: number;
  readonly scheduler: Scheduler;
  readonly faults: Faults;
  readonly trace: Trace;
  readonly horizonMs: number;
  /** At most so many pull requests for each repository; the shrinker lowers it. */
  readonly maxPulls: number;
}

const CODE: File[] = [{ filename: "src/kernel.rs", status: "modified" }];
const DOCS: File[] = [{ filename: "docs/guide.md", status: "modified" }];

/** A maintainers' own machine: its lane, its switch and its labels. */
export const OWN_LABELS = ["self-hosted", "linux", "gpu-full"];
export const OWN_SWITCH = "GPU_COVERAGE_ENABLED";
export const AGGREGATE = "Required checks";

/** Who opens one more pull request at a head: somebody who may spend, a stranger from a fork, or a writer who may not. */
const RIVALS = ["same-head", "rival-fork", "rival-writer"] as const;

const CI_FILES: File[] = [{ filename: "ci/tools.py", status: "modified" }];

/** The repository's configuration file, drawn from the seed. */
export function drawConfig(
  rng: Prng,
  faults: Faults,
  dearest: number,
): { readonly text: string; readonly limits: Readonly<Record<string, number>>; readonly keepAlways: boolean } {
  const start = rng.weighted({ auto: 8, label: 1, comment: 1, approval: 1 });
  const small = faults.strikes("small-budget", 0.9);
  const tiny = faults.strikes("tiny-budget", 0.9)
    ? rng.pick([
        { per_run: 0.25, per_day: 1 },
        { per_run: 1, per_day: 1 },
      ])
    : null;
  const narrow = faults.strikes("narrow-caps", 0.8) ? faults.stream("narrow-caps").pick(NARROW) : null;
  const budget = {
    per_run: small ? rng.pick([2, 4]) : 20,
    per_day: small ? rng.pick([4, 6]) : 100,
    per_month: 1_000,
    ...tiny,
    ...(narrow === null ? {} : { [narrow]: narrowCap(faults, dearest) }),
  };
  const keepAlways = faults.strikes("keep-always", 0.6);
  const some = faults.strikes("tight-limits", 0.5) ? rng.int(1, 2) : null;
  const attempts = faults.strikes("few-attempts", 0.9) ? 1 : some;
  const limits: Record<string, number> = faults.strikes("tight-limits", 0.7) ? tightLimits(rng) : {};
  // Counted from the create, so that it ends what is allowed to live as long from its start.
  if (faults.strikes("tight-backstop", 0.9)) {
    const seconds = rng.int(1_000, 2_000);
    Object.assign(limits, { setup: Math.min(seconds, 900), lifetime: seconds, backstop: seconds + rng.int(0, 20) });
  }
  const lines = [
    "version: 1",
    `start: ${start}`,
    "paths: { docs: { prefixes: [docs/] }, ci: { prefixes: [ci/] } }",
    rng.chance(0.6) ? "pre_gate: [rustfmt, clippy]" : "pre_gate: []",
    `tested_revision: ${rng.chance(0.7) ? "merge" : "head"}`,
    `budget: { ${Object.entries(budget)
      .map(([name, usd]) => `${name}: ${usd}`)
      .join(", ")} }`,
    rng.chance(0.8) ? "" : "workflows: { trigger: none }",
    `merge_queue: { policy: ${rng.chance(0.5) ? "run" : "reuse"}, pre_gate: ${rng.chance(0.5) ? "[]" : "[rustfmt, clippy]"} }`,
    keepAlways ? `retention: { keep_on_failure: true, duration: ${rng.int(300, 5_400)} }` : "",
    faults.strikes("organization-runners", 0.7) ? 'runner: { scope: organization, group_id: "7" }' : "",
    attempts === null ? "" : `gpu: { max_attempts: ${attempts} }`,
    faults.strikes("shadow", 0.4) ? "shadow: true" : "",
    faults.strikes("quiet-period", 0.8) ? `quiet_period: ${faults.stream("quiet-period").int(20, 400)}` : "",
    Object.keys(limits).length === 0
      ? ""
      : `limits: { ${Object.entries(limits)
          .map(([name, value]) => `${name}: ${value}`)
          .join(", ")} }`,
    ...(faults.strikes("own-lanes", 0.7) ? ownLanes(rng) : []),
  ];
  return { text: lines.filter((line) => line !== "").join("\n"), limits, keepAlways };
}

/** USD: enough to set aside for one attempt, or two, and for little that was spent before. `dearest`: of a GPU, for an hour. */
export function narrowCap(faults: Faults, dearest: number): number {
  const stream = faults.stream("narrow-caps");
  const aside = dearest * RESERVED_HOURS * stream.pick([1, 1, 1, 2]);
  return Math.ceil((aside + stream.pick([0.002, 0.005, 0.01, 0.03])) * 10_000) / 10_000;
}

/** The caps of which one is narrow; that of one run is so by other faults. */
const NARROW = ["per_pr", "per_author", "per_day", "per_month"] as const;

/** What is set aside for an attempt: setup, tests and removal at their longest (4,320 s). */
const RESERVED_HOURS = 1.2;

/** Times so short that they run out in a world that is only a little slow. */
function tightLimits(rng: Prng): Record<string, number> {
  const limits: Record<string, number> = {};
  if (rng.chance(0.5)) limits["queue_wait"] = rng.int(60, 900);
  if (rng.chance(0.5)) limits["setup"] = rng.int(120, 400);
  if (rng.chance(0.5)) limits["lifetime"] = rng.int(500, 1_200);
  if (rng.chance(0.3)) limits["backstop"] = rng.int(1_300, 3_600);
  if (rng.chance(0.3)) limits["preparation"] = rng.int(300, 1_200);
  if (rng.chance(0.3)) limits["deletion_unproven"] = rng.int(60, 300);
  // What may take no longer than the rest of its life is written so, or the file is refused.
  const lifetime = limits["lifetime"];
  if (lifetime !== undefined) limits["setup"] = Math.min(limits["setup"] ?? 900, lifetime);
  return limits;
}

function ownLanes(rng: Prng): readonly string[] {
  // Whose check of that name counts; left open, everybody's does.
  const pinned = rng.chance(0.5) ? `, app_id: "${ACTIONS_APP_ID}"` : "";
  const own = `own: { runs_on: [${OWN_LABELS.join(", ")}], switch: ${OWN_SWITCH}, probe: Probe }`;
  return [
    `lanes: { gpu: {}, coverage_gpu: { checks: [Coverage GPU], ${own} } }`,
    `required_checks: [{ name: rustfmt }, { name: clippy, report: must${pinned} }, { name: Coverage GPU }]`,
    `aggregator: { name: ${AGGREGATE}, timeout: ${rng.int(1_800, 7_200)} }`,
  ];
}

export class People {
  readonly #around: PeopleSurroundings;
  readonly #rng: Prng;

  constructor(around: PeopleSurroundings) {
    this.#around = around;
    this.#rng = new Prng(around.seed, "people");
  }

  /** Plans the acts of one repository. */
  arrive(repository: Repository, host: () => GateHost): void {
    const { scheduler, horizonMs, maxPulls } = this.#around;
    const rng = this.#rng;
    const count = rng.int(3, 9);
    for (let index = 0; index < count; index += 1) {
      const at = index === 0 ? 1_000 : rng.int(1_000, Math.floor(horizonMs * 0.6));
      const usual = repository.users[rng.int(0, 9) === 0 ? 2 : rng.int(0, 1)] ?? repository.users[0];
      const author = this.#around.faults.strikes("strange-author", 0.5) ? repository.users[3] : usual;
      const files = rng.chance(0.85) ? CODE : rng.chance(0.7) ? DOCS : CI_FILES;
      const fork = rng.chance(this.#around.faults.on("fork-deleted") ? 0.4 : 0.06);
      const draft = this.#around.faults.strikes("pull-draft", 0.3);
      if (index >= maxPulls || author === undefined) continue;
      scheduler.in(at, "pull request", () => {
        const pull = openPull(repository, author, files, draft, fork);
        this.#disturb(repository, pull, author);
      });
    }
    this.#sometimes("role-revoked", 0.3, () => {
      const user = rng.pick(repository.users);
      user.role = "read";
      this.#around.trace.note(`${user.login} may only read now`);
    });
    for (let times = 0; times < 2; times += 1) {
      this.#sometimes("config-changes", 0.5, () => {
        const text = `${repository.config}\n# changed`;
        repository.commitToMain({ config: text.replace(/per_month: \d+/, `per_month: ${rng.int(900, 999)}`) });
      });
    }
    this.#sometimes("config-breaks", 0.5, () => {
      const before = repository.config;
      this.#around.trace.note(`${repository.name}: the configuration is broken`);
      repository.commitToMain({ config: rng.chance(0.5) ? "" : `${before}\nnonsense: 1` });
      repository.configBefore = before;
      this.#around.scheduler.in(rng.int(10_000, 1_800_000), "configuration repaired", () => repository.repairConfig());
    });
    this.#sometimes("workflow-changes", 0.5, () => {
      repository.commitToMain({ blobs: [rng.pick([PREPARE, EXECUTE])] });
    });
    if (repository.config.includes("aggregator:")) this.#ownMachines(repository);
    if (this.#around.faults.strikes("queue-short", 0.9)) repository.queueMinutes = rng.pick([5, 6, 8, 15]);
    repository.onRunEnd = (run) => {
      const { faults } = this.#around;
      const by = repository.users[0];
      if (run.conclusion !== "failure" || run.attempt !== 1 || by === undefined) return;
      // A light check that failed by chance is run again by whoever sees it.
      const kind = run.path === CI ? "user-reruns" : "rerun-at-once";
      if (!faults.strikes(kind, run.path === CI ? 0.5 : 0.9)) return;
      const after = run.path === CI ? faults.stream(kind).int(5_000, 600_000) : faults.stream(kind).int(500, 15_000);
      scheduler.in(after, "it is run again", () => runAgain(repository, run, by));
    };
    for (let times = 0; times < 3; times += 1) {
      this.#sometimes("user-cancels", 0.5, () => {
        const run = [...repository.runs.values()].filter((one) => one.path !== CI && one.status !== "completed").at(-1);
        if (run !== undefined) cancelRun(repository, run, true);
      });
      this.#sometimes("user-reruns", 0.5, () => {
        const run = [...repository.runs.values()].filter((one) => one.status === "completed" && !one.gone).at(-1);
        // Whoever may write may press the button, and need not be one who may spend.
        const user = repository.users[this.#around.faults.stream("user-reruns").chance(0.25) ? 2 : 0];
        if (run !== undefined && user !== undefined) runAgain(repository, run, user);
      });
      this.#sometimes("operator-stops", 0.5, () => {
        if (!host().up) return;
        const open = host().gate.store.openRequests().at(-1);
        if (open === undefined) return;
        this.#around.trace.note(`the operator stops ${open.id}`);
        host().inside((gate) => gate.stop(open.id, verdict("cancelled", "cancelled-by-operator", "Stopped.")));
      });
    }
  }

  /** A day's pull requests of one repository: most between morning and evening, each left alone once it is open. */
  crowd(repository: Repository, count: number): void {
    const { scheduler, horizonMs } = this.#around;
    const rng = this.#rng;
    for (let index = 0; index < count; index += 1) {
      const share = rng.chance(0.75) ? 0.1 + 0.5 * rng.next() : rng.next();
      const author = repository.users[rng.int(0, 1)];
      const files = rng.chance(0.8) ? CODE : rng.chance(0.7) ? DOCS : CI_FILES;
      if (author === undefined) continue;
      scheduler.in(Math.floor(share * horizonMs * 0.95), "pull request", () => {
        const pull = openPull(repository, author, files, false, false);
        if (rng.chance(0.15)) {
          scheduler.in(rng.int(60_000, 3_600_000), "push", () => {
            if (pull.state === "open") pushTo(repository, pull, author, rng.hex(40), files);
          });
        }
        // Most are merged or closed within the day, which keeps the list of open ones what it is in life.
        scheduler.in(rng.int(3_600_000, 14_400_000), "merged", () => changePull(repository, pull, author, "closed"));
      });
    }
  }

  /** A check of ours was concluded: somebody reads it. */
  read(repository: Repository, check: CheckRun): void {
    const { scheduler, faults } = this.#around;
    const pull = [...repository.pulls.values()].find((one) => one.headSha === check.headSha);
    const maintainer = repository.users[0];
    if (pull === undefined || maintainer === undefined || check.status !== "completed") return;
    // Most of what another pull request can do to this one it does once this one has its answer.
    for (const kind of RIVALS) {
      if (check.conclusion !== "success" || repository.sharedHeads.has(check.headSha) || !faults.strikes(kind, 0.4))
        continue;
      const after = faults.stream(kind).int(1_000, 600_000);
      scheduler.in(after, "another pull request at the head", () => {
        if (faults.on(kind)) this.#rival(repository, pull, kind);
      });
    }
    if (check.conclusion === "action_required" && check.title === "Waiting for a maintainer" && this.#rng.chance(0.8)) {
      scheduler.in(this.#rng.int(5_000, 300_000), "approval", () => this.#approve(repository, pull, maintainer, check));
      return;
    }
    if (check.conclusion !== "success" && faults.strikes("user-rerequests", 0.3)) {
      scheduler.in(this.#rng.int(1_000, 120_000), "re-requested", () => {
        repository.askAgain(check.headSha);
        repository.tell("check_run", "rerequested", maintainer, { check_run: checkJson(check) });
      });
    }
  }

  /** The maintainers' own machines come and go, and so does their switch; the lane's check is made by CI. */
  #ownMachines(repository: Repository): void {
    const { scheduler, horizonMs } = this.#around;
    const rng = this.#rng;
    const turn = (): void => {
      const value = rng.pick(["true", "true", "false", null]);
      if (value === null || value === undefined) repository.variables.delete(OWN_SWITCH);
      else repository.variables.set(OWN_SWITCH, value);
      // Set up anew, with or without all that the lane asks for.
      const labels = rng.chance(0.3) ? OWN_LABELS.slice(0, 2) : OWN_LABELS;
      repository.ownRunners.splice(0, 1, { id: "77001", name: "own", labels, status: "offline", busy: false });
      const runner = repository.ownRunners[0];
      if (runner !== undefined) {
        runner.status = rng.chance(0.6) ? "online" : "offline";
        runner.busy = rng.chance(0.3);
      }
      const ready = runner?.status === "online" && OWN_LABELS.every((label) => labels.includes(label));
      repository.ownTurns.push({ at: scheduler.now, on: value === "true", ready });
      scheduler.in(rng.int(60_000, Math.max(60_001, Math.floor(horizonMs / 3))), "own machines change", turn);
    };
    turn();
  }

  #approve(repository: Repository, pull: Pull, by: User, check: CheckRun): void {
    const start = /start: (\w+)/.exec(repository.config)?.[1];
    // The button stays where it is when the head moves: whoever presses it then has approved what is no longer there.
    if (pull.headSha !== check.headSha && start !== "approval") return;
    if (start === "label") return labelPull(repository, pull, by, "run-gpu");
    if (start === "comment") {
      const keeps = this.#around.faults.strikes("keep-words", 0.5);
      if (keeps) repository.keepHeads.add(pull.headSha);
      return commentOn(repository, pull, by, keeps ? `/gpu run keep ${this.#rng.int(1, 90)}` : "/gpu run");
    }
    repository.ask(check.headSha);
    if (start === "approval") {
      repository.tell("check_run", "requested_action", by, {
        check_run: checkJson(check),
        requested_action: { identifier: "approve-gpu-run" },
      });
      return;
    }
    repository.tell("check_run", "rerequested", by, { check_run: checkJson(check) });
  }

  #disturb(repository: Repository, pull: Pull, author: User): void {
    const { faults, horizonMs } = this.#around;
    const before = pull.headSha;
    for (let times = 0; times < 2; times += 1) {
      this.#sometimes("head-moves", 0.4, () => {
        if (pull.state === "open")
          pushTo(repository, pull, author, this.#rng.hex(40), this.#rng.chance(0.8) ? CODE : DOCS);
      });
    }
    this.#sometimes("head-moves-back", 0.4, () => {
      if (pull.state === "open" && pull.headSha !== before) pushTo(repository, pull, author, before, CODE);
    });
    for (const kind of RIVALS) this.#sometimes(kind, 0.9, () => this.#rival(repository, pull, kind));
    this.#sometimes("empty-commit", 0.5, () => {
      if (pull.state === "open") pushTo(repository, pull, author, this.#rng.hex(40), pull.files, true);
    });
    for (let times = 0; times < 2; times += 1) {
      this.#sometimes("foreign-check", 0.9, () => {
        const stream = faults.stream("foreign-check");
        const name = stream.pick([AGGREGATE, "clippy", "clippy", "CI GPU gate"]);
        foreignCheck(repository, pull.headSha, name, stream.chance(0.6) ? "success" : "failure");
      });
    }
    this.#sometimes("merge-conflict", 0.4, () => {
      pull.conflict = true;
      this.#around.scheduler.in(this.#rng.int(60_000, 3_600_000), "conflict resolved", () => (pull.conflict = false));
    });
    this.#sometimes("fork-deleted", 0.5, () => {
      if (pull.headRepositoryId !== repository.id) pull.headRepositoryId = null;
    });
    this.#sometimes("pull-closes", 0.4, () => {
      if (pull.state !== "open") return;
      changePull(repository, pull, author, "closed");
      if (!faults.strikes("pull-reopens", 0.6)) return;
      this.#around.scheduler.in(this.#rng.int(500, Math.floor(horizonMs * 0.2)), "reopened", () => {
        changePull(repository, pull, author, "reopened");
        // In a healed world nobody comes back to make it ready, and a draft's aggregate waits for that.
        if (faults.healed && pull.draft) changePull(repository, pull, author, "ready_for_review");
      });
    });
    this.#sometimes("base-changes", 0.3, () => changePull(repository, pull, author, "edited"));
    this.#sometimes("pull-to-draft", 0.7, () => {
      if (pull.state !== "open" || pull.draft) return;
      changePull(repository, pull, author, "converted_to_draft");
      const later = faults.stream("pull-to-draft").int(5_000, Math.floor(horizonMs * 0.4));
      this.#around.scheduler.in(later, "ready again", () => {
        if (pull.state === "open" && pull.draft) changePull(repository, pull, author, "ready_for_review");
      });
    });
    if (pull.draft) {
      this.#around.scheduler.in(this.#rng.int(10_000, Math.floor(horizonMs * 0.5)), "ready", () => {
        if (pull.draft) changePull(repository, pull, author, "ready_for_review");
      });
    }
  }

  /** Somebody opens one more pull request at this one's head, and does not leave it alone. */
  #rival(repository: Repository, pull: Pull, kind: (typeof RIVALS)[number]): void {
    const { faults, scheduler } = this.#around;
    const stream = faults.stream(kind);
    const [maintainer, admin, writer, stranger] = repository.users;
    const by = { "same-head": stream.chance(0.5) ? maintainer : admin, "rival-writer": writer, "rival-fork": stranger }[
      kind
    ];
    const bases = BASES.filter((base) => base !== pull.baseRef);
    const baseRef = stream.chance(0.75) ? stream.pick(bases) : pull.baseRef;
    const files = stream.pick([CODE, DOCS]);
    if (pull.state !== "open" || by === undefined) return;
    const rival = openPull(repository, by, files, false, kind === "rival-fork", pull, baseRef);
    const acts = faults.stream("rival-acts");
    for (let times = 0; times < 3; times += 1) {
      if (!faults.strikes("rival-acts", 0.6)) continue;
      const at = acts.int(500, acts.chance(0.4) ? 60_000 : 1_800_000);
      const which = acts.chance(0.8) ? rival : pull;
      const whose = which === rival ? by : (maintainer ?? by);
      const act = acts.pick(["close", "close", "retarget", "push away", "reopen", "re-run"] as const);
      scheduler.in(at, `rival ${act}`, () => {
        if (faults.on("rival-acts")) this.#actOn(repository, which, whose, act);
      });
    }
  }

  #actOn(
    repository: Repository,
    pull: Pull,
    by: User,
    act: "close" | "retarget" | "push away" | "reopen" | "re-run",
  ): void {
    const stream = this.#around.faults.stream("rival-acts");
    if (act === "reopen") {
      if (pull.state === "closed") changePull(repository, pull, by, "reopened");
      return;
    }
    if (pull.state !== "open") return;
    if (act === "close") return changePull(repository, pull, by, "closed");
    if (act === "push away") return pushTo(repository, pull, by, stream.hex(40), stream.pick([CODE, DOCS]));
    if (act === "retarget") {
      const baseRef = stream.pick(BASES.filter((base) => base !== pull.baseRef));
      const to = { baseRef, files: stream.pick([CODE, DOCS]) };
      return changePull(repository, pull, by, "edited", to);
    }
    // The button is on every check of the commit, of whichever pull request it speaks; a stranger has none.
    const ours = [...repository.checks.values()].filter(
      ({ appId, headSha, status, name }) =>
        appId === APP_ID && headSha === pull.headSha && status === "completed" && name !== AGGREGATE,
    );
    if (ours.length === 0) return;
    const check = stream.pick(ours);
    const [maintainer, , writer] = repository.users;
    const presses = stream.chance(0.8) ? maintainer : writer;
    if (presses === undefined) return;
    repository.askAgain(check.headSha);
    repository.ask(check.headSha);
    repository.tell("check_run", "rerequested", presses, { check_run: checkJson(check) });
  }

  /** Plans an act at a random instant of the time that is left; quick ones are as likely as late ones. */
  #sometimes(kind: Parameters<Faults["strikes"]>[0], chance: number, act: () => void): void {
    const { faults, scheduler, horizonMs } = this.#around;
    if (!faults.strikes(kind, chance)) return;
    const stream = faults.stream(kind);
    const span = stream.chance(0.4) ? 60_000 : stream.chance(0.6) ? 900_000 : horizonMs;
    scheduler.in(stream.int(1, span), `act ${kind}`, () => {
      if (faults.on(kind)) act();
    });
  }
}

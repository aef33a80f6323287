/**
 * What people do: open pull requests, push, close, cancel, re-run, approve. Drawn from the seed at the start, as a list of
 * acts in time, so that a shrunk history keeps the acts of the full one.
 */
import { verdict } from "../shared/lifecycle/verdict.ts";
import type { Faults } from "./faults.ts";
import {
  CI,
  checkJson,
  EXECUTE,
  PREPARE,
  type CheckRun,
  type File,
  type Pull,
  type Repository,
  type User,
} from "./github-model.ts";
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

/** The repository's configuration file, drawn from the seed. */
export function drawConfig(rng: Prng, faults: Faults): { text: string; start: string } {
  const start = rng.weighted({ auto: 8, label: 1, comment: 1, approval: 1 });
  const small = faults.on("small-budget");
  const lines = [
    "version: 1",
    `start: ${start}`,
    "paths: { docs: { prefixes: [docs/] } }",
    rng.chance(0.6) ? "pre_gate: [rustfmt, clippy]" : "pre_gate: []",
    `tested_revision: ${rng.chance(0.7) ? "merge" : "head"}`,
    `budget: { per_run: ${small ? rng.pick([2, 4]) : 20}, per_day: ${small ? rng.pick([4, 6]) : 100}, per_month: 1000 }`,
    rng.chance(0.8) ? "" : "workflows: { trigger: none }",
  ];
  return { text: lines.filter((line) => line !== "").join("\n"), start };
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
    const count = rng.int(1, 4);
    for (let index = 0; index < count; index += 1) {
      const at = index === 0 ? 1_000 : rng.int(1_000, Math.floor(horizonMs * 0.6));
      const author = repository.users[rng.int(0, 9) === 0 ? 2 : rng.int(0, 1)] ?? repository.users[0];
      const files = rng.chance(0.85) ? CODE : DOCS;
      const fork = rng.chance(0.06);
      const draft = this.#around.faults.strikes("pull-draft", 0.3);
      if (index >= maxPulls || author === undefined) continue;
      scheduler.in(at, "pull request", () => {
        const pull = repository.openPull(author, files, draft, fork);
        this.#disturb(repository, pull, author);
      });
    }
    this.#sometimes("role-revoked", 0.3, () => {
      const user = rng.pick(repository.users);
      user.role = "read";
      this.#around.trace.note(`${user.login} may only read now`);
    });
    this.#sometimes("config-changes", 0.5, () => {
      repository.config += "\n# changed";
      repository.config = repository.config.replace("per_month: 1000", `per_month: ${rng.int(900, 999)}`);
      repository.mainSha = rng.hex(40);
    });
    this.#sometimes("workflow-changes", 0.5, () => {
      repository.blobs[rng.pick([PREPARE, EXECUTE])] = rng.hex(40);
      repository.mainSha = rng.hex(40);
    });
    for (let times = 0; times < 3; times += 1) {
      this.#sometimes("user-cancels", 0.5, () => {
        const run = [...repository.runs.values()].filter((one) => one.path !== CI && one.status !== "completed").at(-1);
        if (run !== undefined) repository.cancel(run, true);
      });
      this.#sometimes("user-reruns", 0.5, () => {
        const run = [...repository.runs.values()].filter((one) => one.status === "completed" && !one.gone).at(-1);
        const user = repository.users[0];
        if (run !== undefined && user !== undefined) repository.rerun(run, user);
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

  /** A check of ours was concluded: somebody reads it. */
  read(repository: Repository, check: CheckRun): void {
    const { scheduler, faults } = this.#around;
    const pull = [...repository.pulls.values()].find((one) => one.headSha === check.headSha);
    const maintainer = repository.users[0];
    if (pull === undefined || maintainer === undefined || check.status !== "completed") return;
    if (check.conclusion === "action_required" && check.title === "Waiting for a maintainer" && this.#rng.chance(0.8)) {
      scheduler.in(this.#rng.int(5_000, 300_000), "approval", () => this.#approve(repository, pull, maintainer, check));
      return;
    }
    if (check.conclusion !== "success" && faults.strikes("user-rerequests", 0.3)) {
      scheduler.in(this.#rng.int(1_000, 120_000), "re-requested", () => {
        repository.ask(check.headSha);
        repository.tell("check_run", "rerequested", maintainer, { check_run: checkJson(check) });
      });
    }
  }

  #approve(repository: Repository, pull: Pull, by: User, check: CheckRun): void {
    if (pull.headSha !== check.headSha) return;
    const start = /start: (\w+)/.exec(repository.config)?.[1];
    if (start === "label") return repository.label(pull, by, "run-gpu");
    if (start === "comment") return repository.comment(pull, by, "/gpu run");
    repository.ask(pull.headSha);
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
          repository.push(pull, author, this.#rng.hex(40), this.#rng.chance(0.8) ? CODE : DOCS);
      });
    }
    this.#sometimes("head-moves-back", 0.4, () => {
      if (pull.state === "open" && pull.headSha !== before) repository.push(pull, author, before, CODE);
    });
    this.#sometimes("pull-closes", 0.4, () => {
      if (pull.state !== "open") return;
      repository.change(pull, author, "closed");
      if (!faults.strikes("pull-reopens", 0.6)) return;
      this.#around.scheduler.in(this.#rng.int(500, Math.floor(horizonMs * 0.2)), "reopened", () =>
        repository.change(pull, author, "reopened"),
      );
    });
    this.#sometimes("base-changes", 0.3, () => repository.change(pull, author, "edited"));
    if (pull.draft) {
      this.#around.scheduler.in(this.#rng.int(10_000, Math.floor(horizonMs * 0.5)), "ready", () => {
        if (pull.draft) repository.change(pull, author, "ready_for_review");
      });
    }
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

/**
 * What maintainers and the operator do beside pull requests: queue merges, ask for recoveries and validations, keep pods,
 * stop, force, release and approve. Drawn from the seed; each kind can be switched off like a fault.
 */
import { operatorActions } from "../durable-objects/gate/operator.ts";
import type { Gate } from "../durable-objects/gate/gate.ts";
import type { Faults, FaultKind } from "./faults.ts";
import { type CheckRun, type MergeGroup, type Pull, type Repository } from "./github-model.ts";
import { endGroup, queuePulls } from "./github-queue.ts";
import type { GateHost } from "./hosts.ts";
import type { HostedJobs } from "./jobs.ts";
import { Prng } from "./prng.ts";
import type { Scheduler } from "./scheduler.ts";
import type { Trace } from "./trace.ts";

export interface OperatorSurroundings {
  readonly seed: number;
  readonly scheduler: Scheduler;
  readonly faults: Faults;
  readonly trace: Trace;
  readonly horizonMs: number;
  readonly jobs: HostedJobs;
  /** A call of the Worker's to a gate; rejects when the gate does not answer. */
  readonly call: <T>(host: GateHost, what: string, body: (gate: Gate) => T | Promise<T>) => Promise<T>;
}

export class Operators {
  readonly #around: OperatorSurroundings;
  readonly #rng: Prng;

  constructor(around: OperatorSurroundings) {
    this.#around = around;
    this.#rng = new Prng(around.seed, "operators");
  }

  arrive(host: GateHost): void {
    for (let times = 0; times < 3; times += 1) {
      this.#sometimes("operator-acts", 0.6, () => this.#operate(host));
      this.#sometimes("keep-words", 0.6, () => this.#keep(host));
      this.#sometimes("recovery", 0.5, () => this.#dispatch(host, "recovery"));
      this.#sometimes("validation", 0.5, () => this.#dispatch(host, "validation"));
    }
  }

  /** A check of ours has its conclusion. */
  read(host: GateHost, check: CheckRun): void {
    const { repository } = host;
    const group = repository.groups.get(check.headSha);
    if (group !== undefined) return this.#groupTold(repository, group, check);
    const pull = [...repository.pulls.values()].find((one) => one.headSha === check.headSha);
    const { faults, scheduler } = this.#around;
    if (pull === undefined || pull.state !== "open") return;
    if (check.conclusion === "success" && faults.strikes("merge-queue", 0.5)) {
      scheduler.in(this.#rng.int(1_000, 120_000), "queued for merging", () => this.#queue(repository, pull));
    }
    if (check.title.toLowerCase().includes("budget") && faults.strikes("operator-acts", 0.6)) {
      const request = check.externalId?.split(":")[0] ?? "";
      const micros = this.#rng.int(1, 6) * 1_000_000;
      scheduler.in(this.#rng.int(5_000, 300_000), "approved over budget", () => {
        repository.ask(check.headSha);
        void this.#word(host, "approve", request, micros);
      });
    }
  }

  #operate(host: GateHost): void {
    if (!host.up) return;
    const requests = host.gate.store.recentRequests(5);
    if (requests.length === 0) return;
    const request = this.#rng.pick(requests);
    if (request === undefined) return;
    const action = this.#rng.pick([...operatorActions]);
    if (action === "approve") host.repository.ask(request.headSha);
    void this.#word(host, action, request.id, this.#rng.int(0, 5) * 1_000_000);
  }

  async #word(host: GateHost, action: (typeof operatorActions)[number], requestId: string, micros: number) {
    const word = { action, requestId, by: "operator", reason: "because", micros } as const;
    this.#around.trace.note(`the operator says ${action} to ${requestId}`);
    try {
      const answer = await this.#around.call(host, `operator ${action}`, (gate) => {
        const done = gate.operator(word);
        // Noted where it happens: the answer may be lost, and the word counts all the same.
        const opened = /^Request (\S+) may cost/.exec(done.detail)?.[1];
        if (opened !== undefined) host.lifted.set(opened, micros);
        return done;
      });
      this.#around.trace.note(`operator ${action} of ${requestId}: ${answer.detail}`);
    } catch {
      this.#around.trace.note(`operator ${action}: no answer`);
    }
  }

  /** A word about what is under way, or about a pod that is kept already. */
  #keep(host: GateHost): void {
    if (!host.up) return;
    const kept = host.sql.exec<{ pod_id: string }>(
      "SELECT pod_id FROM strays WHERE why = 'retained' AND done_at IS NULL ORDER BY pod_id",
    )[0];
    const open = host.gate.store.openRequests().at(-1);
    const minutes = this.#rng.pick([0, 5, 30, 60, 120, 400]) ?? 30;
    const target =
      kept !== undefined && this.#rng.chance(0.6)
        ? { podId: kept.pod_id }
        : open === undefined
          ? null
          : { requestId: open.id };
    if (target === null) return;
    if ("requestId" in target) host.keepAsked.add(target.requestId);
    const word = { target, by: "maintainer0", minutes, reason: "to look" };
    void this.#around
      .call(host, "retain", (gate) => gate.retain(word))
      .then(
        (answer) => this.#around.trace.note(`keep ${JSON.stringify(target)} ${minutes} min: ${answer.kind}`),
        () => this.#around.trace.note("keep: no answer"),
      );
  }

  /** A maintainer dispatches a run, whose job asks the Worker. */
  #dispatch(host: GateHost, kind: "recovery" | "validation"): void {
    const { repository } = host;
    const by = repository.users[this.#rng.int(0, 4) === 0 ? 2 : 0];
    const ask = this.#ask(repository, kind);
    if (by === undefined || ask === null) return;
    const keep = this.#rng.chance(0.3) ? { keep_minutes: this.#rng.int(5, 90) } : {};
    this.#around.jobs.open(repository, kind, by, { ...ask, ...keep });
  }

  #ask(repository: Repository, kind: "recovery" | "validation"): Readonly<Record<string, unknown>> | null {
    const pulls = [...repository.pulls.values()].filter((pull) => pull.state === "open");
    if (kind === "recovery") {
      const pull = pulls[this.#rng.int(0, Math.max(0, pulls.length - 1))];
      return pull === undefined ? null : { pr_number: pull.number };
    }
    const history = repository.mainHistory.map((commit) => commit.sha);
    const heads = [...repository.heads.keys()];
    const unmerged = heads[0];
    const strange = this.#rng.chance(0.25) && unmerged !== undefined;
    const revision = strange ? unmerged : (this.#rng.pick(history) ?? repository.mainSha);
    // Its own check, one of a commit that it contains, or one that has nothing to do with it.
    const target = this.#rng.chance(0.7) ? revision : (this.#rng.pick([...history, ...heads]) ?? revision);
    return target === revision ? { revision } : { revision, check_head: target };
  }

  // The merge queue.

  #queue(repository: Repository, pull: Pull): void {
    if (pull.state !== "open" || [...repository.groups.values()].some((group) => group.over === null)) return;
    const { faults, scheduler } = this.#around;
    const others = [...repository.pulls.values()].filter((one) => one !== pull && one.state === "open");
    // A queue that was set up carelessly takes in what has no green check.
    const second = this.#rng.chance(0.2) ? others[0] : undefined;
    const group = queuePulls(repository, second === undefined ? [pull] : [second, pull]);
    scheduler.in(repository.queueMinutes * 60_000, "the queue gives up", () =>
      this.#end(repository, group, "destroyed"),
    );
    if (faults.strikes("group-destroyed", 0.5)) {
      const at = this.#rng.chance(0.5) ? this.#rng.int(500, 60_000) : this.#rng.int(60_000, 1_500_000);
      scheduler.in(at, "group destroyed", () => this.#end(repository, group, "destroyed"));
    }
  }

  #groupTold(repository: Repository, group: MergeGroup, check: CheckRun): void {
    this.#around.scheduler.in(1_000, "the queue has its answer", () =>
      this.#end(repository, group, check.conclusion === "success" ? "merged" : "destroyed"),
    );
  }

  /** Whoever wanted it merged queues it once more. */
  #end(repository: Repository, group: MergeGroup, how: "merged" | "destroyed"): void {
    if (group.over !== null) return;
    endGroup(repository, group, how);
    const pull = group.pulls.at(-1);
    const { faults, scheduler } = this.#around;
    if (how === "merged" || pull === undefined || !faults.strikes("merge-queue", 0.4)) return;
    scheduler.in(this.#rng.int(5_000, 300_000), "queued once more", () => this.#queue(repository, pull));
  }

  #sometimes(kind: FaultKind, chance: number, act: () => void): void {
    const { faults, scheduler, horizonMs } = this.#around;
    if (!faults.strikes(kind, chance)) return;
    const stream = faults.stream(kind);
    scheduler.in(stream.int(20_000, horizonMs), `act ${kind}`, () => {
      if (faults.on(kind)) act();
    });
  }
}

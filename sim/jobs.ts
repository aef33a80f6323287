/**
 * Hosted jobs that speak to the Worker with an identity token: of recoveries and validations, and of the maintainers' own lanes.
 * Beside each honest word somebody may show a token that is not what it should be.
 */
import type { Millis } from "../shared/ports.ts";
import type { Faults } from "./faults.ts";
import { LANE, RECOVERY, SWEEP, VALIDATION, type Repository, type Run, type User } from "./github-model.ts";
import { endOwnRun, finishJob, finishRun, hardwareJob, laneRun, ownRun, runAgain } from "./github-runs.ts";
import type { VirtualIssuer } from "./issuer.ts";
import type { Net } from "./net.ts";
import type { Owner } from "./platform.ts";
import { Prng } from "./prng.ts";
import type { Scheduler } from "./scheduler.ts";
import { claimsOf, mint, showing, trickOf, TRICKS, type Asked, type Minted } from "./tokens.ts";
import type { Trace } from "./trace.ts";
import type { WorkerAnswer, WorkerHost } from "./worker.ts";

export interface JobSurroundings {
  readonly seed: number;
  readonly scheduler: Scheduler;
  readonly faults: Faults;
  readonly trace: Trace;
  readonly net: Net;
  readonly issuer: VirtualIssuer;
  readonly worker: WorkerHost;
  /** Who the jobs are to the network: nobody's instance, and never gone. */
  readonly owner: Owner;
  /** Hears of each code of a lane that a job was told. */
  readonly onLane: (code: string) => void;
}

/** A call as it is typed into a job's step. */
interface Call {
  readonly asked: Asked;
  readonly path: string;
  /** Null: it is a GET. */
  readonly body: Readonly<Record<string, unknown>> | null;
}

/** How often a hosted job asks again when nobody could say. */
const ASKS = 5;
const PROBES = 2;
/** `curl --max-time`. */
const PATIENCE_MS: Millis = 60_000;
const MOST_KEYS = 6;
const SWEEP_EVERY_MS: Millis = 900_000;

export class HostedJobs {
  readonly #around: JobSurroundings;
  readonly #rng: Prng;
  #tokens = 0;

  constructor(around: JobSurroundings) {
    this.#around = around;
    this.#rng = new Prng(around.seed, "hosted jobs");
  }

  /** From now on the repository's jobs are played: the probe of its own lane for each CI, and every re-run of such a run. */
  serve(repository: Repository, horizonMs: Millis): void {
    repository.onAttempt = (run) => this.#again(repository, run);
    const { faults, scheduler } = this.#around;
    if (faults.strikes("sweep-asked", 0.9)) {
      const first = faults.stream("sweep-asked").int(0, SWEEP_EVERY_MS);
      for (let at = first; at < horizonMs; at += SWEEP_EVERY_MS)
        scheduler.in(at, "a scheduled sweep", () => void this.#sweep(repository));
    }
    if (!repository.config.includes("own:")) return;
    repository.onCi = ({ sha, branch, by, event }) => {
      const number = repository.heads.get(sha)?.prNumber;
      const pull = event === "pull_request" && number !== undefined ? repository.pulls.get(number) : undefined;
      const from = pull === undefined ? repository.id : pull.headRepositoryId;
      const run = laneRun(repository, sha, branch, by, event, from);
      if (from === repository.id) return void this.#probe(repository, run);
      // A fork's job has no token. Somebody may have had one made all the same.
      if (faults.strikes("token-stranger", 0.6)) {
        const call: Call = { asked: "probe", path: "/v1/probe", body: { lane: LANE_NAME } };
        void this.#send(this.#mint(repository, run, "probe", "of a fork's run"), call);
      }
      endOwnRun(repository, run, "success");
    };
  }

  /** A maintainer's run asks for a request, and asks again when nobody answers. */
  open(
    repository: Repository,
    kind: "recovery" | "validation",
    by: User,
    body: Readonly<Record<string, unknown>>,
  ): void {
    const run = ownRun(repository, kind === "recovery" ? RECOVERY : VALIDATION, `${kind} by ${by.login}`, by);
    const call: Call =
      kind === "recovery"
        ? { asked: "recover", path: "/v1/recover", body }
        : { asked: "validate", path: "/v1/validate", body };
    void this.#opening(repository, run, call);
  }

  async #opening(repository: Repository, run: Run, call: Call): Promise<void> {
    const first = this.#mint(repository, run, call.asked);
    const answer = await this.#asking(repository, run, call, first, ASKS);
    const request = answer?.status === 202 ? answer.body["request"] : undefined;
    if (typeof request === "string" && this.#rng.chance(0.5)) await this.#progress(repository, run, request);
    endOwnRun(repository, run, answer?.status === 202 ? "success" : "failure");
    this.#anew(repository, run, call);
  }

  /** Somebody runs it again: what is left of the first attempt may not ask, nor may the second one for a request. */
  #anew(repository: Repository, run: Run, call: Call): void {
    const { faults, scheduler } = this.#around;
    if (run.attempt !== 1 || !faults.strikes("token-attempt", 0.5)) return;
    const stream = faults.stream("token-attempt");
    scheduler.in(stream.int(1_000, 120_000), "a run is run again", () => {
      const by = stream.chance(0.5) ? run.actor : repository.users[stream.int(0, 3)];
      if (run.status !== "completed" || run.attempt !== 1 || by === undefined) return;
      const kept = this.#mint(repository, run, call.asked, "of the attempt before");
      runAgain(repository, run, by);
      scheduler.in(stream.int(0, 20_000), "an old token is shown", () => void this.#send(kept, call));
    });
  }

  /** What the run asked for, as its next step reads it. */
  async #progress(repository: Repository, run: Run, request: string): Promise<void> {
    const call: Call = { asked: "progress", path: `/v1/requests/${request}`, body: null };
    const token = this.#mint(repository, run, "progress");
    this.#beside(token, call);
    await this.#send(token, call);
  }

  /** GitHub's own schedule looks after cron. */
  async #sweep(repository: Repository): Promise<void> {
    const by = repository.users[0];
    if (by === undefined) return;
    const run = ownRun(repository, SWEEP, "gpu-gate sweep", by, "schedule");
    const call: Call = { asked: "sweep", path: "/v1/sweep", body: {} };
    const answer = await this.#asking(repository, run, call, this.#mint(repository, run, "sweep"), 0);
    endOwnRun(repository, run, answer?.status === 200 ? "success" : "failure");
  }

  /** A re-run; false: this run has no job that asks for anything. */
  #again(repository: Repository, run: Run): boolean {
    if (run.path === LANE) {
      if (run.headRepositoryId === undefined || run.headRepositoryId === repository.id)
        void this.#probe(repository, run);
      else endOwnRun(repository, run, "success");
      return true;
    }
    if (run.path !== RECOVERY && run.path !== VALIDATION) return false;
    const asked = run.path === RECOVERY ? "recover" : "validate";
    const body = asked === "recover" ? { pr_number: 1 } : { revision: repository.mainSha };
    const call: Call = { asked, path: `/v1/${asked}`, body };
    void this.#send(this.#mint(repository, run, asked, "of a re-run"), call).then((answer) =>
      endOwnRun(repository, run, answer?.status === 202 ? "success" : "failure"),
    );
    return true;
  }

  /** The probe's job, and behind it the one on the maintainers' machine: only after a plain word that it is there. */
  async #probe(repository: Repository, run: Run): Promise<void> {
    const { scheduler, trace, onLane } = this.#around;
    const { attempt } = run;
    const job = run.jobs[attempt - 1]?.[0];
    if (job === undefined) return;
    if (this.#rng.chance(0.4)) {
      const call: Call = { asked: "classify", path: "/v1/classify", body: {} };
      await this.#asking(repository, run, call, this.#mint(repository, run, "classify"), 0);
    }
    const call: Call = { asked: "probe", path: "/v1/probe", body: { lane: LANE_NAME } };
    const answer = await this.#asking(repository, run, call, this.#mint(repository, run, "probe"), PROBES);
    if (run.attempt !== attempt || job.status === "completed") return;
    const { code, fail, available } =
      answer?.status === 200 ? answer.body : { code: null, fail: true, available: false };
    if (typeof code === "string") onLane(code);
    finishJob(repository, run, job, fail === false ? "success" : "failure");
    if (available !== true || fail !== false) {
      finishRun(repository, run, fail === false ? "success" : "failure");
      return this.#anew(repository, run, call);
    }
    const hardware = hardwareJob(repository, run);
    trace.note(`the lane's job ${hardware.id} of run ${run.id} is queued`);
    scheduler.in(this.#rng.int(10_000, 300_000), "the lane's job ends", () => {
      if (run.attempt !== attempt || run.status === "completed") return;
      const conclusion = this.#rng.chance(0.85) ? "success" : "failure";
      finishJob(repository, run, hardware, conclusion);
      finishRun(repository, run, conclusion);
      this.#anew(repository, run, call);
    });
  }

  /** Asks with this token, and with new ones as long as nobody could say. */
  async #asking(
    repository: Repository,
    run: Run,
    call: Call,
    first: Minted,
    again: number,
  ): Promise<WorkerAnswer | null> {
    const { attempt } = run;
    this.#beside(first, call);
    let answer = await this.#send(first, call);
    for (let left = again; left > 0 && (answer === null || answer.status === 503); left -= 1) {
      await this.#wait(10_000);
      if (run.attempt !== attempt || run.status === "completed") return null;
      answer = await this.#send(this.#mint(repository, run, call.asked), call);
    }
    return answer;
  }

  /** What others try at the same time. */
  #beside(honest: Minted, call: Call): void {
    const { faults, scheduler, issuer } = this.#around;
    for (const kind of TRICKS) {
      if (!faults.strikes(kind, 0.4)) continue;
      const { minted, afterMs } = trickOf(kind, honest, this.#jti(), issuer, faults.stream(kind));
      scheduler.in(afterMs, `shows ${kind}`, () => void this.#send(minted, call));
    }
    if (faults.strikes("token-replayed", 0.4)) {
      const stream = faults.stream("token-replayed");
      const after = stream.chance(0.5) ? stream.int(0, 300) : stream.int(300, 200_000);
      const trick = { ...honest, trick: "shown again" };
      scheduler.in(after, "shows token-replayed", () => void this.#send(trick, call));
    }
  }

  /** Null: no answer came in time. */
  #send(minted: Minted, { asked, path, body }: Call): Promise<WorkerAnswer | null> {
    const { scheduler, trace, net, owner, worker } = this.#around;
    const shown = showing(minted, scheduler.now);
    const who = `a job of run ${shown.run.id}${shown.trick === null ? "" : ` (${shown.trick})`}`;
    return new Promise((resolve) => {
      const told = (answer: WorkerAnswer | null): void => {
        patience.cancelled = true;
        const { error, state, code, swept } = answer?.body ?? {};
        const word = error ?? state ?? code ?? (swept === undefined ? "" : `swept ${swept === true}`);
        const said = answer === null ? "no answer" : `${answer.status} ${typeof word === "string" ? word : ""}`;
        trace.note(`${who} asked to ${asked}: ${said}`);
        resolve(answer);
      };
      const patience = scheduler.in(PATIENCE_MS, "timeout of a job", () => told(null));
      net
        .rpc(owner, "worker", asked, () =>
          worker.call(shown, body === null ? "GET" : "POST", path, body === null ? "" : JSON.stringify(body)),
        )
        .then(
          (answer) => {
            if (!patience.cancelled) told(answer);
          },
          () => {
            if (!patience.cancelled) told(null);
          },
        );
    });
  }

  #mint(repository: Repository, run: Run, asked: Asked, trick: string | null = null): Minted {
    const { faults, scheduler, issuer } = this.#around;
    const rotates = issuer.keys.length < MOST_KEYS && faults.strikes("issuer-rotates", 0.3);
    const stream = faults.stream("issuer-rotates");
    const [before, overlapMs] = rotates ? [stream.chance(0.5), stream.pick([0, 600_000])] : [false, 0];
    if (rotates && before) issuer.rotate(overlapMs);
    const fromFork = run.headRepositoryId !== undefined && run.headRepositoryId !== repository.id;
    const claims = claimsOf(repository, run, asked, this.#jti(), scheduler.now);
    const minted = mint(issuer, { asked, repository, run, fromFork }, claims, trick);
    // Between the signature and the look at it.
    if (rotates && !before) issuer.rotate(overlapMs);
    return minted;
  }

  #jti(): string {
    this.#tokens += 1;
    return `00000000-0000-4000-8000-${String(this.#tokens).padStart(12, "0")}`;
  }

  #wait(ms: Millis): Promise<void> {
    return new Promise((resolve) => this.#around.scheduler.in(ms, "timeout of a pause", resolve));
  }
}

const LANE_NAME = "coverage_gpu";

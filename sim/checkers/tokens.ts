/**
 * Identity tokens: nothing happens on the word of one that must be refused, and what a job is told about its lanes was so. Judged
 * by what the virtual GitHub and its issuer know, each fact at the time of the call: what changed meanwhile may go either way.
 */
import { OWN_SWITCH } from "../people.ts";
import { RECOVERY, VALIDATION, type Repository } from "../github-model.ts";
import { ISSUER } from "../issuer.ts";
import { AUDIENCES, READ_ONLY, type Shown } from "../tokens.ts";
import type { Checker, WorldView } from "../view.ts";
import type { Act, ActOf } from "../worker.ts";

/** Ours, from the documents: clocks may differ by so much, and a token may be so old. */
const SKEW_MS = 60_000;
const MAX_AGE_MS = 600_000;
/** A key that was taken out of the set is good for so long, at most, while the issuer cannot be asked. */
const STALE_MS = 6 * 3_600_000;
/** Cron that has been silent for so long is looked after. */
const STALE_CRON_MS = 180_000;
const READING_EVENTS = ["pull_request", "push", "merge_group", "workflow_dispatch", "schedule"];
const MAY_SPEND = ["maintain", "admin"];

export function tokens(): Checker {
  let read = 0;
  /** Tokens that something happened on the word of, each with the call that showed it. */
  const heard = new Map<string, Shown>();
  return {
    name: "tokens",
    step(world) {
      const { acts } = world.worker;
      for (; read < acts.length; read += 1) {
        const one = acts[read];
        const problem = one === undefined ? null : actProblem(world, one, heard);
        if (problem !== null) return problem;
      }
      return null;
    },
  };
}

function actProblem(world: WorldView, { at, shown, act }: ActOf, heard: Map<string, Shown>): string | null {
  const who = `a token${shown.trick === null ? "" : ` (${shown.trick})`} that asks to ${shown.asked}`;
  if (act.kind === "asks-gate") {
    const envelope = envelopeProblem(world, shown);
    return envelope === null ? null : `${who} reaches the gate of ${act.repositoryId}: ${envelope}`;
  }
  const { asked } = shown;
  if (act.kind === "answers" && act.status >= 300) return null;
  const before = heard.get(shown.claims.jti);
  if (before !== undefined && before !== shown) return `${who} is heard a second time`;
  heard.set(shown.claims.jti, shown);
  const why =
    envelopeProblem(world, shown) ??
    repositoryProblem(shown) ??
    (AUDIENCES[asked] === READ_ONLY ? readingProblem(shown) : originProblem(shown)) ??
    (asked === "progress" ? null : runProblem(shown)) ??
    (asked === "recover" || asked === "validate" ? spendingProblem(shown) : null);
  if (why !== null) return `${who} is heard: ${why}`;
  if (act.kind === "opens") return asked === "recover" || asked === "validate" ? null : `${who} opens a request`;
  if (act.kind === "sweeps") return sweepProblem(world, who, shown);
  return answerProblem(world, at, shown, act);
}

/** What the token alone says, and who signed it. */
function envelopeProblem(world: WorldView, { asked, claims, signedBy, when }: Shown): string | null {
  if (signedBy === null) return "the issuer never signed it";
  const key = world.issuer.keys.find(({ kid }) => kid === signedBy);
  if (key === undefined) return `${signedBy} is no key of the issuer's`;
  if (key.until !== null && when.at - key.until > STALE_MS) return `${signedBy} has long been taken back`;
  if (claims.iss !== ISSUER) return `it is of ${claims.iss}`;
  if (claims.aud !== AUDIENCES[asked]) return `it is meant for ${claims.aud}`;
  const ours = when.at + world.clocks.ours("worker", when.at);
  if (ours - claims.exp * 1000 > SKEW_MS) return "it has expired";
  if (ours - claims.iat * 1000 > MAX_AGE_MS * 6 + SKEW_MS) return "it is hours old";
  const served = world.hosts.some((host) => host.repository.id === claims["repository_id"]);
  return served ? null : "its repository is not served";
}

function repositoryProblem({ claims, repository, when }: Shown): string | null {
  const { owner, name } = repository;
  if (claims["repository_id"] !== repository.id) return "it is another repository's";
  const names = [`${owner}/${when.name}`, `${owner}/${name}`];
  return names.includes(String(claims["repository"])) ? null : "its repository has another name";
}

/** Only two files, at the default branch and dispatched, ask for requests. */
function originProblem({ asked, claims }: Shown): string | null {
  const files = asked === "recover" ? [RECOVERY] : asked === "validate" ? [VALIDATION] : [RECOVERY, VALIDATION];
  const expected = files.map((file) => `${claims["repository"]}/${file}@refs/heads/main`);
  for (const name of ["workflow_ref", "job_workflow_ref"])
    if (!expected.includes(String(claims[name]))) return `its ${name} is ${claims[name]}`;
  if (claims["workflow_ref"] !== claims["job_workflow_ref"]) return "its job is another file's";
  if (claims["ref"] !== "refs/heads/main") return `it is of ${claims["ref"]}`;
  if (claims["event_name"] !== "workflow_dispatch") return `its event is ${claims["event_name"]}`;
  if (claims["run_attempt"] !== "1") return `it is of attempt ${claims["run_attempt"]}`;
  return machineProblem({ claims });
}

function readingProblem(shown: Shown): string | null {
  const event = String(shown.claims["event_name"]);
  if (!READING_EVENTS.includes(event)) return `its event is ${event}`;
  if (shown.fromFork) return "its run is of a fork";
  if (shown.asked === "sweep" && (event !== "schedule" || shown.claims["ref"] !== "refs/heads/main"))
    return "its run is not of the default branch's schedule";
  return machineProblem(shown);
}

function machineProblem({ claims }: Pick<Shown, "claims">): string | null {
  const machine = claims["runner_environment"];
  return machine === "github-hosted" ? null : `its job is on a machine that is ${machine}`;
}

/** The run as it was when the token was shown, or as it is now. */
function runProblem({ claims, run, when }: Shown): string | null {
  if (claims["run_id"] !== run.id) return "its run does not exist";
  if (when.gone) return "its run was deleted";
  const attempt = Number(claims["run_attempt"]);
  if (attempt < when.attempt || attempt > run.attempt) return `the run is in attempt ${when.attempt}`;
  if (attempt === when.attempt && when.status === "completed") return "its run is over";
  return claims["event_name"] === run.event ? null : "its run is of another event";
}

function spendingProblem({ claims, run, when }: Shown): string | null {
  if (claims["sha"] !== run.headSha) return "its run is of another commit";
  if (claims["actor_id"] !== run.actor.id) return "its run is somebody else's";
  return MAY_SPEND.includes(when.role) ? null : `who began it has the role ${when.role}`;
}

/** A tick of cron's duties is nobody's to have while cron is at work. */
function sweepProblem({ board, now }: WorldView, who: string, { asked }: Shown): string | null {
  if (asked !== "sweep") return `${who} does cron's duties`;
  const fresh = board !== null && now - board.at < STALE_CRON_MS - 5_000;
  return fresh ? `${who} does cron's duties, which were done ${now - board.at} ms ago` : null;
}

type Answer = Extract<Act, { readonly kind: "answers" }>;

function answerProblem(world: WorldView, at: number, shown: Shown, { body }: Answer): string | null {
  const { repository, run } = shown;
  switch (shown.asked) {
    case "recover":
    case "validate":
    case "progress": {
      const host = world.hosts.find((one) => one.repository === repository);
      const rows =
        host?.sql.exec<{ id: string }>("SELECT request_id AS id FROM dispatches WHERE run_id = ?", run.id) ?? [];
      return rows.some(({ id }) => id === body["request"])
        ? null
        : `run ${run.id} is told of ${String(body["request"])}`;
    }
    case "sweep":
      return body["swept"] === true || (world.board !== null && at - world.board.at < STALE_CRON_MS + 5_000)
        ? null
        : "cron is called alive without a tick of the last minutes";
    case "classify":
      return lanesProblem(shown, body);
    case "probe":
      return probeProblem(repository, shown.when.at, at, body);
  }
}

/** Only a change of documents alone may leave the GPU out. */
function lanesProblem({ repository, run, claims }: Shown, body: Answer["body"]): string | null {
  // A commit may be the head of two pull requests, and their changes differ where their bases do (seed 14020).
  const pull = repository.pulls.get(Number(/^refs\/pull\/(\d+)\//.exec(String(claims["ref"]))?.[1] ?? "0"));
  const asked = pull?.headSha === run.headSha ? pull.files : undefined;
  const files = asked ?? repository.heads.get(run.headSha)?.files ?? repository.groups.get(run.headSha)?.files;
  const harmless = files?.every(({ filename }) => /^(?:docs|ci)\//.test(filename)) ?? false;
  const { outputs } = body as { readonly outputs?: Readonly<Record<string, string>> };
  return harmless || outputs?.["run_gpu"] === "true"
    ? null
    : `run ${run.id} of a change of code is told to leave the GPU out`;
}

/** A machine is there if its switch was on and it was ready, each at some instant of the call. */
function probeProblem(repository: Repository, from: number, to: number, body: Answer["body"]): string | null {
  const { ownTurns } = repository;
  const during = ownTurns.filter((turn, index) => turn.at <= to && (ownTurns[index + 1]?.at ?? Infinity) >= from);
  const { enabled, available, fail } = body;
  if (available === true && !during.some((turn) => turn.on))
    return `the lane is let through while ${OWN_SWITCH} is off`;
  if (available === true && !during.some((turn) => turn.ready)) return "the lane is let through without a machine";
  if (enabled !== true && during.every((turn) => turn.on)) return "the lane is called off while its switch is on";
  if (enabled === true && available !== true && fail !== true) return "a lane without its machine does not fail";
  return null;
}

/**
 * What hosted jobs show to the Worker: honest tokens of their runs, and all others that somebody might try. Each is kept
 * together with what is true about it, so that a checker can say without the product's help whether it may be heard.
 */
import type { Millis } from "../shared/ports.ts";
import type { FaultKind } from "./faults.ts";
import { RECOVERY, type Repository, type Run } from "./github-model.ts";
import { ISSUER, part, signed, type TokenClaims, type VirtualIssuer } from "./issuer.ts";
import type { Prng } from "./prng.ts";

export const GATE_URL = "https://gate.test";
export const READ_ONLY = `${GATE_URL}/v1/read-only`;

/** What may be asked, and with a token for which audience. */
export const AUDIENCES = {
  recover: GATE_URL,
  validate: GATE_URL,
  progress: GATE_URL,
  classify: READ_ONLY,
  probe: READ_ONLY,
  sweep: READ_ONLY,
} as const;
export type Asked = keyof typeof AUDIENCES;

export type Claims = TokenClaims & {
  readonly iss: string;
  readonly aud: string;
  readonly exp: number;
  readonly iat: number;
  readonly jti: string;
};

/** A token that somebody shows, and the truth about it. */
export interface Shown {
  readonly asked: Asked;
  readonly repository: Repository;
  readonly run: Run;
  /** Null: nothing is shown at all. */
  readonly token: string | null;
  readonly claims: Claims;
  /** The key of the issuer's that signed exactly these claims; null: none did. */
  readonly signedBy: string | null;
  /** Where the run's commit comes from. */
  readonly fromFork: boolean;
  /** How it is not what it should be, for the trace; null: it is a job's own. */
  readonly trick: string | null;
  /** The world when it was shown. */
  readonly when: {
    readonly at: Millis;
    readonly attempt: number;
    readonly status: string;
    readonly gone: boolean;
    readonly name: string;
    readonly role: string;
  };
}

/** A token before it is shown. */
export type Minted = Omit<Shown, "when">;

/** The claims that GitHub makes for a job of this run's present attempt. */
export function claimsOf(repository: Repository, run: Run, asked: Asked, jti: string, now: Millis): Claims {
  const { owner, name } = repository;
  const seconds = Math.floor(now / 1000);
  const number = repository.heads.get(run.headSha)?.prNumber;
  const ref = run.event === "pull_request" ? `refs/pull/${number ?? 0}/merge` : `refs/heads/${run.headBranch}`;
  const workflow = `${owner}/${name}/${run.path}@${ref}`;
  return {
    iss: ISSUER,
    aud: AUDIENCES[asked],
    exp: seconds + 300,
    iat: seconds,
    nbf: seconds - 300,
    jti,
    repository: `${owner}/${name}`,
    repository_id: repository.id,
    repository_owner_id: "9",
    actor_id: run.actor.id,
    event_name: run.event,
    ref,
    sha: run.event === "pull_request" ? (repository.heads.get(run.headSha)?.mergeSha ?? run.headSha) : run.headSha,
    job_workflow_ref: workflow,
    workflow_ref: workflow,
    run_id: run.id,
    run_attempt: String(run.attempt),
    runner_environment: "github-hosted",
  };
}

export function mint(
  issuer: VirtualIssuer,
  what: Pick<Minted, "asked" | "repository" | "run" | "fromFork">,
  claims: Claims,
  trick: string | null = null,
): Minted {
  const { kid } = issuer;
  return { ...what, claims, signedBy: kid, trick, token: signed(claims, kid, { alg: "RS256", typ: "JWT", kid }) };
}

/** The same word, shown now. */
export function showing(minted: Minted, now: Millis): Shown {
  const { repository, run } = minted;
  const { attempt, status, gone, actor } = run;
  return { ...minted, when: { at: now, attempt, status, gone, name: repository.name, role: actor.role } };
}

/** A token that is not what it should be, and how long after the honest one it is shown. */
export interface Trick {
  readonly minted: Minted;
  readonly afterMs: Millis;
}

export const TRICKS = ["token-expired", "token-audience", "token-elsewhere", "token-forged", "token-stranger"] as const;
export type TrickKind = (typeof TRICKS)[number] & FaultKind;

/** Draws one of this kind, made from the claims of an honest one under another id. */
export function trickOf(kind: TrickKind, honest: Minted, jti: string, issuer: VirtualIssuer, rng: Prng): Trick {
  const own: Claims = { ...honest.claims, jti };
  const bent = (trick: string, change: TokenClaims, afterMs = rng.int(0, 5_000)): Trick => ({
    minted: mint(issuer, honest, { ...own, ...change }, trick),
    afterMs,
  });
  switch (kind) {
    case "token-expired":
      return rng.chance(0.5)
        ? bent("expired", {}, rng.int(363_000, 590_000))
        : bent("too old", { exp: own.iat + 21_600 }, rng.int(603_000, 4_000_000));
    case "token-audience": {
      const other = own.aud === GATE_URL ? READ_ONLY : GATE_URL;
      return bent("meant for another", { aud: rng.pick([other, "https://elsewhere.test", `${own.aud}/`]) });
    }
    case "token-elsewhere":
      return rng.pick([
        ...honest.repository.formerNames.map(
          (name) => () => bent("of the name it had", { repository: `${honest.repository.owner}/${name}` }),
        ),
        () => bent("of a repository that is not served", { repository_id: "999", repository: "mallory/engine" }),
        () => bent("of a repository that has this one's name", { repository_id: "999" }),
        // An enterprise may have an issuer of its own at GitHub, whose tokens the same keys sign.
        () => bent("of an enterprise's issuer", { iss: `${ISSUER}/mallory` }),
      ])();
    case "token-forged":
      return { minted: forged(honest, own, issuer, rng), afterMs: rng.int(0, 5_000) };
    case "token-stranger":
      return stranger(honest, own, rng, bent);
  }
}

function forged(honest: Minted, own: Claims, issuer: VirtualIssuer, rng: Prng): Minted {
  const head = { alg: "RS256", typ: "JWT", kid: issuer.kid };
  const made = (trick: string, token: string | null): Minted => ({
    ...honest,
    claims: own,
    signedBy: null,
    trick,
    token,
  });
  return rng.pick([
    () => made("without a token", null),
    () => made("no token at all", "nonsense"),
    () => made("signed by nobody", `${part({ ...head, alg: "none" })}.${part(own)}.`),
    () => made("signed with a shared secret", signed(own, "forger", { ...head, alg: "HS256" })),
    () => made("signed by another key of the same name", signed(own, "forger", head)),
    () =>
      made("signed by a key that nobody published", signed(own, "forger", { ...head, kid: `key-${rng.int(50, 90)}` })),
    () => {
      const [header = "", , signature = ""] = signed({ ...own, actor_id: "1" }, issuer.kid, head).split(".");
      return made("changed after it was signed", `${header}.${part(own)}.${signature}`);
    },
  ])();
}

/** The issuer's own word about a job that may not ask for this. */
function stranger(
  honest: Minted,
  own: Claims,
  rng: Prng,
  bent: (trick: string, change: TokenClaims, afterMs?: Millis) => Trick,
): Trick {
  const [, file = ""] = /^[^/]+\/[^/]+\/(.+)@/.exec(String(own["workflow_ref"])) ?? [];
  const opens = honest.asked === "recover" || honest.asked === "validate" || honest.asked === "progress";
  const elsewhere = (change: (text: string) => string): TokenClaims => ({
    workflow_ref: change(String(own["workflow_ref"])),
    job_workflow_ref: change(String(own["job_workflow_ref"])),
  });
  const places = [
    () => bent("on a machine of somebody's own", { runner_environment: "self-hosted" }),
    () => bent("of an event on somebody else's word", { event_name: "pull_request_target" }),
    () => bent("of a run that does not exist", { run_id: String(Number(own["run_id"]) + 500_000_000) }),
    // The run ends meanwhile, and the token is still good.
    () => bent("kept until its run was over", {}, rng.int(30_000, 280_000)),
  ];
  const openers = [
    () =>
      bent(
        "of another workflow file",
        elsewhere((text) => text.replace(file, ".github/workflows/mine.yml")),
      ),
    () =>
      bent(
        "of the file at another branch",
        elsewhere((text) => text.replace(/@.*/, "@refs/heads/topic")),
      ),
    () =>
      bent(
        "of the file at a tag",
        elsewhere((text) => text.replace(/@.*/, "@refs/tags/main")),
      ),
    () => bent("of a job in somebody else's file", { job_workflow_ref: `mallory/engine/${RECOVERY}@refs/heads/main` }),
    () => bent("at another branch", { ref: "refs/heads/topic" }),
    () => bent("in another's name", { actor_id: String(Number(own["actor_id"]) + 1) }),
    () => bent("of another commit", { sha: "0".repeat(40) }),
  ];
  if (honest.asked === "sweep")
    return rng.pick([...places, () => bent("at another branch", { ref: "refs/heads/topic" })])();
  return rng.pick(opens && rng.chance(0.7) ? openers : places)();
}

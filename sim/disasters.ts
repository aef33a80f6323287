/**
 * What lasts: hours without RunPod's money, capacity or key, GitHub's quota used up, the App thrown out of a repository, an
 * object of ours that does not answer, a deployment of the version before or after this one. Planned at the start, from
 * the seed.
 */
import { DEFAULT_TIERS } from "../shared/runpod/default-tiers.ts";
import { ownershipTags, podName } from "../shared/runpod/tags.ts";
import { olderSchema } from "./schema-steps.ts";
import type { Faults, FaultKind } from "./faults.ts";
import type { VirtualGitHub } from "./github.ts";
import type { Repository, Standing } from "./github-model.ts";
import { DEPLOYMENT, type AccountHost, type GateHost } from "./hosts.ts";
import type { Net } from "./net.ts";
import type { Prng } from "./prng.ts";
import type { VirtualRunPod } from "./runpod.ts";
import type { Scheduler } from "./scheduler.ts";
import type { Trace } from "./trace.ts";

export interface DisasterSurroundings {
  readonly scheduler: Scheduler;
  readonly faults: Faults;
  readonly trace: Trace;
  readonly horizonMs: number;
  readonly github: VirtualGitHub;
  readonly runpod: VirtualRunPod;
  readonly net: Net;
  readonly account: AccountHost;
  readonly hosts: readonly GateHost[];
  readonly setPaused: (paused: boolean) => void;
}

/** Each is one window in time: what begins it, and what ends it. */
interface Window {
  readonly kind: FaultKind;
  readonly chance: number;
  readonly begin: (lasts: number, stream: Prng) => void;
  readonly end?: (stream: Prng) => void;
}

/** Plans them all. The ends come in any case, also when the world heals before. */
export function planDisasters(around: DisasterSurroundings): { readonly heal: () => void } {
  const { faults, scheduler, horizonMs } = around;
  const ends: (() => void)[] = [];
  for (const { kind, chance, begin, end } of [...providers(around), ...ours(around), ...standings(around)]) {
    if (!faults.strikes(kind, chance)) continue;
    const stream = faults.stream(kind);
    const at = stream.int(5_000, Math.floor(horizonMs * 0.9));
    const lasts = stream.chance(0.5) ? stream.int(30_000, 900_000) : stream.int(900_000, 7_200_000);
    let over = true;
    const finish = (): void => {
      if (over) return;
      over = true;
      end?.(stream);
    };
    ends.push(finish);
    scheduler.in(at, `disaster ${kind}`, () => {
      if (!faults.on(kind)) return;
      over = false;
      around.trace.note(`${kind} for ${Math.round(lasts / 1000)} s`);
      begin(lasts, stream);
      scheduler.in(lasts, `end of ${kind}`, finish);
    });
  }
  return { heal: () => ends.forEach((finish) => finish()) };
}

function providers({ github, runpod, net, scheduler }: DisasterSurroundings): readonly Window[] {
  return [
    {
      kind: "github-quota",
      chance: 0.5,
      begin: (lasts) => {
        // A quota comes back at the latest after an hour.
        const until = Math.min(lasts, 3_600_000);
        github.quotaUntil = scheduler.now + until;
        net.takeDown("github", until);
      },
      end: () => (github.quotaUntil = 0),
    },
    { kind: "github-tokens-die", chance: 0.6, begin: () => github.forgetTokens() },
    {
      kind: "runpod-balance-gone",
      chance: 0.5,
      begin: () => runpod.emptyBalance(),
      end: () => (runpod.balanceGone = false),
    },
    {
      kind: "runpod-capacity-out",
      chance: 0.5,
      begin: () => (runpod.capacityOut = true),
      end: () => (runpod.capacityOut = false),
    },
    {
      kind: "runpod-key-revoked",
      chance: 0.4,
      begin: () => (runpod.keyRevoked = true),
      end: () => (runpod.keyRevoked = false),
    },
    { kind: "registry-down", chance: 0.5, begin: (lasts) => net.takeDown("registry", lasts) },
    { kind: "account-down", chance: 0.5, begin: (lasts) => net.takeDown("account", lasts) },
  ];
}

function ours({
  hosts,
  account,
  runpod,
  setPaused,
  trace,
  faults,
  scheduler,
  horizonMs,
}: DisasterSurroundings): readonly Window[] {
  const pick = (stream: Prng): GateHost | undefined => hosts[stream.int(0, hosts.length - 1)];
  let newer: { readonly host: GateHost; readonly version: number } | null = null;
  return [
    {
      kind: "newer-schema",
      chance: 0.6,
      begin: (_lasts, stream) => {
        const host = pick(stream);
        if (host === undefined) return;
        const found = host.sql.exec<{ version: number }>("SELECT version FROM schema_version WHERE id = 1")[0]?.version;
        newer = { host, version: found ?? 1 };
        trace.note(`${host.repository.name}: a newer schema is found, as after a roll-back`);
        host.sql.exec("UPDATE schema_version SET version = 99 WHERE id = 1");
        host.crash(500);
      },
      end: () => {
        if (newer === null) return;
        newer.host.sql.exec("UPDATE schema_version SET version = ? WHERE id = 1", newer.version);
        newer.host.crash(500);
        newer = null;
      },
    },
    {
      kind: "older-schema",
      chance: 0.6,
      // The state as the version before left it: this code starts on it and brings it up.
      begin: (_lasts, stream) => {
        const host = pick(stream);
        if (host === undefined || host.gate.readOnly) return;
        trace.note(`${host.repository.name}: ${olderSchema(host.sql)}`);
        host.crash(500);
      },
    },
    {
      kind: "record-unreadable",
      chance: 0.6,
      begin: () => {
        // Whatever is kept from now on until the end of the run cannot be read.
        const look = (): void => {
          if (!faults.on("record-unreadable")) return;
          for (const host of hosts) {
            if (host.gate.readOnly) continue;
            const kept = host.sql.exec<{ pod_id: string }>(
              "SELECT pod_id FROM strays WHERE why = 'retained' AND done_at IS NULL AND record <> '{'",
            );
            for (const { pod_id: pod } of kept) {
              trace.note(`the record of the kept pod ${pod} is destroyed`);
              host.sql.exec("UPDATE strays SET record = '{' WHERE pod_id = ?", pod);
              host.destroyedRecords.add(pod);
            }
          }
          scheduler.in(60_000, "a record is destroyed", look);
        };
        if (horizonMs > 0) look();
      },
    },
    {
      kind: "operator-pauses",
      chance: 0.6,
      begin: () => setPaused(true),
      end: () => setPaused(false),
    },
    { kind: "crash-account", chance: 0.3, begin: () => account.crash() },
    {
      kind: "twin-deployment",
      chance: 0.9,
      // A copy of this deployment, with the same name and key and a database of its own, that somebody left behind.
      begin: (_lasts, stream) => {
        const host = pick(stream);
        if (host === undefined) return;
        const repositoryId = host.repository.id;
        const requestId = `twin${stream.hex(8)}`;
        const attemptId = `${requestId}-1`;
        const owner = { deployment: DEPLOYMENT, repositoryId, requestId, attemptId, runId: "777", keep: "false" };
        const name = podName({ deployment: DEPLOYMENT, repositoryId, attemptId });
        runpod.rentForOthers(name, DEFAULT_TIERS[0]?.gpuIds[0] ?? "", ownershipTags(owner));
      },
    },
  ];
}

const STANDINGS: Readonly<
  Record<
    string,
    { readonly standing: Standing; readonly event: string; readonly gone: string; readonly back: string | null }
  >
> = {
  "app-suspended": { standing: "suspended", event: "installation", gone: "suspend", back: "unsuspend" },
  "app-removed": { standing: "removed", event: "installation_repositories", gone: "removed", back: "added" },
  "app-forbidden": { standing: "no-checks", event: "", gone: "", back: "" },
  "repository-archived": { standing: "archived", event: "repository", gone: "archived", back: "unarchived" },
  "repository-deleted": { standing: "deleted", event: "repository", gone: "deleted", back: null },
};

function standings({ hosts, faults }: DisasterSurroundings): readonly Window[] {
  const windows = Object.entries(STANDINGS).map(([name, { standing, event, gone, back }]): Window => {
    const kind = name as FaultKind;
    const affected: Repository[] = [];
    return {
      kind,
      chance: 0.4,
      begin: (_lasts, stream) => {
        const repository = hosts[stream.int(0, hosts.length - 1)]?.repository;
        if (repository === undefined || repository.standing !== "ok") return;
        affected.push(repository);
        repository.setStanding(standing);
        tell(repository, event, gone);
      },
      end: () => {
        if (back === null) return;
        for (const repository of affected.splice(0)) {
          // A new installation has an id of its own.
          if (standing === "removed") repository.installationId = String(Number(repository.installationId) + 1_000);
          repository.setStanding("ok");
          tell(repository, event, back);
        }
      },
    };
  });
  return [
    ...windows,
    {
      kind: "repository-renamed",
      chance: 0.5,
      begin: () => {
        const repository = hosts[0]?.repository;
        if (repository === undefined || repository.standing !== "ok" || !faults.on("repository-renamed")) return;
        repository.rename();
        tell(repository, "repository", "renamed");
      },
    },
  ];
}

function tell(repository: Repository, event: string, action: string): void {
  const by = repository.users[0];
  if (event === "" || by === undefined) return;
  const named = {
    id: Number(repository.id),
    name: repository.name,
    full_name: `${repository.owner}/${repository.name}`,
  };
  const listed =
    event === "installation_repositories"
      ? {
          repositories_added: action === "added" ? [named] : [],
          repositories_removed: action === "removed" ? [named] : [],
        }
      : {};
  repository.tell(event, action, by, { installation: { id: Number(repository.installationId) }, ...listed });
}

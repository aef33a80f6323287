/** Check suites and check runs as records: found, made, written, and told about by webhook. */

import type { CheckWrite } from "./books.ts";
import type { Hub } from "./hub.ts";
import type { Account, CheckRun, CheckSuite, Repository } from "./model.ts";
import { fullName } from "./model.ts";
import { renderAccount } from "./render-common.ts";
import { latestByName, renderCheckRunForWebhook, renderSuite, runsOfSuite, suiteState } from "./render-checks.ts";

export function createSuite(
  hub: Hub,
  repository: Repository,
  suite: { appId: number; headSha: string; headBranch: string | null; before: string | null },
): CheckSuite {
  const now = hub.world.clock.now();
  const made: CheckSuite = {
    ...suite,
    id: hub.world.nextId("suite", 45_000_000_000),
    repository,
    createdAt: now,
    updatedAt: now,
    requeued: false,
  };
  hub.world.suites.set(made.id, made);
  return made;
}

/** The App's suite of a commit; one per App and commit. */
export function suiteFor(hub: Hub, repository: Repository, appId: number, headSha: string): CheckSuite {
  const known = [...hub.world.suites.values()].find(
    (suite) => suite.repository.id === repository.id && suite.appId === appId && suite.headSha === headSha,
  );
  if (known !== undefined) return known;
  const branch = [...repository.refs].find(([ref, sha]) => sha === headSha && ref.startsWith("refs/heads/"))?.[0];
  const headBranch = branch === undefined ? null : branch.slice("refs/heads/".length);
  return createSuite(hub, repository, { appId, headSha, headBranch, before: null });
}

export function newCheckRun(
  hub: Hub,
  suite: CheckSuite,
  given: { id?: number; name: string; externalId?: string; detailsUrl?: string | null },
): CheckRun {
  const run: CheckRun = {
    // A job's check run has the job's own id, as on GitHub; both come from one series.
    id: given.id ?? hub.world.nextId("job", 52_000_000_000),
    repository: suite.repository,
    suite,
    appId: suite.appId,
    name: given.name,
    headSha: suite.headSha,
    externalId: given.externalId ?? "",
    detailsUrl: given.detailsUrl ?? null,
    status: "queued",
    conclusion: null,
    startedAt: null,
    completedAt: null,
    title: null,
    summary: null,
    text: null,
    annotations: [],
    actions: [],
    createdAt: hub.world.clock.now(),
  };
  hub.world.checkRuns.set(run.id, run);
  return run;
}

/** Books a write, and sends `created` or `completed` where GitHub does; a completed suite is told as well. */
export function checkWritten(
  hub: Hub,
  run: CheckRun,
  kind: CheckWrite["kind"],
  wasCompleted: boolean,
  sender: Account,
): void {
  const now = hub.world.clock.now();
  run.suite.updatedAt = now;
  run.suite.requeued = false;
  hub.books.checkWrites.push({
    at: now,
    checkRunId: run.id,
    repository: fullName(run.repository),
    headSha: run.headSha,
    appId: run.appId,
    kind,
    name: run.name,
    externalId: run.externalId,
    status: run.status,
    conclusion: run.conclusion,
    title: run.title,
    summary: run.summary,
    text: run.text,
    actions: run.actions.map((action) => action.identifier),
    afterCompleted: wasCompleted,
  });
  const who = renderAccount(hub, sender);
  if (kind === "create") emitCheckRun(hub, run, "created", sender);
  if (run.status !== "completed" || wasCompleted) return;
  emitCheckRun(hub, run, "completed", sender);
  if (suiteState(hub, run.suite).status === "completed") {
    hub.webhooks.emit("check_suite", "completed", run.repository, who, { check_suite: renderSuite(hub, run.suite) });
  }
}

export function emitCheckRun(
  hub: Hub,
  run: CheckRun,
  action: string,
  sender: Account,
  extra: Record<string, unknown> = {},
): string | null {
  return hub.webhooks.emit("check_run", action, run.repository, renderAccount(hub, sender), {
    check_run: renderCheckRunForWebhook(hub, run),
    ...extra,
  });
}

/** Check runs of a commit, newest first, as the lists give them. */
export function checkRunsOfCommit(
  hub: Hub,
  repository: Repository,
  headSha: string,
  filter: {
    latestOnly: boolean;
    name: string | null;
    appId: number | null;
    status: string | null;
    suiteId: number | null;
  },
): CheckRun[] {
  const suites = [...hub.world.suites.values()].filter(
    (suite) =>
      suite.repository.id === repository.id &&
      suite.headSha === headSha &&
      (filter.suiteId === null || suite.id === filter.suiteId) &&
      (filter.appId === null || suite.appId === filter.appId),
  );
  return suites
    .flatMap((suite) => (filter.latestOnly ? latestByName(runsOfSuite(hub, suite)) : runsOfSuite(hub, suite)))
    .filter(
      (run) =>
        (filter.name === null || run.name === filter.name) && (filter.status === null || run.status === filter.status),
    )
    .sort((a, b) => b.id - a.id);
}

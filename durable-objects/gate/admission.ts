/**
 * Admission as the gate performs it: who asks decides which procedure of shared/authorize is followed, at first and once
 * more inside the lock; and whether an earlier green run stands for this one.
 */
import { authorize, type Authorized, type AuthorizePort } from "../../shared/authorize/authorize.ts";
import { authorizeMergeGroup } from "../../shared/authorize/merge-group.ts";
import { readAhead } from "../../shared/authorize/read-ahead.ts";
import { withSiblings } from "../../shared/authorize/siblings.ts";
import { authorizeValidation } from "../../shared/authorize/validation.ts";
import { describeFailure } from "../../shared/github/failure.ts";
import type { Admission, Terms } from "../../shared/lifecycle/model.ts";
import { answersOf, testedFor } from "../../shared/lifecycle/needs-answer.ts";
import type { AuthorizeOutcome, RecheckOutcome } from "../../shared/lifecycle/tasks.ts";
import { unreachable } from "../../shared/result.ts";
import { retryAt, type PerformContext } from "./perform.ts";
import { beginPlan } from "./plan.ts";
import { greenFor, mayReuse } from "./greens.ts";

/** The first look: may this be tested, and must it be? */
export async function admit(context: PerformContext): Promise<AuthorizeOutcome> {
  const { outcome } = await authorizeNow(context);
  if (outcome.kind !== "admitted" || !outcome.admission.gpuRequired) return outcome;
  const admission = await withTree(outcome.admission, context);
  const admitted = { ...outcome, admission };
  // A merge queue waits for this one: an answer that stands is given before anything is prepared.
  return (context.request.kind === "merge-group" ? reused(admitted, context) : null) ?? admitted;
}

async function authorizeNow(context: PerformContext, port: AuthorizePort = context.github): Promise<Authorized> {
  const { store } = context;
  const result = await procedure(context, port);
  const { outcome, config } = result;
  const terms = "terms" in outcome ? outcome.terms : null;
  if (config !== null && terms !== null) {
    store.rememberConfig(terms.configHash, config);
    store.setMeta("last_config", terms.configHash);
  }
  const { prNumber, headSha, kind } = context.request;
  if (outcome.kind !== "admitted" || outcome.admission.gpuRequired || config === null) return result;
  if (prNumber === null || kind === "merge-group") return result;
  const known = answersOf(headSha, (head, of) => store.requestsOfHead(head, of), config.shadow);
  const about = { repositoryId: context.repository.id, prNumber, headSha, config, testedFor: testedFor(known) };
  return { config, outcome: await withSiblings(context.github, outcome, about) };
}

async function procedure(context: PerformContext, port: AuthorizePort): Promise<Authorized> {
  const { request, github, ports } = context;
  const common = {
    repositoryId: context.repository.id,
    headSha: request.headSha,
    actor: request.actor,
    now: ports.clock.now(),
  };
  switch (request.kind) {
    case "validation":
      return authorizeValidation(github, { ...common, revision: request.revision ?? request.headSha });
    case "merge-group": {
      const { group, openedAt } = request;
      if (group === undefined) throw new Error(`request ${request.id} is for a merge group and has none`);
      return authorizeMergeGroup(github, { ...common, appId: ports.appId, group, openedAt });
    }
    case "pull-request":
    case "recovery":
      return authorize(port, {
        ...common,
        prNumber: request.prNumber ?? 0,
        tested: request.kind === "recovery" ? "head" : "as-configured",
      });
    default:
      return unreachable(request.kind, "kind of request");
  }
}

/** Everything that was true at authorisation, once more inside the lock; and what was prepared must still fit. */
export async function recheck(context: PerformContext): Promise<RecheckOutcome> {
  const { request, github } = context;
  const before = request.admission;
  const stored = (request.prepared?.artifacts.length ?? 0) > 0 ? request.prepared : null;
  const artifacts = stored === null ? null : github.listArtifacts(stored.run.runId);
  beginPlan(context);
  const { outcome } = await authorizeNow(context, readingAhead(context));
  if (outcome.kind !== "admitted" || before === null) return outcome;
  const { admission, terms } = outcome;
  if (!admission.gpuRequired) return outcome;
  if (admission.baseRef !== before.baseRef) {
    return { kind: "refused", reason: "base-changed", detail: `The base is now ${admission.baseRef}.`, terms };
  }
  const changed = changedInputs(before, admission, request.terms, terms);
  if (changed !== null) return { kind: "stale-inputs", why: changed, terms, admission };
  // The tested revision stays the one that was prepared: the merge commit moves with every push to the base.
  const { testedSha, baseSha, treeSha } = before;
  const kept = { ...admission, testedSha, baseSha, ...(treeSha === undefined ? {} : { treeSha }) };
  const admitted = { ...outcome, admission: await withTree(kept, context) };
  const earlier = reused(admitted, context);
  if (earlier !== null) return earlier;
  if (stored !== null && artifacts !== null) {
    const listed = await artifacts;
    if (!listed.ok && listed.error.reason !== "not-found") {
      return { kind: "unknown", why: describeFailure(listed.error), retryAt: retryAt(listed.error) };
    }
    const alive = new Set(listed.ok ? listed.value.items.filter((item) => !item.expired).map((item) => item.id) : []);
    const missing = stored.artifacts.find((artifact) => !alive.has(artifact.id));
    if (missing !== undefined) {
      const why = `artifact ${missing.name} is gone or expired`;
      return { kind: "stale-inputs", why, artifactsMissing: true, terms, admission };
    }
  }
  return admitted;
}

/** With the tree of the tested commit, where GitHub tells it: without one nothing is reused, and nothing else suffers. */
async function withTree(admission: Admission, context: PerformContext): Promise<Admission> {
  if (admission.treeSha !== undefined) return admission;
  const commit = await context.github.getCommit(admission.testedSha);
  return commit.ok ? { ...admission, treeSha: commit.value.treeSha } : admission;
}

function reused(
  admitted: AuthorizeOutcome & { readonly kind: "admitted" },
  context: PerformContext,
): (AuthorizeOutcome & { readonly kind: "reuse" }) | null {
  const { request, store, ports } = context;
  const { admission, terms } = admitted;
  if (terms.shadow || !mayReuse(request, store.config(terms.configHash))) return null;
  const green = greenFor(ports.sql, admission, terms);
  if (green === null) return null;
  const detail = `The identical tree ${green.treeSha.slice(0, 12)} passed in request ${green.requestId}.`;
  return { kind: "reuse", detail, terms, admission };
}

/** Inside the lock the reads are known from last time, and others wait: they are begun together. */
function readingAhead(context: PerformContext): AuthorizePort {
  const { request, github, store } = context;
  const { admission, terms, prNumber } = request;
  const config = terms === null ? null : store.config(terms.configHash);
  if (admission === null || terms === null || prNumber === null || config === null) return github;
  const listed = new Set([...config.access.users, ...config.access.bots].map((person) => person.id));
  return readAhead(github, {
    repositoryId: context.repository.id,
    prNumber,
    headSha: request.headSha,
    defaultBranch: admission.defaultBranch,
    workflows: [terms.workflows.prepare, terms.workflows.execute],
    logins: [admission.author, request.actor ?? admission.author]
      .filter((person) => !listed.has(person.id))
      .map((person) => person.login),
    merge: terms.testedRevision === "merge" && request.kind !== "recovery",
  });
}

function changedInputs(before: Admission, now: Admission, termsBefore: Terms | null, termsNow: Terms): string | null {
  if (termsBefore !== null && termsBefore.configHash !== termsNow.configHash) return "the configuration changed";
  for (const [path, blob] of Object.entries(before.workflowBlobs)) {
    if (now.workflowBlobs[path] !== blob) return `${path} changed on ${now.defaultBranch}`;
  }
  return null;
}

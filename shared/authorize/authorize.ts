/**
 * Authorisation: may this head spend money, and does it need to? The checks run in this order, each for its attack:
 *
 *  1. the configuration, from the head of the default branch and from nowhere else (a pull request cannot change its rules);
 *  2. the pull request exists, is open, and its head is the one that was asked for (approved at one commit, run at another);
 *  3. the head repository, by numeric id (forks run their own code next to our money; names can be taken over);
 *  4. the author, then the acting user, by `role_name` (`permission` never says "maintain"), with matching account ids
 *     (logins are renamed and reused);
 *  5. the tested revision, an immutable commit, and a merge only if it is of this very head (GitHub makes test merges late,
 *     and leaves the old one in place when the new head conflicts);
 *  6. the complete list of changed files, and its class (an incomplete list is code);
 *  7. the pull request once more: same head, base ref, repositories and state (the list was of this head).
 *
 * The same procedure runs again inside the lock. It only reads; whatever it cannot read makes it say "unknown".
 */
import type { CodesOf } from "../audit/reasons.ts";
import { effectiveConfigHash } from "../config/hash.ts";
import { parseRepositoryConfig, problemText } from "../config/load.ts";
import { CONFIG_PATH, type RepositoryConfig } from "../config/schema.ts";
import { termsFrom } from "../config/terms.ts";
import type { GitHubClient } from "../github/client.ts";
import { describeFailure, NOT_JSON, type GitHubFailure } from "../github/failure.ts";
import type { Pull } from "../github/pulls.ts";
import type { HeldBy, Admission, Terms } from "../lifecycle/model.ts";
import type { Actor } from "../lifecycle/signal.ts";
import type { AuthorizeOutcome } from "../lifecycle/tasks.ts";
import type { Millis } from "../ports.ts";
import { fromListedFile, listProblem } from "../policy/changes.ts";
import { classify, type Classification } from "../policy/classify.ts";

export type AuthorizePort = Pick<
  GitHubClient,
  "getRepository" | "getBranchHead" | "getFile" | "getPull" | "getRole" | "getRef" | "getCommit" | "listPullFiles"
>;

export interface AuthorizeInput {
  readonly repositoryId: string;
  readonly prNumber: number;
  readonly headSha: string;
  /** Who caused the work; null when only the author is known (nobody acted but the pull request itself). */
  readonly actor: Actor | null;
  /** `head`: a recovery, which tests the head whatever the configuration says. Default: as configured. */
  readonly tested?: "as-configured" | "head";
  readonly now: Millis;
}

/** What the caller keeps beside the outcome: the whole effective configuration, by its hash. */
export interface Authorized {
  readonly outcome: AuthorizeOutcome;
  readonly config: RepositoryConfig | null;
}

/** What the default branch says, read at one commit. */
export interface Rules {
  readonly config: RepositoryConfig;
  readonly terms: Terms;
  readonly defaultBranch: string;
  readonly defaultSha: string;
}

export async function authorize(port: AuthorizePort, input: AuthorizeInput): Promise<Authorized> {
  const rules = await readRules(port, input);
  if ("outcome" in rules) return { outcome: rules.outcome, config: null };
  const outcome = await decidePull(port, input, rules);
  return { outcome, config: rules.config };
}

/** Step 1. Also what every other way of asking for a run begins with. */
export async function readRules(
  port: Pick<AuthorizePort, "getRepository" | "getBranchHead" | "getFile">,
  input: Pick<AuthorizeInput, "repositoryId">,
): Promise<Rules | { outcome: AuthorizeOutcome }> {
  const repository = await port.getRepository();
  if (!repository.ok) return { outcome: unknown(repository.error) };
  if (repository.value.id !== input.repositoryId) {
    // The name now leads to another repository: renamed away and taken over, or transferred.
    return { outcome: refused("repository-not-allowed", "This repository's name now belongs to another one.", null) };
  }
  const defaultBranch = repository.value.defaultBranch;
  const head = await port.getBranchHead(defaultBranch);
  if (!head.ok) return { outcome: unknown(head.error) };
  const file = await port.getFile(CONFIG_PATH, head.value);
  if (!file.ok) {
    if (file.error.reason === "not-found") {
      const detail = `There is no ${CONFIG_PATH} on ${defaultBranch}. Add one; nothing is guessed without it.`;
      return { outcome: refused("configuration-missing", detail, null) };
    }
    // What was cut on its way says nothing about the file; only a readable answer can.
    if (file.error.reason === "unreadable" && file.error.what !== NOT_JSON) {
      return {
        outcome: refused("configuration-invalid", `${CONFIG_PATH} on ${defaultBranch} is no readable text.`, null),
      };
    }
    return { outcome: unknown(file.error) };
  }
  const parsed = parseRepositoryConfig(file.value.text);
  if (!parsed.ok) {
    const problems = parsed.error.slice(0, 5).map((problem) => problemText(problem, CONFIG_PATH));
    return { outcome: refused("configuration-invalid", problems.join(" "), null) };
  }
  const terms = termsFrom(parsed.value, await effectiveConfigHash(parsed.value));
  return { config: parsed.value, terms, defaultBranch, defaultSha: head.value };
}

async function decidePull(port: AuthorizePort, input: AuthorizeInput, rules: Rules): Promise<AuthorizeOutcome> {
  const { terms, config } = rules;
  const first = await port.getPull(input.prNumber);
  if (!first.ok) {
    return first.error.reason === "not-found"
      ? refused("pull-request-not-found", `There is no pull request #${input.prNumber}.`, terms)
      : unknown(first.error);
  }
  const pull = first.value;
  if (pull.state !== "open") return { kind: "closed", terms };
  if (pull.headSha !== input.headSha) return { kind: "moved", headSha: pull.headSha, terms };

  const fork = pull.headRepositoryId !== input.repositoryId;
  if (fork) return decideFork(port, input, rules, pull);

  for (const [who, person] of [
    ["author", pull.author],
    ["actor", input.actor],
  ] as const) {
    if (person === null || (who === "actor" && person.id === pull.author.id)) continue;
    const permitted = await mayCauseSpending(port, config, person, who === "author" ? pull.authorType : "User");
    if (permitted.kind === "unknown") return permitted;
    if (permitted.kind === "no") {
      const reason: CodesOf<"refused"> = who === "author" ? "author-not-permitted" : "actor-not-permitted";
      const roles = config.access.roles.join(" or ");
      const what = who === "author" ? "The author of this pull request" : `${person.login}, who caused this run,`;
      return refused(reason, `${what} needs the role ${roles} here and has ${permitted.role}.`, terms);
    }
  }

  const tested = await testedRevision(port, pull, terms, input.tested ?? "as-configured");
  if ("kind" in tested) return tested;

  const listed = await changedFiles(port, pull, config);
  if ("kind" in listed) return listed;

  const second = await port.getPull(input.prNumber);
  if (!second.ok) return unknown(second.error);
  const changed = stillTheSame(pull, second.value, terms);
  if (changed !== null) return changed;

  const blobs = listed.classification.gpu ? await trustedWorkflows(port, rules) : { blobs: {} };
  if ("kind" in blobs) return blobs;
  return {
    kind: "admitted",
    terms,
    admission: admissionOf(input, rules, pull, tested.sha, listed.classification, blobs.blobs),
  };
}

/** The blob ids of the prepare and the execute workflow on the default branch: what is run must be what was looked at. */
export async function trustedWorkflows(
  port: Pick<AuthorizePort, "getFile">,
  rules: Rules,
): Promise<{ readonly blobs: Readonly<Record<string, string>> } | (AuthorizeOutcome & { readonly kind: "unknown" })> {
  const blobs: Record<string, string> = {};
  for (const path of [rules.terms.workflows.prepare, rules.terms.workflows.execute]) {
    const file = await port.getFile(path, rules.defaultSha);
    if (!file.ok && file.error.reason !== "not-found") return unknown(file.error);
    // A missing workflow is told by the dispatch; its absence is compared like any other content.
    blobs[path] = file.ok ? file.value.sha : "missing";
  }
  return { blobs };
}

/** A fork that needs no GPU is not required; every other is pointed to the configured way. Its code never meets our keys. */
async function decideFork(
  port: AuthorizePort,
  input: AuthorizeInput,
  rules: Rules,
  pull: Pull,
): Promise<AuthorizeOutcome> {
  const { terms, config } = rules;
  const listed = await changedFiles(port, pull, config);
  if ("kind" in listed) return listed;
  const second = await port.getPull(input.prNumber);
  if (!second.ok) return unknown(second.error);
  const changed = stillTheSame(pull, second.value, terms);
  if (changed !== null) return changed;
  if (listed.classification.gpu) {
    const way = config.fork_fallback.instructions;
    if (pull.headRepositoryId === null) {
      return refused("head-repository-gone", `The fork of this pull request is gone. ${way}`, terms);
    }
    const workflow = config.fork_fallback.workflow;
    const also = workflow === null ? "" : ` The workflow ${workflow} can test it elsewhere.`;
    return refused("fork", `Code of a fork is never run on a rented GPU. ${way}${also}`, terms);
  }
  return {
    kind: "admitted",
    terms,
    admission: admissionOf(input, rules, pull, pull.headSha, listed.classification, {}),
  };
}

type Permission =
  | { readonly kind: "yes" }
  | { readonly kind: "no"; readonly role: string }
  | (AuthorizeOutcome & { readonly kind: "unknown" });

/** Whether a person's word may spend money here: listed by id, or a role whose record is of the same account. */
export async function mayCauseSpending(
  port: Pick<AuthorizePort, "getRole">,
  config: Pick<RepositoryConfig, "access">,
  person: Actor,
  type: string,
): Promise<Permission> {
  if (config.access.users.some((listed) => listed.id === person.id)) return { kind: "yes" };
  if (config.access.bots.some((listed) => listed.id === person.id)) return { kind: "yes" };
  if (type === "Bot") return { kind: "no", role: "no place in access.bots" };
  const role = await port.getRole(person.login);
  if (!role.ok) {
    if (role.error.reason === "not-found") return { kind: "no", role: "none" };
    return { kind: "unknown", why: describeFailure(role.error), retryAt: retryAt(role.error) };
  }
  if (role.value.userId !== person.id) return { kind: "no", role: "none: the login belongs to another account now" };
  const allowed: readonly string[] = config.access.roles;
  return allowed.includes(role.value.roleName) ? { kind: "yes" } : { kind: "no", role: role.value.roleName };
}

async function testedRevision(
  port: AuthorizePort,
  pull: Pull,
  terms: Terms,
  tested: "as-configured" | "head",
): Promise<{ readonly sha: string } | AuthorizeOutcome> {
  if (tested === "head" || terms.testedRevision === "head") return { sha: pull.headSha };
  const ref = await port.getRef(`pull/${pull.number}/merge`);
  if (!ref.ok) return unknown(ref.error);
  if (ref.value !== null) {
    const commit = await port.getCommit(ref.value);
    if (!commit.ok && commit.error.reason !== "not-found") return unknown(commit.error);
    // A merge of an earlier head would be tested in the name of this one. The head is the last of its parents.
    if (commit.ok && commit.value.parents.at(-1) === pull.headSha) return { sha: ref.value };
  }
  if (pull.mergeable !== false) {
    return { kind: "unknown", why: "GitHub has not made the test merge of this head yet", retryAt: null };
  }
  return refused(
    "tested-revision-missing",
    `GitHub has no merge commit for this head. Resolve conflicts with ${pull.baseRef} and push.`,
    terms,
  );
}

/** The class of a pull request's complete list of files; a list with anything wrong about it is code. */
export async function changedFiles(
  port: Pick<AuthorizePort, "listPullFiles">,
  pull: Pick<Pull, "number" | "changedFiles">,
  config: RepositoryConfig,
): Promise<{ readonly classification: Classification } | AuthorizeOutcome> {
  const listed = await port.listPullFiles(pull.number);
  if (!listed.ok) return unknown(listed.error);
  const files = listed.value.files.map((file) =>
    fromListedFile({
      filename: file.filename,
      previous_filename: file.previousFilename,
      status: file.status,
      changes: file.changes,
      patch: file.patch,
    }),
  );
  const problem = listProblem(files.length, pull.changedFiles);
  return { classification: classify(config, { event: "pull_request", files, problem }) };
}

function stillTheSame(first: Pull, second: Pull, terms: Terms): AuthorizeOutcome | null {
  if (second.state !== "open") return { kind: "closed", terms };
  if (second.headSha !== first.headSha) return { kind: "moved", headSha: second.headSha, terms };
  if (second.baseRef !== first.baseRef) {
    return refused("base-changed", "The base branch was changed while it was looked at; it is looked at again.", terms);
  }
  const repositories =
    second.headRepositoryId === first.headRepositoryId && second.baseRepositoryId === first.baseRepositoryId;
  return repositories ? null : refused("fork", "The head repository changed while it was looked at.", terms);
}

function admissionOf(
  input: AuthorizeInput,
  rules: Rules,
  pull: Pull,
  testedSha: string,
  classification: Classification,
  workflowBlobs: Readonly<Record<string, string>>,
): Admission {
  return {
    admittedAt: input.now,
    defaultBranch: rules.defaultBranch,
    defaultSha: rules.defaultSha,
    workflowBlobs: { ...workflowBlobs },
    baseRef: pull.baseRef,
    baseSha: pull.baseSha,
    testedSha,
    title: pull.title.slice(0, 200),
    author: pull.author,
    actor: input.actor ?? pull.author,
    classification: classification.classification,
    lanes: { ...classification.lanes },
    gpuRequired: classification.gpu,
    reason: classification.reasons
      .slice(0, 3)
      .map(({ text }) => text)
      .join("; ")
      .slice(0, 500),
    draft: pull.draft && rules.config.drafts === "wait",
  };
}

export function refused(
  reason: CodesOf<"refused">,
  detail: string,
  terms: Terms | null,
  heldBy?: HeldBy,
): AuthorizeOutcome {
  return { kind: "refused", reason, detail, terms, ...(heldBy === undefined ? {} : { heldBy }) };
}

export function unknown(failure: GitHubFailure): AuthorizeOutcome & { readonly kind: "unknown" } {
  return { kind: "unknown", why: describeFailure(failure), retryAt: retryAt(failure) };
}

function retryAt(failure: GitHubFailure): Millis | null {
  return failure.reason === "rate-limited" ? failure.retryAtMs : null;
}

/**
 * What people look at: where the `html_url`s lead. A repository with its pull requests, a pull request or commit with its
 * checks, one check, one run. Plain pages without script; what checks say is shown as the Markdown they were given.
 */

import { html, trusted, type Html } from "../../worker/html.ts";
import { checkRunsOfCommit } from "./checks.ts";
import type { Hub } from "./hub.ts";
import { fullName, iso, type CheckRun, type PullRequest, type Repository, type WorkflowRun } from "./model.ts";
import { latestByName } from "./render-checks.ts";

const STYLE = trusted(`
  :root { color-scheme: light dark; }
  body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
  table { border-collapse: collapse; width: 100%; }
  td, th { text-align: left; padding: 0.3rem 0.6rem; border-bottom: 1px solid #8884; vertical-align: top; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #8881; padding: 0.75rem; border-radius: 6px; }
  .good { color: light-dark(#1a7f37, #3fb950); } .bad { color: light-dark(#cf222e, #ff7b72); }
  .wait { color: light-dark(#9a6700, #d29922); } .soft { opacity: 0.7; }
  code { overflow-wrap: anywhere; }
`);

/** The page at a path, or null where there is none. `path` is as asked, without the query. */
export function pageAt(hub: Hub, path: string): string | null {
  if (path === "/") return page("Local GitHub", [list([...hub.world.repositories.values()].map(repositoryLink))]);
  const [, owner, name, ...rest] = path.split("/").map(decoded);
  const repository = hub.world.repository(owner ?? "", name ?? "");
  if (repository === undefined) return null;
  const title = fullName(repository);
  const [kind = "", id = "", third = ""] = rest;
  if (kind === "") return page(title, [pullTable(hub, repository)]);
  if (kind === "pull") {
    const pull = repository.pulls.find((one) => String(one.number) === id);
    return pull === undefined ? null : pullPage(hub, repository, pull);
  }
  if (kind === "commit") {
    const known = repository.git.findCommit(id) !== undefined;
    return known
      ? page(`${title} at ${id.slice(0, 8)}`, [repositoryLink(repository), checks(hub, repository, id)])
      : null;
  }
  if (kind === "runs") {
    const check = hub.world.checkRuns.get(Number(id));
    if (check?.repository !== repository) return null;
    return page(check.name, [repositoryLink(repository), oneCheck(check, true)]);
  }
  if (kind !== "actions" || id !== "runs") return null;
  const run = hub.world.runs.get(Number(third));
  return run?.repository === repository ? runPage(run) : null;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function page(title: string, parts: readonly Html[]): string {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${title}</title>
        <style>
          ${STYLE}
        </style>
      </head>
      <body>
        <p class="soft">A local GitHub; nothing here is on the internet.</p>
        <h1>${title}</h1>
        ${parts}
      </body>
    </html>`.text;
}

const list = (items: readonly Html[]): Html =>
  html`<ul>
    ${items.map((item) => html`<li>${item}</li>`)}
  </ul>`;

function pathOf(repository: Repository): string {
  return `/${encodeURIComponent(repository.owner.login)}/${encodeURIComponent(repository.name)}`;
}

const repositoryLink = (repository: Repository): Html =>
  html`<a href="${pathOf(repository)}">${fullName(repository)}</a>`;

function pullTable(hub: Hub, repository: Repository): Html {
  const rows = repository.pulls.toReversed().map(
    (pull) =>
      html`<tr>
        <td><a href="${pathOf(repository)}/pull/${pull.number}">#${pull.number} ${pull.title}</a></td>
        <td>${stateOf(pull)}</td>
        <td>
          ${latest(hub, repository, pull.head.sha).map((check) => html`<div>${badge(check)} ${check.name} <span class="soft">${check.title ?? ""}</span></div>`)}
        </td>
      </tr>`,
  );
  return html`<table>
    <tr>
      <th>Pull request</th>
      <th>State</th>
      <th>Checks of its head</th>
    </tr>
    ${rows}
  </table>`;
}

function stateOf({ merged, state, draft }: PullRequest): string {
  if (merged) return "merged";
  return state === "open" && draft ? "draft" : state;
}

function pullPage(hub: Hub, repository: Repository, pull: PullRequest): string {
  const { head, base, user } = pull;
  const comments = repository.comments.filter((comment) => comment.number === pull.number);
  return page(`#${pull.number} ${pull.title}`, [
    html`<p>
      ${repositoryLink(repository)}, ${stateOf(pull)}: ${user.login} wants to merge <code>${head.branch}</code> of
      ${fullName(head.repository)} into <code>${base.branch}</code>. Its head is
      <a href="${pathOf(repository)}/commit/${head.sha}"><code>${head.sha.slice(0, 8)}</code></a
      >.
    </p>`,
    checks(hub, repository, head.sha),
    ...(comments.length === 0 ? [] : [html`<h2>Comments</h2>`]),
    ...comments.map(
      (comment) =>
        html`<p class="soft">${comment.user.login}, ${iso(comment.createdAt)}</p>
          <pre>${comment.body}</pre>`,
    ),
  ]);
}

function all(hub: Hub, repository: Repository, sha: string): CheckRun[] {
  const filter = { latestOnly: false, name: null, appId: null, status: null, suiteId: null };
  return checkRunsOfCommit(hub, repository, sha, filter);
}

const latest = (hub: Hub, repository: Repository, sha: string): CheckRun[] =>
  latestByName(all(hub, repository, sha)).sort((a, b) => told(a) - told(b) || a.name.localeCompare(b.name));

/** Checks that say more than their mark come first: here a job's own never does. */
const told = ({ title }: CheckRun): number => (title === null || title === "" ? 1 : 0);

function checks(hub: Hub, repository: Repository, sha: string): Html {
  const now = latest(hub, repository, sha);
  const earlier = all(hub, repository, sha).filter((check) => !now.includes(check));
  return html`<h2>Checks of ${sha.slice(0, 8)}</h2>
    ${now.length === 0 ? html`<p class="soft">None yet.</p>` : null}
    ${now.map((check) => oneCheck(check, told(check) === 0))}
    ${earlier.length === 0 ? null : html`<h2>Earlier ones</h2>`} ${earlier.map((check) => oneCheck(check, false))}`;
}

function badge({ status, conclusion }: CheckRun): Html {
  const word = conclusion ?? status.replace("_", " ");
  const kind = conclusion === null || conclusion === "action_required" ? "wait" : GOOD.has(conclusion) ? "good" : "bad";
  return html`<b class="${kind}">${word.replace("_", " ")}</b>`;
}

const GOOD: ReadonlySet<string> = new Set(["success", "neutral", "skipped"]);

function oneCheck(check: CheckRun, open: boolean): Html {
  const { actions, completedAt, summary, text, title } = check;
  const heading = html`<summary>${badge(check)} <b>${check.name}</b> ${title ?? ""}</summary>`;
  const body = html`<p class="soft">
      <a href="${pathOf(check.repository)}/runs/${check.id}">check ${check.id}</a>
      ${completedAt === null ? null : `, completed ${iso(completedAt)}`}
    </p>
    ${summary === null ? null : html`<pre>${summary}</pre>`} ${text === null ? null : html`<pre>${text}</pre>`}
    ${actions.map((action) => html`<p class="soft">Button: ${action.label} (${action.description})</p>`)}`;
  return open ? html`<details open>${heading} ${body}</details>` : html`<details>${heading} ${body}</details>`;
}

function runPage(run: WorkflowRun): string {
  const attempts = run.attempts.toReversed().map((attempt) => {
    const jobs = attempt.jobs.map(
      (job) =>
        html`<h3>${job.name}: ${job.conclusion ?? job.status}</h3>
          <p class="soft">${job.runnerName === null ? "no runner yet" : `on ${job.runnerName}`}</p>
          <ol>
            ${job.steps.map((step) => html`<li>${step.name}: ${step.conclusion ?? step.status}</li>`)}
          </ol>
          ${job.summary === "" ? null : html`<pre>${job.summary}</pre>`}`,
    );
    return html`<h2>Attempt ${attempt.number}: ${attempt.conclusion ?? attempt.status}</h2>
      ${attempt.annotations.map((note) => html`<pre>${note.message}</pre>`)} ${jobs}`;
  });
  return page(run.displayTitle, [
    html`<p>
      ${repositoryLink(run.repository)}, <code>${run.workflow.path}</code>, by ${run.event} of ${run.actor.login} at
      <code>${run.headBranch}</code>
      <a href="${pathOf(run.repository)}/commit/${run.headSha}"><code>${run.headSha.slice(0, 8)}</code></a>
    </p>`,
    ...attempts,
  ]);
}

/** The App itself: its key, what it may do and hear, how its webhook is set, and the clock its tokens depend on. */
import { checkAppKey } from "../../shared/github/app-key.ts";
import type { AppInfo, GitHubAppClient, Installation } from "../../shared/github/app-client.ts";
import { safeText } from "../../shared/http.ts";
import type { FetchLike, Millis } from "../../shared/ports.ts";
import { fine, problem, unanswered, warning, type Finding } from "./finding.ts";

type Level = "read" | "write";

/** GitHub's names for what the README asks for; who needs it beside everybody. */
const NEEDED: readonly (readonly [string, Level, string | null])[] = [
  ["metadata", "read", null],
  ["contents", "read", null],
  ["pull_requests", "read", null],
  ["actions", "write", null],
  ["checks", "write", null],
  ["statuses", "write", "the App cannot be chosen as the source of a required check"],
  ["actions_variables", "read", "switches of lanes on own machines cannot be read"],
  ["merge_queues", "read", "merge queues get no check"],
  ["issues", "read", "comment commands are not heard"],
];

const EVENTS = ["pull_request", "workflow_run", "workflow_job", "check_run", "check_suite", "repository"];
const OPTIONAL_EVENTS = ["merge_group", "issue_comment"];

/** JWTs are good for minutes: GitHub refuses those of a clock that is further off. */
const SKEW_WARNING_MS = 20_000;
const SKEW_PROBLEM_MS = 60_000;

export async function lookAtKey(privateKey: string): Promise<Finding> {
  const key = await checkAppKey(privateKey);
  return key.ok ? fine("App key", `signs (${key.value.bits} bits)`) : problem("App key", key.error.message);
}

/** `workerUrl` is the Worker's address without a slash at its end; empty where it is not known. */
export async function lookAtApp(
  client: Pick<GitHubAppClient, "getApp" | "getHookConfig">,
  workerUrl: string,
): Promise<readonly Finding[]> {
  const app = await client.getApp();
  if (!app.ok) {
    const unauthorized = app.error.reason === "unauthorized";
    if (!unauthorized) return [unanswered("App", app.error)];
    return [
      problem("App", "GitHub does not accept the key: GITHUB_APP_ID and GITHUB_APP_PRIVATE_KEY must belong together."),
    ];
  }
  return [
    ...grants("App permissions", app.value.permissions),
    events(app.value),
    ...(await webhook(client, workerUrl)),
  ];
}

/** Permissions that were asked for but not yet accepted by this installation's owner are not there. */
export function lookAtInstallation(name: string, installation: Installation): readonly Finding[] {
  if (installation.suspended)
    return [problem(`${name}: installation`, "is suspended: its owner must unsuspend the App.")];
  return grants(`${name}: granted permissions`, installation.permissions);
}

function grants(what: string, held: Readonly<Record<string, string>>): readonly Finding[] {
  const lacks = (name: string, level: Level): boolean =>
    level === "write" ? held[name] !== "write" && held[name] !== "admin" : held[name] === undefined;
  const missing = NEEDED.filter(([name, level]) => lacks(name, level));
  const findings: Finding[] = [];
  const needed = missing.flatMap(([name, level, without]) => (without === null ? [`${name}: ${level}`] : []));
  if (lacks("organization_self_hosted_runners", "write") && lacks("administration", "write")) {
    needed.push("organization_self_hosted_runners: write (or administration: write)");
  }
  if (needed.length > 0)
    findings.push(problem(what, `missing ${needed.join(", ")}: add them in the App's settings and accept them.`));
  for (const [name, level, without] of missing) {
    if (without !== null) findings.push(warning(what, `without ${name}: ${level} ${without}.`));
  }
  return findings.length === 0 ? [fine(what, "complete")] : findings;
}

function events(app: AppInfo): Finding {
  const missing = EVENTS.filter((name) => !app.events.includes(name));
  const optional = OPTIONAL_EVENTS.filter((name) => !app.events.includes(name));
  if (missing.length > 0) {
    return problem("App events", `not subscribed to ${missing.join(", ")}: subscribe in the App's settings.`);
  }
  if (optional.length > 0)
    return warning("App events", `not subscribed to ${optional.join(", ")}, which some uses need.`);
  return fine("App events", "complete");
}

async function webhook(client: Pick<GitHubAppClient, "getHookConfig">, workerUrl: string): Promise<readonly Finding[]> {
  const config = await client.getHookConfig();
  if (!config.ok) return [unanswered("Webhook", config.error)];
  const { url, contentType, hasSecret, verifiesTls } = config.value;
  const faults = [
    ...(url === null || url === "" ? ["it has no address"] : []),
    ...(contentType === "json" ? [] : ["its content type is not application/json"]),
    ...(hasSecret ? [] : ["it has no secret"]),
  ];
  if (faults.length > 0) return [problem("Webhook", `${faults.join(", ")}: change it in the App's settings.`)];
  if (!verifiesTls) return [warning("Webhook", "does not verify TLS: turn that on in the App's settings.")];
  const ours = `${workerUrl}/github/webhooks`;
  // No problem yet: the Worker may have a second address.
  if (workerUrl !== "" && url !== ours)
    return [
      warning("Webhook", `goes to ${safeText(url ?? "")}, not to ${ours}: correct it unless both are this Worker.`),
    ];
  return [fine("Webhook", "json, with a secret")];
}

/** Compares with the `Date` of GitHub's answer, in the middle of the time the question took. */
export async function lookAtClock(apiUrl: string, fetch: FetchLike, now: () => Millis): Promise<Finding> {
  const what = "Clock";
  const before = now();
  try {
    const answer = await fetch(`${apiUrl}/meta`, {
      headers: { "user-agent": "gpu-gate" },
      redirect: "manual",
      signal: AbortSignal.timeout(10_000),
    });
    await answer.body?.cancel();
    const theirs = Date.parse(answer.headers.get("date") ?? "");
    if (Number.isNaN(theirs)) return warning(what, "could not be told: GitHub's answer has no readable date.");
    // The header has whole seconds.
    const off = Math.abs((before + now()) / 2 - theirs - 500);
    const say = `${Math.round(off / 1000)} s from GitHub's`;
    if (off >= SKEW_PROBLEM_MS)
      return problem(what, `${say}: set this machine's clock, or GitHub refuses what it signs.`);
    return off >= SKEW_WARNING_MS ? warning(what, `${say}: set this machine's clock.`) : fine(what, say);
  } catch {
    return warning(what, "could not be told: GitHub did not answer.");
  }
}

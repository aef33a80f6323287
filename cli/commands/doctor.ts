/** `gpu-gate doctor`: looks at everything a deployment depends on, and says for each thing that it is fine or what to do. */
import { isHeaderWord, NO_HEADER_WORD } from "../../shared/header-word.ts";
import { parseArgs } from "node:util";
import { createGitHubAppClient, type GitHubAppClient } from "../../shared/github/app-client.ts";
import { createGitHubApp, type GitHubApp } from "../../shared/github/app.ts";
import type { RepositoryConfig } from "../../shared/config/schema.ts";
import { createRunPodClient } from "../../shared/runpod/client.ts";
import { addressFor } from "../addresses.ts";
import { EXIT_NO, EXIT_OK, UsageError, type Command, type Io } from "../command.ts";
import { ADDRESS_VARIABLE, addressOf } from "../control-plane.ts";
import { lookAtApp, lookAtClock, lookAtInstallation, lookAtKey } from "../doctor/app.ts";
import { fine, problem, unanswered, warning, type Finding } from "../doctor/finding.ts";
import { lookAtRunner, lookAtRunPod, lookAtWorker } from "../doctor/outside.ts";
import { lookAtRepository } from "../doctor/repository.ts";
import { readText } from "../files.ts";

const usage = `
gpu-gate doctor [--url URL]

Looks at a deployment from outside, with the Worker's own settings in the environment, and changes nothing: the App's
key, permissions, events and webhook; each repository of the allow-list, its branch rule, other producers of the check, its
runner group and whose jobs that takes; RunPod's key and balance; the runner's release; the Worker's health and cron; this machine's clock.

  --url URL   address of the Worker, or set GPU_GATE_URL; left out, Worker, cron and the webhook's address are not looked at

Environment, named as the Worker's: GITHUB_APP_ID, GITHUB_APP_PRIVATE_KEY (or GITHUB_APP_PRIVATE_KEY_FILE),
GITHUB_ALLOWED_REPOSITORIES, RUNPOD_API_KEY; GITHUB_API_URL, RUNPOD_API_URL, RUNPOD_GRAPHQL_URL and
IMAGE_REGISTRY_URL where they are somewhere else.

Each line is ok, warning or PROBLEM, and says what to do. Exit codes: 0 no problem, 1 a problem, 2 wrong call.
`;

const PAGES = 10;

export const doctorCommand: Command = {
  name: "doctor",
  summary: "Look at everything the deployment depends on, and say what to do",
  usage,
  run: async (args, io) => {
    const { values } = parseArgs({ args: [...args], options: { url: { type: "string" } } });
    const url = values.url ?? io.env[ADDRESS_VARIABLE] ?? "";
    // Before anything is asked: the rest takes a while, and a slip of the pen should not.
    const findings = await examine(io, url === "" ? "" : addressOf(values.url, io, "no secret"));
    const width = Math.max(...findings.map((finding) => finding.what.length));
    for (const { state, what, say } of findings) {
      io.stdout(`${state === "problem" ? "PROBLEM" : state.padEnd(7)}  ${what.padEnd(width)}  ${say}\n`);
    }
    const count = (state: Finding["state"]) => findings.filter((finding) => finding.state === state).length;
    io.stdout(`${count("ok")} ok, ${count("warning")} warnings, ${count("problem")} problems\n`);
    return count("problem") === 0 ? EXIT_OK : EXIT_NO;
  },
};

async function examine(io: Io, url: string): Promise<readonly Finding[]> {
  const address = (name: string, otherwise: string): string => addressFor(name, io.env[name] || otherwise);
  const apiUrl = address("GITHUB_API_URL", "https://api.github.com");
  const privateKey = await appKey(io);
  const appId = io.env["GITHUB_APP_ID"] ?? "";
  if (appId === "") throw new UsageError("GITHUB_APP_ID is not set: the number on the App's settings page.");
  const key = await lookAtKey(privateKey);
  const findings: Finding[] = [key, await lookAtClock(apiUrl, io.fetch, io.now)];
  let config: RepositoryConfig | null = null;
  const app = createGitHubApp({ appId, privateKey, apiUrl }, { fetch: io.fetch, clock: { now: io.now } });
  if (app.ok && key.state === "ok") {
    const client = createGitHubAppClient(app.value);
    findings.push(...(await lookAtApp(client, url)));
    const seen = await repositories(io, app.value, client, appId);
    findings.push(...seen.findings);
    config = seen.config;
  }
  const apiKey = (io.env["RUNPOD_API_KEY"] ?? "").trim();
  if (apiKey === "") findings.push(problem("RunPod", "RUNPOD_API_KEY is not set."));
  else if (!isHeaderWord(apiKey)) findings.push(problem("RunPod", `RUNPOD_API_KEY ${NO_HEADER_WORD}: paste it again.`));
  else {
    const baseUrl = address("RUNPOD_API_URL", "https://api.runpod.io");
    const graphqlUrl = address("RUNPOD_GRAPHQL_URL", `${baseUrl}/graphql`);
    const clock = { now: io.now };
    findings.push(
      ...(await lookAtRunPod(
        createRunPodClient({ apiKey, baseUrl, graphqlUrl, fetch: io.fetch, clock, userAgent: "gpu-gate" }),
      )),
    );
  }
  const releases = `${apiUrl}/repos/actions/runner/releases?per_page=10`;
  findings.push(
    await lookAtRunner(config, address("IMAGE_REGISTRY_URL", "https://ghcr.io"), releases, io.fetch, io.now()),
  );
  if (url === "") findings.push(warning("Worker", "not looked at: give --url."));
  else findings.push(...(await lookAtWorker(url, io.fetch, io.now())));
  return findings;
}

async function appKey(io: Io): Promise<string> {
  const given = io.env["GITHUB_APP_PRIVATE_KEY"] ?? "";
  if (given !== "") return given;
  const file = io.env["GITHUB_APP_PRIVATE_KEY_FILE"] ?? "";
  if (file === "") throw new UsageError("Set GITHUB_APP_PRIVATE_KEY, or GITHUB_APP_PRIVATE_KEY_FILE to the .pem file.");
  return readText(io, file, "The App's key");
}

/** The allow-list has numbers only: the installations say which repositories they are. */
async function repositories(io: Io, app: GitHubApp, client: GitHubAppClient, appId: string) {
  const ids = (io.env["GITHUB_ALLOWED_REPOSITORIES"] ?? "").split(",").map((id) => id.trim());
  const served: ReadonlySet<string> = new Set(ids.filter(Boolean));
  const wanted = new Set(served);
  const findings: Finding[] = [];
  let config: RepositoryConfig | null = null;
  const none = "GITHUB_ALLOWED_REPOSITORIES is empty: nothing is served. List numeric repository ids.";
  if (wanted.size === 0) return { findings: [problem("Allow-list", none)], config };
  const bad = [...wanted].filter((id) => !/^[1-9]\d*$/.test(id));
  if (bad.length > 0) {
    return { findings: [problem("Allow-list", `must have numeric ids, not names: ${bad.join(", ")}.`)], config };
  }
  const installations = await client.listInstallations();
  if (!installations.ok) return { findings: [unanswered("Allow-list", installations.error)], config };
  for (const installation of installations.value.items) {
    if (wanted.size === 0) break;
    const listed = installation.suspended ? null : await client.listInstallationRepositories(installation.id, PAGES);
    if (listed === null) continue;
    if (!listed.ok) {
      findings.push(unanswered(`Installation ${installation.id}`, listed.error));
      continue;
    }
    for (const repository of listed.value.items) {
      if (!wanted.delete(repository.id)) continue;
      const name = `${repository.owner}/${repository.name}`;
      findings.push(fine("Allow-list", `${repository.id} is ${name}`), ...lookAtInstallation(name, installation));
      const looked = await lookAtRepository(app, { ...repository, installationId: installation.id }, appId, served);
      findings.push(...looked.findings);
      config ??= looked.config;
    }
  }
  for (const id of wanted) {
    findings.push(
      problem("Allow-list", `no installation of the App sees repository ${id}: install it there, or remove the id.`),
    );
  }
  return { findings, config };
}

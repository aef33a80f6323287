/**
 * `gpu-gate sweep`: asks the control plane, from outside, whether it is well, and lets it look for what is left over; or,
 * with RunPod's key, removes by itself what is older than the backstop. The second needs no control plane at all.
 */
import { isHeaderWord, NO_HEADER_WORD } from "../../shared/header-word.ts";
import { setTimeout } from "node:timers/promises";
import { parseArgs } from "node:util";
import { EXIT_NO, EXIT_OK, UsageError, type Command, type Io } from "../command.ts";
import { addressFor } from "../addresses.ts";
import { ADDRESS_VARIABLE, addressOf, CHECK_ADDRESS } from "../control-plane.ts";
import { whyNoAnswer } from "../no-answer.ts";
import { DEFAULT_REAP_LIMITS } from "../../shared/lifecycle/reap.ts";
import { safeText } from "../../shared/http.ts";
import type { Millis } from "../../shared/ports.ts";
import { createRunPodClient } from "../../shared/runpod/client.ts";
import { sweepPods } from "../sweep-pods.ts";

const usage = `
gpu-gate sweep [--url URL]
gpu-gate sweep --deployment NAME [--dry-run] [--backstop SECONDS]

With --url, for the scheduled workflow gpu-gate-sweep.yml. Asks GET /healthz, and, where the job has an OIDC token to show, POST
/v1/sweep: when cron has not ticked for three minutes, the control plane does cron's duties then. Ends red when it had to.
This command holds no key of anything.

With --deployment: lists the pods of the RunPod account of RUNPOD_API_KEY, removes those that the deployment's tags call
its own and that are older than the backstop, and proves each gone. It asks neither the control plane nor GitHub: for when
the control plane is down. Pods of others, and younger ones, are not touched. A pod kept for debugging has its record at
the control plane, which is not asked: beyond the backstop it goes as well.

  --url URL            address of the control plane, default GPU_GATE_URL
  --deployment NAME    the deployment whose pods are meant (DEPLOYMENT in wrangler.toml)
  --dry-run            say what would be removed, and touch nothing
  --backstop SECONDS   age from which a pod is removed: 7200, or less

Environment: RUNPOD_API_KEY, and RUNPOD_API_URL where RunPod is somewhere else.

Exit codes: 0 well, nothing left over, 1 it is not, or does not answer, 2 wrong call.
`;

/** In an answer that is otherwise fine: somebody has to look, or the next sweep is all that is left of cron. */
const CRON_IS_DEAD = /"swept":\s*true/;

/** The workflow's step has six minutes; three questions fit in easily. */
const TIMEOUT_MS = 60_000;
/** Enough to read what went wrong, too little to fill a log. */
const SHOWN_CHARACTERS = 2_000;

export const sweepCommand: Command = {
  name: "sweep",
  summary: "Look for what is late or left over: by the control plane, or with RunPod's key alone",
  usage,
  run: async (args, io) => {
    const { values } = parseArgs({
      args: [...args],
      options: {
        url: { type: "string" },
        deployment: { type: "string" },
        "dry-run": { type: "boolean" },
        backstop: { type: "string" },
      },
    });
    if (values.deployment === "") throw new UsageError("--deployment takes the name of a deployment.");
    if (values.deployment !== undefined) {
      if (values.url !== undefined) throw new UsageError("Give --url or --deployment, not both.");
      return sweepAccount(io, values.deployment, values["dry-run"] !== true, backstopOf(values.backstop));
    }
    if (values["dry-run"] !== undefined || values.backstop !== undefined)
      throw new UsageError("--dry-run and --backstop belong to --deployment.");
    if ((values.url ?? io.env[ADDRESS_VARIABLE] ?? "") === "")
      throw new UsageError(
        `Say what is swept: --url URL (or ${ADDRESS_VARIABLE}) has the control plane look, --deployment NAME removes pods with RunPod's key.`,
      );
    const url = addressOf(values.url, io);
    if (!(await said(io, "GET", `${url}/healthz`, {}, [200]))) return EXIT_NO;
    const token = await oidcToken(io, `${url}/v1/read-only`);
    if (token === undefined) {
      io.stdout("No OIDC token in this job: only the health was asked for.\n");
      return EXIT_OK;
    }
    if (token === null) return EXIT_NO;
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    return (await said(io, "POST", `${url}/v1/sweep`, headers, [200], CRON_IS_DEAD)) ? EXIT_OK : EXIT_NO;
  },
};

const BACKSTOP_SECONDS = DEFAULT_REAP_LIMITS.backstopMs / 1000;
/** Two lists this far apart prove absence (design section 3). */
const LIST_GAP_MS = 10_000;

function backstopOf(text: string | undefined): Millis {
  const seconds = text === undefined ? BACKSTOP_SECONDS : Number(text);
  if (!(seconds >= 1 && seconds <= BACKSTOP_SECONDS))
    throw new UsageError(`--backstop must be a number of seconds from 1 to ${BACKSTOP_SECONDS}.`);
  return seconds * 1000;
}

async function sweepAccount(io: Io, deployment: string, execute: boolean, backstopMs: Millis): Promise<number> {
  const apiKey = (io.env["RUNPOD_API_KEY"] ?? "").trim();
  if (apiKey === "") throw new UsageError("RUNPOD_API_KEY is not set: the sweep needs RunPod's key.");
  if (!isHeaderWord(apiKey)) throw new UsageError(`RUNPOD_API_KEY ${NO_HEADER_WORD}.`);
  const baseUrl = addressFor("RUNPOD_API_URL", io.env["RUNPOD_API_URL"] || "https://api.runpod.io");
  const client = createRunPodClient({
    apiKey,
    baseUrl,
    graphqlUrl: `${baseUrl}/graphql`,
    fetch: io.fetch,
    clock: { now: io.now },
    userAgent: "gpu-gate",
  });
  const answer = await sweepPods(client, {
    deployment,
    execute,
    backstopMs,
    listGapMs: LIST_GAP_MS,
    now: io.now,
    sleep: (durationMs) => setTimeout(durationMs),
  });
  if (answer.kind === "no-list") {
    io.stderr(`RunPod's list of pods could not be read (${answer.why}): nothing was looked at.\n`);
    return EXIT_NO;
  }
  const { result, listed, complete } = answer;
  io.stdout(`${listed} pods listed: ${result.pods.length} of ${deployment}, ${result.foreign} of others.\n`);
  for (const pod of result.pods) {
    if (pod.reason === null) io.stdout(`${pod.podId}: younger than the backstop, left alone\n`);
    else if (!execute) io.stdout(`${pod.podId}: would be removed (${pod.reason})\n`);
    else if (pod.provenGone) io.stdout(`${pod.podId}: removed and proven gone (${pod.reason})\n`);
  }
  for (const { podId, what } of result.errors) io.stderr(`${podId}: ${what}\n`);
  if (!complete) io.stderr("The list of pods was not complete: run this again.\n");
  return result.errors.length === 0 && complete ? EXIT_OK : EXIT_NO;
}

/** Asks, prints status and beginning of the answer, and says whether the status is one of `fine` and the answer not `bad`. */
async function said(
  io: Io,
  method: string,
  url: string,
  headers: Readonly<Record<string, string>>,
  fine: readonly number[],
  bad: RegExp | null = null,
): Promise<boolean> {
  try {
    const body = method === "POST" ? { body: "{}" } : {};
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const answer = await io.fetch(url, { method, headers, redirect: "manual", signal, ...body });
    // On one line behind our own words: a line of an answer could be a command to the runner.
    const text = safeText((await answer.text()).replaceAll("##[", "# # ["), SHOWN_CHARACTERS);
    io.stdout(`${method} ${url}: ${answer.status}\n${text === "" ? "" : `answer: ${text}\n`}`);
    if (fine.includes(answer.status) && bad?.test(text) !== true) return true;
    if (fine.includes(answer.status)) {
      io.stdout(
        "::error title=Sweep::Cron does not tick: the sweep did its work. Look at the Worker's Cron Triggers.\n",
      );
      return false;
    }
    io.stdout(`::error title=Sweep::${method} ${new URL(url).pathname} answered ${answer.status}.\n`);
  } catch (error) {
    const why = `${whyNoAnswer(error)}. ${CHECK_ADDRESS}.`;
    io.stdout(`::error title=Sweep::${method} ${new URL(url).pathname} was not answered: ${why}\n`);
  }
  return false;
}

/** GitHub's token for the audience; undefined where the job may ask for none, null where asking failed. */
async function oidcToken(io: Io, audience: string): Promise<string | null | undefined> {
  const address = io.env["ACTIONS_ID_TOKEN_REQUEST_URL"];
  const bearer = io.env["ACTIONS_ID_TOKEN_REQUEST_TOKEN"];
  if (address === undefined || bearer === undefined) return undefined;
  try {
    const answer = await io.fetch(`${address}&audience=${encodeURIComponent(audience)}`, {
      headers: { authorization: `bearer ${bearer}` },
      redirect: "manual",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const body: unknown = answer.ok ? await answer.json() : null;
    if (typeof body === "object" && body !== null && "value" in body && typeof body.value === "string") {
      // A token must not stand in a log, should anything print it later.
      io.stdout(`::add-mask::${body.value}\n`);
      return body.value;
    }
  } catch {
    // Said below: there is no token either way.
  }
  io.stdout("::error title=Sweep::GitHub gave this job no OIDC token.\n");
  return null;
}

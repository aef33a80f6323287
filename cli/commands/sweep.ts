/** `gpu-gate sweep`: asks the control plane, from outside, whether it is well, and lets it look for what is left over. */
import { parseArgs } from "node:util";
import { EXIT_NO, EXIT_OK, UsageError, type Command, type Io } from "../command.ts";
import { required } from "../files.ts";

const usage = `
gpu-gate sweep --url URL

For the scheduled workflow gpu-gate-sweep.yml. Asks GET /healthz, and, where the job has an OIDC token to show, POST
/v1/sweep. The control plane decides what to do; this command holds no key of anything. A control plane without that
route sweeps by its own cron, which is fine.

  --url URL   address of the control plane (the repository variable GPU_GATE_URL)

Exit codes: 0 well, 1 it is not, or does not answer, 2 wrong call.
`;

/** The workflow's step has six minutes; three questions fit in easily. */
const TIMEOUT_MS = 60_000;
/** Enough to read what went wrong, too little to fill a log. */
const SHOWN_CHARACTERS = 2_000;

export const sweepCommand: Command = {
  name: "sweep",
  summary: "ask the control plane whether anything is late or left over",
  usage,
  run: async (args, io) => {
    const { values } = parseArgs({ args: [...args], options: { url: { type: "string" } } });
    const url = addressOf(required(values.url, "--url", "The control plane's address"));
    if (!(await said(io, "GET", `${url}/healthz`, {}, [200]))) return EXIT_NO;
    const token = await oidcToken(io, url);
    if (token === undefined) {
      io.stdout("No OIDC token in this job: only the health was asked for.\n");
      return EXIT_OK;
    }
    if (token === null) return EXIT_NO;
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    return (await said(io, "POST", `${url}/v1/sweep`, headers, [200, 202, 204, 404])) ? EXIT_OK : EXIT_NO;
  },
};

function addressOf(text: string): string {
  const parsed = URL.parse(text);
  if (parsed === null || !/^https?:$/.test(parsed.protocol)) throw new UsageError(`'${text}' is no http address.`);
  return text.replace(/\/+$/, "");
}

/** Asks, prints status and beginning of the answer, and says whether the status is one of `fine`. */
async function said(
  io: Io,
  method: string,
  url: string,
  headers: Readonly<Record<string, string>>,
  fine: readonly number[],
): Promise<boolean> {
  try {
    const body = method === "POST" ? { body: "{}" } : {};
    const answer = await io.fetch(url, { method, headers, signal: AbortSignal.timeout(TIMEOUT_MS), ...body });
    const text = (await answer.text()).slice(0, SHOWN_CHARACTERS);
    io.stdout(`${method} ${url}: ${answer.status}\n${text === "" ? "" : `${text}\n`}`);
    if (fine.includes(answer.status)) return true;
    io.stdout(`::error title=Sweep::${method} ${new URL(url).pathname} answered ${answer.status}.\n`);
  } catch (error) {
    const why = error instanceof Error ? error.message.replaceAll(/\s+/g, " ") : "no answer";
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

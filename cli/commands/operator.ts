/** `gpu-gate pause`, `resume` and `retain`: the operator's word to the control plane. */
import { parseArgs } from "node:util";
import * as z from "zod";
import { safeText } from "../../shared/http.ts";
import { EXIT_NO, EXIT_OK, UsageError, type Command, type Io } from "../command.ts";
import { addressOf, callControlPlane, operatorToken, TOKEN_VARIABLE } from "../control-plane.ts";
import { allGiven, required } from "../files.ts";
import { MAX_MINUTES } from "../keep.ts";

const common = `
  --url URL          address of the control plane, default GPU_GATE_URL
  --reason TEXT      one line for the audit

The operator's token is read from ${TOKEN_VARIABLE}; it is the secret OPERATOR_TOKEN of the deployment.
Exit codes: 0 done, 1 refused or no answer, 2 wrong call.
`;

const pauseUsage = `
gpu-gate pause [--reason TEXT] [--url URL]

Stops all buying of the deployment at once, for every repository: from the next reservation on nothing is rented. Pods that
are rented finish their jobs and are deleted as always. \`gpu-gate resume\` ends it.
${common}`;

const resumeUsage = `
gpu-gate resume [--reason TEXT] [--url URL]

Lets the deployment buy again. Checks that ended while buying was paused are re-run by hand.
${common}`;

const retainUsage = `
gpu-gate retain --repository ID (--pod POD | --request REQUEST) --minutes N [--by NAME] [--reason TEXT] [--url URL]

Keeps one pod for debugging. With --request, before its pod is rented: the pod is kept if the GPU job does not pass. With
--pod, a pod that is kept already is kept until N minutes from now, or released with 0. The minutes are reserved from the
budget first; without a reservation nothing is kept.

  --repository ID    numeric id of the repository (\`gpu-gate status\` prints it)
  --pod POD          id of the pod that is kept already
  --request REQUEST  the request whose pod is to be kept, such as r12bkztd (\`gpu-gate status\` lists them)
  --minutes N        for so long, 0 to 720
  --by NAME          who gives the word, for the audit; default the operator
${common.slice(1)}`;

const pausedSchema = z.object({ paused: z.boolean(), repositories: z.number() });
const retainSchema = z.object({
  kind: z.string(),
  detail: z.string().optional(),
  podId: z.string().optional(),
  until: z.number().optional(),
});

export const pauseCommand: Command = {
  name: "pause",
  summary: "Stop all buying of the deployment at once",
  usage: pauseUsage,
  run: (args, io) => setPaused(args, io, true),
};

export const resumeCommand: Command = {
  name: "resume",
  summary: "Let the deployment buy again",
  usage: resumeUsage,
  run: (args, io) => setPaused(args, io, false),
};

export const retainCommand: Command = {
  name: "retain",
  summary: "Keep a pod for debugging, with an end and from the budget",
  usage: retainUsage,
  run: retain,
};

async function setPaused(args: readonly string[], io: Io, paused: boolean): Promise<number> {
  const { values } = parseArgs({ args: [...args], options: { url: { type: "string" }, reason: { type: "string" } } });
  const address = `${addressOf(values.url, io)}/v1/operator/pause`;
  const body = { paused, reason: values.reason ?? "" };
  const answer = await callControlPlane(
    { address, open: "to the operator", token: operatorToken(io), body },
    pausedSchema,
    io,
  );
  if (!answer.ok) {
    io.stderr(`gpu-gate ${paused ? "pause" : "resume"}: ${answer.error}\n`);
    return EXIT_NO;
  }
  const what = answer.value.paused ? "Buying is paused." : "Buying is allowed again.";
  const { repositories } = answer.value;
  const noted =
    repositories === 1 ? "1 repository has it in its audit" : `${repositories} repositories have it in their audits`;
  io.stdout(`${what} ${noted}.\n`);
  return answer.value.paused === paused ? EXIT_OK : EXIT_NO;
}

async function retain(args: readonly string[], io: Io): Promise<number> {
  const text = { type: "string" } as const;
  const { values } = parseArgs({
    args: [...args],
    options: { url: text, reason: text, repository: text, pod: text, request: text, minutes: text, by: text },
  });
  allGiven(
    [values.repository, "--repository", "the repository's numeric id"],
    [values.pod ?? values.request, "--pod or --request", "what is kept"],
    [values.minutes, "--minutes", "for how long"],
  );
  const repository = required(values.repository, "--repository", "The repository's numeric id");
  const minutes = Number(required(values.minutes, "--minutes", "The number of minutes"));
  if (!Number.isFinite(minutes) || minutes < 0 || minutes > MAX_MINUTES)
    throw new UsageError(`--minutes must be a number from 0 to ${MAX_MINUTES}.`);
  if ((values.pod === undefined) === (values.request === undefined)) {
    throw new UsageError("Name either a pod (--pod) or a request (--request).");
  }
  const body = {
    repository,
    minutes,
    reason: values.reason ?? "",
    ...(values.pod === undefined ? {} : { pod: values.pod }),
    ...(values.request === undefined ? {} : { request: values.request }),
    ...(values.by === undefined ? {} : { by: values.by }),
  };
  const address = `${addressOf(values.url, io)}/v1/operator/retain`;
  const answer = await callControlPlane(
    { address, open: "to the operator", token: operatorToken(io), body },
    retainSchema,
    io,
  );
  if (!answer.ok) {
    io.stderr(`gpu-gate retain: ${answer.error}\n`);
    return EXIT_NO;
  }
  const { kind, detail, podId, until } = answer.value;
  const end = until === undefined ? "" : ` until ${new Date(until).toISOString()}`;
  io.stdout(
    `${kind}${podId === undefined ? "" : ` pod ${safeText(podId)}`}${end}${detail === undefined ? "" : `: ${safeText(detail)}`}\n`,
  );
  return EXIT_OK;
}

/** `gpu-gate operator`: the operator's word about one request. */
import { parseArgs } from "node:util";
import * as z from "zod";
import { safeText } from "../../shared/http.ts";
import { EXIT_NO, EXIT_OK, UsageError, type Command } from "../command.ts";
import { addressOf, callControlPlane, operatorToken, TOKEN_VARIABLE } from "../control-plane.ts";
import { allGiven, required } from "../files.ts";

const ACTIONS = ["cancel", "force", "release", "approve"] as const;

const usage = `
gpu-gate operator cancel|force|release|approve --repository ID --request REQUEST [options]

  cancel    ends the request: what was rented is deleted and proven gone, then its check says who ended it
  force     the same, and its removal is tried now instead of after the pause it waits in
  release   frees the GPU lock of a request that has ended and still holds it; refused while it may own a pod.
            One whose record does not read is freed once RunPod shows no pod of it: ask again as the answer says
  approve   gives a request that ended over budget another run under a cap of its own (--usd); the deployment's cap stays

  --repository ID   numeric id of the repository (\`gpu-gate status\` prints it)
  --request ID      the request, such as r12bkztd (\`gpu-gate status\` lists them)
  --usd AMOUNT      for approve: what the run may cost, US dollars
  --by NAME         who gives the word, for the audit; default the operator
  --reason TEXT     one line for the audit
  --url URL         address of the control plane, default GPU_GATE_URL

The operator's token is read from ${TOKEN_VARIABLE}; it is the secret OPERATOR_TOKEN of the deployment. Each word is an
entry of the repository's audit, a refused one too. Exit codes: 0 done, 1 refused or no answer, 2 wrong call.
`;

const answerSchema = z.object({ done: z.boolean(), detail: z.string() });

export const operatorCommand: Command = {
  name: "operator",
  summary: "Cancel, force, release or approve one request",
  usage,
  run: async (args, io) => {
    const text = { type: "string" } as const;
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: { url: text, reason: text, repository: text, request: text, usd: text, by: text },
    });
    const [word = "", ...rest] = positionals;
    const action = ACTIONS.find((one) => one === word);
    if (action === undefined || rest.length > 0) throw new UsageError(`Say one of: ${ACTIONS.join(", ")}.`);
    allGiven(
      [values.repository, "--repository", "the repository's numeric id"],
      [values.request, "--request", "the request's id"],
      [action === "approve" ? values.usd : "no matter", "--usd", "what the run may cost"],
    );
    const usd = values.usd === undefined ? null : Number(values.usd);
    if (usd !== null && !(usd > 0)) throw new UsageError("--usd must be an amount above 0.");
    if ((action === "approve") !== (usd !== null)) {
      throw new UsageError("--usd belongs to approve, and approve needs it.");
    }
    const body = {
      repository: required(values.repository, "--repository", "The repository's numeric id"),
      request: required(values.request, "--request", "The request's id"),
      action,
      reason: values.reason ?? "",
      ...(values.by === undefined ? {} : { by: values.by }),
      ...(usd === null ? {} : { usd }),
    };
    const address = `${addressOf(values.url, io)}/v1/operator/request`;
    const answer = await callControlPlane(
      { address, open: "to the operator", token: operatorToken(io), body },
      answerSchema,
      io,
    );
    if (!answer.ok) {
      io.stderr(`gpu-gate operator: ${answer.error}\n`);
      return EXIT_NO;
    }
    io.stdout(`${safeText(answer.value.detail)}\n`);
    return answer.value.done ? EXIT_OK : EXIT_NO;
  },
};

/** What `gpu-gate explain` says about a pull request, a request or a pod: every decision, from the gate's audit. */
import * as z from "zod";
import { safeText } from "../shared/http.ts";
import { isRequestId } from "../shared/lifecycle/request-id.ts";
import { EXIT_NO, EXIT_OK, type Io } from "./command.ts";
import { callControlPlane, tokenIfSet } from "./control-plane.ts";

/** Read tolerantly: an older command must still show what it understands of a newer answer. */
const answerSchema = z.object({
  repositories: z.array(
    z.object({
      id: z.string(),
      explained: z.array(
        z.object({
          request: z.object({
            id: z.string(),
            prNumber: z.number().nullable(),
            headSha: z.string(),
            generation: z.number(),
            state: z.string(),
            verdict: z.string().nullable(),
            reason: z.string().nullable(),
            detail: z.string().nullable(),
          }),
          decisions: z.array(
            z.object({
              at: z.number(),
              act: z.string(),
              reason: z.string().nullable(),
              rule: z.string().nullable(),
              facts: z.record(z.string(), z.unknown()),
            }),
          ),
        }),
      ),
    }),
  ),
});

type Explained = z.output<typeof answerSchema>["repositories"][number]["explained"][number];

/** Whether the word can mean only a pull request (`#12`) or a request (`r12bkztd`), were there no path of that name. */
export function namesDecision(subject: string): boolean {
  return /^#\d{1,9}$/.test(subject) || isRequestId(subject);
}

/** `#12` is a pull request, `r12bkztd` a request; anything else may be a pod's id. */
export function questionOf(subject: string): URLSearchParams {
  const pull = /^#(\d{1,9})$/.exec(subject)?.[1];
  if (pull !== undefined) return new URLSearchParams({ pr: pull });
  return new URLSearchParams(isRequestId(subject) ? { request: subject } : { pod: subject });
}

export async function explainSubject(subject: string, url: string, json: boolean, io: Io): Promise<number> {
  const address = `${url}/api/explain?${questionOf(subject)}`;
  const answer = await callControlPlane({ address, open: "with the status page", ...tokenIfSet(io) }, answerSchema, io);
  if (!answer.ok) {
    io.stderr(`gpu-gate explain: ${answer.error}\n`);
    return EXIT_NO;
  }
  const { repositories } = answer.value;
  if (json) io.stdout(`${JSON.stringify(answer.value, null, 2)}\n`);
  else if (repositories.length === 0) io.stdout(`Nothing is known of ${safeText(subject)}.\n`);
  else for (const { id, explained } of repositories) io.stdout(explained.map((one) => paragraph(id, one)).join("\n"));
  return repositories.length === 0 ? EXIT_NO : EXIT_OK;
}

/** Instants are told as such: a number of milliseconds says nothing to a reader. */
function factText(name: string, value: unknown): string {
  if (typeof value === "number" && /^(?:at|until)$|At$/.test(name) && value > 0 && value <= 8.64e15)
    return new Date(value).toISOString();
  return typeof value === "string" ? value : JSON.stringify(value);
}

function paragraph(repository: string, { request, decisions }: Explained): string {
  const pull = request.prNumber === null ? "" : ` of #${request.prNumber}`;
  const head = `${request.id}${pull} in repository ${repository}, commit ${request.headSha.slice(0, 12)}, generation ${request.generation}`;
  const lines = decisions.map((decision) => {
    const facts = Object.entries(decision.facts)
      .filter(([, value]) => value !== null && value !== "")
      .map(([name, value]) => `${name}=${safeText(factText(name, value), 120)}`)
      .join(" ");
    const rule = decision.reason === null ? "" : `\n      ${decision.reason}: ${safeText(decision.rule ?? "")}`;
    return `  ${new Date(decision.at).toISOString()}  ${decision.act}  ${facts}${rule}`;
  });
  const end =
    request.verdict === null
      ? `  now: ${request.state}`
      : `  verdict: ${request.verdict} (${request.reason ?? ""}): ${safeText(request.detail ?? "", 400)}`;
  return `${[head, ...lines, end].join("\n")}\n`;
}

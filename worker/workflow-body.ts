/** Bodies of the workflow API: small, JSON, and exactly the keys that are documented. */
import type * as z from "zod";
import { err, ok, type Result } from "../shared/result.ts";
import { exactText, readBytes } from "./body.ts";
import { problem, type WorkflowAnswer } from "./workflow-answer.ts";

export const WORKFLOW_BODY_LIMIT = 4096;

/** An empty body reads as `{}`. */
export async function readJson<T>(request: Request, schema: z.ZodType<T>): Promise<Result<T, WorkflowAnswer>> {
  const bytes = await readBytes(request, WORKFLOW_BODY_LIMIT);
  if (!bytes.ok) {
    return bytes.error === "too-large"
      ? err(problem(413, "too-large", `The body may have ${WORKFLOW_BODY_LIMIT} bytes.`))
      : err(problem(400, "interrupted", "The body ended early."));
  }
  const text = exactText(bytes.value);
  let json: unknown;
  try {
    json = text === "" ? {} : JSON.parse(text ?? "not text");
  } catch {
    return err(problem(400, "not-json", "The body is not JSON."));
  }
  const parsed = schema.safeParse(json);
  if (parsed.success) return ok(parsed.data);
  return err(problem(422, "body", `The body does not fit: ${sentences(parsed.error)}`));
}

/** What is wrong where. Values are not repeated, keys are cut: the text goes into a job's log. */
function sentences(error: z.core.$ZodError): string {
  return error.issues
    .slice(0, 3)
    .map((issue) => {
      const where = issue.path.map(String).join(".");
      const what =
        issue.code === "unrecognized_keys"
          ? `${issue.keys.map((key) => JSON.stringify(key.slice(0, 40))).join(", ")} is not a key here`
          : issue.message.slice(0, 120);
      return where === "" ? `${what}.` : `${where}: ${what}.`;
    })
    .join(" ");
}

/** Calls of the control plane's own API, with errors that a person can act on. */
import { isHeaderWord, NO_HEADER_WORD } from "../shared/header-word.ts";
import type * as z from "zod";
import { safeText } from "../shared/http.ts";
import { err, ok, type Result } from "../shared/result.ts";
import { addressFor } from "./addresses.ts";
import { UsageError, type Io } from "./command.ts";

const TIMEOUT_MS = 60_000;

/** Environment variable with the operator's token: never an argument, which other people of the machine could read. */
export const TOKEN_VARIABLE = "GPU_GATE_OPERATOR_TOKEN";

/** The address from `--url` or GPU_GATE_URL, without a slash at its end. */
export function addressOf(given: string | undefined, io: Io): string {
  const url = given ?? io.env["GPU_GATE_URL"] ?? "";
  if (/^https?:\/\/\S+$/.test(url)) return addressFor("The control plane's address", url);
  throw new UsageError("The control plane's address is missing: give --url or set GPU_GATE_URL.");
}

/** The operator's token where one is set; left out, what is public is asked. */
export function tokenIfSet(io: Io): { readonly token?: string } {
  const token = (io.env[TOKEN_VARIABLE] ?? "").trim();
  if (token === "") return {};
  if (!isHeaderWord(token)) throw new UsageError(`${TOKEN_VARIABLE} ${NO_HEADER_WORD}.`);
  return { token };
}

/** The operator's token, or one sentence that says where it is looked for. */
export function operatorToken(io: Io): string {
  const { token } = tokenIfSet(io);
  if (token !== undefined) return token;
  throw new UsageError(`The operator's token is missing: set ${TOKEN_VARIABLE} to the deployment's OPERATOR_TOKEN.`);
}

export interface Call {
  readonly address: string;
  readonly token?: string;
  /** Left out: a GET. */
  readonly body?: Readonly<Record<string, unknown>>;
}

/** Calls and reads the answer by its schema. The error is one sentence; it never holds the token. */
export async function callControlPlane<T>(call: Call, schema: z.ZodType<T>, io: Io): Promise<Result<T, string>> {
  const { address, token, body } = call;
  let status: number;
  let text: string;
  try {
    const answer = await io.fetch(address, {
      method: body === undefined ? "GET" : "POST",
      headers: {
        accept: "application/json",
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      // Followed, a redirect would take the question, and its body, to whoever it names.
      redirect: "manual",
      signal: AbortSignal.timeout(TIMEOUT_MS),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    status = answer.status;
    text = await answer.text();
  } catch (error) {
    return err(`${address} gave no answer (${error instanceof Error ? error.name : "error"}).`);
  }
  if (status === 404) {
    return err(
      `${address} is not there: its status page is off and no operator's token fits (${TOKEN_VARIABLE}), or it is older.`,
    );
  }
  const value = parseJson(text);
  if (status !== 200) return err(`${address} answered ${status}: ${safeText(reasonOf(value) ?? "no reason given")}`);
  const parsed = schema.safeParse(value);
  if (parsed.success) return ok(parsed.data);
  return err(`${address} answered something else than expected (${parsed.error.issues[0]?.path.join(".") ?? ""}).`);
}

function reasonOf(value: unknown): string | null {
  if (typeof value !== "object" || value === null) return null;
  const text: unknown = Reflect.get(value, "error") ?? Reflect.get(value, "detail");
  return typeof text === "string" ? text : null;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

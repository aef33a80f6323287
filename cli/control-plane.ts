/** Calls of the control plane's own API, with errors that a person can act on. */
import { isHeaderWord, NO_HEADER_WORD } from "../shared/header-word.ts";
import type * as z from "zod";
import { safeText } from "../shared/http.ts";
import { err, ok, type Result } from "../shared/result.ts";
import { addressFor, type Carries } from "./addresses.ts";
import { UsageError, type Io } from "./command.ts";
import { whyNoAnswer } from "./no-answer.ts";

const TIMEOUT_MS = 60_000;

/** Environment variable with the operator's token: never an argument, which other people of the machine could read. */
export const TOKEN_VARIABLE = "GPU_GATE_OPERATOR_TOKEN";

/** Where the control plane's address comes from when no option says it. */
export const ADDRESS_VARIABLE = "GPU_GATE_URL";

/** What to look at when the control plane gave no answer at all. */
export const CHECK_ADDRESS = `Check --url or ${ADDRESS_VARIABLE}, and that the control plane runs there`;

/** The address from `--url` or GPU_GATE_URL, without a slash at its end. */
export function addressOf(given: string | undefined, io: Io, carries: Carries = "a token"): string {
  const url = given ?? io.env[ADDRESS_VARIABLE] ?? "";
  if (url === "")
    throw new UsageError(`The control plane's address is missing: give --url or set ${ADDRESS_VARIABLE}.`);
  const source = given === undefined ? ADDRESS_VARIABLE : "--url";
  return addressFor(`The control plane's address (${source})`, url, carries);
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
  /** Who may ask: the operator alone, or everybody too while the status page is on. */
  readonly open: "to the operator" | "with the status page";
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
    return err(`${address} gave no answer: ${whyNoAnswer(error)}. ${CHECK_ADDRESS}.`);
  }
  if (status === 404) return err(`${address} is not there: ${whyNotThere(call)}.`);
  const value = parseJson(text);
  if (status === 200 && value === null) return err(`${address} did not answer JSON: is it the control plane?`);
  if (status !== 200) return err(`${address} answered ${status}: ${safeText(reasonOf(value) ?? "no reason given")}`);
  const parsed = schema.safeParse(value);
  if (parsed.success) return ok(parsed.data);
  return err(`${address} answered something else than expected (${parsed.error.issues[0]?.path.join(".") ?? ""}).`);
}

/** The control plane answers whoever may not ask as if nothing were there, so that one answer has several reasons. */
function whyNotThere({ open, token }: Call): string {
  const orElse = "or no gpu-gate, or an older one, is at that address";
  const unfit = `the token in ${TOKEN_VARIABLE} is not the deployment's OPERATOR_TOKEN`;
  if (open === "to the operator") return `${unfit}, or the deployment has none, ${orElse}`;
  const shut = "the status page is off (STATUS_PAGE)";
  if (token !== undefined) return `${shut} and ${unfit}, ${orElse}`;
  return `${shut}, and ${TOKEN_VARIABLE}, which would open it, is not set; ${orElse}`;
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

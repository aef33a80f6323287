/** Addresses that a command asks, checked before anything is sent: most of the questions carry a token. */
import { addressProblem } from "../shared/addresses.ts";
import { UsageError, type Io } from "./command.ts";

/** What goes to the address: without a token it may be plain HTTP anywhere. */
export type Carries = "a token" | "no secret";

/** The address without a slash at its end; `what` names it in the error, which does not repeat it: it may hold a password. */
export function addressFor(what: string, text: string, carries: Carries = "a token"): string {
  const address = text.replace(/\/+$/u, "");
  const judged = carries === "a token" ? address : address.replace(/^http:/u, "https:");
  const problem = addressProblem(judged);
  if (problem === null) return address;
  if (URL.parse(judged) === null || !/^https?:/u.test(judged))
    throw new UsageError(`${what} ${problem}: write it whole, such as https://gate.example.org.`);
  throw new UsageError(`${what} ${problem}${carries === "a token" ? ": a token is sent there" : ""}.`);
}

/** GitHub's API, as `GITHUB_API_URL` says. */
export function githubAddress(io: Io): string {
  return addressFor("GITHUB_API_URL", io.env["GITHUB_API_URL"] || "https://api.github.com");
}

/** Addresses that a command sends a token to, checked before anything is sent. */
import { addressProblem } from "../shared/addresses.ts";
import { UsageError, type Io } from "./command.ts";

/** The address without a slash at its end; `what` names it in the error. */
export function addressFor(what: string, text: string): string {
  const address = text.replace(/\/+$/u, "");
  const problem = addressProblem(address);
  if (problem !== null) throw new UsageError(`${what} ${problem}: a token is sent there.`);
  return address;
}

/** GitHub's API, as `GITHUB_API_URL` says. */
export function githubAddress(io: Io): string {
  return addressFor("GITHUB_API_URL", io.env["GITHUB_API_URL"] || "https://api.github.com");
}

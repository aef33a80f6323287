import process from "node:process";
import type { Reporter } from "vitest/node";
import { MARK } from "../local/minted.ts";

type ConsoleLog = Parameters<NonNullable<Reporter["onUserConsoleLog"]>>[0];

/** What stands in secrets of every project's tests: the local world's mark, the runtime tests' own, and any private key. */
const SECRETS: readonly string[] = [MARK, "test-webhook-secret", "test-runpod-key", "PRIVATE KEY-----"];

/**
 * Reads all that tests of any project print, workerd's among them, and turns the run red if a secret is in it. What a test
 * itself catches never comes here: test/support/canaries.ts watches that.
 */
export default class Leaks implements Reporter {
  readonly #found: string[] = [];

  onUserConsoleLog({ content, taskId }: ConsoleLog): void {
    for (const secret of SECRETS) {
      if (content.includes(secret)) this.#found.push(`${taskId ?? "outside of a test"}: '${secret}...'`);
    }
  }

  onTestRunEnd(): void {
    if (this.#found.length === 0) return;
    console.error(`Secrets were printed:\n${this.#found.join("\n")}`);
    process.exitCode = 1;
  }
}

/**
 * Installation tokens, reused until shortly before they end.
 *
 * Kept here and not in Octokit's own cache because that one measures age with the machine's clock, ignores
 * `expires_at`, and shares running mints between all Apps of a process by installation id alone. Tokens are opaque:
 * since 2026 some have about 520 characters.
 */

import * as z from "zod";
import type { Clock, Millis } from "../ports.ts";
import { err, ok, type Result } from "../result.ts";
import { timeLimit, untilAborted } from "../http.ts";
import type { GitHubAnswer } from "./call.ts";
import { CALL_TIMEOUT_MS } from "./call.ts";
import { parseExactJson } from "./exact-json.ts";
import type { GitHubFailure } from "./failure.ts";
import type { TokenScope } from "./purpose.ts";
import { instant } from "./schema.ts";

/** A token is replaced this long before its end, so that no call starts with one that ends on the way. */
const SAFETY_MS = 60_000;
/** GitHub's documented lifetime, which stands in for an `expires_at` that cannot be read. */
const LIFETIME_MS = 3_600_000;

export interface InstallationTokens {
  /** The current token of a scope; concurrent callers share one mint. */
  get(scope: TokenScope): Promise<Result<string, GitHubFailure>>;
  /** Forgets a token that GitHub refused. Does nothing if another one has taken its place. */
  drop(scope: TokenScope, token: string): void;
}

/** `mint` performs `POST /app/installations/{id}/access_tokens` as the App, narrowed to the scope. */
export function createInstallationTokens(
  clock: Clock,
  mint: (scope: TokenScope) => Promise<Result<GitHubAnswer, GitHubFailure>>,
): InstallationTokens {
  const tokens = new Map<string, { readonly token: string; readonly usableUntil: Millis }>();
  const minting = new Map<string, Promise<Result<string, GitHubFailure>>>();

  async function mintOne(scope: TokenScope): Promise<Result<string, GitHubFailure>> {
    const mintedAt = clock.now();
    const answer = await mint(scope);
    if (!answer.ok) return answer;
    const minted = readToken(answer.value.text);
    if (minted === null) return err({ reason: "unreadable", what: "the installation token" });
    const end = (minted.expiresAt ?? mintedAt + LIFETIME_MS) - SAFETY_MS;
    // Never shorter than a minute: with clocks far apart every call would mint.
    tokens.set(keyOf(scope), { token: minted.token, usableUntil: Math.max(end, mintedAt + SAFETY_MS) });
    return ok(minted.token);
  }

  return {
    async get(scope) {
      const key = keyOf(scope);
      const known = tokens.get(key);
      if (known !== undefined && clock.now() < known.usableUntil) return ok(known.token);
      let running = minting.get(key);
      if (running === undefined) {
        running = mintOne(scope).finally(() => minting.delete(key));
        minting.set(key, running);
      }
      const asked = running;
      return joined(asked, () => {
        if (minting.get(key) === asked) minting.delete(key);
      });
    },

    drop(scope, token) {
      const key = keyOf(scope);
      if (tokens.get(key)?.token === token) tokens.delete(key);
    },
  };
}

/**
 * Waits for what another caller may have begun. It belongs to the request that began it; where that request is cancelled, its
 * promise may never settle, and whoever joined it must not wait for ever: `forget` lets the next one begin anew.
 */
export async function joined<T>(
  running: Promise<Result<T, GitHubFailure>>,
  forget: () => void,
): Promise<Result<T, GitHubFailure>> {
  const patience = timeLimit(CALL_TIMEOUT_MS * 2 + 2_000);
  try {
    return await untilAborted(running, patience.signal);
  } catch {
    forget();
    return err({ reason: "transport", timeout: true });
  } finally {
    patience.lift();
  }
}

function keyOf(scope: TokenScope): string {
  return `${scope.installationId} ${scope.repositoryId} ${scope.purpose}`;
}

const tokenAnswer = z.object({ token: z.string().min(1), expires_at: instant });

function readToken(text: string): { readonly token: string; readonly expiresAt: Millis | null } | null {
  try {
    const parsed = tokenAnswer.safeParse(parseExactJson(text));
    return parsed.success ? { token: parsed.data.token, expiresAt: parsed.data.expires_at } : null;
  } catch {
    return null;
  }
}

/**
 * RunPod's rate limits: three windows per user, told on every authenticated answer (runpod-facts.md section 3.3).
 *
 * `Retry-After` names only the shortest exhausted window, as the real one does; a client has to look at all three.
 */
import type { Quotas } from "./types.ts";

const windows = [
  { name: "minute", ms: 60_000 },
  { name: "hour", ms: 3_600_000 },
  { name: "day", ms: 86_400_000 },
] as const;

/** The figures of the OpenAPI document's example, ten times as many: a local world runs ten times as fast. */
export const defaultQuotas: Quotas = { minute: 600, hour: 30_000, day: 500_000 };

export interface LimitVerdict {
  readonly allowed: boolean;
  readonly headers: Readonly<Record<string, string>>;
}

export class RateLimits {
  readonly #used = new Map<string, { start: number; count: number }>();
  readonly #quotas: Quotas;

  constructor(quotas: Quotas) {
    this.#quotas = quotas;
  }

  /** Counts one request at this instant. */
  take(now: number): LimitVerdict {
    const states = windows.map((window) => {
      const start = now - (now % window.ms);
      const known = this.#used.get(window.name);
      const used = known?.start === start ? known : { start, count: 0 };
      this.#used.set(window.name, used);
      return { window, used, quota: this.#quotas[window.name], resetS: Math.ceil((start + window.ms - now) / 1000) };
    });
    const exhausted = states.find((state) => state.used.count >= state.quota);
    if (!exhausted) for (const state of states) state.used.count += 1;
    const figures = states.map(
      (state) => `"${state.window.name}";r=${Math.max(0, state.quota - state.used.count)};t=${state.resetS}`,
    );
    const policy = states.map((state) => `"${state.window.name}";q=${state.quota};w=${state.window.ms / 1000}`);
    return {
      allowed: !exhausted,
      headers: {
        RateLimit: figures.join(", "),
        "RateLimit-Policy": policy.join(", "),
        ...(exhausted ? { "Retry-After": String(exhausted.resetS) } : {}),
      },
    };
  }
}

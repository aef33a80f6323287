/**
 * The deployment's settings: the Worker's environment, parsed once, with every problem said at once.
 *
 * Nothing else reads `env`. A missing or unreadable value makes /healthz red with the reason; it never becomes a default
 * that spends money.
 */
import * as z from "zod";
import { addressProblem } from "../shared/addresses.ts";
import { isHeaderWord, NO_HEADER_WORD } from "../shared/header-word.ts";
import { DEFAULT_REAP_LIMITS, type ReapLimits } from "../shared/lifecycle/reap.ts";
import type { Millis } from "../shared/ports.ts";
import { err, ok, type Result } from "../shared/result.ts";

const DEFAULT_LOOKUPS = 20;
/** Keys and tokens are sent to most of these: over TLS, or to a server on this machine. */
const url = z
  .string()
  .trim()
  // A parser takes spaces and line breaks out, and the setting would be another address than it shows.
  .refine((text) => text === "" || isHeaderWord(text), "has a space, a line break or a character outside ASCII in it")
  .pipe(z.url({ protocol: /^https?$/ }))
  .transform((text) => text.replace(/\/+$/, ""))
  .superRefine((text, context) => {
    const problem = addressProblem(text);
    if (problem !== null) context.addIssue({ code: "custom", message: problem });
  });
/** A limit in seconds, as milliseconds; what stands when nothing is said is also the most that may be said. */
function seconds(limitMs: number) {
  const most = limitMs / 1000;
  return z
    .number()
    .min(0.05)
    .max(most)
    .default(most)
    .transform((value) => Math.round(value * 1000));
}

const limitsText = z
  .string()
  .transform((text, context) => {
    if (text.trim() === "") return {};
    try {
      return JSON.parse(text) as unknown;
    } catch {
      context.addIssue({ code: "custom", message: "must be empty or a JSON object" });
      return z.NEVER;
    }
  })
  .pipe(
    z.strictObject({
      /** USD over all repositories in one UTC month. */
      per_month: z.number().min(0).max(100_000).default(400),
      // The reaper's times, in seconds; see `ReapLimits`. None can be made longer than the design allows.
      backstop: seconds(DEFAULT_REAP_LIMITS.backstopMs),
      owner_grace: seconds(DEFAULT_REAP_LIMITS.completedGraceMs),
      max_retention: seconds(DEFAULT_REAP_LIMITS.maxRetentionMs),
      reap_gap: seconds(DEFAULT_REAP_LIMITS.observationGapMs),
      /** Runs the reaper reads at GitHub in one tick. The smallest plan lets a tick make 50 requests; others 1,000. */
      reap_lookups: z.number().int().min(1).max(500).default(DEFAULT_LOOKUPS),
      /** Seconds between two looks at GitHub's list of deliveries. */
      redelivery: seconds(900_000),
    }),
  );

/** Sent in a header. What a shell or an editor left around it is no part of it. */
function headerWord(missing: string) {
  return z
    .string()
    .trim()
    .min(1, missing)
    .refine((text) => text === "" || isHeaderWord(text), NO_HEADER_WORD);
}

const settingsSchema = z.object({
  DEPLOYMENT: z.string().regex(/^[a-z0-9][a-z0-9-]{0,39}$/, "must be lower case letters, digits and dashes"),
  GITHUB_APP_ID: headerWord("is missing: the number on the App's settings page"),
  GITHUB_APP_PRIVATE_KEY: z.string().min(1, "is missing: the PEM file GitHub hands out"),
  GITHUB_WEBHOOK_SECRET: z.string().min(1, "is missing: the webhook secret of the App"),
  GITHUB_WEBHOOK_SECRET_PREVIOUS: z.string().default(""),
  GITHUB_ALLOWED_REPOSITORIES: z
    .string()
    .regex(/^\s*(?:[1-9]\d*\s*(?:,\s*[1-9]\d*\s*)*)?$/, "must be numeric repository ids, separated by commas"),
  GITHUB_API_URL: url,
  GITHUB_WEB_URL: url,
  RUNPOD_API_KEY: headerWord("is missing"),
  RUNPOD_API_URL: url,
  RUNPOD_GRAPHQL_URL: url,
  OIDC_ISSUER_URL: url,
  IMAGE_REGISTRY_URL: url,
  PUBLIC_URL: z.union([z.literal(""), url]),
  STATUS_PAGE: z.enum(["on", "off"]),
  DEPLOYMENT_LIMITS: limitsText,
  // Optional: without it nobody is the operator, and the operator's routes are not there.
  OPERATOR_TOKEN: z
    .union([z.literal(""), headerWord("is missing").min(32, "must have 32 characters or more")])
    .default(""),
});

export interface Settings {
  readonly deployment: string;
  readonly appId: string;
  readonly appPrivateKey: string;
  /** The present secret first; the previous one while it is being rotated. */
  readonly webhookSecrets: readonly string[];
  readonly allowedRepositories: ReadonlySet<string>;
  readonly githubApiUrl: string;
  readonly githubWebUrl: string;
  readonly runpodApiKey: string;
  readonly runpodApiUrl: string;
  readonly runpodGraphqlUrl: string;
  readonly oidcIssuerUrl: string;
  readonly imageRegistryUrl: string;
  /** Where pods and people reach this Worker; pods cannot be bought while it is empty. */
  readonly publicUrl: string;
  readonly statusPage: boolean;
  readonly monthlyCapMicros: number;
  /** Shown by the operator's calls; left out while there is none. */
  readonly operatorToken?: string;
  readonly reapLimits: ReapLimits;
  /** Runs read by the reaper in one tick; the standard when left out. */
  readonly reapLookups?: number;
  /** Between two looks at GitHub's list of deliveries, milliseconds. */
  readonly redeliveryMs?: Millis;
}

/** Reads the environment. The problems name the variable and what is wrong with it, never its value. */
export function readSettings(env: object): Result<Settings, readonly string[]> {
  const parsed = settingsSchema.safeParse(env);
  if (!parsed.success) {
    return err(parsed.error.issues.map((issue) => `${issue.path.join(".")} ${issue.message}.`));
  }
  const value = parsed.data;
  const secrets = [value.GITHUB_WEBHOOK_SECRET, value.GITHUB_WEBHOOK_SECRET_PREVIOUS].filter((secret) => secret !== "");
  return ok({
    deployment: value.DEPLOYMENT,
    appId: value.GITHUB_APP_ID,
    appPrivateKey: value.GITHUB_APP_PRIVATE_KEY,
    webhookSecrets: secrets,
    allowedRepositories: new Set(
      value.GITHUB_ALLOWED_REPOSITORIES.split(",")
        .map((id) => id.trim())
        .filter(Boolean),
    ),
    githubApiUrl: value.GITHUB_API_URL,
    githubWebUrl: value.GITHUB_WEB_URL,
    runpodApiKey: value.RUNPOD_API_KEY,
    runpodApiUrl: value.RUNPOD_API_URL,
    runpodGraphqlUrl: value.RUNPOD_GRAPHQL_URL,
    oidcIssuerUrl: value.OIDC_ISSUER_URL,
    imageRegistryUrl: value.IMAGE_REGISTRY_URL,
    publicUrl: value.PUBLIC_URL,
    statusPage: value.STATUS_PAGE === "on",
    ...(value.OPERATOR_TOKEN === "" ? {} : { operatorToken: value.OPERATOR_TOKEN }),
    monthlyCapMicros: Math.round(value.DEPLOYMENT_LIMITS.per_month * 1_000_000),
    reapLookups: value.DEPLOYMENT_LIMITS.reap_lookups,
    redeliveryMs: value.DEPLOYMENT_LIMITS.redelivery,
    reapLimits: {
      backstopMs: value.DEPLOYMENT_LIMITS.backstop,
      completedGraceMs: value.DEPLOYMENT_LIMITS.owner_grace,
      maxRetentionMs: value.DEPLOYMENT_LIMITS.max_retention,
      observationGapMs: value.DEPLOYMENT_LIMITS.reap_gap,
    },
  });
}

/** What the backstop needs to enforce itself alone; see `cron/backstop-alone.ts`. */
export type BackstopSettings = Pick<Settings, "deployment" | "runpodApiKey" | "runpodApiUrl" | "reapLimits">;

const backstopSchema = settingsSchema.pick({ DEPLOYMENT: true, RUNPOD_API_KEY: true, RUNPOD_API_URL: true });

/** The little that is needed to delete what was rented, whatever is wrong with the rest; null when that does not read either. */
export function readBackstopSettings(env: object): BackstopSettings | null {
  const parsed = backstopSchema.safeParse(env);
  if (!parsed.success) return null;
  const limits = limitsText.safeParse("DEPLOYMENT_LIMITS" in env ? env.DEPLOYMENT_LIMITS : "");
  const backstopMs = limits.success ? limits.data.backstop : DEFAULT_REAP_LIMITS.backstopMs;
  return {
    deployment: parsed.data.DEPLOYMENT,
    runpodApiKey: parsed.data.RUNPOD_API_KEY,
    runpodApiUrl: parsed.data.RUNPOD_API_URL,
    reapLimits: { ...DEFAULT_REAP_LIMITS, backstopMs },
  };
}

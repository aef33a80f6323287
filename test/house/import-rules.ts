/**
 * Who may import whom (design, section 2), as data: one row per part, with the reason. The test reads this table; a new
 * folder without a row fails.
 *
 * `values` and `types` name folders or files from the root; `types` are allowed with `import type` only. `packages` are
 * names as imported; `node:` stands for all of Node.
 */

export interface Part {
  readonly folder: string;
  readonly is: string;
  readonly values: readonly string[];
  readonly types?: readonly string[];
  readonly packages: readonly string[];
  readonly why: string;
}

/** Files directly in `shared/` that do nothing but compute, or are ports. `shared/http.ts` speaks HTTP and is not here. */
const PLAIN = ["shared/ids.ts", "shared/ports.ts", "shared/result.ts", "shared/text.ts", "shared/time.ts"] as const;

export const parts: readonly Part[] = [
  {
    folder: "shared/lifecycle",
    is: "the core: states, events, tasks, decide",
    // Of shared/runpod only what is pure: the modules that speak HTTP are kept out of reach by `ioModules`.
    values: [...PLAIN, "shared/audit", "shared/cost", "shared/runpod"],
    types: ["shared/config", "shared/policy"],
    packages: ["zod"],
    why: "the same decisions run in workerd, under a virtual clock and in the simulator",
  },
  {
    folder: "shared/policy",
    is: "classification, lanes, required checks, reuse",
    values: [...PLAIN, "shared/audit", "shared/config"],
    packages: ["zod"],
    why: "the gate, a hosted job and a terminal must give the same answer",
  },
  {
    folder: "shared/cost",
    is: "stage costs, budget arithmetic",
    values: [...PLAIN],
    types: ["shared/config"],
    packages: ["zod"],
    why: "money is computed from stored facts only",
  },
  {
    folder: "shared/audit",
    is: "reason codes, hash chain, reading the audit",
    values: [...PLAIN],
    packages: ["zod"],
    why: "anybody can verify an audit without access to anything else",
  },
  {
    folder: "shared/config",
    is: "the repository's configuration",
    // The one list of what may be rented, which is data.
    values: [...PLAIN, "shared/runpod/default-tiers.ts"],
    types: ["shared/lifecycle", "shared/policy"],
    packages: ["zod", "yaml"],
    why: "a configuration is read from text that somebody else fetched",
  },
  {
    folder: "shared/authorize",
    is: "who may spend, on what: a fixed order of questions",
    values: [
      ...PLAIN,
      "shared/audit",
      "shared/config",
      "shared/policy",
      "shared/lifecycle",
      "shared/github/failure.ts",
    ],
    types: ["shared/github"],
    packages: ["zod"],
    why: "it asks through the client it is handed, and can be read in one sitting",
  },
  {
    folder: "shared/oidc",
    is: "the identity of hosted jobs: the issuer's keys, the claims in order",
    values: [...PLAIN, "shared/http.ts", "shared/addresses.ts"],
    types: ["shared/lifecycle"],
    packages: ["zod", "jose"],
    why: "a trust boundary of its own; it asks the issuer for keys and nothing else",
  },
  {
    folder: "shared/hosted",
    is: "what hosted jobs compute: archive keys, partitions, evidence, payload rules",
    values: [...PLAIN, "shared/config", "shared/policy", "shared/runpod/cuda.ts"],
    packages: ["zod"],
    why: "the control plane and a hosted job compute the same keys from the same tree",
  },
  {
    folder: "shared/lint",
    is: "rules over workflow files",
    values: [...PLAIN, "shared/config"],
    packages: ["zod", "yaml"],
    why: "text in, findings out",
  },
  {
    folder: "shared/github",
    is: "the GitHub client: typed results, zod at the boundary",
    values: [...PLAIN, "shared/http.ts", "shared/addresses.ts"],
    types: ["shared/lifecycle"],
    packages: ["zod", "@octokit/app", "@octokit/core", "@octokit/webhooks-methods"],
    why: "one of the two places that speak HTTP to the outside; it knows nothing of the gate",
  },
  {
    folder: "shared/runpod",
    is: "the RunPod client: typed results, zod at the boundary",
    values: [...PLAIN, "shared/http.ts", "shared/addresses.ts"],
    packages: ["zod"],
    why: "the other place that speaks HTTP to the outside",
  },
  {
    folder: "durable-objects",
    is: "thin shells: storage, alarm, task performer",
    values: ["shared", "pod/start-script.generated.ts"],
    packages: ["cloudflare:workers", "zod", "itty-durable/itty-durable.js", "itty-durable/proxy-durable.js"],
    why: "the gate itself also runs outside workerd: only the two object classes and the board know the platform",
  },
  {
    folder: "worker",
    is: "the Hono app: webhooks, workflow API, pages",
    values: ["shared", "durable-objects", "cron"],
    packages: ["hono", "hono/*", "zod", "jose", "@octokit/webhooks-methods", "cloudflare:workers"],
    why: "verifies, parses, hands on; its entry point also wires the scheduled duties",
  },
  {
    folder: "cron",
    is: "scheduled duties, one file each",
    values: ["shared", "durable-objects"],
    packages: ["zod"],
    why: "works from RunPod and GitHub alone when a gate's memory is gone",
  },
  {
    folder: "cli",
    is: "`gpu-gate`, for hosted jobs and maintainers",
    // The version it prints is the package's.
    values: ["shared", "package.json"],
    packages: ["node:", "zod", "yaml"],
    why: "one bundled file that runs under a hosted job's own Node, without an install",
  },
  {
    folder: "pod",
    is: "what the rented machine runs before it becomes a runner",
    values: [],
    packages: [],
    why: "it is embedded as text and runs where nothing of ours is installed",
  },
  {
    folder: "local",
    is: "local GitHub and RunPod, product code",
    // Pages are made by the product's own template, which escapes.
    values: [...PLAIN, "shared/arguments.ts", "shared/hosted", "shared/runpod/tags.ts", "worker/html.ts"],
    types: ["shared"],
    packages: ["node:", "zod", "yaml", "miniflare"],
    why: "the vendors' rules must not come from the code that is tested against them",
  },
  {
    folder: "sim",
    is: "the fault simulator",
    values: ["shared", "durable-objects", "worker", "cron", "cli", "pod", "local"],
    packages: ["node:", "zod", "hono", "hono/*", "yaml", "jose"],
    why: "drives the real gate, duties and clients",
  },
];

/** Free to import anything: nothing that ships imports them, which the table above already says. */
export const outside: readonly string[] = ["test", "fuzz", "bench", "scripts", "docs", "workflows"];

/** Parts whose whole reach must stay free of I/O, through every import that is not erased. */
export const pureFolders: readonly string[] = [
  "shared/lifecycle",
  "shared/policy",
  "shared/cost",
  "shared/audit",
  "shared/config",
  "shared/hosted",
  "shared/lint",
];

/** Modules that do I/O themselves. A pure folder that reaches one through any chain of imports fails. */
export const ioModules: readonly string[] = [
  "shared/http.ts",
  "shared/github/app.ts",
  "shared/github/app-client.ts",
  "shared/github/call.ts",
  "shared/github/client.ts",
  "shared/github/tokens.ts",
  "shared/github/wire.ts",
  "shared/runpod/client.ts",
  "shared/runpod/http.ts",
  "shared/runpod/image.ts",
  "shared/oidc/jwks.ts",
];

export interface Impurity {
  readonly name: string;
  readonly pattern: RegExp;
  /** What to use instead: part of the failure. */
  readonly use: string;
}

/** Uses of the surroundings that only a port may make. Matched against code without comments and strings. */
export const impurities: readonly Impurity[] = [
  { name: "Date.now(", pattern: /\bDate\s*\.\s*now\b/g, use: "`now` as a parameter, or a Clock from shared/ports.ts" },
  { name: "new Date()", pattern: /\bnew\s+Date\s*(?:\(\s*\)|(?!\s*\())/g, use: "new Date(now) with `now` handed in" },
  { name: "Math.random", pattern: /\bMath\s*\.\s*random\b/g, use: "a Random from shared/ports.ts" },
  { name: "crypto.", pattern: /\bcrypto\s*\./g, use: "a Random from shared/ports.ts, or a hash handed in" },
  { name: "fetch(", pattern: /(?<![\w.$])fetch\s*\(/g, use: "a FetchLike from shared/ports.ts" },
  { name: "setTimeout", pattern: /\bset(?:Timeout|Interval)\b/g, use: "a due time: the alarm is the only timer" },
  { name: "AbortSignal.timeout", pattern: /\bAbortSignal\s*\.\s*timeout\b/g, use: "timeoutSignal of shared/http.ts" },
  { name: "globalThis", pattern: /\bglobalThis\b/g, use: "a port, passed in explicitly" },
  { name: "process.", pattern: /(?<![\w.$])process\s*\./g, use: "a value passed in by the shell" },
  {
    name: "system port",
    pattern: /\bsystem(?:Clock|Random)\b/g,
    use: "the port itself, passed in; only a shell picks the system's",
  },
];

/** Folders whose code must not touch the surroundings at all: the pure ones, the clients, and the gate itself. */
export const scanned: readonly string[] = ["shared", "durable-objects/gate", "durable-objects/account", "cron"];

/** What is nevertheless used, file by file, each with its reason. An entry that nothing uses any more fails. */
export const exceptions: readonly { readonly file: string; readonly name: string; readonly why: string }[] = [
  { file: "shared/ports.ts", name: "Date.now(", why: "the port itself" },
  { file: "shared/ports.ts", name: "crypto.", why: "the port itself" },
  { file: "shared/ports.ts", name: "system port", why: "the port itself" },
  { file: "shared/audit/chain.ts", name: "crypto.", why: "SHA-256 of its argument: same text, same digest" },
  { file: "shared/config/hash.ts", name: "crypto.", why: "SHA-256 of its argument: same text, same digest" },
  { file: "durable-objects/gate/perform.ts", name: "crypto.", why: "SHA-256 of its argument: same text, same digest" },
  { file: "shared/http.ts", name: "AbortSignal.timeout", why: "the one place that makes a time limit for a call" },
  { file: "shared/http.ts", name: "setTimeout", why: "a time limit that can be lifted; it starts nothing" },
  { file: "shared/runpod/image.ts", name: "AbortSignal.timeout", why: "the default of its timeoutSignal port" },
  { file: "shared/github/app-key.ts", name: "crypto.", why: "imports a key and signs with it, to say whether it can" },
  { file: "shared/github/call.ts", name: "fetch(", why: "the FetchLike it was handed" },
  { file: "shared/runpod/http.ts", name: "fetch(", why: "the FetchLike it was handed" },
  { file: "cron/platform-ports.ts", name: "system port", why: "the shell that picks the platform's own" },
  { file: "shared/runpod/image.ts", name: "fetch(", why: "the FetchLike it was handed" },
];

/**
 * The subset of the workflow syntax that the local world interprets, key by key. A key that is not here is an error with
 * its place: a workflow that means more than we do must not run as if we had understood it.
 */
import * as z from "zod";

/** GitHub takes numbers and booleans where it wants text. */
const text = z.union([z.string(), z.number(), z.boolean()]).transform(String);
const list = z.union([text.transform((one) => [one]), z.array(text)]);
const nothing = z.null().transform(() => ({}));

const inputSchema = z.strictObject({
  description: text.optional(),
  required: z.boolean().default(false),
  type: z.enum(["string", "boolean", "number", "choice"]).default("string"),
  default: text.optional(),
  options: z.array(text).optional(),
});

export type InputPlan = z.output<typeof inputSchema>;

const inputs = z
  .record(z.string(), z.union([inputSchema, z.null().transform(() => inputSchema.parse({}))]))
  .default({});

const pullFilter = z.strictObject({ types: list.optional(), branches: list.optional() });

const triggersSchema = z.strictObject({
  workflow_dispatch: z.union([nothing, z.strictObject({ inputs: inputs.optional() })]).optional(),
  workflow_call: z
    .union([
      nothing,
      z.strictObject({
        inputs: inputs.optional(),
        outputs: z.record(z.string(), z.strictObject({ description: text.optional(), value: text })).optional(),
        secrets: z
          .record(z.string(), z.strictObject({ description: text.optional(), required: z.boolean().optional() }))
          .optional(),
      }),
    ])
    .optional(),
  pull_request: z.union([nothing, pullFilter]).optional(),
  merge_group: z.union([nothing, z.strictObject({ types: list.optional() })]).optional(),
  push: z.union([nothing, z.strictObject({ branches: list.optional() })]).optional(),
  schedule: z.array(z.strictObject({ cron: z.string() })).optional(),
});

export type Triggers = z.output<typeof triggersSchema>;
export type TriggerName = keyof Triggers;

const SCOPES = [
  "actions",
  "attestations",
  "checks",
  "contents",
  "deployments",
  "id-token",
  "issues",
  "packages",
  "pages",
  "pull-requests",
  "repository-projects",
  "security-events",
  "statuses",
] as const;

const scopesSchema = z.partialRecord(z.enum(SCOPES), z.enum(["read", "write", "none"]));

const permissionsSchema = z.union([
  z.enum(["read-all", "write-all"]),
  scopesSchema,
  z.null().transform((): z.output<typeof scopesSchema> => ({})),
]);

export type PermissionsPlan = z.output<typeof permissionsSchema>;

const cacheModeSchema = z.enum(["none", "read", "write-only", "write"]);

export type CacheMode = z.output<typeof cacheModeSchema>;

const concurrencySchema = z.union([
  z.string().transform((group) => ({ group })),
  z.strictObject({ group: text, queue: z.enum(["single", "max"]).optional(), "cancel-in-progress": text.optional() }),
]);

const env = z.record(z.string(), z.union([text, z.null().transform(() => "")])).default({});

const stepSchema = z.strictObject({
  name: text.optional(),
  id: z
    .string()
    .regex(/^[A-Za-z_][\w-]*$/, "must be letters, digits, - and _")
    .optional(),
  if: text.optional(),
  uses: z.string().optional(),
  with: env,
  run: z.string().optional(),
  env,
  shell: z.literal("bash").optional(),
  "working-directory": text.optional(),
  "timeout-minutes": z.number().positive().optional(),
  "continue-on-error": z.boolean().default(false),
});

export type RawStep = z.output<typeof stepSchema>;

const strategySchema = z.strictObject({
  "fail-fast": z.boolean().default(true),
  matrix: z.record(z.string(), z.array(text).min(1)),
});

const jobSchema = z.strictObject({
  name: text.optional(),
  needs: list.default([]),
  if: text.optional(),
  "runs-on": list,
  "timeout-minutes": z.number().positive().default(360),
  "continue-on-error": z.boolean().default(false),
  permissions: permissionsSchema.optional(),
  "cache-mode": cacheModeSchema.optional(),
  strategy: strategySchema.optional(),
  /** Whose secrets the job may read, and which branches may have them. */
  environment: z.union([z.string(), z.strictObject({ name: z.string() }).transform(({ name }) => name)]).optional(),
  concurrency: concurrencySchema.optional(),
  env,
  outputs: z.record(z.string(), text).default({}),
  steps: z.array(stepSchema).min(1),
});

export type RawJob = z.output<typeof jobSchema>;

export const workflowSchema = z.strictObject({
  name: text.optional(),
  "run-name": text.optional(),
  on: z.union([
    z
      .string()
      .transform((name) => [name])
      .pipe(z.array(z.string())),
    z.array(z.string()),
    triggersSchema,
  ]),
  permissions: permissionsSchema.optional(),
  "cache-mode": cacheModeSchema.optional(),
  concurrency: concurrencySchema.optional(),
  env,
  jobs: z.record(z.string().regex(/^[A-Za-z_][\w-]*$/, "must be letters, digits, - and _"), jobSchema),
});

export const TRIGGER_NAMES = Object.keys(triggersSchema.shape) as TriggerName[];

/** Every key that is understood, by where it stands: what docs/workflows.md lists. */
export const SUPPORTED_KEYS = {
  workflow: Object.keys(workflowSchema.shape),
  concurrency: Object.keys(concurrencySchema.options[1].shape),
  trigger: TRIGGER_NAMES as readonly string[],
  filter: Object.keys(pullFilter.shape),
  input: Object.keys(inputSchema.shape),
  inputType: inputSchema.shape.type.unwrap().options as readonly string[],
  job: Object.keys(jobSchema.shape),
  strategy: Object.keys(strategySchema.shape),
  step: Object.keys(stepSchema.shape),
} as const;

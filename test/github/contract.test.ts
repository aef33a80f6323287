/**
 * The client against GitHub's own OpenAPI description (npm `@octokit/openapi`): each method asks for a documented path
 * with documented parameters only, and can read the documented example answer.
 *
 * The description is of API version 2022-11-28; what 2026-03-10 changes for these calls is in `client.test.ts`.
 */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { describe, expect, it } from "vitest";
import * as z from "zod";
import { createGitHubAppClient, type GitHubAppClient } from "../../shared/github/app-client.ts";
import { createGitHubClient, type GitHubClient } from "../../shared/github/client.ts";
import type { RunnerScope } from "../../shared/github/runners.ts";
import type { Result } from "../../shared/result.ts";
import type { GitHubFailure } from "../../shared/github/failure.ts";
import { API, REPOSITORY, rawJson, shaOf, stubApp, T0, tokenAnswer } from "./stub.ts";

const parameterSchema = z.union([
  z.object({ $ref: z.string() }),
  z.object({ name: z.string(), in: z.string(), required: z.boolean().optional() }),
]);
const responseSchema = z.object({
  content: z.record(z.string(), z.looseObject({ examples: z.record(z.string(), z.unknown()).optional() })).optional(),
});
const operationSchema = z.object({
  parameters: z.array(parameterSchema).optional(),
  requestBody: z
    .object({
      content: z.record(
        z.string(),
        z.object({
          schema: z.looseObject({
            properties: z.record(z.string(), z.unknown()).optional(),
            required: z.array(z.string()).optional(),
          }),
        }),
      ),
    })
    .optional(),
  responses: z.record(
    z.string(),
    z.looseObject({
      content: z
        .record(z.string(), z.looseObject({ examples: z.record(z.string(), z.unknown()).optional() }))
        .optional(),
    }),
  ),
});
type Operation = z.infer<typeof operationSchema>;

const description = z
  .object({
    paths: z.record(z.string(), z.record(z.string(), z.unknown())),
    components: z.object({
      parameters: z.record(
        z.string(),
        z.object({ name: z.string(), in: z.string(), required: z.boolean().optional() }),
      ),
      examples: z.record(z.string(), z.object({ value: z.unknown() })),
      responses: z.record(z.string(), responseSchema),
    }),
  })
  .parse(
    JSON.parse(
      readFileSync(createRequire(import.meta.url).resolve("@octokit/openapi/generated/api.github.com.json"), "utf8"),
    ),
  );

function operationOf(route: string): Operation {
  const [method = "", template = ""] = route.split(" ");
  const operation = description.paths[template]?.[method.toLowerCase()];
  if (operation === undefined) throw new Error(`GitHub describes no ${route}`);
  return operationSchema.parse(operation);
}

/** The documented example of the first success. */
function exampleOf(operation: Operation): { status: number; value: unknown } {
  const [code, response] = Object.entries(operation.responses).find(([status]) => status.startsWith("2")) ?? [];
  if (code === undefined || response === undefined) throw new Error("no success described");
  const link = z.object({ $ref: z.string() }).safeParse(response);
  const { content } = link.success
    ? resolve(description.components.responses, link.data)
    : responseSchema.parse(response);
  const json = Object.entries(content ?? {}).find(([type]) => type.startsWith("application/json"))?.[1];
  const examples: Record<string, unknown> = json?.examples ?? {};
  const chosen = examples["default"] ?? examples["response-if-content-is-a-file"] ?? Object.values(examples)[0];
  if (chosen === undefined) return { status: Number(code), value: undefined };
  const reference = z.object({ $ref: z.string() }).safeParse(chosen);
  if (!reference.success) return { status: Number(code), value: z.object({ value: z.unknown() }).parse(chosen).value };
  return { status: Number(code), value: resolve(description.components.examples, reference.data).value };
}

function resolve<T>(components: Readonly<Record<string, T>>, reference: { readonly $ref: string }): T {
  const found = components[reference.$ref.split("/").at(-1) ?? ""];
  if (found === undefined) throw new Error(`nothing at ${reference.$ref}`);
  return found;
}

function parametersOf(operation: Operation): { name: string; in: string }[] {
  return (operation.parameters ?? []).map((parameter) =>
    "$ref" in parameter ? resolve(description.components.parameters, parameter) : parameter,
  );
}

interface Asked {
  readonly method: string;
  readonly url: URL;
  readonly body: Record<string, unknown> | null;
}

/** Both clients over a server that gives every request the same answer. */
function clientsAnswering(
  status: number,
  body: unknown,
  runners: RunnerScope = { kind: "repository" },
): { client: GitHubClient; admin: GitHubAppClient; asked: Asked[] } {
  const asked: Asked[] = [];
  const app = stubApp({
    async fetch(input, init) {
      if (input.includes("/access_tokens")) return tokenAnswer();
      const text = typeof init?.body === "string" && init.body !== "" ? init.body : "null";
      asked.push({
        method: init?.method ?? "GET",
        url: new URL(input),
        body: z.record(z.string(), z.unknown()).nullable().parse(JSON.parse(text)),
      });
      if (status === 204) return new Response(null, { status });
      return rawJson(JSON.stringify(body ?? {}), { status, headers: { link: `<${API}/x?page=1>; rel="first"` } });
    },
  });
  const client = createGitHubClient({ app, repository: REPOSITORY, runners });
  return { client, admin: createGitHubAppClient(app), asked };
}

const organization = { kind: "organization", org: "octo", groupId: "4" } as const;
const R = "/repos/{owner}/{repo}";
type Method = (clients: { client: GitHubClient; admin: GitHubAppClient }) => Promise<Result<unknown, GitHubFailure>>;

const METHODS: readonly (readonly [route: string, name: string, call: Method])[] = [
  [`GET ${R}`, "getRepository", ({ client }) => client.getRepository()],
  [`GET ${R}/branches/{branch}`, "getBranchHead", ({ client }) => client.getBranchHead("main")],
  [`GET ${R}/git/trees/{tree_sha}`, "getTree", ({ client }) => client.getTree(shaOf("a"), { recursive: true })],
  [`GET ${R}/git/commits/{commit_sha}`, "getCommit", ({ client }) => client.getCommit(shaOf("a"))],
  [`GET ${R}/git/ref/{ref}`, "getRef", ({ client }) => client.getRef("pull/7/merge")],
  [`GET ${R}/pulls/{pull_number}`, "getPull", ({ client }) => client.getPull(7)],
  [`GET ${R}/pulls/{pull_number}/files`, "listPullFiles", ({ client }) => client.listPullFiles(7)],
  [`GET ${R}/pulls`, "listOpenPullsByHead", ({ client }) => client.listOpenPullsByHead("mona:patch-1")],
  [`GET ${R}/pulls`, "listOpenPulls", ({ client }) => client.listOpenPulls()],
  [`GET ${R}/commits/{commit_sha}/pulls`, "listPullsForCommit", ({ client }) => client.listPullsForCommit(shaOf("a"))],
  [`GET ${R}/compare/{basehead}`, "compareFiles", ({ client }) => client.compareFiles("main", "mona:patch-1")],
  [`GET ${R}/collaborators/{username}/permission`, "getRole", ({ client }) => client.getRole("mona")],
  [
    `POST ${R}/check-runs`,
    "createCheckRun",
    ({ client }) =>
      client.createCheckRun({
        name: "CI GPU gate",
        headSha: shaOf("a"),
        state: { status: "completed", conclusion: "failure", completedAt: T0 },
        externalId: "request-1",
        detailsUrl: "https://gate.test/r/1",
        startedAt: T0,
        output: { title: "t", summary: "s", text: "x" },
        actions: [{ label: "Run", description: "Run it", identifier: "run" }],
      }),
  ],
  [
    `PATCH ${R}/check-runs/{check_run_id}`,
    "updateCheckRun",
    ({ client }) =>
      client.updateCheckRun("4", { state: { status: "in_progress" }, output: { title: "t", summary: "s" } }),
  ],
  [
    `GET ${R}/commits/{ref}/check-runs`,
    "listCheckRunsForRef",
    ({ client }) => client.listCheckRunsForRef(shaOf("a"), { filter: "all", name: "rustfmt", appId: "1" }),
  ],
  [
    `GET ${R}/check-runs/{check_run_id}/annotations`,
    "getCheckRunAnnotations",
    ({ client }) => client.getCheckRunAnnotations("4"),
  ],
  [`GET ${R}/actions/workflows/{workflow_id}`, "getWorkflow", ({ client }) => client.getWorkflow("gpu-execute.yml")],
  [
    `POST ${R}/actions/workflows/{workflow_id}/dispatches`,
    "dispatchWorkflow",
    ({ client }) => client.dispatchWorkflow("gpu-execute.yml", "main", { request: "r1" }),
  ],
  [
    `GET ${R}/actions/workflows/{workflow_id}/runs`,
    "findRunsByName",
    ({ client }) => client.findRunsByName("gpu-execute.yml", "gpu r1 a1", T0),
  ],
  [
    `GET ${R}/actions/runs`,
    "listRuns",
    ({ client }) => client.listRuns({ status: "in_progress", event: "push", branch: "main", headSha: shaOf("a") }),
  ],
  [`GET ${R}/actions/runs/{run_id}`, "getRun", ({ client }) => client.getRun("9")],
  [
    `GET ${R}/actions/runs/{run_id}/attempts/{attempt_number}`,
    "getRunAttempt",
    ({ client }) => client.getRunAttempt("9", 2),
  ],
  [
    `GET ${R}/actions/runs/{run_id}/attempts/{attempt_number}/jobs`,
    "listJobs",
    ({ client }) => client.listJobs("9", 1),
  ],
  [`GET ${R}/actions/runs/{run_id}/artifacts`, "listArtifacts", ({ client }) => client.listArtifacts("9")],
  [`POST ${R}/actions/runs/{run_id}/cancel`, "cancelRun", ({ client }) => client.cancelRun("9")],
  [
    `GET ${R}/actions/variables/{name}`,
    "getRepositoryVariable",
    ({ client }) => client.getRepositoryVariable("GPU_GATE"),
  ],
  [
    `POST ${R}/actions/runners/generate-jitconfig`,
    "createJitRunner",
    ({ client }) => client.createJitRunner({ name: "gpu-r1-a1", labels: ["self-hosted", "gpu-r1"] }),
  ],
  [`GET ${R}/actions/runners/{runner_id}`, "getRunner", ({ client }) => client.getRunner("23")],
  [`GET ${R}/actions/runners`, "listRunners", ({ client }) => client.listRunners()],
  [`GET ${R}/actions/runners`, "findRunnerByName", ({ client }) => client.findRunnerByName("linux_runner")],
  [`DELETE ${R}/actions/runners/{runner_id}`, "deleteRunner", ({ client }) => client.deleteRunner("23")],
  ["GET /app", "getApp", ({ admin }) => admin.getApp()],
  ["GET /app/hook/config", "getHookConfig", ({ admin }) => admin.getHookConfig()],
  ["GET /app/hook/deliveries", "listHookDeliveries", ({ admin }) => admin.listHookDeliveries({ cursor: "v1_1" })],
  ["POST /app/hook/deliveries/{delivery_id}/attempts", "redeliver", ({ admin }) => admin.redeliver("5")],
  [
    `GET ${R}/installation`,
    "getInstallationForRepository",
    ({ admin }) => admin.getInstallationForRepository("octo", "engine"),
  ],
];

function matches(template: string, path: string): boolean {
  const pattern = template
    .split("/")
    // GitHub takes slashes in a file's path, a branch and a ref, though the description cannot say so.
    .map((part) => (/^\{(?:path|branch|ref)\}$/.test(part) ? ".+" : part.startsWith("{") ? "[^/]+" : part))
    .join("/");
  return new RegExp(`^${pattern}$`).test(path);
}

function expectDocumented(asked: Asked | undefined, route: string, operation: Operation): void {
  const [method = "", template = ""] = route.split(" ");
  expect(asked?.method).toBe(method);
  expect(matches(template, asked?.url.pathname ?? "")).toBe(true);
  const known = parametersOf(operation).flatMap((parameter) => (parameter.in === "query" ? [parameter.name] : []));
  expect(known).toEqual(expect.arrayContaining([...(asked?.url.searchParams.keys() ?? [])]));
  const body = operation.requestBody?.content["application/json"]?.schema;
  const sent = Object.keys(asked?.body ?? {});
  expect(Object.keys(body?.properties ?? {})).toEqual(expect.arrayContaining(sent));
  expect(sent).toEqual(expect.arrayContaining(body?.required ?? []));
}

describe("GitHub's description", () => {
  it("of a file has an example whose base64 is broken; with another content it is read", async () => {
    const route = `GET ${R}/contents/{path}`;
    const operation = operationOf(route);
    const file = z.looseObject({ content: z.string() }).parse(exampleOf(operation).value);
    const { client, asked } = clientsAnswering(200, { ...file, content: "dmVyc2lv\nbjogMQo=\n" });
    expect(await client.getFile(".github/gpu-gate.yml", "main")).toMatchObject({
      ok: true,
      value: { text: "version: 1\n" },
    });
    expectDocumented(asked[0], route, operation);
  });

  it.each(METHODS)("%s is what %s asks, and its example can be read", async (route, _name, call) => {
    const operation = operationOf(route);
    const { status, value } = exampleOf(operation);
    const clients = clientsAnswering(status, value);
    expect(await call(clients)).toMatchObject({ ok: true });
    expectDocumented(clients.asked[0], route, operation);
  });

  const ofOrganization: readonly (readonly [
    string,
    (client: GitHubClient) => Promise<Result<unknown, GitHubFailure>>,
  ])[] = [
    [
      "POST /orgs/{org}/actions/runners/generate-jitconfig",
      (client) => client.createJitRunner({ name: "n", labels: ["l"] }),
    ],
    ["GET /orgs/{org}/actions/runners/{runner_id}", (client) => client.getRunner("23")],
    ["GET /orgs/{org}/actions/runners", (client) => client.listRunners()],
    ["GET /orgs/{org}/actions/runners", (client) => client.findRunnerByName("linux_runner")],
    ["DELETE /orgs/{org}/actions/runners/{runner_id}", (client) => client.deleteRunner("23")],
  ];
  it.each(ofOrganization)("%s is asked for an organisation's runners", async (route, call) => {
    const operation = operationOf(route);
    const { status, value } = exampleOf(operation);
    const { client, asked } = clientsAnswering(status, value, organization);
    expect(await call(client)).toMatchObject({ ok: true });
    expectDocumented(asked[0], route, operation);
  });
});

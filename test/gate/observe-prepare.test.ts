/** Which jobs a preparation failed by: not by the one that forgives itself. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { observe } from "../../durable-objects/gate/observe.ts";
import type { GitHubClient } from "../../shared/github/client.ts";
import { LOOK_UP_JOB } from "../../shared/hosted/prepare-jobs.ts";
import { ok } from "../../shared/result.ts";

const root = join(import.meta.dirname, "..", "..");

async function failedJobs(jobs: Readonly<Record<string, string>>) {
  const github = {
    getRunAttempt: async () => ok({ status: "completed", conclusion: "failure", htmlUrl: "u" }),
    listJobs: async () =>
      ok({ items: Object.entries(jobs).map(([name, conclusion]) => ({ name, conclusion })), complete: true }),
  } as unknown as GitHubClient;
  const context = { github, ports: {} as never, dueAt: 0, tickMs: 5_000 };
  const seen = await observe({ prepareRun: { runId: "1", attempt: 1 } }, context);
  const run = seen.prepareRun;
  return run?.known === true && run.value !== "gone" ? run.value.failedJobs : null;
}

describe("a preparation that failed", () => {
  it("is not told by the job that forgives itself, whose own conclusion stays a failure", async () => {
    expect(await failedJobs({ [LOOK_UP_JOB]: "failure", "Archives and host tests": "timed_out" })).toEqual([
      "Archives and host tests",
    ]);
  });

  it.each(["failure", "timed_out"])(
    "has no failed job where only that one ended as %s: its machine was lost",
    async (its) => {
      expect(await failedJobs({ [LOOK_UP_JOB]: its, "Archives and host tests": "cancelled" })).toEqual([]);
    },
  );

  it("has that job by the shipped file's name, and no other that forgives itself", () => {
    const shipped = parse(readFileSync(join(root, "workflows", "gpu-gate-prepare.yml"), "utf8")) as {
      jobs: Record<string, { name: string; "continue-on-error"?: unknown }>;
    };
    const forgiving = Object.values(shipped.jobs).filter((job) => job["continue-on-error"] !== undefined);
    expect(forgiving.map(({ name }) => name)).toEqual([LOOK_UP_JOB]);
    expect(readFileSync(join(root, "docs", "workflows.md"), "utf8")).toContain(`*${LOOK_UP_JOB}*`);
  });
});

/** A list that GitHub did not give whole (I11): what it lacks is not believed absent, what it shows may be overtaken. */
import { describe, expect, it } from "vitest";
import { observe } from "../../durable-objects/gate/observe.ts";
import type { GitHubClient } from "../../shared/github/client.ts";
import type { Want } from "../../shared/lifecycle/tasks.ts";
import { ok } from "../../shared/result.ts";

const HEAD = "a".repeat(40);

function seenBy(github: object, want: Want) {
  return observe(want, { github: github as GitHubClient, ports: {} as never, dueAt: 0, tickMs: 5_000 });
}

interface Listed {
  readonly items: readonly { readonly name: string; readonly conclusion: string }[];
  readonly complete: boolean;
}

/** The checks of a head: the list of all of them, and what each name's own list gives. */
async function preGate(all: Listed, named: Readonly<Record<string, Listed>>) {
  const asked: (string | undefined)[] = [];
  const github = {
    listCheckRunsForRef: async (_ref: string, { name }: { name?: string }) => {
      asked.push(name);
      const { items, complete } = (name === undefined ? all : named[name]) ?? { items: [], complete: true };
      return ok({ items: items.map((one) => ({ status: "completed", startedAt: 1, ...one })), complete });
    },
  };
  const { preGate: seen } = await seenBy(github, { preGate: { headSha: HEAD, names: ["rustfmt", "clippy"] } });
  return { seen, asked };
}

const green = (name: string) => ({ name, conclusion: "success" });
const red = (name: string) => ({ name, conclusion: "failure" });
const whole = (...items: Listed["items"]): Listed => ({ items, complete: true });
const cut = (...items: Listed["items"]): Listed => ({ items, complete: false });

describe("a cut list of checks", () => {
  it("is not believed: each name is asked for on its own", async () => {
    const named = { rustfmt: whole(green("rustfmt")), clippy: whole(red("clippy")) };
    const { seen, asked } = await preGate(cut(green("rustfmt"), green("clippy")), named);
    expect(seen).toEqual({ known: true, value: { kind: "failed", names: ["clippy"] } });
    expect(asked).toEqual([undefined, "rustfmt", "clippy"]);
  });

  it("does not hold a head up whose own checks are all there", async () => {
    const named = { rustfmt: whole(green("rustfmt")), clippy: whole(green("clippy")) };
    const { seen } = await preGate(cut(green("rustfmt")), named);
    expect(seen).toEqual({ known: true, value: { kind: "ready" } });
  });

  it("is unknown where a name's own list is cut as well", async () => {
    const named = { rustfmt: whole(green("rustfmt")), clippy: cut(green("clippy")) };
    const { seen } = await preGate(cut(green("rustfmt"), green("clippy")), named);
    expect(seen).toMatchObject({ known: false });
  });

  it("costs nothing more where it is whole", async () => {
    const { seen, asked } = await preGate(whole(green("rustfmt"), green("clippy")), {});
    expect(seen).toEqual({ known: true, value: { kind: "ready" } });
    expect(asked).toEqual([undefined]);
  });
});

describe("a cut list of jobs", () => {
  const run = { runId: "1", attempt: 1 };

  it("does not say that the GPU job is not there", async () => {
    const github = {
      getRun: async () => ok({ status: "completed", conclusion: "success", attempt: 1 }),
      listJobs: async () => ok({ items: [], complete: false }),
    };
    const { job } = await seenBy(github, { job: { run, jobName: "GPU" } });
    expect(job).toMatchObject({ known: false });
  });

  it("does not say that no job of a preparation failed", async () => {
    const github = (complete: boolean) => ({
      getRunAttempt: async () => ok({ status: "completed", conclusion: "failure", htmlUrl: "u" }),
      listJobs: async () => ok({ items: [], complete }),
    });
    expect((await seenBy(github(false), { prepareRun: run })).prepareRun).toMatchObject({ known: false });
    expect((await seenBy(github(true), { prepareRun: run })).prepareRun).toMatchObject({ known: true });
  });
});

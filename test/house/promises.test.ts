/** What the documents promise about shipped files that no other test reads: small, and about text alone. */
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import * as z from "zod";
import { filesUnder, lex, read } from "./source.ts";

const workflowSchema = z.looseObject({
  jobs: z.record(
    z.string(),
    z.looseObject({
      name: z.string(),
      needs: z.union([z.string(), z.array(z.string())]).optional(),
      strategy: z.unknown().optional(),
      steps: z.array(z.looseObject({ name: z.string(), uses: z.string().optional(), run: z.string().optional() })),
    }),
  ),
});
const jobsOf = (file: string) => Object.values(workflowSchema.parse(parse(read(file))).jobs);

describe("the example CI", () => {
  it("runs macOS and Linux side by side: both wait for the classification alone, and no matrix ties them", () => {
    const pair = jobsOf("workflows/ci.yml").filter(({ name }) => /^(?:macOS|Linux) workspace tests$/.test(name));
    expect(pair.map(({ name, needs, strategy }) => [name, needs, strategy])).toEqual(
      expect.arrayContaining([
        ["Linux workspace tests", "classify", undefined],
        ["macOS workspace tests", "classify", undefined],
      ]),
    );
  });
});

describe("the fallback on a larger hosted machine", () => {
  it("proves its Ubuntu release before it downloads anything", () => {
    const job = jobsOf("workflows/gpu-gate-fallback.yml").find(({ name }) => name === "GPU tests (fallback)");
    const [first, ...rest] = job?.steps ?? [];
    expect(first?.uses).toBeUndefined();
    expect(first?.run).toMatch(/24\.04/);
    expect(rest.filter(({ uses }) => uses?.startsWith("actions/download-artifact@"))).toHaveLength(1);
  });
});

describe("own machines", () => {
  it("are only looked at: the probe's client knows no method but GET", () => {
    const { code, strings } = lex(read("cli/github-get.ts"));
    expect(strings.filter((text) => /^(?:POST|PUT|PATCH|DELETE)$/.test(text))).toEqual([]);
    expect(code).not.toMatch(/\bmethod\s*:/);
  });

  it("keep their switches: repository variables are only read", () => {
    // The command line's own client is the one above.
    const uses = ["shared", "durable-objects", "worker", "cron"].flatMap((folder) =>
      filesUnder(folder, ".ts").flatMap((file) =>
        [...read(file).matchAll(/(\.get(?:<\w+>)?\([^;]{0,160})?\/actions\/variables/g)].map((match) => ({
          file,
          read: match[1] !== undefined,
        })),
      ),
    );
    expect(uses.length).toBeGreaterThan(0);
    expect(uses.filter((use) => !use.read)).toEqual([]);
  });
});

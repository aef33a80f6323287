import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { commands } from "../../cli/commands/index.ts";
import { filesUnder, read, root } from "./source.ts";

const readme = read("README.md");
const ci = read(".ci/run");
const { scripts } = JSON.parse(read("package.json")) as { scripts: Record<string, string> };

/** Lines of the fenced `sh` blocks. */
const fenced = [...readme.matchAll(/^```(?:sh|bash|console)\n([\s\S]*?)^```$/gm)].flatMap((match) =>
  (match[1] ?? "").split("\n").filter((line) => line.trim() !== ""),
);

/**
 * Who runs each command of the README: a step of `.ci/run`, or a test file. `because` is for the two that need somebody's
 * Cloudflare account: what stands in for them is named instead.
 */
const run: Readonly<Record<string, { readonly by: string; readonly holds: string; readonly because?: string }>> = {
  "npm ci && npm start": { by: "test/e2e/opening-day.test.ts", holds: "npm start" },
  "npm ci && npm test": { by: ".ci/run", holds: "npm test" },
  "npm run gpu-gate -- help": { by: ".ci/run", holds: "gpu-gate -- help" },
  "node .github/gpu-gate/gpu-gate.mjs config check": {
    by: "test/cli/policy-commands.test.ts",
    holds: `"config", "check"`,
  },
  "node .github/gpu-gate/gpu-gate.mjs lint": { by: "test/lint/command.test.ts", holds: "lint" },
  "npx wrangler deploy": { by: ".ci/run", holds: "npm run --silent build", because: "a dry run: no account in CI" },
};

describe("the README", () => {
  it("has only commands that CI or a test runs", () => {
    const unknown = fenced.filter((line) => !/^npx wrangler secret put \w+$/.test(line) && run[line] === undefined);
    expect(unknown).toEqual([]);
    // And none is kept here that the README has no more.
    expect(Object.keys(run).filter((line) => !fenced.includes(line))).toEqual([]);
  });

  it.each(Object.entries(run))("%s is run where the list says", (_line, { by, holds }) => {
    expect(existsSync(join(root, by))).toBe(true);
    expect(read(by)).toContain(holds);
  });

  it("installs in CI as it tells others to", () => {
    expect(ci).toMatch(/^step "npm ci" npm ci\b/m);
  });

  it("has the test command on a line of its own, exactly", () => {
    expect(fenced.filter((line) => line === "npm ci && npm test")).toHaveLength(1);
    expect(scripts["start"]).toBe("node local/start.ts");
    expect(scripts["build"]).toContain("wrangler deploy --dry-run");
  });

  it("sets exactly the secrets that the Worker requires", () => {
    const required = /required = \[([^\]]*)\]/.exec(read("wrangler.toml"))?.[1] ?? "";
    const put = fenced.flatMap((line) => /^npx wrangler secret put (\w+)$/.exec(line)?.[1] ?? []);
    expect(put.sort()).toEqual([...required.matchAll(/"(\w+)"/g)].map((match) => match[1] ?? "").sort());
  });

  it("explains every variable of wrangler.toml, and none that is not there", () => {
    const vars = (/^\[vars\]\n([\s\S]*?)\n\n/m.exec(read("wrangler.toml"))?.[1] ?? "")
      .split("\n")
      .map((line) => line.split(" = ")[0] ?? "");
    const table = [...readme.matchAll(/^\| (`[A-Z_]+`(?:, `[A-Z_]+`)*) \|/gm)].flatMap((match) =>
      [...(match[1] ?? "").matchAll(/`([A-Z_]+)`/g)].map((name) => name[1] ?? ""),
    );
    expect(table.sort()).toEqual(vars.sort());
  });

  it("lists every command of gpu-gate", () => {
    const start = readme.indexOf("## The command line");
    const listed = [...readme.slice(start, readme.indexOf("## Documents")).matchAll(/^\| `([\w-]+)` \|/gm)].map(
      (match) => match[1],
    );
    expect(listed).toEqual(commands.map((command) => command.name));
  });

  it("lists every document", () => {
    const pages = filesUnder("docs", ".md").filter((file) => !file.startsWith("docs/adr/"));
    expect(pages.filter((file) => !readme.includes(`| \`${file}\` |`))).toEqual([]);
  });

  it("begins with what it is in five lines, then the command, then the picture, then the test command", () => {
    const order = [
      "npm ci && npm start",
      "GitHub ──webhook──▶",
      "npm ci && npm test",
      "## How it decides",
      "## Point it at",
    ];
    const places = order.map((text) => readme.indexOf(text));
    expect(places).toEqual([...places].sort((a, b) => a - b));
    expect(places).not.toContain(-1);
    expect(
      readme
        .slice(0, places[0])
        .split("\n")
        .filter((line) => line !== "" && !/^[#`]/.test(line)),
    ).toHaveLength(5);
  });
});

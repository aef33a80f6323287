/** The word about a Node that is too old, before it meets TypeScript; run as npm runs it. */
import { spawnSync } from "node:child_process";
import process from "node:process";
import { describe, expect, it } from "vitest";
import { read, root } from "../house/source.ts";

interface Package {
  readonly engines: { readonly node: string };
  readonly scripts: Readonly<Record<string, string>>;
}
const { engines, scripts } = JSON.parse(read("package.json")) as Package;
const SCRIPT = "scripts/node-version.mjs";

function check(version: string): { code: number | null; err: string } {
  const { status, stderr } = spawnSync(process.execPath, [SCRIPT, version], { cwd: root, encoding: "utf8" });
  return { code: status, err: stderr };
}

describe("the check of Node's version", () => {
  it.each(["18.20.8", "20.20.2", "22.17.9"])("names what is needed and what to do under %s", (version) => {
    const { code, err } = check(version);
    expect(code).toBe(1);
    expect(err).toContain(`${engines.node.replace(">=", "")} or newer, and this is Node ${version}`);
    expect(err.trim().split("\n")).toHaveLength(1);
  });

  it.each(["22.18.0", "22.20.1", "24.0.0", "100.1.0"])("says nothing under %s", (version) => {
    expect(check(version)).toEqual({ code: 0, err: "" });
  });

  it("comes before the commands of the README", () => {
    for (const name of ["start", "test", "gpu-gate"]) expect(scripts[`pre${name}`]).toBe(`node ${SCRIPT}`);
  });
});

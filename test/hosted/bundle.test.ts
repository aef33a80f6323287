import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { BUNDLE_NODE_MAJOR, bundleCli } from "../../scripts/bundle-cli.ts";
import { commands } from "../../cli/commands/index.ts";
import { fill, temporaryFolder } from "./folder.ts";

const SYSTEM_NODE = "/usr/bin/node";

function major(node: string): number {
  if (!existsSync(node)) return 0;
  return Number(spawnSync(node, ["-p", "process.versions.node.split('.')[0]"], { encoding: "utf8" }).stdout);
}

describe("the one-file bundle", () => {
  // Far from any node_modules: what was left outside of the bundle would not be found.
  let file = "";
  beforeAll(async () => {
    const folder = mkdtempSync(join(tmpdir(), "gpu-gate-bundle-"));
    file = join(folder, "gpu-gate.mjs");
    await bundleCli(file);
    return () => rmSync(folder, { recursive: true, force: true });
  });

  const nodes: readonly (readonly [string, string, number])[] = [
    ["the Node that runs the tests", process.execPath, major(process.execPath)],
    ["the system's Node", SYSTEM_NODE, major(SYSTEM_NODE)],
  ];

  describe.each(nodes)("under %s", (_which, node, version) => {
    const usable = version >= BUNDLE_NODE_MAJOR;

    test.skipIf(!usable)(
      `lists every command and splits and joins an archive (needs Node ${BUNDLE_NODE_MAJOR} at ${node})`,
      () => {
        const cwd = fill(temporaryFolder(), { "in/a.bin": "content" });
        const run = (...args: readonly string[]) => spawnSync(node, [file, ...args], { cwd, encoding: "utf8" });
        const help = run("help");
        expect(help).toMatchObject({ status: 0, stderr: "" });
        for (const command of commands) expect(help.stdout).toContain(`  ${command.name} `);
        expect(run("archive", "split", "in", "--out", "parts")).toMatchObject({ status: 0, stderr: "" });
        expect(run("archive", "join", "--in", "parts", "--out", "out")).toMatchObject({ status: 0, stderr: "" });
        expect(run("archive", "verify", "--in", "nowhere")).toMatchObject({ status: 2, stdout: "" });
      },
    );
  });
});

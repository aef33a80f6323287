/** Output whose reader has gone, as `| head -1` does. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import process from "node:process";
import { expect, it } from "vitest";
import { root } from "../house/source.ts";

it("a reader that has read enough is no fault: nothing is said, and the command ends well", async () => {
  const child = spawn(process.execPath, ["cli/main.ts", "help"], { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
  child.stdout.destroy();
  let said = "";
  child.stderr.on("data", (chunk: Buffer) => (said += String(chunk)));
  const [code] = (await once(child, "close")) as [number | null];
  expect([code, said]).toEqual([0, ""]);
});

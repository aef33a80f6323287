/**
 * Says in one sentence that this Node is too old, before it meets TypeScript that it cannot read. Plain JavaScript for that reason.
 *
 * On Linux x64 the install brings a Node of its own, which npm's scripts use; elsewhere it is whatever the machine has. Takes the
 * version from the command line for a test, else the one that runs this.
 */
import { readFileSync } from "node:fs";
import process from "node:process";

const { engines } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
const needed = engines.node.replace(">=", "");
const running = process.argv[2] ?? process.versions.node;

const [major = 0, minor = 0] = running.split(".").map(Number);
const [leastMajor = 0, leastMinor = 0] = needed.split(".").map(Number);
if (major < leastMajor || (major === leastMajor && minor < leastMinor)) {
  console.error(
    `gpu-gate needs Node ${needed} or newer, and this is Node ${running}. Install a newer one (https://nodejs.org), or run 'npm ci' on Linux x64, where it brings its own.`,
  );
  process.exitCode = 1;
}

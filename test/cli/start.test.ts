/** `npm start` called wrongly: one sentence and 2, before anything is built or started. */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { once } from "node:events";
import { join } from "node:path";
import process from "node:process";
import { expect, it } from "vitest";
import { startCommand } from "../e2e/command.ts";
import { freePort } from "../../local/world/ports.ts";
import { root } from "../house/source.ts";

function start(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, "local", "start.ts"), ...args], {
    encoding: "utf8",
  });
  return { status, stdout, stderr };
}

it.each([
  [["--bogus"], "Unknown option '--bogus'; --help lists the options."],
  [["--port"], "Option '--port' needs a value; --help lists the options."],
  [
    ["--port", "-1"],
    "Option '--port' needs a value; one that begins with '-' is written '--port=VALUE'; --help lists the options.",
  ],
  [["--port=-1"], "--port takes a number from 0 to 65535, not '-1'."],
  [["--port", "65536"], "--port takes a number from 0 to 65535, not '65536'."],
  [["--port", ""], "--port takes a number from 0 to 65535, not ''."],
  [["--logs=yes"], "Option '--logs' takes no value; --help lists the options."],
  [["now"], "'now' is one word too many; --help lists the options."],
])("%j", (args, sentence) => {
  expect(start(...args)).toEqual({ status: 2, stdout: "", stderr: `npm start: ${sentence}\n` });
});

it("takes by itself only ports that no outgoing connection is given, so that a killed Worker gets its own back", async () => {
  const range = "/proc/sys/net/ipv4/ip_local_port_range";
  const low = existsSync(range) ? Number(readFileSync(range, "utf8").split(/\s+/)[0]) : 32_768;
  for (let times = 0; times < 20; times += 1) expect(await freePort()).toBeLessThan(low);
});

it("names the port that is taken and what to do", async () => {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  try {
    const running = startCommand(["--once", "--port", String(port)]);
    expect(await running.ended).toBe(2);
    expect(running.output()).toBe(`npm start: port ${port} is in use; choose another with --port.\n`);
  } finally {
    server.close();
  }
});

it("says what it knows when asked for help, whatever else is asked", () => {
  expect(start("--help", "--bogus")).toMatchObject({
    status: 0,
    stdout: expect.stringContaining("--port N") as string,
    stderr: "",
  });
});

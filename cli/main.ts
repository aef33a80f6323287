#!/usr/bin/env node
/** `gpu-gate`: finds the command, runs it, and turns what it says into an exit code. */
import process from "node:process";
import { argumentProblem } from "../shared/arguments.ts";
import { EXIT_OK, EXIT_USAGE, UsageError, type Command, type Io } from "./command.ts";
import { commands, groups } from "./commands/index.ts";
import { VERSION } from "./version.ts";

export async function main(argv: readonly string[], io: Io): Promise<number> {
  const [name, ...args] = argv;
  if (name === "--version") {
    io.stdout(`${VERSION}\n`);
    return EXIT_OK;
  }
  if (name === undefined || name === "help" || name === "--help" || name === "-h") return help(args, io);
  const command = commandOf(name, io);
  if (command === null) return EXIT_USAGE;
  if (args.includes("--help") || args.includes("-h")) return page(command, io);
  try {
    return await command.run(args, io);
  } catch (error) {
    const problem = argumentProblem(error);
    if (!(error instanceof UsageError) && problem === null) throw error;
    const said = problem === null ? (error as UsageError).message : `${problem}.`;
    io.stderr(`gpu-gate ${name}: ${said} Run 'gpu-gate ${name} --help'.\n`);
    return EXIT_USAGE;
  }
}

function commandOf(name: string, io: Io): Command | null {
  const command = commands.find((candidate) => candidate.name === name);
  if (command !== undefined) return command;
  io.stderr(`gpu-gate: there is no command '${name}'. Run 'gpu-gate help' for the list.\n`);
  return null;
}

/** `gpu-gate help` lists the commands by purpose, `gpu-gate help NAME` explains that one. */
function help(names: readonly string[], io: Io): number {
  const [name, ...more] = names.filter((word) => word !== "--help" && word !== "-h");
  if (more.length > 0) {
    io.stderr("gpu-gate help: Name one command. Run 'gpu-gate help' for the list.\n");
    return EXIT_USAGE;
  }
  if (name === undefined) {
    io.stdout(list());
    return EXIT_OK;
  }
  const command = commandOf(name, io);
  return command === null ? EXIT_USAGE : page(command, io);
}

function page(command: Command, io: Io): number {
  io.stdout(`${command.usage.trim()}\n`);
  return EXIT_OK;
}

function list(): string {
  const width = Math.max(0, ...commands.map((command) => command.name.length));
  const rows = groups.flatMap((group) => [
    `${group.title}:`,
    ...group.commands.map((command) => `  ${command.name.padEnd(width)}  ${command.summary}`),
    "",
  ]);
  return [
    "gpu-gate <command> [options]",
    "",
    ...rows,
    "gpu-gate <command> --help, or gpu-gate help <command>, explains one command. gpu-gate --version prints the version.",
    "",
  ].join("\n");
}

async function readStdin(): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk as Uint8Array);
  return Buffer.concat(chunks);
}

/** Whoever reads it has read enough, as `head` does: that is no fault, and nobody is left to tell. */
function untilClosed(stream: NodeJS.WriteStream): void {
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
    process.exit();
  });
}

if (import.meta.main) {
  untilClosed(process.stdout);
  untilClosed(process.stderr);
  const io: Io = {
    stdout: (text) => void process.stdout.write(text),
    stderr: (text) => void process.stderr.write(text),
    stdin: readStdin,
    env: process.env,
    cwd: process.cwd(),
    // No command follows a redirect unless it says so: it would take a question to whoever is named.
    fetch: (input, init) => fetch(input, { redirect: "manual", ...init }),
    now: () => Date.now(),
  };
  process.exitCode = await main(process.argv.slice(2), io).catch((error: unknown) => {
    io.stderr(`gpu-gate: an error nobody planned for: ${error instanceof Error ? error.message : String(error)}\n`);
    return EXIT_USAGE;
  });
}

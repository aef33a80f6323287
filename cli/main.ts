#!/usr/bin/env node
/** `gpu-gate`: finds the command, runs it, and turns what it says into an exit code. */
import process from "node:process";
import { EXIT_OK, EXIT_USAGE, UsageError, type Io } from "./command.ts";
import { commands } from "./commands/index.ts";

export async function main(argv: readonly string[], io: Io): Promise<number> {
  const [name, ...args] = argv;
  if (name === undefined || name === "help" || name === "--help" || name === "-h") {
    io.stdout(help());
    return EXIT_OK;
  }
  const command = commands.find((candidate) => candidate.name === name);
  if (command === undefined) {
    io.stderr(`gpu-gate: there is no command '${name}'. Run 'gpu-gate help' for the list.\n`);
    return EXIT_USAGE;
  }
  if (args.includes("--help") || args.includes("-h")) {
    io.stdout(`${command.usage.trim()}\n`);
    return EXIT_OK;
  }
  try {
    return await command.run(args, io);
  } catch (error) {
    if (!(error instanceof UsageError) && !isArgumentError(error)) throw error;
    io.stderr(`gpu-gate ${name}: ${error.message} Run 'gpu-gate ${name} --help'.\n`);
    return EXIT_USAGE;
  }
}

/** node:util's parseArgs reports a wrong option as a TypeError with such a code. */
function isArgumentError(error: unknown): error is Error {
  return error instanceof Error && String((error as { code?: unknown }).code).startsWith("ERR_PARSE_ARGS_");
}

function help(): string {
  const width = Math.max(0, ...commands.map((command) => command.name.length));
  const rows = commands.map((command) => `  ${command.name.padEnd(width)}  ${command.summary}`);
  return ["gpu-gate <command> [options]", "", ...rows, "", "gpu-gate <command> --help explains one command.", ""].join(
    "\n",
  );
}

async function readStdin(): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk as Uint8Array);
  return Buffer.concat(chunks);
}

if (import.meta.main) {
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

/** `gpu-gate config`: check a configuration and show what it means with all defaults, or print its schema. */
import { parseArgs } from "node:util";
import { stringify } from "yaml";
import { effectiveConfigHash } from "../../shared/config/hash.ts";
import { configJsonSchema } from "../../shared/config/json-schema.ts";
import { configReference } from "../../shared/config/reference.ts";
import { configNotes } from "../../shared/config/notes.ts";
import { CONFIG_PATH } from "../../shared/config/schema.ts";
import { EXIT_NO, EXIT_OK, UsageError, type Command, type Io } from "../command.ts";
import { configFromFile } from "../repository-config.ts";

const usage = `
gpu-gate config check [FILE] [--json]
gpu-gate config schema
gpu-gate config reference

check      reads FILE (default .github/gpu-gate.yml); prints every problem with line, column and what to do, or the
           effective configuration with all defaults filled in, and its hash; with --json the latter two as JSON.
           What is valid and may still surprise is a note on the error output: a cap that no attempt fits, say.
schema     prints the JSON Schema for editors.
reference  prints the table of all keys.

Exit codes: 0 printed, 1 there is a problem, 2 wrong call.
`;

export const configCommand: Command = {
  name: "config",
  summary: "Check a repository's configuration and show it with all defaults",
  usage,
  run: async (args, io) => {
    const { values, positionals } = parseArgs({
      args: [...args],
      options: { json: { type: "boolean", default: false } },
      allowPositionals: true,
    });
    const [action, file, ...rest] = positionals;
    if (rest.length > 0) throw new UsageError("give one file at most.");
    switch (action) {
      case "check":
        return await check(file ?? CONFIG_PATH, values.json, io);
      case "schema":
        io.stdout(`${JSON.stringify(configJsonSchema(), null, 2)}\n`);
        return EXIT_OK;
      case "reference":
        io.stdout(configReference());
        return EXIT_OK;
      default:
        throw new UsageError("say 'check', 'schema' or 'reference'.");
    }
  },
};

async function check(file: string, json: boolean, io: Io): Promise<number> {
  const config = await configFromFile(
    io,
    file,
    "Name another: gpu-gate config check FILE. To begin one, write `version: 1`, or copy workflows/gpu-gate.yml.example of gpu-gate",
  );
  if (!config.ok) {
    for (const problem of config.error) io.stderr(`${problem}\n`);
    io.stderr(`gpu-gate config: ${config.error.length === 1 ? "1 problem" : `${config.error.length} problems`}.\n`);
    return EXIT_NO;
  }
  const hash = await effectiveConfigHash(config.value);
  // Beside the output, which stays YAML or JSON.
  for (const { key, say } of configNotes(config.value)) io.stderr(`note: ${key}: ${say}\n`);
  if (json) io.stdout(`${JSON.stringify({ hash, config: config.value }, null, 2)}\n`);
  else io.stdout(`# ${file} with all defaults filled in\n# hash ${hash}\n${stringify(config.value)}`);
  return EXIT_OK;
}

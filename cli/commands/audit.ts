/** `gpu-gate audit verify`: is this audit whole and unchanged? */
import { parseArgs } from "node:util";
import { genesis, verifyChain } from "../../shared/audit/chain.ts";
import { EXIT_NO, EXIT_OK, UsageError, type Command, type Io } from "../command.ts";
import { readText } from "../files.ts";

const usage = `
gpu-gate audit verify FILE [--repository ID]
gpu-gate audit verify - [--repository ID]

Reads audit entries, one JSON object a line (a file, or - for standard input), checks that each carries the hash of the
one before it, and names the first that does not. The entries' log form ({"audit": {...}}) is read as well.

  --repository ID   the numeric id of the repository: then the first entry must be the chain's very first

Exit code 0: unbroken. 1: broken, with the first bad entry. 2: nothing could be read, there is no entry, or it is no audit.
Compare the head that is printed with one from elsewhere (the log, the page): a chain cannot show by itself that its
newest entries were cut off.
`;

export const auditCommand: Command = {
  name: "audit",
  summary: "Verify the hash chain of an audit",
  usage,
  run: async (args, io) => {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: { repository: { type: "string" } },
    });
    const [action, file, ...more] = positionals;
    if (action !== "verify" || file === undefined || more.length > 0) {
      throw new UsageError("Say what to verify: 'gpu-gate audit verify FILE', or - for standard input.");
    }
    const lines = await linesOf(file, io);
    const source = file === "-" ? "Standard input" : `'${file}'`;
    if (lines.length === 0) throw new UsageError(`${source} is empty: there is no entry to verify.`);
    if (!lines.some(resemblesEntry)) throw new UsageError(`${source} is not an audit: no line of it is an entry.`);
    const after = values.repository === undefined ? null : await genesis(values.repository);
    const result = await verifyChain(lines.map(entryOf), after);
    if (!result.ok) {
      const { index, seq, what } = result.error;
      io.stderr(
        `Line ${index + 1}${seq === null ? "" : `, entry ${seq}`}: ${what}. The audit is not to be trusted from here on.\n`,
      );
      return EXIT_NO;
    }
    const { entries, head } = result.value;
    io.stdout(`${entries} entries, unbroken. Head: ${head === null ? "none" : `${head.seq} ${head.hash}`}\n`);
    return EXIT_OK;
  },
};

async function linesOf(file: string, io: Io): Promise<string[]> {
  const text = await readText(io, file, "The audit");
  return text.split("\n").filter((line) => line.trim() !== "");
}

/** Damaged entries resemble one still: what was meant as an audit and is none any more must not pass for another file. */
function resemblesEntry(line: string): boolean {
  return /"(?:seq|prev|hash)"\s*:/.test(line);
}

/** A line as a value; one that is no JSON stays text, which no entry is. */
function entryOf(line: string): unknown {
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value !== "object" || value === null || !("audit" in value)) return value;
    // The log form names the repository beside the entry's own fields; the hash does not cover it.
    const { repository: _, ...entry } = { repository: null, ...(value.audit as object) };
    return entry;
  } catch {
    return line;
  }
}

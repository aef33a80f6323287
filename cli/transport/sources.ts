/** Finds what is to be sent: the content of a folder, or single files, in an order that does not depend on the disk. */
import { lstatSync, readdirSync, readlinkSync, statSync, type Stats } from "node:fs";
import { basename, join } from "node:path";
import { UsageError } from "../command.ts";
import { systemReason } from "../files.ts";
import { linkProblem, pathProblem } from "../../shared/hosted/archive.ts";
import type { TarEntry } from "../../shared/hosted/tar.ts";

export interface Sources {
  readonly entries: readonly TarEntry[];
  /** Where each entry's content is read, by path in the archive. */
  readonly locations: ReadonlyMap<string, string>;
  /** Changes when any source changes in size, time or kind: whether an interrupted split may go on. */
  readonly identity: string;
}

/** `inputs` are absolute paths. Throws a UsageError that names the first thing that cannot travel. */
export function findSources(inputs: readonly string[]): Sources {
  const entries: TarEntry[] = [];
  const locations = new Map<string, string>();
  const marks: string[] = [];

  function add(path: string, location: string, stats: Stats): void {
    const problem = pathProblem(path);
    if (problem !== null) throw new UsageError(`'${location}' ${problem}, so it cannot be sent.`);
    if (locations.has(path)) throw new UsageError(`Two inputs would both become '${path}'; rename one of them.`);
    locations.set(path, location);
    marks.push(`${path}\t${stats.size}\t${stats.mtimeMs}\t${stats.mode}`);
    if (stats.isDirectory()) {
      entries.push({ kind: "dir", path });
      addContent(path, location);
    } else if (stats.isSymbolicLink()) {
      const target = readlinkSync(location);
      const leads = linkProblem(path, target);
      if (leads !== null) throw new UsageError(`The link '${location}' ${leads}, so it cannot be sent.`);
      entries.push({ kind: "link", path, target });
    } else if (stats.isFile()) {
      entries.push({ kind: "file", path, executable: (stats.mode & 0o100) !== 0, bytes: stats.size });
    } else throw new UsageError(`'${location}' is neither a file, a folder nor a link, so it cannot be sent.`);
  }

  function addContent(path: string, location: string): void {
    const names = readdirSync(location).sort();
    for (const name of names) {
      const inner = join(location, name);
      add(path === "" ? name : `${path}/${name}`, inner, lstatSync(inner));
    }
  }

  try {
    for (const input of inputs) {
      // What was named is meant itself, also behind a link.
      const stats = statSync(input);
      if (stats.isDirectory()) addContent("", input);
      else if (stats.isFile() && stats.size === 0)
        throw new UsageError(`'${input}' is empty, so there is nothing to send.`);
      else add(basename(input), input, stats);
    }
  } catch (error) {
    if (error instanceof UsageError) throw error;
    const path: unknown = error instanceof Error ? Reflect.get(error, "path") : undefined;
    const which = typeof path === "string" ? `'${path}'` : "An input";
    throw new UsageError(`${which} cannot be read: ${systemReason(error)}.`, { cause: error });
  }
  if (!entries.some((entry) => entry.kind === "file"))
    throw new UsageError("There is no file in what was given, so there is nothing to send.");
  return { entries, locations, identity: marks.join("\n") };
}

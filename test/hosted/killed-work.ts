/**
 * A process that is killed in the middle of its work: runs a split or join and sends itself SIGKILL instead of the n-th
 * write. Arguments: n, `split` or `join`, and the request as JSON (for a join, the archive's name in place of its manifest).
 */
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";

const [limit, kind, request = ""] = process.argv.slice(2);
let left = Number(limit);
const { writeSync } = fs;
fs.writeSync = ((...args: Parameters<typeof writeSync>) => {
  if (left === 0) process.kill(process.pid, "SIGKILL");
  left -= 1;
  return writeSync(...args);
}) as typeof writeSync;
syncBuiltinESMExports();

if (kind === "split") {
  const { splitArchive } = await import("../../cli/transport/split.ts");
  await splitArchive(JSON.parse(request));
} else {
  const { joinArchive } = await import("../../cli/transport/join.ts");
  const { loadManifest } = await import("../../cli/transport/parts.ts");
  const { folder, name, target } = JSON.parse(request) as { folder: string; name: string; target: string };
  await joinArchive({ folder, target, manifest: await loadManifest(folder, name) });
}

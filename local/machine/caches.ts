/** `actions/cache/restore` and `actions/cache/save`, and the two halves of `actions/cache`: a tar archive under a key. */
import { execFile } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { resolve } from "node:path";
import { promisify } from "node:util";
import type { ActionRun } from "./actions.ts";
import { linesOf } from "./artifacts.ts";
import { ActionProblem } from "./services.ts";

const maxBytes = 256 * 1024 * 1024;

function asked({ inputs }: ActionRun): { key: string; paths: readonly string[] } {
  const key = inputs["key"] ?? "";
  const paths = linesOf(inputs["path"]);
  if (key === "" || key.includes(",") || key.length > 512)
    throw new ActionProblem(`a cache key has 1 to 512 characters and no comma: '${key}'`);
  if (paths.length === 0) throw new ActionProblem("a cache needs a path");
  return { key, paths };
}

export async function restoreCache(action: ActionRun): Promise<void> {
  const { key, paths } = asked(action);
  const found = await action.services.restoreCache(key, linesOf(action.inputs["restore-keys"]), paths);
  action.output("cache-primary-key", key);
  if (found === null) {
    action.say(`Cache not found for key ${key}`);
    return;
  }
  if (action.inputs["lookup-only"] !== "true") {
    const { workspace } = action.places;
    mkdirSync(workspace, { recursive: true });
    const child = execFile("tar", ["-x", "-P", "-f", "-", "-C", workspace], {
      env: action.toolEnv,
      signal: action.stopped,
    });
    const ended = new Promise<number | null>((settle, reject) => {
      child.once("error", reject);
      child.once("close", settle);
    });
    child.stdin?.on("error", () => undefined);
    child.stdin?.end(found.tar);
    if ((await ended) !== 0) throw new ActionProblem(`the cache ${found.key} cannot be unpacked`);
  }
  // An entry that only begins alike is used and is no hit.
  action.output("cache-hit", String(found.key === key));
  action.output("cache-matched-key", found.key);
  action.say(`Cache restored from key ${found.key}`);
}

export async function saveCache(action: ActionRun): Promise<void> {
  const { key, paths } = asked(action);
  const { workspace } = action.places;
  for (const path of paths) action.inside(path);
  const there = paths.filter((path) => existsSync(resolve(workspace, path)));
  if (there.length === 0) {
    action.warn(`Path Validation Error: ${paths.join(", ")} is not there, so no cache is saved.`);
    return;
  }
  const packed = await promisify(execFile)("tar", ["-c", "-P", "-f", "-", "-C", workspace, "--", ...there], {
    encoding: "buffer",
    maxBuffer: maxBytes,
    env: action.toolEnv,
    signal: action.stopped,
  });
  const refused = await action.services.saveCache(key, paths, packed.stdout);
  if (refused === null) action.say(`Cache saved with key ${key}`);
  else action.warn(`Failed to save: ${refused}`);
}

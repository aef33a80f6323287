/** `actions/checkout`: a real git repository of the objects the local GitHub hands out, at the asked commit. */
import { execFile } from "node:child_process";
import { appendFileSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { ActionRun } from "./actions.ts";
import { ActionProblem, type GitObjects } from "./services.ts";

const run = promisify(execFile);

export async function checkout(action: ActionRun): Promise<void> {
  const { inputs, facts } = action;
  const repository = inputs["repository"] ?? facts.repository;
  if (repository.toLowerCase() !== facts.repository.toLowerCase())
    throw new ActionProblem(`only the job's own repository can be checked out here, not ${repository}`);
  const depth = Number(inputs["fetch-depth"] ?? "1");
  if (!Number.isInteger(depth) || depth < 0)
    throw new ActionProblem(`fetch-depth is a number from 0, not '${inputs["fetch-depth"] ?? ""}'`);
  const given = inputs["ref"] ?? "";
  const ref = given === "" ? (facts.variables["GITHUB_SHA"] ?? "") : given;
  const folder = action.inside(inputs["path"] ?? ".");
  const objects = await action.services.gitObjects(ref, depth);
  mkdirSync(folder, { recursive: true });
  for (const name of readdirSync(folder)) rmSync(join(folder, name), { recursive: true, force: true });
  writeRepository(folder, objects);
  const sparse = (inputs["sparse-checkout"] ?? "").split("\n").map((line) => line.trim());
  if (sparse.some((line) => line !== ""))
    writeSparsePatterns(
      folder,
      sparse.filter((line) => line !== ""),
    );
  await run("git", ["read-tree", "-m", "-u", "HEAD"], { cwd: folder, env: action.toolEnv, signal: action.stopped });
  action.output("commit", objects.sha);
  action.output("ref", given);
  action.say(`HEAD is now at ${objects.sha} in ${inputs["path"] ?? "the workspace"}`);
}

/** A repository with a detached head and loose objects: what `git init`, fetch and checkout would have left. */
function writeRepository(folder: string, { sha, shallow, refs, objects }: GitObjects): void {
  const git = join(folder, ".git");
  mkdirSync(join(git, "refs"), { recursive: true });
  writeFileSync(join(git, "HEAD"), `${sha}\n`);
  writeFileSync(
    join(git, "config"),
    "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tlogallrefupdates = true\n",
  );
  if (shallow.length > 0) writeFileSync(join(git, "shallow"), shallow.map((one) => `${one}\n`).join(""));
  const packed = Object.entries(refs).sort(([a], [b]) => (a < b ? -1 : 1));
  writeFileSync(join(git, "packed-refs"), packed.map(([name, target]) => `${target} ${name}\n`).join(""));
  mkdirSync(join(git, "objects"));
  const made = new Set<string>();
  for (const [id, bytes] of Object.entries(objects)) {
    const home = join(git, "objects", id.slice(0, 2));
    if (!made.has(home)) mkdirSync(home, { recursive: true });
    made.add(home);
    writeFileSync(join(home, id.slice(2)), Buffer.from(bytes, "base64"));
  }
}

/** Git's cone of folders: each with all below it, and only the files of the folders on the way to it. */
function writeSparsePatterns(folder: string, cone: readonly string[]): void {
  const patterns = new Set(["/*", "!/*/"]);
  for (const path of cone) {
    const parts = path.replace(/^\/|\/$/g, "").split("/");
    for (let length = 1; length < parts.length; length += 1) {
      const parent = parts.slice(0, length).join("/");
      patterns.add(`/${parent}/`).add(`!/${parent}/*/`);
    }
    patterns.add(`/${parts.join("/")}/`);
  }
  appendFileSync(join(folder, ".git", "config"), "\tsparseCheckout = true\n\tsparseCheckoutCone = true\n");
  mkdirSync(join(folder, ".git", "info"));
  writeFileSync(join(folder, ".git", "info", "sparse-checkout"), `${[...patterns].join("\n")}\n`);
}

/** `actions/upload-artifact` and `actions/download-artifact`. */
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import * as z from "zod";
import type { ActionRun } from "./actions.ts";
import { findFiles } from "./globs.ts";
import { ActionProblem, type ListedArtifact } from "./services.ts";
import { unzip } from "./unzip.ts";

/** Files, folders and patterns, one a line. */
export async function uploadArtifact(action: ActionRun): Promise<void> {
  const { inputs } = action;
  const name = inputs["name"] ?? "artifact";
  const wanted = linesOf(inputs["path"]);
  if (wanted.length === 0) throw new ActionProblem("upload-artifact needs a path");
  const { files, root } = findFiles(wanted, (line) => action.inside(line));
  if (files.length === 0) {
    const sentence = `No files were found with the provided path: ${wanted.join(", ")}. No artifacts will be uploaded.`;
    const missing = inputs["if-no-files-found"] ?? "warn";
    if (missing === "error") throw new ActionProblem(sentence);
    if (missing === "warn") action.warn(sentence);
    return;
  }
  const days = Number(inputs["retention-days"] ?? "0");
  const content = Object.fromEntries(files.map((path) => [relative(root, path), readFileSync(path)]));
  const saved = await action.services.saveArtifact(name, content, days > 0 ? days : null);
  action.output("artifact-id", String(saved.id));
  action.output("artifact-digest", saved.digest.replace("sha256:", ""));
  action.say(`Artifact ${name} has been uploaded: ${files.length} files, id ${saved.id}, ${saved.digest}`);
}

interface Source {
  readonly list: () => Promise<readonly ListedArtifact[]>;
  readonly zip: (id: number) => Promise<Buffer>;
}

export async function downloadArtifact(action: ActionRun): Promise<void> {
  const { inputs } = action;
  const source = (inputs["github-token"] ?? "") === "" ? ownRun(action) : otherRun(action);
  const all = await source.list();
  const chosen = choose(all, inputs);
  const folder = action.inside(inputs["path"] ?? ".");
  const flat = inputs["merge-multiple"] === "true" || inputs["name"] !== undefined || chosen.length === 1;
  await Promise.all(
    chosen.map(async ({ id, name, digest }) => {
      const bytes = await source.zip(id);
      const told = `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
      if (told !== digest)
        throw new ActionProblem(`the digest of artifact ${name} is ${told}, and GitHub says ${digest}`);
      const target = flat ? folder : join(folder, name);
      for (const [path, content] of Object.entries(unzip(bytes))) {
        mkdirSync(dirname(join(target, path)), { recursive: true });
        writeFileSync(join(target, path), content);
      }
      action.say(`Artifact ${name} (${id}) downloaded, ${digest}`);
    }),
  );
  action.output("download-path", folder);
}

function choose(all: readonly ListedArtifact[], inputs: ActionRun["inputs"]): readonly ListedArtifact[] {
  const { name } = inputs;
  if (name !== undefined) {
    const found = all.find((one) => one.name === name);
    if (found === undefined) throw new ActionProblem(`Unable to download artifact(s): ${name} not found for the run`);
    return [found];
  }
  if (inputs["artifact-ids"] === undefined) return all;
  const ids = inputs["artifact-ids"].split(",").map((text) => text.trim());
  if (ids.some((id) => !/^\d+$/.test(id)))
    throw new ActionProblem(`artifact-ids are numbers separated by commas, not '${inputs["artifact-ids"]}'`);
  return ids.map((id) => {
    const found = all.find((one) => String(one.id) === id);
    if (found === undefined) throw new ActionProblem(`artifact ${id} is not one of the run's artifacts`);
    return found;
  });
}

function ownRun({ services, inputs, facts }: ActionRun): Source {
  const run = inputs["run-id"] ?? "";
  if (run !== "" && run !== facts.variables["GITHUB_RUN_ID"])
    throw new ActionProblem("another run's artifacts need a github-token");
  return { list: () => services.artifacts(), zip: (id) => services.artifact(id) };
}

const listSchema = z.object({ artifacts: z.array(z.object({ id: z.number(), name: z.string(), digest: z.string() })) });

/** Another run, by the public API and with the permissions of the token that was given. */
function otherRun({ inputs, facts, stopped }: ActionRun): Source {
  const base = `${facts.apiUrl}/repos/${inputs["repository"] ?? facts.repository}/actions`;
  const get = async (url: string): Promise<Response> => {
    const answer = await fetch(url, {
      signal: stopped,
      redirect: "manual",
      headers: {
        authorization: `Bearer ${inputs["github-token"] ?? ""}`,
        accept: "application/vnd.github+json",
        "x-github-api-version": "2026-03-10",
        "user-agent": "actions-download-artifact",
      },
    });
    // The address behind a download is good by itself, and elsewhere on GitHub: the token does not go along.
    const elsewhere = answer.status === 302 ? answer.headers.get("location") : null;
    const final = elsewhere === null ? answer : await fetch(elsewhere, { signal: stopped });
    if (!final.ok) throw new ActionProblem(`${new URL(url).pathname} answered ${final.status}`);
    return final;
  };
  const run = inputs["run-id"] ?? facts.variables["GITHUB_RUN_ID"] ?? "";
  return {
    async list() {
      const found: ListedArtifact[] = [];
      for (let page = 1; ; page += 1) {
        const answer = await get(`${base}/runs/${run}/artifacts?per_page=100&page=${page}`);
        const { artifacts } = listSchema.parse(await answer.json());
        found.push(...artifacts);
        if (artifacts.length < 100) return found;
      }
    },
    zip: async (id) => Buffer.from(await (await get(`${base}/artifacts/${id}/zip`)).arrayBuffer()),
  };
}

export function linesOf(text: string | undefined): readonly string[] {
  return (text ?? "")
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
}

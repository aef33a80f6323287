/**
 * What a job's actions ask of the local GitHub beside its public API: git objects, artifacts of its own run, caches.
 *
 * GitHub's own services for this are not public; this is one small question and answer, asked in process by a hosted
 * machine and over HTTP by the stand-in runner. Bytes travel as base64.
 */
import * as z from "zod";

export const serviceAskSchema = z.discriminatedUnion("what", [
  /** A commit by SHA, branch, tag or full ref, with `depth` generations of its history; 0 is all of it. */
  z.object({ what: z.literal("git-objects"), ref: z.string(), depth: z.number().int().min(0) }),
  z.object({ what: z.literal("artifacts") }),
  z.object({ what: z.literal("artifact"), id: z.number() }),
  z.object({
    what: z.literal("save-artifact"),
    name: z.string(),
    files: z.record(z.string(), z.base64()),
    retentionDays: z.number().positive().nullable(),
  }),
  z.object({
    what: z.literal("restore-cache"),
    key: z.string(),
    /** Beginnings of other keys that will do, the best first. */
    restoreKeys: z.array(z.string()),
    paths: z.array(z.string()),
  }),
  z.object({ what: z.literal("save-cache"), key: z.string(), paths: z.array(z.string()), tar: z.base64() }),
]);

export type ServiceAsk = z.infer<typeof serviceAskSchema>;

export const serviceAnswerSchema = z.union([z.object({ problem: z.string() }), z.object({ value: z.unknown() })]);

export type ServiceAnswer = { readonly problem: string } | { readonly value: unknown };

/** Asks once. A refusal is an answer too. */
export type AskService = (ask: ServiceAsk) => Promise<ServiceAnswer>;

const gitObjectsSchema = z.object({
  sha: z.string(),
  /** Commits whose parents are left out. */
  shallow: z.array(z.string()),
  /** Branches and tags, with a full history only: ref to SHA. */
  refs: z.record(z.string(), z.string()),
  /** Loose objects as git stores them, compressed: id to bytes. */
  objects: z.record(z.string(), z.base64()),
});

export type GitObjects = z.infer<typeof gitObjectsSchema>;

const listedSchema = z.array(z.object({ id: z.number(), name: z.string(), digest: z.string() }));

export type ListedArtifact = z.infer<typeof listedSchema>[number];

/** Why an action failed, in one sentence for its log. */
export class ActionProblem extends Error {}

/** The services with typed answers. A refusal is thrown as an {@link ActionProblem}. */
export class Services {
  readonly #ask: AskService;

  constructor(ask: AskService) {
    this.#ask = ask;
  }

  gitObjects(ref: string, depth: number): Promise<GitObjects> {
    return this.#answer({ what: "git-objects", ref, depth }, gitObjectsSchema);
  }

  artifacts(): Promise<readonly ListedArtifact[]> {
    return this.#answer({ what: "artifacts" }, listedSchema);
  }

  async artifact(id: number): Promise<Buffer> {
    return Buffer.from(await this.#answer({ what: "artifact", id }, z.base64()), "base64");
  }

  saveArtifact(
    name: string,
    files: Readonly<Record<string, Buffer>>,
    retentionDays: number | null,
  ): Promise<{ readonly id: number; readonly digest: string }> {
    const encoded = Object.fromEntries(Object.entries(files).map(([path, bytes]) => [path, bytes.toString("base64")]));
    const saved = z.object({ id: z.number(), digest: z.string() });
    return this.#answer({ what: "save-artifact", name, files: encoded, retentionDays }, saved);
  }

  /** The tar archive stored under this key, or the newest whose key begins as allowed, and these paths; null on a miss. */
  async restoreCache(
    key: string,
    restoreKeys: readonly string[],
    paths: readonly string[],
  ): Promise<{ readonly key: string; readonly tar: Buffer } | null> {
    const entry = z.object({ key: z.string(), tar: z.base64() }).nullable();
    const ask = { what: "restore-cache" as const, key, restoreKeys: [...restoreKeys], paths: [...paths] };
    const found = await this.#answer(ask, entry);
    return found === null ? null : { key: found.key, tar: Buffer.from(found.tar, "base64") };
  }

  /** Why it was not saved; null when it was. A cache that cannot be written never fails a job. */
  saveCache(key: string, paths: readonly string[], tar: Buffer): Promise<string | null> {
    const stored = { key, paths: [...paths], tar: tar.toString("base64") };
    return this.#answer({ what: "save-cache", ...stored }, z.string().nullable());
  }

  async #answer<T>(ask: ServiceAsk, schema: z.ZodType<T>): Promise<T> {
    const answer = await this.#ask(ask);
    if ("problem" in answer) throw new ActionProblem(answer.problem);
    return schema.parse(answer.value);
  }
}

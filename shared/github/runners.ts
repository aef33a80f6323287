/**
 * Just-in-time runners, at the repository or at an organisation's runner group.
 *
 * A JIT configuration is a private key and is shown once. It is not bound to a job: whoever has it can take any queued
 * job in scope whose labels match.
 */

import * as z from "zod";
import { err, ok } from "../result.ts";
import { path, type Slashed } from "./call.ts";
import { githubId, optionalText } from "./schema.ts";
import { countedPage, parseAnswer, type Listing, type Reply, type Wire } from "./wire.ts";

/** Where runners are registered. The organisation's group can be restricted to trusted workflows; a repository cannot. */
export type RunnerScope =
  | { readonly kind: "repository" }
  | { readonly kind: "organization"; readonly org: string; readonly groupId: string };

export interface Runner {
  readonly id: string;
  readonly name: string;
  /** `online` or `offline`; GitHub may add others. */
  readonly status: string;
  readonly busy: boolean;
  /** Compare without regard to case. */
  readonly labels: readonly string[];
  /** The runner software's version; null until it first connects. */
  readonly version: string | null;
}

export interface JitRunner {
  readonly runnerId: string;
  /** As registered: check that every wanted label is there. */
  readonly labels: readonly string[];
  /** Secret. Goes to the pod that was bought for it and nowhere else. */
  readonly jitConfig: string;
}

export interface RunnersApi {
  /**
   * Registers a runner that takes one job. `conflict`: the name exists, perhaps by our own call whose answer was lost;
   * its configuration cannot be fetched again. `groupId` defaults to the scope's.
   */
  createJitRunner(runner: {
    readonly name: string;
    readonly labels: readonly string[];
    readonly groupId?: string;
  }): Reply<JitRunner>;
  getRunner(runnerId: string): Reply<Runner>;
  listRunners(): Reply<Listing<Runner>>;
  /** The runner of exactly this name, or null when a complete list has none; `unreadable` when the list was cut. */
  findRunnerByName(name: string): Reply<Runner | null>;
  /** `gone`: there was none. `busy`: it has a job, and stays. */
  deleteRunner(runnerId: string): Reply<"deleted" | "gone" | "busy">;
}

/** The group every repository has; a repository's runners cannot be in another. */
const DEFAULT_GROUP = "1";

const runnerAnswer = z
  .object({
    id: githubId,
    name: z.string(),
    status: z.string(),
    busy: z.boolean(),
    labels: z.array(z.object({ name: z.string() })),
    version: optionalText,
  })
  .transform((runner): Runner => ({
    id: runner.id,
    name: runner.name,
    status: runner.status,
    busy: runner.busy,
    labels: runner.labels.map((label) => label.name),
    version: runner.version,
  }));

// Schemas are made once: zod compiles each at its first use, which costs more than the call.
const runnersPage = countedPage("runners", runnerAnswer);
const jitAnswer = z.object({ runner: runnerAnswer, encoded_jit_config: z.string().min(1) });

/** `base` is `{owner}/{name}`. */
export function runnersApi(wire: Wire, base: Slashed, scope: RunnerScope): RunnersApi {
  const root =
    scope.kind === "repository" ? path`/repos/${base}/actions/runners` : path`/orgs/${scope.org}/actions/runners`;
  return {
    async createJitRunner({ name, labels, groupId }) {
      const group = groupId ?? (scope.kind === "organization" ? scope.groupId : DEFAULT_GROUP);
      const answer = await wire.change("createJitRunner", "POST", `${root}/generate-jitconfig`, {
        name,
        runner_group_id: Number(group),
        labels,
        work_folder: "_work",
      });
      if (!answer.ok) return answer;
      const parsed = parseAnswer(answer.value, jitAnswer);
      if (!parsed.ok) return parsed;
      const { runner, encoded_jit_config: jitConfig } = parsed.value;
      return ok({ runnerId: runner.id, labels: runner.labels, jitConfig });
    },

    getRunner: (runnerId) => wire.get("getRunner", `${root}${path`/${runnerId}`}`, runnerAnswer),

    listRunners: () => wire.list("listRunners", root, runnersPage, { key: (runner) => runner.id }),

    async findRunnerByName(name) {
      const listing = await wire.list("findRunnerByName", root, runnersPage, {
        key: (runner) => runner.id,
        query: { name },
      });
      if (!listing.ok) return listing;
      const found = listing.value.items.find((runner) => runner.name === name);
      if (found !== undefined) return ok(found);
      return listing.value.complete
        ? ok(null)
        : err({ reason: "unreadable", what: "the list of runners (incomplete)" });
    },

    async deleteRunner(runnerId) {
      const answer = await wire.change("deleteRunner", "DELETE", `${root}${path`/${runnerId}`}`);
      if (answer.ok) return ok("deleted");
      if (answer.error.reason === "not-found" || answer.error.reason === "gone") return ok("gone");
      // 422 "Runner ... is still running a job".
      const busy = answer.error.reason === "unprocessable" && /running a job|busy/i.test(answer.error.message);
      return busy ? ok("busy") : answer;
    },
  };
}

/** Feeds the paid-path corpus to `decidePaidPath`. Our answers are finer; each is brought to upstream's four words. */
import { decidePaidPath, type Known, type PaidPath, type PullRequestNow } from "../../../shared/lifecycle/paid-path.ts";
import type { CorpusAdapter, Outcome } from "../adapter.ts";
import { upstreamNeedsGpu } from "../upstream/policy.ts";

interface Pull {
  state?: string;
  head?: { sha?: string; repo?: { full_name?: string } | null };
  base?: { sha?: string };
}

interface Api {
  state?: string;
  labels?: string[];
  files?: string[];
  gateReuse?: { reuse?: boolean; url?: string; reused_check_url?: string; checkUrl?: string };
  pullBeforeSpend?: Pull | null;
}

interface Expected {
  decision: string;
  why?: string;
}

const LOCAL_LABEL = "gpu-validated-locally";
const yes: Known<boolean> = { known: true, value: true };

export const adapter: CorpusAdapter = {
  corpus: "paid-path",
  run: (testCase, _corpus, folder) => {
    const api = (testCase["api"] ?? {}) as Api;
    const wanted = testCase["expected"] as Expected;
    const admittedHead = String(testCase["expectedHead"]);
    const manual = String(testCase["prNumber"]) === "0";
    const url = api.gateReuse?.url ?? api.gateReuse?.reused_check_url ?? api.gateReuse?.checkUrl ?? "";
    const decision = decidePaidPath({
      pullRequest: manual
        ? null
        : {
            // Corpora name no base branch: all their pull requests have the same.
            admitted: { headSha: admittedHead, baseRef: "main" },
            repositoryId: String(testCase["repository"]),
            now: pullNow(api, String(testCase["repository"]), admittedHead),
          },
      actorPermitted: yes,
      authorPermitted: yes,
      gpuRequired: manual ? null : { known: true, value: upstreamNeedsGpu(folder, api.files ?? []) },
      reusable: api.gateReuse?.reuse === true && url !== "" ? { requestId: "earlier", url } : null,
      inputsUnchanged: yes,
      artifactsUsable: yes,
      preparedAgain: false,
    });
    const actual = { decision: word(decision, api), by: decision.decision };
    const moved = decision.decision === "superseded";
    if (moved) return overruled("moved-head-superseded", decision, "superseded");
    if (actual.decision === wanted.decision) return { pass: true, expected: wanted, actual };
    if (wanted.decision === "skip" && (api.labels ?? []).includes(LOCAL_LABEL)) {
      return overruled("no-local-word", decision, decision.decision === "reuse" ? "reuse" : "run");
    }
    const base = api.pullBeforeSpend?.base?.sha;
    if (wanted.decision === "refused" && base !== undefined && base !== testCase["expectedBase"]) {
      return overruled("base-sha-ignored", decision, "run");
    }
    return { pass: false, expected: wanted, actual };
  },
};

/** What upstream reads last decides; it reads the whole pull request only when it is about to spend. */
function pullNow(api: Api, repository: string, admittedHead: string): Known<PullRequestNow> {
  const last = api.pullBeforeSpend;
  const unread = last !== undefined && last !== null && last.state === undefined;
  const state = api.state !== undefined && api.state !== "open" ? api.state : (last?.state ?? api.state);
  if (state === undefined || unread) return { known: false, what: "the pull request could not be read" };
  const value = {
    state,
    headSha: last === undefined || last === null ? admittedHead : (last.head?.sha ?? ""),
    baseRef: "main",
    headRepositoryId: last === undefined || last === null ? repository : (last.head?.repo?.full_name ?? null),
  };
  return { known: true, value };
}

function word(decision: PaidPath, api: Api): string {
  if (decision.decision === "not-required") return "skip";
  // Closed at the first look, upstream skips; closed at the last one, it refuses. Both buy nothing.
  if (decision.decision === "closed") return api.state === "open" ? "refused" : "skip";
  return decision.decision === "unknown" ? "refused" : decision.decision;
}

function overruled(overruledBy: string, decision: PaidPath, demanded: string): Outcome {
  return {
    pass: decision.decision === demanded,
    expected: { decision: demanded },
    actual: decision,
    overruledBy,
  };
}

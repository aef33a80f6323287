/**
 * Feeds the gate-reuse corpus to `findReusableGate`. Upstream keeps a gate's inputs in its check run's external id: the
 * tested ref and a kind; the ref stands for all three of our inputs.
 */
import {
  findReusableGate,
  type EarlierGate,
  type GateKind,
  type GatePage,
  type ReuseInputs,
} from "../../../shared/policy/reuse.ts";
import type { CorpusAdapter } from "../adapter.ts";

interface Answer {
  status?: number;
  body?: unknown;
  raw?: string;
  transportError?: unknown;
}

const MARKER = /^runpod-gpu-gate:v1:([^:]+):(paid|reused|failed|not-required|local|skipped)$/u;

export const adapter: CorpusAdapter = {
  corpus: "gate-reuse",
  run: async (testCase) => {
    const pages = testCase["pages"] as Answer[];
    const head = text(testCase["headSha"]);
    const ref = text(testCase["testedRef"]);
    let requests = 0;
    const found = await findReusableGate(
      (page) => {
        requests += 1;
        return Promise.resolve(readPage(pages[page - 1]));
      },
      // Without a head there is no list to ask for, so there is nothing whose inputs could be the same.
      head === "" ? { treeSha: "", workflows: "", configHash: "" } : inputsOf(ref),
    );
    const actual = { reuse: found !== null, checkId: found === null ? null : Number(found.id), requests };
    const expected = testCase["expected"] as typeof actual;
    const pass =
      actual.reuse === expected.reuse && actual.checkId === expected.checkId && actual.requests === expected.requests;
    return { pass, expected, actual };
  },
};

function readPage(answer: Answer | undefined): GatePage | null {
  if (answer?.status !== 200) return null;
  const body = answer.body ?? parse(answer.raw ?? "");
  if (!isRecord(body) || !Array.isArray(body["check_runs"])) return null;
  const total = body["total_count"];
  return { rows: body["check_runs"].map(gateOf), total: typeof total === "number" ? total : null };
}

function gateOf(raw: unknown): EarlierGate | null {
  if (!isRecord(raw) || raw["name"] !== "CI GPU gate" || raw["status"] !== "completed") return null;
  const app = raw["app"];
  if (!isRecord(app) || app["slug"] !== "github-actions") return null;
  const marker = MARKER.exec(text(raw["external_id"]));
  const [, ref, kind] = marker ?? [];
  if (ref === undefined || kind === undefined || !Number.isInteger(raw["id"])) return null;
  return {
    id: String(raw["id"]),
    inputs: inputsOf(ref),
    kind: kind as GateKind,
    success: raw["conclusion"] === "success",
    evidence: true,
    completedAt: typeof raw["completed_at"] === "string" ? raw["completed_at"] : null,
  };
}

function inputsOf(ref: string): ReuseInputs {
  return { treeSha: ref, workflows: ref, configHash: ref };
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function parse(raw: string): unknown {
  try {
    return JSON.parse(raw);
  } catch {
    return null;
  }
}

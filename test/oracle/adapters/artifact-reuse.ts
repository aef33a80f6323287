/** Feeds the artifact-reuse corpus to `findArtifact`, with upstream's two trusted workflow files. */
import {
  TRUSTED_PRODUCER_EVENTS,
  findArtifact,
  type ArtifactRow,
  type ProducerRun,
} from "../../../shared/policy/artifact-reuse.ts";
import type { CorpusAdapter, CorpusCase } from "../adapter.ts";

interface Answer {
  status?: number;
  body?: unknown;
  raw?: string;
  text?: string;
}

interface Expected {
  found: { artifactId: number; runId: number } | null;
  lookupError: boolean;
  runLookups: number[];
}

const WORKFLOWS = new Set([".github/workflows/runpod-gpu-test.yml", ".github/workflows/ci-cache-publish.yml"]);

export const adapter: CorpusAdapter = {
  corpus: "artifact-reuse",
  run: async (testCase) => {
    const actual = await search(testCase);
    const expected = testCase["expected"] as Expected;
    const plain = ({ found, lookupError, runLookups }: Expected) =>
      JSON.stringify([found?.artifactId, found?.runId, lookupError, runLookups]);
    return { pass: plain(actual) === plain(expected), expected, actual };
  },
};

async function search(testCase: CorpusCase): Promise<Expected> {
  const runLookups: number[] = [];
  const listing = rows(bodyOf(testCase["listing"] as Answer));
  if (listing === null) return { found: null, lookupError: true, runLookups };
  const runs = (testCase["runs"] ?? {}) as Record<string, Answer>;
  const trust = {
    repository: String(testCase["repository"]),
    currentRunId: String(testCase["currentRunId"]),
    workflowPaths: WORKFLOWS,
    branch: null,
    actor: null,
    events: TRUSTED_PRODUCER_EVENTS,
  };
  const result = await findArtifact(String(testCase["artifactName"]), listing, trust, (runId) => {
    runLookups.push(Number(runId));
    return Promise.resolve(producer(bodyOf(runs[runId] ?? { status: 404 })));
  });
  if (!result.ok) return { found: null, lookupError: true, runLookups };
  const found =
    result.value === null ? null : { artifactId: Number(result.value.artifactId), runId: Number(result.value.runId) };
  return { found, lookupError: false, runLookups };
}

/** Null when the listing cannot be read; an entry that is no object spoils it, as upstream has it. */
function rows(body: unknown): ArtifactRow[] | null {
  if (!isRecord(body) || !Array.isArray(body["artifacts"])) return null;
  const list: ArtifactRow[] = [];
  for (const entry of body["artifacts"] as unknown[]) {
    if (!isRecord(entry)) return null;
    const run = isRecord(entry["workflow_run"]) ? entry["workflow_run"]["id"] : null;
    list.push({
      id: String(entry["id"]),
      name: String(entry["name"]),
      expired: Boolean(entry["expired"]),
      runId: Number.isInteger(run) ? String(run) : null,
    });
  }
  return list;
}

function producer(body: unknown): ProducerRun | null {
  if (!isRecord(body)) return null;
  const head = body["head_repository"];
  if (head !== null && head !== undefined && !isRecord(head)) return null;
  return {
    id: String(body["id"]),
    workflowPath: String(body["path"]),
    event: String(body["event"]),
    headRepository: isRecord(head) && typeof head["full_name"] === "string" ? head["full_name"] : null,
    headBranch: null,
    actor: null,
  };
}

function bodyOf(answer: Answer): unknown {
  if (answer.status !== 200) return null;
  if (answer.body !== undefined && typeof answer.body !== "string") return answer.body;
  try {
    return JSON.parse(answer.raw ?? answer.text ?? answer.body ?? "");
  } catch {
    return null;
  }
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

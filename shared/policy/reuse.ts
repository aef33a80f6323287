/**
 * May an earlier green gate stand for this request, without paying again?
 *
 * Only for the identical tree, tested under the same workflow files of the default branch and the same effective
 * configuration, and only if that gate itself passed with complete evidence, or reused one that did. The newest gate
 * with the same inputs decides alone: a later failure takes an older success out of use. Doubt, an incomplete list or an
 * error means no reuse, which costs a run and never lets anything through.
 */
import { isLaterId } from "../ids.ts";

/** What must be identical. Compared as a whole; an empty part matches nothing, not even itself. */
export interface ReuseInputs {
  /** Id of the git tree that was tested: the same for the same content, whatever the commit. */
  readonly treeSha: string;
  /** Blob ids of the trusted workflow files on the default branch, in a fixed order, as one text. */
  readonly workflows: string;
  /** Hash of the effective configuration. */
  readonly configHash: string;
}

/** How a gate came to its conclusion; only the first two are worth reusing. */
export type GateKind = "paid" | "reused" | "failed" | "not-required" | "local" | "skipped";

export interface EarlierGate {
  /** Decimal id, as text: it breaks ties between gates of the same second. */
  readonly id: string;
  readonly inputs: ReuseInputs;
  readonly kind: GateKind;
  readonly success: boolean;
  /** Complete evidence was stored with it. */
  readonly evidence: boolean;
  /** ISO 8601 in UTC, as GitHub writes it; text order is time order. Null for one that is not concluded. */
  readonly completedAt: string | null;
}

/** The gate to reuse, or null. Gates with other inputs, unfinished ones and those without a time do not count. */
export function reusableGate(gates: readonly EarlierGate[], inputs: ReuseInputs): EarlierGate | null {
  if (!isWhole(inputs)) return null;
  let newest: EarlierGate | null = null;
  for (const gate of gates) {
    if (gate.completedAt === null || !sameInputs(gate.inputs, inputs)) continue;
    if (newest === null || isNewer(gate, newest)) newest = gate;
  }
  if (newest === null || !newest.success || !newest.evidence) return null;
  return newest.kind === "paid" || newest.kind === "reused" ? newest : null;
}

/** One page of a list of earlier gates; `total` is what the list says about its own length, if it does. */
export interface GatePage {
  readonly rows: readonly (EarlierGate | null)[];
  readonly total: number | null;
}

export const GATE_PAGE_SIZE = 100;
const MAX_PAGES = 10;

/**
 * Reads all earlier gates through a port and decides. `read` gives null for a page it could not read; a row that is no
 * gate of ours is null. More pages than a gate can have, or one failed page, means no reuse.
 */
export async function findReusableGate(
  read: (page: number) => Promise<GatePage | null>,
  inputs: ReuseInputs,
): Promise<EarlierGate | null> {
  if (!isWhole(inputs)) return null;
  const gates: EarlierGate[] = [];
  let seen = 0;
  for (let page = 1; page <= MAX_PAGES; page += 1) {
    const answer = await read(page);
    if (answer === null) return null;
    seen += answer.rows.length;
    gates.push(...answer.rows.filter((row) => row !== null));
    const complete = answer.rows.length < GATE_PAGE_SIZE || (answer.total !== null && seen >= answer.total);
    if (complete) return reusableGate(gates, inputs);
  }
  return null;
}

function isWhole(inputs: ReuseInputs): boolean {
  return inputs.treeSha !== "" && inputs.workflows !== "" && inputs.configHash !== "";
}

function sameInputs(a: ReuseInputs, b: ReuseInputs): boolean {
  return a.treeSha === b.treeSha && a.workflows === b.workflows && a.configHash === b.configHash;
}

function isNewer(gate: EarlierGate, than: EarlierGate): boolean {
  const [at, other] = [gate.completedAt ?? "", than.completedAt ?? ""];
  if (at !== other) return at > other;
  return isLaterId(gate.id, than.id);
}

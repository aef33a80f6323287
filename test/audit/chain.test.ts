import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  auditLogLine,
  canonicalJson,
  genesis,
  sealEntry,
  verifyChain,
  type AuditBody,
  type AuditEntry,
} from "../../shared/audit/chain.ts";

const T0 = Date.UTC(2026, 10, 30, 12);

function body(act: string, facts: AuditBody["facts"] = {}): AuditBody {
  return { request: "r1", act, reason: null, facts };
}

async function chain(length: number, name = "101"): Promise<AuditEntry[]> {
  const entries: AuditEntry[] = [];
  let head = await genesis(name);
  for (let index = 0; index < length; index += 1) {
    const entry = await sealEntry(head, T0 + index, body(`act.${index}`, { index }));
    entries.push(entry);
    head = entry;
  }
  return entries;
}

describe("the chain", () => {
  it("verifies from its first entry and names its head", async () => {
    const entries = await chain(5);
    const result = await verifyChain(entries, await genesis("101"));
    expect(result).toEqual({ ok: true, value: { entries: 5, head: { seq: 5, hash: entries[4]?.hash } } });
  });

  it("a part verifies by its inner links, and against the head it should hang on", async () => {
    const entries = await chain(5);
    const [, second, ...rest] = entries;
    expect((await verifyChain(rest)).ok).toBe(true);
    expect((await verifyChain(rest, second ?? null)).ok).toBe(true);
    expect(await verifyChain(rest, entries[0] ?? null)).toMatchObject({ error: { seq: 3, problem: "sequence" } });
  });

  it.each([
    ["act", (entry: AuditEntry) => ({ ...entry, act: "pod.forgotten" })],
    ["reason", (entry: AuditEntry) => ({ ...entry, reason: "tests-passed" })],
    ["time", (entry: AuditEntry) => ({ ...entry, at: entry.at + 1 })],
    ["request", (entry: AuditEntry) => ({ ...entry, request: "r2" })],
    ["fact", (entry: AuditEntry) => ({ ...entry, facts: { index: 7 } })],
    ["number that became text", (entry: AuditEntry) => ({ ...entry, facts: { index: "2" } })],
  ])("a changed %s is named at its entry", async (_, change) => {
    const entries = await chain(5);
    const forged = entries.map((entry, index) => (index === 2 ? change(entry) : entry));
    expect(await verifyChain(forged)).toMatchObject({ ok: false, error: { index: 2, seq: 3, problem: "hash" } });
  });

  it("an entry that was changed and sealed again breaks the one after it", async () => {
    const entries = await chain(5);
    const resealed = await sealEntry(entries[1] ?? (await genesis("101")), T0, body("pod.forgotten"));
    const forged = entries.map((entry, index) => (index === 2 ? resealed : entry));
    expect(await verifyChain(forged)).toMatchObject({ error: { index: 3, seq: 4, problem: "previous-hash" } });
  });

  it("an entry that was removed, doubled or moved is noticed", async () => {
    const [a, b, c, d] = await chain(4);
    for (const forged of [
      [a, c, d],
      [a, b, b, c],
      [a, c, b, d],
    ]) {
      expect(await verifyChain(forged)).toMatchObject({ ok: false, error: { problem: "sequence" } });
    }
  });

  it("another repository's chain is not this one's", async () => {
    const other = await chain(2, "202");
    expect(await verifyChain(other, await genesis("101"))).toMatchObject({
      error: { index: 0, problem: "previous-hash" },
    });
  });

  it("a line that is no entry, or has a field the hash does not cover, is unreadable", async () => {
    const [entry] = await chain(1);
    for (const line of [null, "text", {}, { ...entry, extra: 1 }, { ...entry, hash: "x" }]) {
      expect(await verifyChain([line])).toMatchObject({ error: { index: 0, problem: "unreadable" } });
    }
  });

  it("an empty audit is whole and has no head", async () => {
    expect(await verifyChain([])).toEqual({ ok: true, value: { entries: 0, head: null } });
  });

  it("the log line holds the entry and the repository", async () => {
    const [entry] = await chain(1);
    if (entry === undefined) throw new Error("one entry was sealed");
    expect(JSON.parse(auditLogLine("101", entry))).toEqual({ audit: { repository: "101", ...entry } });
  });
});

describe("canonical JSON", () => {
  it("does not depend on the order in which keys were written", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (value) => {
        const turned = Object.fromEntries(Object.entries(value).toReversed());
        expect(canonicalJson(turned)).toBe(canonicalJson(value));
        expect(JSON.parse(canonicalJson(value))).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });

  it("refuses what JSON cannot hold instead of dropping it", () => {
    for (const value of [undefined, Number.NaN, Infinity, () => 1])
      expect(() => canonicalJson({ value })).toThrow("JSON");
  });
});

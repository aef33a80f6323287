/** Sealing the audit: new entries are hashed into the chain and said as log lines. */
import { auditBodySchema, genesis, sealEntry } from "../../shared/audit/chain.ts";
import type { Inside } from "./inside.ts";
import { readStored } from "./stored-json.ts";

/** Entries for one call: what is left is the next loop's. */
const AT_ONCE = 500;

/** In the place of facts that were damaged before they were sealed. */
const UNREADABLE = { unreadable: true };

const factsSchema = auditBodySchema.shape.facts;

/**
 * Outside the transaction that wrote the entries: SHA-256 is asynchronous here. A crash in between leaves entries without a
 * hash; the next loop seals them.
 */
export async function sealAudit({ store, ports }: Inside): Promise<void> {
  const repository = store.meta("repository_id") ?? "";
  for (const row of store.unsealedAudit(AT_ONCE)) {
    const read = readStored(factsSchema, row.facts);
    const head = store.lastSealed() ?? (await genesis(repository));
    const entry = await sealEntry(head, row.at, {
      request: row.request_id,
      act: row.act,
      reason: row.reason,
      facts: read.ok ? read.value : UNREADABLE,
    });
    // The row says what was hashed: an entry that nobody could read must not keep the ones behind it out of the chain.
    store.sealAudit(row.seq, entry.hash, read.ok ? null : JSON.stringify(UNREADABLE));
    ports.log({ audit: { repository, ...entry } });
  }
}

/**
 * I6: the lock is first in, first out among those who still wait; one holder; a fence that only grows. Read from the audit,
 * and held against the lock as it is stored, and against the providers' books: whoever buys a pod or starts a GPU run held the
 * lock when it asked, so a stale holder's orders reach nobody.
 */
import type { Span } from "../clocks.ts";
import { EXECUTE } from "../github-model.ts";
import type { GateHost } from "../hosts.ts";
import type { NetRequest } from "../net.ts";
import type { Checker, WorldView } from "../view.ts";

type Row = { seq: number; at: number; request_id: string | null; act: string; facts: string };

interface Book {
  writes: number;
  read: number;
  waiting: string[];
  holder: string | null;
  fence: number;
  /** Who held it, from when until when; the newest last. */
  readonly held: { readonly by: string; readonly from: number; until: number }[];
}

export function i6(): Checker {
  const books = new Map<GateHost, Book>();
  const bookOf = (host: GateHost): Book => {
    const book = books.get(host) ?? { writes: -1, read: 0, waiting: [], holder: null, fence: 0, held: [] };
    books.set(host, book);
    return book;
  };
  return {
    name: "I6",
    performing(world, operation, request) {
      const buyer = buyerOf(operation, request);
      if (buyer === null) return null;
      const host = world.hosts.find((one) => request.caller === `gate ${one.repository.id}`);
      if (host === undefined) return null;
      const book = bookOf(host);
      const wrong = read(book, host, world);
      if (wrong !== null) return wrong;
      const held = book.held.some(
        (one) => one.by === buyer && one.from <= request.askedAt && request.askedAt <= one.until,
      );
      return held ? null : `${buyer} performs ${operation} without the lock of ${host.repository.name}`;
    },
    step(world) {
      for (const host of world.hosts) {
        const book = bookOf(host);
        const writes = host.writesTo("audit") + host.writesTo("lock");
        if (book.writes === writes) continue;
        const wrong = read(book, host, world);
        if (wrong !== null) return wrong;
        book.writes = writes;
        // As it is stored, not as the gate remembers it.
        const holder = host.sql.exec<{ holder: string | null }>("SELECT holder FROM lock")[0]?.holder ?? null;
        if (holder !== book.holder)
          return `${host.repository.name}: the lock is ${holder ?? "nobody"}'s, said to be ${book.holder ?? "nobody"}'s`;
      }
      return null;
    },
    end() {
      for (const [host, book] of books) {
        const lock = host.gate.store.lock();
        if (lock.holder !== null) return `${host.repository.name}: ${lock.holder} still holds the lock`;
        if (book.waiting.length > 0) return `${host.repository.name}: ${book.waiting.join(", ")} still wait`;
        if (host.gate.store.queueLength() > 0) return `${host.repository.name}: the queue is not empty`;
      }
      return null;
    },
  };
}

/** The request that a call buys or starts a GPU run for; null for any other call. */
function buyerOf(operation: string, request: NetRequest): string | null {
  if (operation === "createPod") {
    return (JSON.parse(request.body) as { env: Record<string, string> }).env["GPU_GATE_REQUEST"] ?? "";
  }
  if (operation !== "dispatch" || !request.path.includes(EXECUTE.split("/").at(-1) ?? "")) return null;
  return (JSON.parse(request.body) as { inputs: Record<string, string> }).inputs["request"] ?? "";
}

/** Reads what the audit has that is new. */
function read(book: Book, host: GateHost, world: WorldView): string | null {
  const rows = host.sql.exec<Row>(
    "SELECT seq, at, request_id, act, facts FROM audit WHERE seq > ? ORDER BY seq",
    book.read,
  );
  for (const row of rows) {
    book.read = row.seq;
    // When it was so, not when this looked: a day's checkers look now and then.
    const wrong = entry(book, row, world.clocks.when(row.at, ["gate"]));
    if (wrong !== null) return `${host.repository.name}: ${wrong}`;
  }
  return null;
}

function entry(book: Book, row: Row, now: Span): string | null {
  const id = row.request_id ?? "";
  switch (row.act) {
    case "lock.enqueue":
      if (!book.waiting.includes(id)) book.waiting.push(id);
      return null;
    case "request.conclude":
      book.waiting = book.waiting.filter((one) => one !== id);
      return null;
    case "lock.granted": {
      const fence = (JSON.parse(row.facts) as { fence: number }).fence;
      if (book.holder !== null) return `${id} is given the lock while ${book.holder} holds it`;
      if (fence <= book.fence) return `the fence went from ${book.fence} to ${fence}`;
      if (book.waiting[0] !== id) return `${id} is given the lock before ${book.waiting[0] ?? "nobody"}`;
      book.waiting.shift();
      book.holder = id;
      book.fence = fence;
      book.held.push({ by: id, from: now.earliest, until: Infinity });
      return null;
    }
    case "lock.release": {
      const fence = (JSON.parse(row.facts) as { fence: number }).fence;
      if (book.holder !== id || fence !== book.fence)
        return `${id} released a lock that ${book.holder ?? "nobody"} holds`;
      book.holder = null;
      const last = book.held.at(-1);
      if (last !== undefined) last.until = now.latest;
      return null;
    }
    default:
      return null;
  }
}

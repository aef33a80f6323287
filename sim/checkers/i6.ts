/**
 * I6: the lock is first in, first out among those who still wait; one holder; a fence that only grows. Read from the audit,
 * and held against GitHub's book: GPU runs of two requests never overlap.
 */
import type { GateHost } from "../hosts.ts";
import type { Checker } from "../view.ts";

type Row = { seq: number; request_id: string | null; act: string; facts: string };

interface Book {
  writes: number;
  read: number;
  waiting: string[];
  holder: string | null;
  fence: number;
}

export function i6(): Checker {
  const books = new Map<GateHost, Book>();
  return {
    name: "I6",
    step(world) {
      for (const host of world.hosts) {
        const book = books.get(host) ?? { writes: -1, read: 0, waiting: [], holder: null, fence: 0 };
        books.set(host, book);
        if (book.writes === host.writes) continue;
        book.writes = host.writes;
        const rows = host.sql.exec<Row>(
          "SELECT seq, request_id, act, facts FROM audit WHERE seq > ? ORDER BY seq",
          book.read,
        );
        for (const row of rows) {
          book.read = row.seq;
          const wrong = entry(book, row);
          if (wrong !== null) return `${host.repository.name}: ${wrong}`;
        }
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

function entry(book: Book, row: Row): string | null {
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
      return null;
    }
    case "lock.release": {
      const fence = (JSON.parse(row.facts) as { fence: number }).fence;
      if (book.holder !== id || fence !== book.fence)
        return `${id} released a lock that ${book.holder ?? "nobody"} holds`;
      book.holder = null;
      return null;
    }
    default:
      return null;
  }
}

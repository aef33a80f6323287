import { describe, expect, it } from "vitest";
import type { BillingTurn } from "../../durable-objects/account/account.ts";
import type { Turn } from "../../durable-objects/account/turns.ts";
import { NotDue } from "../../cron/not-due.ts";
import type { BooksPorts, TurnsPort } from "../../cron/ports.ts";

const MINUTE = 60_000;
const T0 = Date.UTC(2026, 10, 30, 6);

/** Turns of a quarter of an hour, as the account keeps them; `asked` tells how often it was asked. */
function keeper(memory: NotDue, everyMs = 15 * MINUTE) {
  const clock = { at: T0, now: () => clock.at };
  const asked: string[] = [];
  let takenAt = -Infinity;
  const account: TurnsPort = {
    take: async (duty): Promise<Turn> => {
      asked.push(duty);
      if (clock.at - takenAt < everyMs) return { due: false, nextAt: takenAt + everyMs };
      takenAt = clock.at;
      return { due: true, memory: null };
    },
    keep: async (_duty, _memory, more) => {
      if (more) takenAt = -Infinity;
    },
  };
  return { clock, asked, turns: memory.turns(account, clock) };
}

describe("turns that are not due", () => {
  it("are asked for again when they may be due, and not every minute", async () => {
    const { clock, asked, turns } = keeper(new NotDue());
    const due: number[] = [];
    for (let minute = 0; minute <= 31; minute += 1) {
      clock.at = T0 + minute * MINUTE;
      if ((await turns.take("redeliver", 15 * MINUTE)).due) due.push(minute);
    }
    expect(due).toEqual([0, 15, 30]);
    // At 0, 10, 15, 25 and 30: an answer is believed for ten minutes, or until the turn it names.
    expect(asked).toHaveLength(5);
  });

  it("are asked for at once where the duty wants another one", async () => {
    const { asked, turns } = keeper(new NotDue());
    expect(await turns.take("redeliver", 15 * MINUTE)).toMatchObject({ due: true });
    await turns.keep("redeliver", "", true);
    expect(await turns.take("redeliver", 15 * MINUTE)).toMatchObject({ due: true });
    expect(asked).toHaveLength(2);
  });

  it("are asked for at once also where another tick asked before that wish was stored", async () => {
    let stored: () => void = () => undefined;
    let takenAt = -Infinity;
    const clock = { at: T0, now: () => clock.at };
    const account: TurnsPort = {
      take: async () => {
        if (clock.at - takenAt < 15 * MINUTE) return { due: false, nextAt: takenAt + 15 * MINUTE };
        takenAt = clock.at;
        return { due: true, memory: null };
      },
      keep: async () => {
        await new Promise<void>((resolve) => (stored = resolve));
        takenAt = -Infinity;
      },
    };
    const turns = new NotDue().turns(account, clock);
    await turns.take("redeliver", 15 * MINUTE);
    const kept = turns.keep("redeliver", "", true);
    clock.at += MINUTE;
    expect(await turns.take("redeliver", 15 * MINUTE)).toMatchObject({ due: false });
    stored();
    await kept;
    expect(await turns.take("redeliver", 15 * MINUTE)).toMatchObject({ due: true });
  });

  it("of one duty say nothing of another's", async () => {
    const { asked, turns } = keeper(new NotDue(), 0);
    await turns.take("redeliver", 15 * MINUTE);
    await turns.take("find-repositories", 5 * MINUTE);
    expect(asked).toEqual(["redeliver", "find-repositories"]);
  });

  it("are asked for by a clock that was set back", async () => {
    const { clock, asked, turns } = keeper(new NotDue());
    await turns.take("redeliver", 15 * MINUTE);
    clock.at = T0 - MINUTE;
    await turns.take("redeliver", 15 * MINUTE);
    expect(asked).toHaveLength(2);
  });

  it("are not known after a failure", async () => {
    let fails = true;
    const account: TurnsPort = {
      take: async () => {
        if (fails) throw new Error("the account did not answer");
        return { due: true, memory: "kept" };
      },
      keep: async () => undefined,
    };
    const turns = new NotDue().turns(account, { now: () => T0 });
    await expect(turns.take("redeliver", 15 * MINUTE)).rejects.toThrow("did not answer");
    fails = false;
    expect(await turns.take("redeliver", 15 * MINUTE)).toEqual({ due: true, memory: "kept" });
  });
});

describe("the night's turn at the bills", () => {
  function books(answers: BillingTurn[]) {
    const asked: string[] = [];
    const clock = { at: T0, now: () => clock.at };
    const account = {
      takeBillingTurn: async (day: string) => {
        asked.push(day);
        const [answer] = answers.splice(0, 1);
        if (answer === undefined) throw new Error("asked too often");
        return answer;
      },
    } as Partial<BooksPorts["account"]> as BooksPorts["account"];
    return { asked, clock, account: new NotDue().billing(account, clock) };
  }

  it("is remembered with what the last night found, and asked for on the next day", async () => {
    const over: BillingTurn = { due: false, lastProblems: ["a drift"], nextAt: T0 + 86_400_000 };
    const { asked, clock, account } = books([over, over, { due: true, lastProblems: [] }]);
    expect(await account.takeBillingTurn("2026-11-30", MINUTE)).toEqual(over);
    clock.at += 9 * MINUTE;
    expect(await account.takeBillingTurn("2026-11-30", MINUTE)).toEqual(over);
    expect(asked).toHaveLength(1);
    // What an operator changed meanwhile is met within ten minutes.
    clock.at += 2 * MINUTE;
    await account.takeBillingTurn("2026-11-30", MINUTE);
    expect(await account.takeBillingTurn("2026-12-01", MINUTE)).toMatchObject({ due: true });
    expect(asked).toEqual(["2026-11-30", "2026-11-30", "2026-12-01"]);
  });
});

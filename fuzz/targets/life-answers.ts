/**
 * Answers of both vendors, damaged while a request lives: values of another type, cut text, pages of HTML. Never another
 * valid answer, so a right reader can always tell. The invariants I1 to I12 are asked after every step, by the simulator's
 * own checkers and from the vendors' own books; healed, everything must come to its end.
 */
import * as fc from "fast-check";
import { checkersFor } from "../../sim/checkers/index.ts";
import type { NetAnswer } from "../../sim/net.ts";
import type { Checker } from "../../sim/view.ts";
import { between, live } from "../life.ts";
import { wrongType } from "../json.ts";
import { target } from "../target.ts";

const KINDS = ["other-type", "cut", "html", "empty", "null", "not-utf8", "two-values"] as const;

export interface AnswerDamage {
  readonly kind: (typeof KINDS)[number];
  readonly server: "github" | "runpod";
  /** Every so many-th answer of that server, from the first on. */
  readonly every: number;
  readonly first: number;
  readonly changes: readonly { readonly at: number; readonly by: number }[];
}

export interface LifeCase {
  readonly seed: number;
  readonly damage: readonly AnswerDamage[];
}

const damage: fc.Arbitrary<AnswerDamage> = fc.record({
  kind: fc.oneof(
    { weight: 6, arbitrary: fc.constant("other-type" as const) },
    { weight: 4, arbitrary: fc.constantFrom(...KINDS) },
  ),
  server: fc.constantFrom("github" as const, "runpod" as const),
  every: fc.integer({ min: 2, max: 40 }),
  first: fc.nat(60),
  changes: fc.array(fc.record({ at: fc.nat(2_000), by: fc.nat(200) }), { minLength: 1, maxLength: 3 }),
});

export const lifeAnswers = target<LifeCase>({
  name: "life-answers",
  about: "whole lives in the simulator with damaged answers, I1 to I12 checked",
  share: 0.4,
  sample: 0,
  hangMs: 120_000,
  cases: fc.record({ seed: fc.nat(1_000_000), damage: fc.array(damage, { minLength: 1, maxLength: 4 }) }),
  open: async () => openLives(checkersFor),
});

export function openLives(checkers: () => readonly Checker[]) {
  return {
    async judge(given: LifeCase): Promise<string | null> {
      const { wrong } = await live({
        seed: given.seed,
        pulls: 2,
        checkers: checkers(),
        prepare(world) {
          for (const server of ["github", "runpod"] as const) {
            const mine = given.damage.filter((one) => one.server === server);
            let nth = 0;
            between(world[server], (_operation, _request, answer) => {
              if (world.faults.healed) return answer;
              nth += 1;
              const hit = mine.find((one) => nth >= one.first && (nth - one.first) % one.every === 0);
              return hit === undefined ? answer : damaged(answer, hit);
            });
          }
        },
      });
      return wrong;
    },
    close: async () => undefined,
  };
}

function damaged(answer: NetAnswer, { kind, changes }: AnswerDamage): NetAnswer {
  if (answer.body === "") return answer;
  switch (kind) {
    case "other-type":
      return { ...answer, body: retyped(answer.body, changes) };
    case "cut":
      return { ...answer, body: answer.body.slice(0, Math.floor(answer.body.length * 0.7)) };
    case "html":
      return { ...answer, body: "<html><body>Bad gateway</body></html>" };
    case "empty":
      return { ...answer, body: "" };
    case "null":
      return { ...answer, body: "null" };
    case "not-utf8":
      return { ...answer, body: answer.body.replaceAll('"', "\uFFFD") };
    case "two-values":
      return { ...answer, body: `${answer.body}${answer.body}` };
  }
}

function retyped(body: string, changes: AnswerDamage["changes"]): string {
  try {
    return wrongType(JSON.parse(body), changes);
  } catch {
    return body;
  }
}

/** Targets with faults put into them, for the test of the fuzzer itself. */
import * as fc from "fast-check";
import { target } from "../../fuzz/target.ts";

export const targets = [
  target({
    name: "hangs",
    about: "never ends",
    share: 1,
    sample: 0,
    cases: fc.constant({ hang: true }),
    open: async () => ({
      judge: async () => {
        for (;;);
      },
      close: async () => undefined,
    }),
  }),
  target({
    name: "counts",
    about: "cannot count beyond fifty",
    share: 1,
    sample: 0,
    cases: fc.array(fc.nat(1_000)),
    open: async () => ({
      judge: async (given) => (given.some((one) => one >= 50) ? "fifty" : null),
      close: async () => undefined,
    }),
  }),
];

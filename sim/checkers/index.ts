/** The checkers of one run: fresh ones, since each keeps what it has seen. */
import type { Checker } from "../view.ts";
import { aggregator } from "./aggregator.ts";
import { i1 } from "./i1.ts";
import { i2 } from "./i2.ts";
import { i3 } from "./i3.ts";
import { i4 } from "./i4.ts";
import { i5 } from "./i5.ts";
import { i6 } from "./i6.ts";
import { i7 } from "./i7.ts";
import { i8 } from "./i8.ts";
import { i9 } from "./i9.ts";
import { i10 } from "./i10.ts";
import { i11 } from "./i11.ts";
import { i12 } from "./i12.ts";
import { n49 } from "./n49.ts";
import { n72 } from "./n72.ts";
import { ownRuns } from "./own-runs.ts";
import { sharedHeads } from "./shared-heads.ts";
import { tokens } from "./tokens.ts";

export function checkersFor(): readonly Checker[] {
  return [
    i1(),
    i2(),
    i3(),
    i4(),
    i5(),
    i6(),
    i7(),
    i8(),
    i9(),
    i10(),
    i11(),
    i12(),
    aggregator(),
    n49(),
    n72(),
    ownRuns(),
    sharedHeads(),
    tokens(),
  ];
}

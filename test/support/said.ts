/** What a test's product has said: test factories pass it on to whoever watches for leaks (canaries.ts). */
import { channel } from "node:diagnostics_channel";
import * as z from "zod";
import type { Sql } from "../../durable-objects/gate/ports.ts";

export const SAID = "gpu-gate:said";

export interface Said {
  readonly place: string;
  readonly text: string;
}

const saying = channel(SAID);

export function said(place: string, text: string): void {
  if (saying.hasSubscribers) saying.publish({ place, text } satisfies Said);
}

/** An answer of the product: its headers, its body. */
export async function saidIn(place: string, answer: Response): Promise<Response> {
  if (!saying.hasSubscribers) return answer;
  said(`the headers of the answer to ${place}`, [...answer.headers].join("\n"));
  said(`the answer to ${place}`, await answer.clone().text());
  return answer;
}

/** Every row of every table. */
export function saidRows(whose: string, sql: Sql): void {
  if (!saying.hasSubscribers) return;
  const names = z
    .array(z.object({ name: z.string() }))
    .parse(sql.exec(`SELECT name FROM sqlite_schema WHERE type = 'table'`));
  for (const { name } of names) {
    said(`the table ${name} of ${whose}`, JSON.stringify(sql.exec(`SELECT * FROM "${name}"`)));
  }
}

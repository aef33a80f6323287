/** How the virtual GitHub answers: JSON, pages, and the table of its routes. */
import type { VirtualGitHub } from "./github.ts";
import type { Repository } from "./github-model.ts";
import type { NetAnswer, NetRequest } from "./net.ts";

export interface Route {
  readonly method: string;
  readonly pattern: RegExp;
  readonly name: string;
}

export type ServerHandler = (
  server: VirtualGitHub,
  repository: Repository,
  request: NetRequest,
  parts: readonly string[],
) => NetAnswer;

export const json = (status: number, body: unknown): NetAnswer => ({
  status,
  body: JSON.stringify(body),
  headers: { "content-type": "application/json" },
});

export const notFound = (): NetAnswer => json(404, { message: "Not Found" });

/** One page of a list, with the link to the next. */
export function list(request: NetRequest, items: readonly unknown[], name: string | null): NetAnswer {
  const size = Math.min(100, Number(request.query.get("per_page") ?? "30"));
  const number = Number(request.query.get("page") ?? "1");
  const page = items.slice((number - 1) * size, number * size);
  const more = number * size < items.length;
  const link = more ? `<https://github.test${request.path}?page=${number + 1}>; rel="next"` : "";
  const answer = json(200, name === null ? page : { total_count: items.length, [name]: page });
  return { ...answer, headers: { ...answer.headers, link } };
}

const REPOSITORY = String.raw`^/repos/[^/]+/[^/]+`;

/** A route below a repository; `root` for one below something else. */
export const route = (method: string, tail: string, name: string, root = REPOSITORY): Route => ({
  method,
  pattern: new RegExp(`${root}${tail}$`),
  name,
});

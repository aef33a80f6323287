/** A create whose answer was lost made a pod, and that has died before anybody looked for it: it was paid for, and is booked. */
import { expect, it } from "vitest";
import type { FetchLike } from "../../shared/ports.ts";
import { startLife, verdictOf } from "./life.ts";

it("is adopted, rejected and booked, and the next attempt passes", async () => {
  let dead: string | null = null;
  const fetch = (next: FetchLike): FetchLike => {
    return async (input, init) => {
      const { pathname } = new URL(input);
      const answer = await next(input, init);
      const isPods = pathname === "/v2/pods";
      if (isPods && init?.method === "POST" && answer.status < 300 && dead === null) {
        const made = JSON.parse(await answer.text()) as { id: string };
        dead = made.id;
        return new Response("bad gateway", { status: 502 });
      }
      if (dead === null || init?.method === "DELETE" || answer.status !== 200 || !pathname.startsWith("/v2/pods"))
        return answer;
      const text = await answer.text();
      return new Response(isPods ? ended(text, dead) : text, { status: 200, headers: answer.headers });
    };
  };
  const life = await startLife({ fetch });
  // It ends before it could say who it is: by its name alone it is known.
  life.runpod.nextPod({ boot: "never" });
  try {
    const request = await life.concluded(life.openCode("matmul"));
    expect(verdictOf(request)).toMatchObject({ kind: "passed" });
    expect(request.counts).toMatchObject({ attempts: 2, pods: 2 });
    expect(life.gate.store.ledgerLine(dead ?? "")).toMatchObject({ attempt_id: `${request.id}-1` });
    expect(life.audits()).toContainEqual(expect.objectContaining({ act: "pod.reject", reason: "attempt-pod-died" }));
    expect(life.runpod.pods().every(({ releasedAtMs }) => releasedAtMs !== null)).toBe(true);
  } finally {
    await life.close();
  }
});

/** The list as it reads when RunPod itself has ended this pod. */
function ended(text: string, podId: string): string {
  const list = JSON.parse(text) as { pods: { id: string; status: string; cost: number }[] };
  const pods = list.pods.map((pod) => (pod.id === podId ? { ...pod, status: "TERMINATED", cost: 0 } : pod));
  return JSON.stringify({ ...list, pods });
}

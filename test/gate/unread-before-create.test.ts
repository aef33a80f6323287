/** The last look at the pull request before the create fails: nothing is bought until it could be read (I11). */
import { expect, it } from "vitest";
import type { FetchLike } from "../../shared/ports.ts";
import { startLife, verdictOf, type Life } from "./life.ts";

/** A life in which GitHub answers 502 to this many reads of the pull request while the create is the next step. */
async function lifeWithout(reads: number): Promise<{ life: Life; creates: number[]; refused: number[] }> {
  const started: { life: Life | null } = { life: null };
  const [creates, refused]: [number[], number[]] = [[], []];
  const fetch = (next: FetchLike): FetchLike => {
    return async (input, init) => {
      const { pathname } = new URL(input);
      if (init?.method === "POST" && pathname === "/v2/pods") creates.push(refused.length);
      const open = started.life?.gate.store.openRequests()[0]?.state;
      const creating = open?.kind === "provisioning" && open.step === "create";
      if (creating && /\/pulls\/\d+$/.test(pathname) && refused.length < reads) {
        refused.push(Date.now());
        return new Response("down", { status: 502 });
      }
      return next(input, init);
    };
  };
  started.life = await startLife({ fetch });
  return { life: started.life, creates, refused };
}

it.each([
  ["once: it is asked again at once", 1],
  ["for longer: the create waits for it", 4],
])("%s", async (_what, reads) => {
  const { life, creates, refused } = await lifeWithout(reads);
  try {
    const request = await life.concluded(life.openCode("matmul"));
    expect(verdictOf(request)).toMatchObject({ kind: "passed" });
    expect(refused).toHaveLength(reads);
    // Sent after the last refusal, and once.
    expect(creates).toEqual([reads]);
    expect(request.counts).toMatchObject({ attempts: 1, pods: 1 });
  } finally {
    await life.close();
  }
});

/** What `gpu-gate explain '#12'` prints of the control plane's answer. */
import { expect, it } from "vitest";
import { gpuGate } from "../hosted/io.ts";

const AT = Date.parse("2026-11-30T12:00:00Z");

it("tells instants as such, and every other fact as it is", async () => {
  const request = { id: "r7", prNumber: 12, headSha: "a".repeat(40), generation: 1, state: "concluded" };
  const facts = { until: AT, at: AT, seenAt: AT, passedOver: null, pods: 2, paidMs: AT, at2: 5, odd: -1 };
  const decisions = [
    { at: AT, act: "pod.retained", reason: null, rule: null, facts },
    { at: AT, act: "pod.kept", reason: null, rule: null, facts: { until: 9e15 } },
  ];
  const explained = [{ request: { ...request, verdict: "failed", reason: "tests-failed", detail: "" }, decisions }];
  const { code, out } = await gpuGate(["explain", "#12"], {
    env: { GPU_GATE_URL: "https://gate.test" },
    fetch: async () => Response.json({ repositories: [{ id: "101", explained }] }),
  });
  expect(code).toBe(0);
  const iso = "2026-11-30T12:00:00.000Z";
  expect(out).toContain(`until=${iso} at=${iso} seenAt=${iso} pods=2 paidMs=${AT} at2=5 odd=-1`);
  expect(out).toContain("until=9000000000000000");
});

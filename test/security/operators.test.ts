/** An operator's token is one deployment's: shown to another it is no token, and both routes look as if they were not there. */
import { describe, expect, it } from "vitest";
import { isOperator } from "../../worker/operator.ts";
import { SETTINGS } from "../worker/ports.ts";

const OURS = "canary-operator-of-deployment-a-0123456789";
const THEIRS = "canary-operator-of-deployment-b-0123456789";
const shown = (authorization: string) =>
  new Request("https://gate.test/v1/operator/pause", { headers: { authorization } });

describe("the operator's token", () => {
  it("of deployment A is none in deployment B, and the other way round", async () => {
    const [a, b] = [OURS, THEIRS].map((operatorToken) => ({ ...SETTINGS, operatorToken }));
    if (a === undefined || b === undefined) throw new Error("two deployments");
    expect(await isOperator(shown(`Bearer ${OURS}`), a)).toBe(true);
    expect(await isOperator(shown(`Bearer ${THEIRS}`), b)).toBe(true);
    expect(await isOperator(shown(`Bearer ${OURS}`), b)).toBe(false);
    expect(await isOperator(shown(`Bearer ${THEIRS}`), a)).toBe(false);
  });

  it.each([
    ["no other secret of the deployment", SETTINGS.webhookSecrets[0] ?? ""],
    ["not RunPod's key", SETTINGS.runpodApiKey],
    ["not the App's key", SETTINGS.appPrivateKey],
    ["not two tokens", `${THEIRS},${OURS}`],
    ["not the beginning of it", OURS.slice(0, -1)],
    ["not more than it", `${OURS}0`],
    ["not nothing", ""],
  ])("is %s", async (_name, token) => {
    expect(await isOperator(shown(`Bearer ${token}`), { ...SETTINGS, operatorToken: OURS })).toBe(false);
    // Without a token in the settings nobody is the operator.
    expect(await isOperator(shown(`Bearer ${token}`), SETTINGS)).toBe(false);
  });
});

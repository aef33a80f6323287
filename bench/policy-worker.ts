/** The Worker of the policy benchmark: classifies the case as often as the query says. */
import { changePolicy } from "../shared/policy/classify.ts";
import { benchChange, benchConfig } from "./policy-case.ts";

export default {
  fetch: (request: Request): Response => {
    const rounds = Number(new URL(request.url).searchParams.get("rounds"));
    const config = benchConfig();
    const change = benchChange();
    for (let round = 0; round < rounds; round += 1) {
      const { classification } = changePolicy(config).classify(change);
      if (classification !== "ci-only") return new Response(classification);
    }
    return new Response("ok");
  },
};

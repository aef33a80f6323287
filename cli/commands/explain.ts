/** `gpu-gate explain`: which entry of the configuration decides for a path, or what was decided about a pull request. */
import { parseArgs } from "node:util";
import { explainPaths, type PathExplanation } from "../../shared/policy/explain.ts";
import { pathsFromText } from "../../shared/policy/paths.ts";
import { EXIT_NO, EXIT_OK, UsageError, type Command } from "../command.ts";
import { addressOf } from "../control-plane.ts";
import { explainSubject, namesDecision } from "../explain-request.ts";
import { configFromFile } from "../repository-config.ts";

const usage = `
gpu-gate explain [--config FILE] [--json] PATH...
gpu-gate explain [--url URL] [--json] '#PR'|REQUEST
gpu-gate explain --url URL [--json] POD

Says for each path whether it is documentation, CI or code, by which entry of the configuration, and which lanes a pull
request would ask for that changes nothing else.

Of a pull request ('#12'), a request (r12bkztd) or, with --url, a pod (its id): every decision about it, oldest first, each with
its time, the facts it rested on and the rule, and the verdict at the end. The control plane answers while its status page is
on, or with the operator's token (GPU_GATE_OPERATOR_TOKEN).

A single word like '#12' or r12bkztd is asked of the control plane; for a path of such a name write ./r12bkztd or give
--config. Everything else without --url is a path.

  --config FILE   default .github/gpu-gate.yml
  --url URL       address of the control plane, default GPU_GATE_URL
  --json          the same as JSON

Exit codes: 0 explained, 1 nothing is known, no answer, or no configuration, 2 wrong call.
`;

export const explainCommand: Command = {
  name: "explain",
  summary: "Say which rule decides for a path, or what was decided about a pull request, a request or a pod",
  usage,
  run: async (args, io) => {
    const { values, positionals } = parseArgs({
      args: [...args],
      options: { config: { type: "string" }, url: { type: "string" }, json: { type: "boolean", default: false } },
      allowPositionals: true,
    });
    if (values.url !== undefined && values.config !== undefined)
      throw new UsageError("Give --config for paths or --url for what was decided, not both.");
    const decided = values.config === undefined && positionals.length > 0 && positionals.every(namesDecision);
    if (values.url !== undefined || decided) {
      const [subject, ...more] = positionals;
      if (subject === undefined || more.length > 0)
        throw new UsageError("Name one pull request ('#12'), request or pod.");
      return explainSubject(subject, addressOf(values.url, io), values.json, io);
    }
    if (positionals.length === 0) throw new UsageError("Name paths, or one pull request ('#12'), request or pod.");
    const config = await configFromFile(io, values.config, "Give another with --config");
    if (!config.ok) {
      for (const problem of config.error) io.stderr(`gpu-gate explain: ${problem}\n`);
      return EXIT_NO;
    }
    const explained = explainPaths(config.value, pathsFromText(positionals));
    io.stdout(values.json ? `${JSON.stringify(explained, null, 2)}\n` : explained.map(paragraph).join("\n"));
    return EXIT_OK;
  },
};

function paragraph(explained: PathExplanation): string {
  const lines = [
    `${JSON.stringify(explained.path).slice(1, -1)}: ${explained.kind}`,
    `  ${explained.because}`,
    ...explained.steers.map(({ lane, entry }) => `  steers the lane ${lane} (\`${entry}\`)`),
    ...explained.neverAsksFor.map(({ lane, entry }) => `  never asks for the lane ${lane} (\`${entry}\`)`),
    `  alone it is ${explained.alone} and asks for: ${explained.lanes.join(", ") || "nothing"}`,
  ];
  return `${lines.join("\n")}\n`;
}

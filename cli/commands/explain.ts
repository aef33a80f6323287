/** `gpu-gate explain`: which entry of the configuration decides for a path, what was decided about a pull request, or what a reason means. */
import { parseArgs } from "node:util";
import { REASON_CLASSES } from "../../shared/audit/reason-classes.ts";
import { isReasonCode, REASON_CODES, reasonEntry, type ReasonCode } from "../../shared/audit/reasons.ts";
import { nearestName } from "../../shared/config/issues.ts";
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
gpu-gate explain [--json] REASON

Says for each path whether it is documentation, CI or code, by which entry of the configuration, and which lanes a pull
request would ask for that changes nothing else.

Of a pull request ('#12'), a request (r12bkztd) or, with --url, a pod (its id): every decision about it, oldest first, each with
its time, the facts it rested on and the rule, and the verdict at the end. The control plane answers while its status page is
on, or with the operator's token (GPU_GATE_OPERATOR_TOKEN).

Of a reason code (over-budget), as a check, the audit or a bill shows it: what happened, what the check says and what to do.

A single word like '#12' or r12bkztd is asked of the control plane, and a reason code is one; for a path of such a name write
./r12bkztd or give --config. Everything else without --url is a path.

  --config FILE   default .github/gpu-gate.yml
  --url URL       address of the control plane, default GPU_GATE_URL
  --json          the same as JSON

Exit codes: 0 explained, 1 nothing is known, no answer, or no configuration, 2 wrong call.
`;

export const explainCommand: Command = {
  name: "explain",
  summary: "Say why: of a path, a pull request, a request, a pod or a reason code",
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
    const [only = "", ...others] = positionals;
    const word = values.config === undefined && others.length === 0 ? only : "";
    if (isReasonCode(word)) {
      io.stdout(values.json ? `${JSON.stringify({ code: word, ...reasonEntry(word) }, null, 2)}\n` : reason(word));
      return EXIT_OK;
    }
    // A path may look like this too, so it is explained all the same.
    const near = /^[a-z]+(?:-[a-z]+)+$/.test(word) ? nearestReasons(word) : [];
    if (near.length > 0)
      io.stderr(
        `gpu-gate explain: ${word} is no reason code; if one was meant, the nearest are: ${near.join(", ")}.\n`,
      );
    if (positionals.length === 0)
      throw new UsageError("Name paths, a reason code, or one pull request ('#12'), request or pod.");
    const config = await configFromFile(io, values.config, "Give another with --config");
    if (!config.ok) {
      // Said already what it may have been meant as.
      if (near.length > 0) return EXIT_NO;
      if (/^\d+$/.test(word)) io.stderr(`gpu-gate explain: if pull request ${word} is meant, write '#${word}'.\n`);
      for (const problem of config.error) io.stderr(`gpu-gate explain: ${problem}\n`);
      return EXIT_NO;
    }
    const explained = explainPaths(config.value, pathsFromText(positionals));
    io.stdout(values.json ? `${JSON.stringify(explained, null, 2)}\n` : explained.map(paragraph).join("\n"));
    return EXIT_OK;
  },
};

function reason(code: ReasonCode): string {
  const entry = reasonEntry(code);
  const { title, intro } = REASON_CLASSES[entry.class];
  return `${code}: ${entry.sentence}\n  ${title}: ${intro}\n  What to do: ${entry.whatToDo}\n`;
}

/** The codes that an unknown one may have been meant as: the likeliest slip of the pen, then those that share a word. */
function nearestReasons(text: string): readonly ReasonCode[] {
  const slip = nearestName(text, REASON_CODES);
  const words = new Set(text.split("-"));
  const related = REASON_CODES.filter((code) => code !== slip && code.split("-").some((word) => words.has(word)));
  return [...REASON_CODES.filter((code) => code === slip), ...related].slice(0, 5);
}

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

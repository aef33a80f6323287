/** `gpu-gate validate`: has one merged commit tested on a GPU, and waits for the verdict if told to. */
import { parseArgs } from "node:util";
import { ok } from "../../shared/result.ts";
import { UsageError, type Command } from "../command.ts";
import { required } from "../files.ts";
import { START_OPTIONS, startTrusted } from "../start-trusted.ts";

const usage = `
gpu-gate validate --revision SHA [--check-head SHA] [--keep MINUTES] [--wait] [options]

Starts the validation workflow on the default branch, in your own name: one commit of the default branch is tested on a GPU,
whatever it changed. It has no pull request, so nothing makes it obsolete; for a pull request use 'gpu-gate recover'.

  --revision SHA     the commit to test, all its hex digits: a branch could move. It must be part of the default branch
  --check-head SHA   the commit that gets the check, default the revision; the revision must contain it or have its tree
  --keep MINUTES     keep the machine for debugging, should its job not pass: 1 to 720, ended by max_retention at the latest
  --wait             show progress and end with the verdict: exit code 0 if the check is green, 1 if not
  --repository O/R   default GITHUB_REPOSITORY, else this checkout's origin
  --poll SECONDS     pause between two looks, default 15
  --timeout SECONDS  give up waiting after this, default 36000; the request goes on

The token is the one of 'gpu-gate recover', and goes to GitHub only.
`;

export const validateCommand: Command = {
  name: "validate",
  summary: "Have one commit of the default branch tested, and wait for the verdict",
  usage,
  run: async (args, io) => {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: { ...START_OPTIONS, revision: { type: "string" }, "check-head": { type: "string" } },
    });
    if (positionals.length > 0) {
      const given = positionals.join(" ");
      throw new UsageError(`a validation has no pull request ('${given}'); use 'gpu-gate recover' for one.`);
    }
    const revision = commit(required(values.revision, "--revision", "The commit to test"), "--revision");
    const checkHead = values["check-head"] === undefined ? "" : commit(values["check-head"], "--check-head");
    return startTrusted("validate", values, io, async ({ config }) =>
      ok({
        workflow: config.workflows.validation,
        inputs: { revision, check_head: checkHead },
        runName: `gpu-gate validate ${revision}`,
        about: "",
      }),
    );
  },
};

function commit(text: string, option: string): string {
  if (/^[0-9a-f]{40}$/.test(text)) return text;
  throw new UsageError(`${option} takes a whole commit id, 40 lower-case hex digits, not '${text.slice(0, 80)}'.`);
}

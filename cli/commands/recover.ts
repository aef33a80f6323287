/** `gpu-gate recover`: has the control plane judge one pull request again, and waits for the verdict if told to. */
import { parseArgs } from "node:util";
import { err, ok } from "../../shared/result.ts";
import { UsageError, type Command } from "../command.ts";
import { START_OPTIONS, startTrusted } from "../start-trusted.ts";

const usage = `
gpu-gate recover PR_NUMBER [--keep MINUTES] [--wait] [options]

Starts the recovery workflow on the default branch, in your own name. The control plane then reads the pull request,
checks your role and its author's, tests the pull request's head, and publishes the check there. There is no option for
a workflow ref or a revision, on purpose: what is trusted is what the default branch says.

  --keep MINUTES     keep the machine for debugging, should its job not pass: 1 to 720, ended by max_retention at the latest
  --wait             show progress and end with the verdict: exit code 0 if the check is green, 1 if not
  --repository O/R   default GITHUB_REPOSITORY, else this checkout's origin
  --poll SECONDS     pause between two looks, default 15
  --timeout SECONDS  give up waiting after this, default 36000; the request goes on

Your GitHub token is read from GH_TOKEN, GITHUB_TOKEN or 'gh auth token' and goes to GitHub (GITHUB_API_URL) only. It needs
to start workflows: scope 'repo', or for a fine-grained token Actions: write, and read access to contents, checks and pull
requests.
`;

export const recoverCommand: Command = {
  name: "recover",
  summary: "Have one pull request judged again, and wait for the verdict",
  usage,
  run: async (args, io) => {
    const { values, positionals } = parseArgs({ args: [...args], allowPositionals: true, options: START_OPTIONS });
    const [given = "", ...rest] = positionals;
    const text = given.replace(/^#/, "");
    if (rest.length > 0) throw new UsageError("one pull request at a time: give one number.");
    if (!/^[1-9]\d{0,9}$/.test(text)) {
      throw new UsageError(`PR_NUMBER must be a number above zero, such as 12 or '#12', not '${given}'.`);
    }
    return startTrusted("recover", values, io, async ({ config }, client) => {
      const pull = await client.getPull(Number(text));
      if (!pull.ok) return err(`pull request #${text} could not be read: is it in this repository?`);
      if (pull.value.state !== "open") return err(`pull request #${text} is not open; reopen it first.`);
      return ok({
        workflow: config.workflows.recovery,
        inputs: { pr_number: text },
        runName: `gpu-gate recover pull request ${text}`,
        about: `, head ${pull.value.headSha}`,
      });
    });
  },
};

/** `gpu-gate recover`: has the control plane judge one pull request again, and waits for the verdict if told to. */
import { parseArgs } from "node:util";
import { EXIT_NO, EXIT_OK, UsageError, type Command } from "../command.ts";
import { awaitVerdict, dispatch, readTrusted, secondsOption } from "../dispatch.ts";
import { keepInput } from "../keep.ts";
import { repositoryHere, userGitHub, userToken } from "../user-github.ts";

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
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        keep: { type: "string" },
        wait: { type: "boolean", default: false },
        repository: { type: "string" },
        poll: { type: "string", default: "15" },
        timeout: { type: "string", default: "36000" },
      },
    });
    const [text = "", ...rest] = positionals;
    if (rest.length > 0) throw new UsageError("one pull request at a time: give one number.");
    if (!/^[1-9]\d{0,9}$/.test(text)) {
      throw new UsageError(`PR_NUMBER must be a number above zero, not '${text}'.`);
    }
    const keep = keepInput(values.keep);
    const pollMs = secondsOption(values.poll, "--poll");
    const timeoutMs = secondsOption(values.timeout, "--timeout");
    const repository = await repositoryHere(values.repository, io);
    const fail = (problem: string): number => {
      io.stderr(`gpu-gate recover: ${problem}\n`);
      return EXIT_NO;
    };

    const token = await userToken(io);
    if (!token.ok) return fail(token.error);
    const client = userGitHub(io, token.value, repository);
    const trusted = await readTrusted(client);
    if (!trusted.ok) return fail(trusted.error);
    const pull = await client.getPull(Number(text));
    if (!pull.ok) return fail(`pull request #${text} of ${repository.owner}/${repository.name} could not be read.`);
    if (pull.value.state !== "open") return fail(`pull request #${text} is not open; reopen it first.`);

    const { workflows, check } = trusted.value.config;
    const runName = `gpu-gate recover pull request ${text}`;
    const what = { workflow: workflows.recovery, inputs: { pr_number: text, ...keep }, runName };
    const run = await dispatch(what, trusted.value, client, io, pollMs);
    if (!run.ok) return fail(run.error);
    io.stdout(
      `Started ${workflows.recovery} at ${trusted.value.defaultBranch}: run ${run.value}, head ${pull.value.headSha}\n`,
    );
    if (!values.wait) return EXIT_OK;
    const waiting = { runId: run.value, checkName: check.name, pollMs, timeoutMs };
    const verdict = await awaitVerdict(waiting, client, io);
    if (!verdict.ok) return fail(verdict.error);
    return verdict.value ? EXIT_OK : EXIT_NO;
  },
};

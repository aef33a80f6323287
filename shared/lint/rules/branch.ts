/** A workflow that names the default branch names the branch that is it. */
import type { Rule } from "../rule.ts";
import { allJobs, at } from "../workflow.ts";
import { entry, get, itemsOf, scalarsIn, textOf, type YamlNode } from "../yaml.ts";

/** What default branches are called; another branch of such a name is one by mistake. */
const USUAL = ["main", "master"];

export const otherDefaultBranch: Rule = {
  id: "other-default-branch",
  title: "Where a workflow names the default branch, it is this repository's",
  explanation:
    "The shipped files write `main` where GitHub takes no expression, in `branches:`. In a repository with another default branch such a trigger never fires and such a condition never holds: " +
    "no cache is published, no push is tested, and the trusted tools are looked for on a branch that does not exist, or that somebody may create. Which branch is the default is " +
    "read from the clone (`origin/HEAD`), or given with `--default-branch`.",
  example:
    "The cache workflow was copied into a repository whose default branch is `master`. It never ran, and each preparation built everything anew for half an hour.",
  fix: "Write the name of your default branch; where an expression is allowed, `${{ github.event.repository.default_branch }}`.",
  check: (repository, { defaultBranch }, found) => {
    const wrong = USUAL.filter((name) => name !== defaultBranch);
    const isWrong = (node: YamlNode | undefined): boolean =>
      wrong.includes((textOf(node) ?? "").replace(/^refs\/heads\//, ""));
    for (const file of repository.files) {
      for (const trigger of file.triggers.values()) {
        const items = ["branches", "branches-ignore"].flatMap((key) => itemsOf(entry(trigger.value, key)?.value));
        // Both are named by who is renaming.
        if (items.some((item) => textOf(item) === defaultBranch)) continue;
        for (const item of items.filter(isWrong))
          found({ file: file.path, ...item.at }, `'${textOf(item)}' is not the default branch, '${defaultBranch}'.`);
      }
    }
    for (const job of allJobs(repository)) {
      for (const step of job.steps) {
        const ref = get(step.node, "with", "ref");
        if (ref !== undefined && isWrong(ref))
          found(at(job, ref.at), `'${textOf(ref)}' is not the default branch, '${defaultBranch}'.`);
      }
      for (const scalar of scalarsIn(job.node)) {
        const named = new RegExp(
          String.raw`(?:refs/heads/|\bgithub\.(?:ref_name|base_ref)\s*[!=]=\s*')(${wrong.join("|")})(?![\w./-])`,
        ).exec(scalar.text);
        if (named !== null && !scalar.text.includes(`refs/heads/${defaultBranch}`) && !isWrong(scalar))
          found(at(job, scalar.at), `'${named[1]}' is not the default branch, '${defaultBranch}'.`);
      }
    }
  },
};

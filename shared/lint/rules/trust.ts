/** Rules about what untrusted code can reach: secrets, tokens, write scopes. */
import type { Rule } from "../rule.ts";
import {
  allJobs,
  at,
  isCheckout,
  isSelfHosted,
  permissionsOf,
  secretUses,
  untrustedCode,
  writeScopes,
  type Repository,
} from "../workflow.ts";
import { entry, get, textOf, type YamlScalar } from "../yaml.ts";

export const pullRequestTarget: Rule = {
  id: "pull-request-target",
  title: "No workflow runs on pull_request_target",
  explanation:
    "This trigger gives a stranger's pull request a run with the repository's secrets and a write token. One checkout of the head, " +
    "one script of the pull request, and both are the stranger's. There is no use of it here that another trigger does not serve.",
  example:
    "A labeller workflow was given a build step; the next fork's build script uploaded the repository's publishing token.",
  fix: "Use `pull_request` for checks without secrets, and let the control plane dispatch everything that needs trust.",
  check: (repository, _config, found) => {
    for (const file of repository.files) {
      const trigger = file.triggers.get("pull_request_target");
      if (trigger !== undefined) {
        found(
          { file: file.path, ...trigger.at },
          "pull_request_target gives a stranger's change the repository's secrets.",
        );
      }
    }
  },
};

export const selfHostedSecret: Rule = {
  id: "self-hosted-secret",
  title: "No secret reaches a job on own or rented hardware",
  explanation:
    "The job runs the tested revision's code, and the machine may be somebody else's. Whatever it is given, directly, through the " +
    "workflow's `env`, an environment or `secrets: inherit`, must be taken as published.",
  example:
    "A test printed its environment on failure; the provider's API key stood in a public log, and machines were rented with it overnight.",
  fix: "Keep the secret in a hosted job that runs no code of the tested revision, or in the control plane.",
  check: (repository, _config, found) => {
    for (const job of allJobs(repository)) {
      if (job.uses !== undefined) {
        const inherit = entry(job.node, "secrets");
        if (textOf(inherit?.value) === "inherit" && mayCallSelfHosted(repository, job.uses)) {
          found(
            at(job, inherit?.at ?? job.at),
            `'${job.uses.text}' may run on self-hosted machines and inherits every secret.`,
          );
        }
        continue;
      }
      if (!isSelfHosted(job)) continue;
      for (const place of secretUses(job))
        found(at(job, place), `Job '${job.id}' runs on self-hosted hardware and can read a secret.`);
      const environment = entry(job.node, "environment");
      if (environment !== undefined) {
        found(at(job, environment.at), `The environment's secrets are within reach of self-hosted job '${job.id}'.`);
      }
    }
  },
};

/** A called workflow that is not among the files read could do anything. */
function mayCallSelfHosted(repository: Repository, uses: YamlScalar): boolean {
  const name = uses.text.replace(/^\.\//, "");
  const callee = repository.files.find((file) => file.path.endsWith(name) || name.endsWith(`/${file.path}`));
  return (
    !uses.text.startsWith("./") ||
    callee === undefined ||
    callee.jobs.some((job) => job.uses !== undefined || isSelfHosted(job))
  );
}

export const selfHostedWriteScope: Rule = {
  id: "self-hosted-write-scope",
  title: "A job on own or rented hardware has no write scope, not even by default",
  explanation:
    "The job's token is on the machine. Without `permissions` the job inherits the repository's default, which may be write for " +
    "everything; a called workflow inherits its caller's.",
  example:
    "A GPU test of a pull request pushed a commit to main with the token it found in the checkout's git configuration.",
  fix: "Set `permissions: {}` at the top and grant the job only read scopes it needs, by name.",
  check: (repository, _config, found) => {
    for (const job of allJobs(repository)) {
      if (job.uses !== undefined || !isSelfHosted(job)) continue;
      if (permissionsOf(job).kind === "default") {
        found(at(job, job.at), `Self-hosted job '${job.id}' inherits the repository's default permissions.`);
      }
      for (const scope of writeScopes(job)) {
        if (scope.name !== "id-token")
          found(at(job, scope.at), `Self-hosted job '${job.id}' is granted '${scope.name}'.`);
      }
    }
  },
};

export const defaultPermissions: Rule = {
  id: "default-permissions",
  title: "Permissions are written down",
  explanation:
    "A workflow without `permissions` has whatever the repository's settings say today. A setting changed for one workflow changes all of them.",
  example:
    "An administrator switched the default to read and write for a release; every test job could push from then on, and nothing in the tree showed it.",
  fix: "Put `permissions: {}` at the top of the file and name what each job needs.",
  check: (repository, _config, found) => {
    for (const job of allJobs(repository)) {
      if (isSelfHosted(job) && job.uses === undefined) continue;
      if (permissionsOf(job).kind === "default")
        found(at(job, job.at), `Job '${job.id}' has the repository's default permissions.`);
    }
  },
};

export const untrustedRefWithSecrets: Rule = {
  id: "untrusted-ref-with-secrets",
  title: "A job that takes a pull request's code holds no secret and no write scope",
  explanation:
    "Checking out a ref that somebody outside chooses, by a pull request, an input or an event, means running their code as soon as anything " +
    "is built. Secrets, environments and write scopes of the same job are theirs from then on.",
  example:
    "A comment command checked out the head and ran the benchmark with the cloud key in `env`; the benchmark was the attacker's.",
  fix: "Split the job: one without secrets builds and tests, another without a checkout of that code holds the secret.",
  check: (repository, _config, found) => {
    for (const job of allJobs(repository)) {
      if (isSelfHosted(job) || untrustedCode(job) === undefined) continue;
      for (const place of secretUses(job))
        found(at(job, place), `Job '${job.id}' checks out code it does not trust and can read a secret.`);
      for (const scope of writeScopes(job)) {
        if (scope.name !== "id-token")
          found(at(job, scope.at), `Job '${job.id}' checks out code it does not trust and is granted '${scope.name}'.`);
      }
      const environment = entry(job.node, "environment");
      if (environment !== undefined) {
        found(at(job, environment.at), `Job '${job.id}' checks out code it does not trust within an environment.`);
      }
    }
  },
};

export const idTokenWithUntrustedCode: Rule = {
  id: "id-token-with-untrusted-code",
  title: "No id-token in a job that runs a pull request's code",
  explanation:
    "Every step of a job with `id-token: write` can ask GitHub for a token that speaks in the workflow's name, and no claim in it names the step. " +
    "Whoever trusts that workflow then trusts the pull request.",
  example: "A build script asked for a token with the cloud's audience and deployed itself.",
  fix: "Give `id-token: write` to a job of its own that checks out nothing but the trusted branch.",
  check: (repository, _config, found) => {
    for (const job of allJobs(repository)) {
      if (untrustedCode(job) === undefined) continue;
      const scope = writeScopes(job).find((one) => one.name === "id-token" || one.name === "write-all");
      if (scope !== undefined)
        found(at(job, scope.at), `Job '${job.id}' runs code it does not trust and can mint identity tokens.`);
    }
  },
};

export const checkoutPersistsToken: Rule = {
  id: "checkout-persists-token",
  title: "A checkout of untrusted code leaves no token on disk",
  explanation:
    "actions/checkout writes the job's token into the git configuration unless told otherwise. Every later step, the tested code included, " +
    "can read it there, and an uploaded workspace carries it along.",
  example:
    "An artifact of the whole workspace contained .git/config with a live token; it was used before the job ended.",
  fix: "Set `persist-credentials: false` on the checkout.",
  check: (repository, _config, found) => {
    for (const job of allJobs(repository)) {
      if (untrustedCode(job) === undefined) continue;
      for (const step of job.steps) {
        if (isCheckout(step) && textOf(get(step.node, "with", "persist-credentials")) !== "false") {
          found(at(job, step.at), "This checkout leaves the job's token where untrusted code can read it.");
        }
      }
    }
  },
};

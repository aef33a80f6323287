/**
 * The rules of GitHub that the local GitHub keeps: each with the fact it rests on and the test that holds the server to it.
 *
 * `fact` is a section of the project's GitHub facts (`github-facts.md §9`), a route of GitHub's OpenAPI document
 * (`openapi POST /repos/{owner}/{repo}/check-runs`) or a page of GitHub's documentation (`docs.github.com/...`). `test` is
 * the title of a test in `test/local-github/`. A rule without a fact does not belong here.
 */

import { workflowRules } from "./rules-workflows.ts";

export interface VendorRule {
  readonly id: string;
  readonly sentence: string;
  readonly fact: string;
  readonly test: string;
}

const R = "/repos/{owner}/{repo}";

export const githubRules: readonly VendorRule[] = [
  // Requests
  {
    id: "user-agent",
    sentence: "A request without a User-Agent is refused with 403.",
    fact: "docs.github.com/rest/using-the-rest-api/getting-started-with-the-rest-api",
    test: "needs a User-Agent",
  },
  {
    id: "api-version",
    sentence: "X-GitHub-Api-Version selects 2022-11-28 (also without the header) or 2026-03-10.",
    fact: "github-facts.md §0",
    test: "is refused when it names an API version that does not exist",
  },
  {
    id: "no-merge-commit-sha",
    sentence: "Under 2026-03-10 no pull request answer has merge_commit_sha.",
    fact: "github-facts.md §0",
    test: "has no merge_commit_sha in pull requests; 2022-11-28 has",
  },
  {
    id: "no-rate",
    sentence: "Under 2026-03-10 the rate limit answer has only resources.",
    fact: "github-facts.md §0",
    test: "has no rate beside resources",
  },
  {
    id: "paging",
    sentence: "Lists have 30 entries a page unless told, at most 100, and a Link header to the next and last page.",
    fact: `openapi GET ${R}/pulls`,
    test: "have 30 entries a page unless told, at most 100, and a Link to the next and the last",
  },
  {
    id: "etag",
    sentence: "A GET with a matching If-None-Match answers 304, which costs nothing of the primary limit.",
    fact: "github-facts.md §3",
    test: "answer 304 without a body while nothing changed, and cost nothing",
  },
  {
    id: "rate-headers",
    sentence: "Every answer carries limit, remaining, used, reset (UTC epoch seconds) and resource of the rate limit.",
    fact: "github-facts.md §3",
    test: "are told on every answer, and count down",
  },
  {
    id: "rate-exhausted",
    sentence: "An exceeded primary limit answers 403 or 429 with remaining 0.",
    fact: "github-facts.md §3",
    test: "answer 403 or 429 with remaining 0 and the reset when exhausted",
  },
  {
    id: "rate-secondary",
    sentence: "A secondary limit answers with a message and retry-after.",
    fact: "github-facts.md §3",
    test: "have a secondary form with retry-after",
  },
  {
    id: "renamed",
    sentence: "A renamed repository answers 301 to its permanent address; redirects are to be followed.",
    fact: "github-facts.md §3",
    test: "answer 301 to their permanent address, which serves them",
  },
  {
    id: "answers",
    sentence: "Every answer has the form of GitHub's OpenAPI document.",
    fact: "github-facts.md §15",
    test: "was asked here and answered with success, in the form GitHub describes",
  },

  // The App
  {
    id: "key-pkcs1",
    sentence: "The App's private key is handed out as a PKCS#1 PEM.",
    fact: "github-facts.md §2",
    test: "hands out the key as a PKCS#1 PEM that its own public half verifies",
  },
  {
    id: "jwt-rs256",
    sentence: "The App's JWT is RS256, verified with the public key.",
    fact: "github-facts.md §2",
    test: "refuses a JWT signed by another key, or with another algorithm",
  },
  {
    id: "jwt-issuer",
    sentence: "The JWT's issuer is the App's id or client id.",
    fact: "github-facts.md §2",
    test: "refuses a JWT of another issuer",
  },
  {
    id: "jwt-times",
    sentence: "The JWT was issued in the past, has not expired, and expires at most ten minutes ahead.",
    fact: "github-facts.md §2",
    test: "refuses a JWT that %s",
  },
  {
    id: "jwt-or-token",
    sentence: "The App's own routes take the JWT, a repository's routes an installation token.",
    fact: "github-facts.md §15",
    test: "keeps the App's routes to the JWT, and repositories' routes to installation tokens",
  },
  {
    id: "token-opaque",
    sentence: "Installation tokens begin with ghs_, are about 520 characters long, and live one hour.",
    fact: "github-facts.md §0",
    test: "are long opaque strings that say when they expire",
  },
  {
    id: "token-expiry",
    sentence: "An expired token answers 401.",
    fact: "github-facts.md §2",
    test: "stop at their expiry with 401",
  },
  {
    id: "token-narrow",
    sentence: "A token request may narrow the permissions, never widen them.",
    fact: "openapi POST /app/installations/{installation_id}/access_tokens",
    test: "narrow to chosen permissions, and cannot widen",
  },
  {
    id: "token-repositories",
    sentence: "A token request may narrow to repositories of the installation.",
    fact: "openapi POST /app/installations/{installation_id}/access_tokens",
    test: "narrow to chosen repositories; the others answer 404",
  },
  {
    id: "token-revoke",
    sentence: "A token can revoke itself.",
    fact: "openapi DELETE /installation/token",
    test: "can be revoked by their holder",
  },
  {
    id: "installation-ends",
    sentence: "A suspended or deleted installation gives no access, and no token.",
    fact: "github-facts.md §2",
    test: "are worth nothing while the installation is suspended, and gone when it is uninstalled",
  },
  {
    id: "permission",
    sentence: "A route whose permission is missing answers 403 and names it in x-accepted-github-permissions.",
    fact: "github-facts.md §2",
    test: "answer 403 with the permission the route needs",
  },
  {
    id: "outside",
    sentence: "A repository outside the installation answers 404.",
    fact: `openapi GET ${R}`,
    test: "do not reach a repository outside the installation: 404, as if it were not there",
  },

  // Webhooks
  {
    id: "signature",
    sentence: "X-Hub-Signature-256 is the HMAC-SHA256 of the exact body bytes, in lower-case hex behind sha256=.",
    fact: "github-facts.md §1",
    test: "is signed over exactly the bytes it carries",
  },
  {
    id: "delivery-headers",
    sentence: "A delivery names event, delivery guid, hook and target, with a User-Agent that begins GitHub-Hookshot/.",
    fact: "github-facts.md §1",
    test: "says in its headers which event it is, which delivery, for which App, and that GitHub sent it",
  },
  {
    id: "payload",
    sentence: "A payload has action, sender, repository, organization and installation beside its own parts.",
    fact: "github-facts.md §1",
    test: "names the action, the sender, the repository, the organisation and the installation",
  },
  {
    id: "event-permission",
    sentence: "An event goes only to installations that hold its permission.",
    fact: "github-facts.md §1",
    test: "comes only where the installation has the event's permission",
  },
  {
    id: "no-retry",
    sentence: "A failed delivery is recorded and never sent again by itself.",
    fact: "github-facts.md §1",
    test: "are listed with their status and never sent again by themselves",
  },
  {
    id: "ten-seconds",
    sentence: "A receiver has ten seconds to answer.",
    fact: "github-facts.md §1",
    test: "have ten seconds unless told otherwise",
  },
  {
    id: "redelivery",
    sentence: "A redelivery keeps the event's guid and has a delivery id of its own.",
    fact: "github-facts.md §1",
    test: "are redelivered with the same guid and the same bytes under a new delivery id",
  },
  {
    id: "failure-filter",
    sentence: "status=failure lists only answers from 400 to 599.",
    fact: "github-facts.md §1",
    test: "show as failures only with a status from 400 to 599",
  },
  {
    id: "delivery-cursor",
    sentence: "Deliveries are paged by cursor.",
    fact: "openapi GET /app/hook/deliveries",
    test: "are paged by cursor",
  },
  {
    id: "order",
    sentence: "Deliveries may come late and out of order.",
    fact: "github-facts.md §1",
    test: "delays one past those after it",
  },

  // Pull requests and git
  {
    id: "mergeable-null",
    sentence: "mergeable is null until a background job has run, and always in webhooks; then the test merge exists.",
    fact: "github-facts.md §4",
    test: "tells mergeable null until GitHub has looked, and then makes the test merge",
  },
  {
    id: "conflict",
    sentence: "Workflows on pull_request do not run on a conflict.",
    fact: "github-facts.md §4",
    test: "in conflict is not mergeable and starts no pull_request workflow",
  },
  {
    id: "test-merge-moves",
    sentence: "The test merge and base.sha move when the base branch moves.",
    fact: "github-facts.md §4",
    test: "moves its base and its test merge when the base branch moves",
  },
  {
    id: "files-cut",
    sentence: "A pull request's file list ends at 3,000 files and does not say that it was cut.",
    fact: "github-facts.md §4",
    test: "lists at most 3000 files without saying that it was cut",
  },
  {
    id: "rename",
    sentence: "A renamed file carries previous_filename.",
    fact: "github-facts.md §4",
    test: "lists renames with the old name",
  },
  {
    id: "head-filter",
    sentence: "Open pull requests are found by head=owner:branch.",
    fact: `openapi GET ${R}/pulls`,
    test: "is found by the owner and branch of its head",
  },
  {
    id: "commit-pulls",
    sentence: "A commit lists the pull requests it is in; one on the default branch lists the one that brought it.",
    fact: "github-facts.md §4",
    test: "is found by its head commit, and by its merge once merged",
  },
  {
    id: "fork",
    sentence: "A fork's run has the fork as head_repository and an empty pull_requests.",
    fact: "github-facts.md §6",
    test: "from a fork has the fork as its head repository",
  },
  {
    id: "roles",
    sentence: "permission says write for maintain and read for triage; role_name has the real role.",
    fact: "github-facts.md §4",
    test: "maps maintain to write and triage to read in `permission`, and keeps the real role in `role_name`",
  },
  {
    id: "public-read",
    sentence: "On a public repository any user reads as read.",
    fact: "github-facts.md §4",
    test: "reads any user of a public repository as read, and names the account's numeric id",
  },
  {
    id: "compare",
    sentence: "A comparison has its files on page 1 only, at most 300.",
    fact: "github-facts.md §4",
    test: "says how two commits stand to each other, and lists at most 300 files, on the first page",
  },
  {
    id: "tree",
    sentence: "A recursive tree says whether it was cut.",
    fact: `openapi GET ${R}/git/trees/{tree_sha}`,
    test: "lists a tree recursively and says whether it was cut",
  },
  {
    id: "contents",
    sentence: "A file's content comes as base64 with its blob's sha.",
    fact: `openapi GET ${R}/contents/{path}`,
    test: "has the ids real git gives blobs",
  },
  {
    id: "merge-group",
    sentence: "A merge group has its own branch and head commit and names no pull request.",
    fact: "github-facts.md §8",
    test: "tell a merge group without a pull request's number, and its end with the reason",
  },

  {
    id: "matching-refs",
    sentence: "matching-refs lists every ref that begins so; none is an empty list, not 404.",
    fact: `openapi GET ${R}/git/matching-refs/{ref}`,
    test: "are every ref that begins so, in one answer, and none is an empty list",
  },
  {
    id: "merge-group-commits",
    sentence: "A queue merges, squashes or rebases; GitHub maps none of the commits it makes itself to a pull request.",
    fact: `openapi GET ${R}/commits/{commit_sha}/pulls`,
    test: "is made of merges, or of rewritten commits of one parent that no pull request is told of",
  },
  {
    id: "classic-protection",
    sentence: "Classic protection's required checks name their App or null, and need Administration read.",
    fact: "github-facts.md §8",
    test: "tells its required checks with their Apps, to who may read the administration",
  },
  {
    id: "classic-protection-none",
    sentence: "A branch without classic protection answers 404.",
    fact: `openapi GET ${R}/branches/{branch}/protection/required_status_checks`,
    test: "answers 404 where there is none",
  },
  {
    id: "releases",
    sentence: "Published releases of a public repository are everybody's to read, the newest first.",
    fact: `openapi GET ${R}/releases`,
    test: "of a public repository are anybody's to read, newest first",
  },

  // Checks
  {
    id: "conclusion-completes",
    sentence: "Giving a conclusion makes a check run completed.",
    fact: "github-facts.md §7",
    test: "take a conclusion as completed, whatever the status says",
  },
  {
    id: "completed-needs-conclusion",
    sentence: "A completed check run needs a conclusion.",
    fact: `openapi PATCH ${R}/check-runs/{check_run_id}`,
    test: "need a conclusion to be completed",
  },
  {
    id: "check-limits",
    sentence:
      "Title and summary go together; summary and text have 65,535 characters; 50 annotations; three buttons of 20, 40 and 20 characters.",
    fact: "github-facts.md §7",
    test: "refuse %s",
  },
  {
    id: "annotations-append",
    sentence: "Annotations are added to on each update.",
    fact: "github-facts.md §7",
    test: "collect annotations over updates",
  },
  {
    id: "own-checks",
    sentence: "An App writes and re-requests only its own check runs.",
    fact: "github-facts.md §7",
    test: "of another App cannot be written",
  },
  {
    id: "latest-checks",
    sentence: "A commit's check runs are listed with filter=latest unless told, and by App.",
    fact: "github-facts.md §7",
    test: "list the latest of a name by default, and all on request, by App",
  },
  {
    id: "rerequest",
    sentence: "A re-request queues the suite and leaves the check run as it was.",
    fact: "github-facts.md §7",
    test: "reset the suite and leave the check run as it was",
  },
  {
    id: "buttons",
    sentence: "A check run's buttons show once it is completed; a press sends requested_action with the identifier.",
    fact: `openapi POST ${R}/check-runs`,
    test: "press a button only on a completed check run that has it, and name it to the App",
  },

  // Runs
  {
    id: "dispatch-answer",
    sentence: "Under 2026-03-10 a dispatch answers 200 with the run; before, 204 unless return_run_details is set.",
    fact: "github-facts.md §5",
    test: "answers 200 with the run under 2026-03-10, and 204 without it under 2022-11-28",
  },
  {
    id: "dispatch-head",
    sentence: "A dispatched run's head is the named branch's last commit when the run is made.",
    fact: "github-facts.md §5",
    test: "runs at the head of the named branch, with its inputs in the run's name",
  },
  {
    id: "dispatch-ref",
    sentence: "A dispatch takes a branch or a tag, not a SHA.",
    fact: "github-facts.md §5",
    test: "is refused for a SHA or a branch that is not there",
  },
  {
    id: "dispatch-workflow",
    sentence: "A dispatched workflow stands on the default branch, is active, and has the trigger.",
    fact: "github-facts.md §5",
    test: "is refused for a workflow that is not on the default branch, is not active, or has no such trigger",
  },
  {
    id: "dispatch-inputs",
    sentence: "A dispatch has at most 25 inputs.",
    fact: "github-facts.md §5",
    test: "is refused with more than 25 inputs, or with one the workflow does not declare",
  },
  {
    id: "startup-failure",
    sentence: "An accepted dispatch may still end as startup_failure.",
    fact: "github-facts.md §5",
    test: "of a file that cannot run ends as startup_failure without a job",
  },
  {
    id: "in-progress-thrice",
    sentence: "A run's in_progress is told more than once: here three times.",
    fact: "github-facts.md §6",
    test: "tells in_progress three times",
  },
  {
    id: "job-check",
    sentence: "Each job has a check run of GitHub Actions at its check_run_url, on the run's head.",
    fact: "github-facts.md §6",
    test: "writes one check run per job for GitHub Actions, with the job's annotations",
  },
  {
    id: "needs",
    sentence: "A job that needs a failed job is skipped.",
    fact: "github-facts.md §8",
    test: "skips what needs a failed job, and concludes failure",
  },
  {
    id: "run-filters",
    sentence: "Run lists filter by event, branch, head_sha and created.",
    fact: "github-facts.md §5",
    test: "is found in lists by event, branch, commit and time",
  },
  {
    id: "artifact",
    sentence: "An artifact has id, digest of its zip, expiry and the run it belongs to; downloads are 302.",
    fact: "github-facts.md §12",
    test: "have an id, a digest over the zip that is served, and an expiry",
  },
  {
    id: "artifact-gone",
    sentence: "A download address is good for one minute; an expired artifact answers 410.",
    fact: "github-facts.md §12",
    test: "are gone with 410 once expired, and their links are good for one minute",
  },
  {
    id: "cancel",
    sentence: "A cancel answers 202 and the run ends later; a completed run answers 409.",
    fact: "github-facts.md §6",
    test: "is accepted with 202 first; the run ends later, as cancelled; then 409",
  },
  {
    id: "cancel-always",
    sentence: "always() jobs go on after a cancel.",
    fact: "github-facts.md §6",
    test: "goes on with jobs that always run",
  },
  {
    id: "cancel-hard",
    sentence: "The server ends what still runs some time after a cancel.",
    fact: "github-facts.md §6",
    test: "is ended by the server when the runner does not stop",
  },
  {
    id: "rerun",
    sentence: "A re-run keeps id, commit and first actor, has a higher attempt and new jobs, and sends no requested.",
    fact: "github-facts.md §6",
    test: "keeps the run's id, first actor and commit, makes a new attempt with new jobs, and tells no requested",
  },
  {
    id: "fork-approval",
    sentence: "A fork's run that needs approval is told as requested, completed, action_required.",
    fact: "github-facts.md §4",
    test: "of forks wait for approval where the repository asks for it",
  },

  // Runners
  {
    id: "jit-registers",
    sentence: "Minting registers an offline runner at once.",
    fact: "github-facts.md §9",
    test: "registers an offline runner at once, with exactly the labels asked for",
  },
  {
    id: "jit-blob",
    sentence: "A JIT config is base64 of a JSON map from file name to base64 content.",
    fact: "github-facts.md §9",
    test: "is base64 of a JSON map from file name to base64 content",
  },
  {
    id: "jit-conflict",
    sentence: "A name that exists answers 409.",
    fact: "github-facts.md §9",
    test: "is refused with 409 for a name that exists",
  },
  {
    id: "jit-invalid",
    sentence: "A runner has 1 to 100 labels (422) and a group that exists (404).",
    fact: `openapi POST ${R}/actions/runners/generate-jitconfig`,
    test: "is refused with 422 without labels or with more than 100, and with 404 for an unknown group",
  },
  {
    id: "jit-once",
    sentence: "A JIT runner registers once and does at most one job.",
    fact: "github-facts.md §9",
    test: "works once: a second connect with it is refused",
  },
  {
    id: "jit-deleted",
    sentence: "A deleted runner's config is dead; deleting it again answers 404.",
    fact: "github-facts.md §9",
    test: "is dead once its runner is deleted, and so is anything that is not a config",
  },
  {
    id: "labels",
    sentence: "A job goes to a runner that has all its labels, without regard to case; without one it stays queued.",
    fact: "github-facts.md §9",
    test: "stays queued until a runner with all its labels connects, in whatever case they are written",
  },
  {
    id: "not-bound",
    sentence: "A JIT config is not bound to a job or a run.",
    fact: "github-facts.md §9",
    test: "goes to any runner whose labels match, whichever run it was minted for",
  },
  {
    id: "ephemeral",
    sentence: "A busy runner cannot be deleted (422); after its one job GitHub removes it.",
    fact: "github-facts.md §9",
    test: "reports its steps and its annotations, and its runner is gone afterwards",
  },
  {
    id: "org-runners",
    sentence: "Organisation runners are listed at the organisation only, under their own permission.",
    fact: "github-facts.md §9",
    test: "are listed at the organisation only, and need its own permission",
  },
  {
    id: "group-workflows",
    sentence: "A group restricted to workflows serves those at their named ref only.",
    fact: "github-facts.md §9",
    test: "in a group restricted to a workflow run that workflow only, at its ref only",
  },
  {
    id: "group-public",
    sentence: "A group does not serve public repositories unless it allows them.",
    fact: "github-facts.md §9",
    test: "do not serve public repositories unless their group allows it",
  },

  ...workflowRules,
];

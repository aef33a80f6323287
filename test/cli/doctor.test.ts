/** `gpu-gate doctor` against the local GitHub and the local RunPod: one healthy deployment, and each thing broken in turn. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { generateKeyPairSync } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  newWebhookSecret,
  startLocalGitHub,
  type LocalGitHub,
  type RepositoryControl,
} from "../../local/github/index.ts";
import { buildImage } from "../../local/runpod/image.ts";
import { startLocalRunPod } from "../../local/runpod/server.ts";
import type { LocalRunPod } from "../../local/runpod/types.ts";
import type { FetchLike } from "../../shared/ports.ts";
import { CONFIG } from "../gate/life.ts";
import { gpuGate } from "../hosted/io.ts";

const KEY = "rpa_doctor";
const EXECUTE = ".github/workflows/gpu-gate-execute.yml";
let dir: string;
let github: LocalGitHub;
let runpod: LocalRunPod;
let repository: RepositoryControl;
/** Answers instead of whoever is asked, by a part of the address. */
let instead: Record<string, () => Response>;
let env: Record<string, string>;

const GATE = "https://gate.test";
const healthy = { ok: true, problems: [], warnings: [], deployment: "prod", cron: { lastTickAt: 0 } };

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "gpu-gate-doctor-"));
  // Nobody listens there; the doctor looks at the setting alone.
  github = await startLocalGitHub({ webhookSecret: newWebhookSecret(), webhookUrl: "http://127.0.0.1:9/" });
  const imageDir = join(dir, "image");
  buildImage({ imageDir, runScript: join(import.meta.dirname, "..", "..", "local", "runner", "run.sh") });
  runpod = await startLocalRunPod({ apiKey: KEY, stateDir: join(dir, "pods"), imageDir });
  repository = github.createRepository({
    owner: "octo",
    name: "lab",
    id: 101,
    organization: true,
    files: {
      "README.md": "# lab\n",
      ".github/gpu-gate.yml": `${CONFIG}runner:\n  scope: organization\n  group_id: "2"\n`,
    },
  });
  repository.addCollaborator("mira", "admin");
  require("CI GPU gate", Number(github.appId));
  group({});
  instead = { [`${GATE}/healthz`]: () => Response.json({ ...healthy, cron: { lastTickAt: Date.now() - 30_000 } }) };
  env = {
    GITHUB_APP_ID: github.appId,
    GITHUB_APP_PRIVATE_KEY: github.privateKeyPem,
    GITHUB_ALLOWED_REPOSITORIES: "101",
    GITHUB_API_URL: github.url,
    RUNPOD_API_KEY: KEY,
    RUNPOD_API_URL: runpod.url,
    RUNPOD_GRAPHQL_URL: runpod.graphqlUrl,
    IMAGE_REGISTRY_URL: runpod.registryUrl,
  };
});

afterEach(async () => {
  await runpod.close();
  await github.close();
  rmSync(dir, { recursive: true, force: true });
});

type GroupInput = Parameters<LocalGitHub["createRunnerGroup"]>[1];

/** The organisation's newest group, closed to all but the execute workflow of the one repository, but for `change`. */
function group(change: Partial<GroupInput>): void {
  const id = github.createRunnerGroup("octo", {
    name: "gpu",
    restrictedToWorkflows: true,
    selectedWorkflows: [`octo/lab/${EXECUTE}@refs/heads/main`],
    visibility: "selected",
    repositories: [101],
    allowsPublicRepositories: true,
    ...change,
  });
  repository.commit({
    files: { ".github/gpu-gate.yml": `${CONFIG}runner:\n  scope: organization\n  group_id: "${id}"\n` },
  });
}

function require(context: string, app: number | null): void {
  repository.setBranchRules("main", [
    {
      type: "required_status_checks",
      parameters: {
        strict_required_status_checks_policy: false,
        required_status_checks: [{ context, ...(app === null ? {} : { integration_id: app }) }],
      },
    },
  ]);
}

const fetchOr: FetchLike = (input, init) => {
  const found = Object.entries(instead).find(([part]) => input.includes(part));
  return found === undefined ? fetch(input, init) : Promise.resolve(found[1]());
};

async function doctor(skewMs = 0): Promise<{ code: number; out: string; bad: string[] }> {
  const now = () => Date.now() + skewMs;
  const { code, out } = await gpuGate(["doctor", "--url", GATE], { env, fetch: fetchOr, now });
  return { code, out, bad: out.split("\n").filter((line) => line.startsWith("PROBLEM")) };
}

describe("a healthy deployment", () => {
  it("has no problem, and each line says ok or why nobody can tell", async () => {
    instead["/app/hook/config"] = () =>
      Response.json({ url: `${GATE}/github/webhooks`, content_type: "json", insecure_ssl: "0", secret: "********" });
    const { code, out, bad } = await doctor();
    expect([code, bad]).toEqual([0, []]);
    for (const what of [
      "App key",
      "App permissions",
      "App events",
      "Webhook",
      "Allow-list",
      "Clock",
      "Cron",
      "Worker",
    ]) {
      expect(out).toMatch(new RegExp(`^ok +${what} `, "m"));
    }
    for (const what of ["branch rule", "check's producer", "runner group", "configuration", "granted permissions"]) {
      expect(out).toMatch(new RegExp(`^ok +octo/lab: ${what} `, "m"));
    }
    // What is valid in its configuration and may still surprise.
    expect(out).toMatch(/^warning +octo\/lab: gpu\.nvrtc .*runs no kernel/m);
    for (const what of ["list", "delete", "balance"]) expect(out).toMatch(new RegExp(`^ok +RunPod: ${what} `, "m"));
    expect(out).toMatch(/^warning +Runner release +could not be told/m);
  });

  it("changes nothing and prints no secret", async () => {
    const pod = runpod.rentForeignPod({ name: "somebody's" });
    const { out } = await doctor();
    expect(runpod.pods().find((each) => each.id === pod)?.releasedAtMs).toBeNull();
    expect(github.books.checkWrites).toEqual([]);
    for (const secret of [KEY, "PRIVATE KEY"]) expect(out).not.toContain(secret);
  });

  it("takes the key from a file", async () => {
    writeFileSync(join(dir, "github-app.pem"), github.privateKeyPem);
    env["GITHUB_APP_PRIVATE_KEY"] = "";
    env["GITHUB_APP_PRIVATE_KEY_FILE"] = join(dir, "github-app.pem");
    expect((await doctor()).code).toBe(0);
  });
});

describe("who else may use the runner group of the pods", () => {
  const seen = async () => {
    const { code, out } = await doctor();
    return { code, lines: out.split("\n").filter((line) => line.includes("octo/lab: runner group")) };
  };
  const down = () => new Response("{}", { status: 500 });
  const stranger = () => github.createRepository({ owner: "octo", name: "website", id: 102, organization: true });

  it.each([
    ["all", "every repository of octo"],
    ["private", "'private' repositories of octo"],
  ] as const)(
    "is worth a look for a group that is open to %s, its workflows being restricted",
    async (visibility, words) => {
      group({ visibility });
      const { code, lines } = await seen();
      expect([code, lines]).toEqual([0, [expect.stringMatching(/^warning /)]]);
      expect(lines[0]).toContain(words);
    },
  );

  it("is a problem without that restriction", async () => {
    group({ visibility: "all", restrictedToWorkflows: false });
    const { code, lines } = await seen();
    expect([code, lines.length]).toEqual([1, 2]);
    expect(lines.every((line) => line.startsWith("PROBLEM"))).toBe(true);
    expect(lines[1]).toContain("whose jobs could land on a pod");
  });

  it("names the repositories that this deployment does not serve", async () => {
    stranger();
    group({ repositories: [101, 102] });
    const { code, lines } = await seen();
    expect([code, lines]).toEqual([0, [expect.stringMatching(/^warning .*open to octo\/website, which/)]]);
    group({ repositories: [101, 102], restrictedToWorkflows: false });
    expect((await seen()).lines).toEqual([
      expect.stringMatching(/^PROBLEM /),
      expect.stringMatching(/^PROBLEM .*open to octo\/website, which/),
    ]);
  });

  it("is fine for repositories of the same deployment", async () => {
    stranger();
    group({ repositories: [101, 102] });
    env["GITHUB_ALLOWED_REPOSITORIES"] = "101,102";
    expect((await seen()).lines).toEqual([expect.stringMatching(/^ok /)]);
  });

  const own = `octo/lab/${EXECUTE}@refs/heads/main`;
  const other = `octo/website/${EXECUTE}@refs/heads/main`;

  it.each([
    ["this workflow at another branch too", `octo/lab/${EXECUTE}@refs/heads/anything`],
    ["this workflow at a branch whose name begins alike", `octo/lab/${EXECUTE}@main@anything`],
    ["this workflow at a tag", `octo/lab/${EXECUTE}@refs/tags/main`],
    ["this workflow at a commit too", `octo/lab/${EXECUTE}@${"a".repeat(40)}`],
    ["a file that this one's name is part of", `octo/lab/x/${EXECUTE}@refs/heads/main`],
    ["a repository that is not served", other],
    ["a repository that is not in the group", `octo/elsewhere/${EXECUTE}@refs/heads/main`],
  ])("is a problem where it also takes %s", async (_, entry) => {
    stranger();
    group({ repositories: [101, 102], selectedWorkflows: [own, entry] });
    const { code, lines } = await seen();
    expect([code, lines[0]]).toEqual([1, expect.stringContaining(`also takes ${entry}: restrict it`)]);
    expect(lines[0]).toMatch(/^PROBLEM /);
  });

  it.each([
    ["fine at its default branch", "refs/heads/main", /^ok /],
    ["a problem at any other", "refs/heads/x", /^PROBLEM .*also takes octo\/website/],
    ["a problem at a commit", "b".repeat(40), /^PROBLEM .*also takes octo\/website/],
  ])("takes a served repository's workflow, which is %s", async (_, ref, line) => {
    stranger();
    group({ repositories: [101, 102], selectedWorkflows: [own, `octo/website/${EXECUTE}@${ref}`] });
    env["GITHUB_ALLOWED_REPOSITORIES"] = "101,102";
    expect((await seen()).lines).toEqual([expect.stringMatching(line)]);
  });

  it.each([
    ["its default branch is not told", () => void (instead["/repos/octo/website"] = down)],
    ["the group's repositories are not told", () => void (instead["/runner-groups/3/repositories"] = down)],
    [
      "a page leaves repositories out",
      () =>
        void (instead["/runner-groups/3/repositories"] = () =>
          Response.json({ total_count: 131, repositories: [{ id: 101, full_name: "octo/lab" }] })),
    ],
    ["the group lists none", () => group({ visibility: "all", selectedWorkflows: [own, other] })],
  ])("cannot say whose workflow it is where %s", async (_, change) => {
    stranger();
    group({ repositories: [101, 102], selectedWorkflows: [own, other] });
    env["GITHUB_ALLOWED_REPOSITORIES"] = "101,102";
    change();
    expect((await seen()).lines[0]).toMatch(/^warning .*at its default branch cannot be told: /);
  });

  it("is worth a look for the workflow at a commit alone, which the next push leaves behind", async () => {
    group({ selectedWorkflows: [`octo/lab/${EXECUTE}@${"a".repeat(40)}`] });
    const { code, lines } = await seen();
    expect([code, lines]).toEqual([0, [expect.stringMatching(/^warning .*at a commit \(aaaaaaa\): .*next push/)]]);
  });

  it("reads every page: repository 101 of a group counts like the first, and so does the one behind it", async () => {
    const crowd = Array.from({ length: 150 }, (_, index) =>
      github.createRepository({ owner: "octo", name: `lib${index}`, id: 200 + index, organization: true }),
    );
    const ids = crowd.map((_, index) => 200 + index);
    group({ repositories: [...ids, 101, 102], selectedWorkflows: [own, other] });
    stranger();
    env["GITHUB_ALLOWED_REPOSITORIES"] = ["101", "102", ...ids].join(",");
    // Its own repository and its neighbour are on the second page, and nobody is unknown.
    expect((await seen()).lines).toEqual([expect.stringMatching(/^ok /)]);
    env["GITHUB_ALLOWED_REPOSITORIES"] = ["101", ...ids].join(",");
    const { lines } = await seen();
    expect(lines.join("\n")).toContain("open to octo/website, which");
    expect(lines.join("\n")).not.toContain("more");
  });

  it("counts those that a page leaves out", async () => {
    instead["/runner-groups/2/repositories"] = () =>
      Response.json({ total_count: 131, repositories: [{ id: 101, full_name: "octo/lab" }] });
    expect((await seen()).lines).toEqual([expect.stringMatching(/^warning .*open to 130 more, which/)]);
  });

  it("is worth a look where public repositories are allowed for a private one", async () => {
    repository = github.createRepository({ owner: "octo", name: "vault", id: 103, organization: true, private: true });
    group({ repositories: [103], selectedWorkflows: [`octo/vault/${EXECUTE}@main`] });
    env["GITHUB_ALLOWED_REPOSITORIES"] = "103";
    const { out } = await doctor();
    const lines = out.split("\n").filter((line) => line.includes("octo/vault: runner group"));
    expect(lines).toEqual([expect.stringMatching(/^warning .*allows public repositories/)]);
  });

  it("says so when it cannot be told", async () => {
    instead["/runner-groups/2/repositories"] = () => new Response("{}", { status: 500 });
    expect((await seen()).lines).toEqual([expect.stringMatching(/^warning .*could not be told/)]);
  });
});

describe("classic branch protection", () => {
  const protect = (appId: number | null) => {
    repository.setBranchRules("main", []);
    repository.protectBranch("main", [{ context: "CI GPU gate", appId }]);
  };

  it("that requires the check from this App is ok", async () => {
    protect(Number(github.appId));
    const { code, out } = await doctor();
    expect([code, out]).toEqual([0, expect.stringMatching(/^ok +octo\/lab: branch rule .*from this App$/m)]);
  });

  it.each([
    ["from anybody", null, "takes 'CI GPU gate' from anybody"],
    ["from anybody, in the older spelling", -1, "takes 'CI GPU gate' from anybody"],
    ["from another App", 7, "from App 7"],
  ])("that requires it %s is a problem", async (_, appId, said) => {
    protect(appId);
    expect(await doctor()).toMatchObject({ code: 1, bad: [expect.stringContaining(said)] });
  });

  it("that requires other checks alone is a problem", async () => {
    repository.setBranchRules("main", []);
    repository.protectBranch("main", [{ context: "lint", appId: null }]);
    expect((await doctor()).bad).toEqual([expect.stringContaining("nothing requires 'CI GPU gate' on main")]);
  });

  it("that the App may not read, or GitHub does not tell, is a warning and no proof of a fault", async () => {
    repository.setBranchRules("main", []);
    github.installation("octo").withhold("administration");
    const withheld = await doctor();
    expect([withheld.code, withheld.out]).toEqual([
      0,
      expect.stringMatching(/^warning +octo\/lab: branch rule .*may not be read/m),
    ]);
    instead["/protection/required_status_checks"] = () => new Response("{}", { status: 502 });
    const silent = await doctor();
    expect([silent.code, silent.out]).toEqual([0, expect.stringMatching(/^warning +octo\/lab: branch rule /m)]);
  });
});

describe("the check's other producers", () => {
  it("a commit status of the check's name is a problem", async () => {
    const pull = repository.openPullRequest({ author: "mira", title: "one", files: { "a.rs": "fn a() {}\n" } });
    repository.reportStatus(pull.headSha, { context: "CI GPU gate", state: "success" });
    expect((await doctor()).bad).toEqual([expect.stringContaining("commit status 'CI GPU gate'")]);
  });

  it("are not said to be none when the statuses may not be read", async () => {
    repository.openPullRequest({ author: "mira", title: "one", files: { "a.rs": "fn a() {}\n" } });
    github.installation("octo").withhold("statuses");
    const { out } = await doctor();
    expect(out).toMatch(/^warning +octo\/lab: check's producer +could not be told/m);
  });
});

describe("the runner's release", () => {
  const DAY = 86_400_000;
  /** Releases with their ages in days, newest first, each with an image of its own; `latest` is the image in use. */
  const publish = async (inUse: string, releases: readonly (readonly [string, number])[]) => {
    const runner = github.createRepository({ owner: "actions", name: "runner" });
    for (const [version, days] of releases) runner.publishRelease(`v${version}`, { at: Date.now() - days * DAY });
    for (const [version] of releases) runpod.registry.publish(version);
    if (inUse !== "unknown") runpod.registry.retag("latest", inUse);
    const { code, out } = await doctor();
    return { code, line: out.split("\n").find((each) => each.includes("Runner release")) ?? "" };
  };

  it("is ok when the image is the newest", async () => {
    const { code, line } = await publish("2.335.0", [
      ["2.335.0", 40],
      ["2.334.0", 80],
    ]);
    expect([code, line]).toEqual([0, expect.stringMatching(/^ok +Runner release +2\.335\.0, the newest$/)]);
  });

  it("is a warning while a newer one is young", async () => {
    const { code, line } = await publish("2.335.0", [
      ["2.336.0", 3],
      ["2.335.0", 40],
    ]);
    expect([code, line]).toEqual([0, expect.stringMatching(/^warning +Runner release +2\.335\.0; there is 2\.336\.0/)]);
  });

  it("is a problem when a newer one is weeks old", async () => {
    const { code, line } = await publish("2.335.0", [
      ["2.336.0", 20],
      ["2.335.0", 40],
    ]);
    expect([code, line]).toEqual([1, expect.stringMatching(/^PROBLEM +Runner release +2\.335\.0; there is 2\.336\.0/)]);
  });

  it("is a problem when the image is none of the newest", async () => {
    const { code, line } = await publish("unknown", [["2.336.0", 3]]);
    expect([code, line]).toEqual([1, expect.stringMatching(/^PROBLEM +Runner release +.*none of the newest/)]);
  });
});

describe("the address of the App's webhook", () => {
  const line = async (url: string): Promise<string> => {
    instead["/app/hook/config"] = () =>
      Response.json({ url, content_type: "json", insecure_ssl: "0", secret: "********" });
    return (await doctor()).out.split("\n").find((one) => / Webhook /.test(one)) ?? "";
  };

  it("is a warning where it is not this Worker's, and none where it is", async () => {
    expect(await line(`${GATE}/github/webhooks`)).toMatch(/^ok /);
    const elsewhere = await line("https://old.example/github/webhooks");
    expect(elsewhere).toMatch(/^warning /);
    expect(elsewhere).toContain(`goes to https://old.example/github/webhooks, not to ${GATE}/github/webhooks`);
  });
});

describe("each thing broken is one problem that says what to do", () => {
  const other = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ type: "pkcs1", format: "pem" });
  const app = (more: object) =>
    Response.json({ id: Number(github.appId), slug: "g", name: "g", permissions: {}, events: [], ...more });
  const hook = (more: object) =>
    Response.json({ url: "https://x", content_type: "json", insecure_ssl: "0", secret: "********", ...more });

  const cases: readonly (readonly [string, () => void, string])[] = [
    ["a key that is no key", () => void (env["GITHUB_APP_PRIVATE_KEY"] = "nonsense"), "App key"],
    ["another App's key", () => void (env["GITHUB_APP_PRIVATE_KEY"] = String(other)), "must belong together"],
    ["missing permissions", () => void (instead["/app\u0000"] = () => app({})), "missing metadata: read"],
    [
      "a webhook of form type",
      () => void (instead["/app/hook/config"] = () => hook({ content_type: "form" })),
      "application/json",
    ],
    ["a webhook without a secret", () => void (instead["/app/hook/config"] = () => hook({ secret: "" })), "no secret"],
    ["a name on the allow-list", () => void (env["GITHUB_ALLOWED_REPOSITORIES"] = "octo/lab"), "numeric ids"],
    ["an id nobody installed", () => void (env["GITHUB_ALLOWED_REPOSITORIES"] = "101,202"), "repository 202"],
    ["an empty allow-list", () => void (env["GITHUB_ALLOWED_REPOSITORIES"] = ""), "nothing is served"],
    ["no rule", () => repository.setBranchRules("main", []), "nothing requires 'CI GPU gate'"],
    ["a rule that takes anybody's check", () => require("CI GPU gate", null), "from anybody"],
    ["a rule for another App", () => require("CI GPU gate", 7), "from App 7"],
    ["a runner group open to every workflow", () => group({ restrictedToWorkflows: false }), "every workflow"],
    [
      "a runner group of another repository's workflow of the same name",
      () => group({ selectedWorkflows: [`octo/lab-copy/${EXECUTE}@main`] }),
      "does not take .github/workflows/gpu-gate-execute.yml of this repository",
    ],
    [
      "a runner group of the workflow at any branch but the default one",
      () => group({ selectedWorkflows: [`octo/lab/${EXECUTE}@refs/heads/wip`] }),
      "octo/lab/.github/workflows/gpu-gate-execute.yml@refs/heads/main",
    ],
    [
      "a runner group that takes a second workflow",
      () => group({ selectedWorkflows: [`octo/lab/${EXECUTE}@main`, "octo/lab/.github/workflows/ci.yml@main"] }),
      "also takes octo/lab/.github/workflows/ci.yml@main",
    ],
    ["a runner group that is closed to the repository", () => group({ repositories: [] }), "closed to this repository"],
    [
      "a runner group without public repositories for a public one",
      () => group({ allowsPublicRepositories: false }),
      "takes no public repository",
    ],
    [
      "a RunPod key that cannot delete",
      () => runpod.faults.next({ method: "DELETE" }, { kind: "answer", status: 403 }),
      "cannot delete",
    ],
    [
      "a RunPod key that cannot list",
      () => runpod.faults.next({ method: "GET" }, { kind: "answer", status: 401 }),
      "cannot list",
    ],
    [
      "a Worker that is not there",
      () => void (instead[`${GATE}/healthz`] = () => new Response("", { status: 404 })),
      "/healthz",
    ],
    [
      "cron that is silent",
      () =>
        void (instead[`${GATE}/healthz`] = () =>
          Response.json({ ...healthy, cron: { lastTickAt: Date.now() - 600_000 } })),
      "Cron",
    ],
  ];

  it.each(cases)("%s", async (_, breakIt, said) => {
    breakIt();
    // The App's own address is the beginning of many: told apart by its end.
    const asApp = instead["/app\u0000"];
    if (asApp !== undefined) {
      delete instead["/app\u0000"];
      const before = fetchOr;
      const { code, out } = await gpuGate(["doctor", "--url", GATE], {
        env,
        fetch: (input, init) => (input.endsWith("/app") ? Promise.resolve(asApp()) : before(input, init)),
        now: () => Date.now(),
      });
      expect([code, out]).toEqual([1, expect.stringContaining(said)]);
      return;
    }
    const { code, bad } = await doctor();
    expect(code).toBe(1);
    expect(bad).toEqual([expect.stringContaining(said)]);
  });

  it("another App that publishes the check under the same name", async () => {
    const pull = repository.openPullRequest({ author: "mira", title: "one", files: { "a.rs": "fn a() {}\n" } });
    const strange = {
      id: 5,
      name: "CI GPU gate",
      head_sha: pull.headSha,
      status: "completed",
      conclusion: "success",
      app: { id: 77 },
    };
    instead["/check-runs?"] = () => Response.json({ total_count: 1, check_runs: [strange] });
    const { code, bad } = await doctor();
    expect([code, bad.join()]).toEqual([1, expect.stringContaining("App 77 published")]);
  });

  it("a clock that is minutes off", async () => {
    const { bad } = await doctor(180_000);
    expect(bad.join()).toContain("180 s from GitHub's");
  });

  it("a setting that is missing altogether is a wrong call", async () => {
    const answer = await gpuGate(["doctor"], { env: {} });
    expect([answer.code, answer.err]).toEqual([2, expect.stringContaining("GITHUB_APP_PRIVATE_KEY")]);
  });
});

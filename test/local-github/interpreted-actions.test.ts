/** The listed actions as hosted jobs perform them: real checkouts, artifacts that go round, caches that keep to their mode. */
import { describe, expect, it } from "vitest";
import { at, listOf } from "./harness.ts";
import { conclusions, dispatchable, jobOf, oneJob, pin, workflows } from "./workflows.ts";

const current = workflows();

describe("actions/checkout", () => {
  const see = (more: string, command: string): string =>
    oneJob(`      - uses: ${pin("actions/checkout")}\n        with: ${more}\n      - run: ${command}\n`);

  it("is a real repository at the asked commit, its files as they are in the tree", async () => {
    const { bench, runs } = current();
    const sha = bench.repo.sha();
    const run = await runs(
      see(
        `{ref: ${sha}, path: here}`,
        `git -C here rev-parse HEAD && git -C here status --porcelain && cat here/src/lib.rs`,
      ),
    );
    expect(jobOf(run).log).toBe(`HEAD is now at ${sha} in here\n${sha}\nfn main() {}\n`);
  });

  it("has one commit unless the whole history is asked for", async () => {
    const { bench, runs } = current();
    bench.repo.commit({ files: { "second.txt": "x\n" } });
    const command = "git fsck --no-dangling && git rev-list --count HEAD";
    const shallow = await runs(see("{fetch-depth: 1}", command));
    const deep = await runs(see("{fetch-depth: 0}", `${command} && git show HEAD~1:README.md && git branch -r`));
    expect(jobOf(shallow).log.trim().split("\n").at(-1)).toBe("1");
    expect(jobOf(deep).log).toContain("# lab\n  origin/main\n");
    expect(Number(jobOf(deep).log.split("\n")[1])).toBeGreaterThan(2);
  });

  it("brings only the folders of a sparse checkout, and the files on the way to them", async () => {
    const { bench, runs } = current();
    bench.repo.commit({ files: { "a/b/in.txt": "x\n", "a/by.txt": "x\n", "a/c/out.txt": "x\n", "d/out.txt": "x\n" } });
    const run = await runs(
      see("{sparse-checkout: a/b}", "find . -name .git -prune -o -type f -print | sort && git status --porcelain"),
    );
    expect(jobOf(run).log.split("\n").slice(1)).toEqual(["./README.md", "./a/b/in.txt", "./a/by.txt", ""]);
  });

  it.each([
    ["a commit that is not there", "{ref: nope}", "A branch or tag with the name 'nope' could not be found"],
    ["a path outside", "{path: ../..}", "'../..' leads out of the workspace"],
    ["another repository", "{repository: octo/other}", "only the job's own repository"],
  ])("fails for %s and says why", async (_what, more, message) => {
    const { runs, notesOf } = current();
    const run = await runs(see(more, "echo"));
    expect(jobOf(run).conclusion).toBe("failure");
    expect(notesOf(jobOf(run)).join()).toContain(message);
  });
});

describe("artifacts", () => {
  const upload = (name: string, path: string, more = ""): string =>
    `      - uses: ${pin("actions/upload-artifact")}\n        with: {name: ${name}, path: ${path}${more}}\n`;
  const make = dispatchable(
    `  make:
    runs-on: ubuntu-24.04
    steps:
      - run: mkdir -p out/deep && echo one > out/one && head -c 3000 /dev/urandom > out/deep/two && sha256sum out/deep/two
${upload("folder", "out", ", retention-days: 3")}${upload("file", "out/deep/two")}  use:
    needs: make
    runs-on: ubuntu-24.04
    steps:
      - uses: ${pin("actions/download-artifact")}
      - run: cat folder/one && sha256sum file/two && cmp file/two folder/deep/two && ls
`,
  );

  it("go round: stored as zips with their digest and end, and downloaded by another job as they were", async () => {
    const { bench, runs } = current();
    const run = await runs(make);
    expect(conclusions(run)).toEqual({ make: "success", use: "success" });
    const hash = /[0-9a-f]{64}/.exec(jobOf(run, "make").log)?.[0] ?? "none";
    expect(jobOf(run, "use").log).toContain(`one\n${hash}  file/two\nfile\nfolder\n`);
    const listed = await bench.call("GET", `/repos/octo/lab/actions/runs/${run.id}/artifacts?name=folder`);
    const [folderArtifact] = listOf(listed.body, "artifacts");
    const days =
      Date.parse(String(folderArtifact?.["expires_at"])) - Date.parse(String(folderArtifact?.["created_at"]));
    expect(days).toBe(3 * 86_400_000);
  });

  /** The other run's artifacts by id, as the paid job takes them. */
  const take = (ids: string, from: number, permissions: string, after = "ls -R got"): string =>
    dispatchable(`  take:
    runs-on: ubuntu-24.04
    permissions: ${permissions}
    steps:
      - uses: ${pin("actions/download-artifact")}
        with: {artifact-ids: "${ids}", run-id: "${from}", github-token: "\${{ github.token }}", path: got, merge-multiple: true}
      - run: ${after}
`);

  it("of another run come by id, with a token that may read them and no other", async () => {
    const { runs, notesOf } = current();
    const made = await runs(make);
    const ids = made.artifacts.map((artifact) => artifact.id).join(",");
    const taken = await runs(take(ids, made.id, "{actions: read}"));
    expect(jobOf(taken, "take").log).toContain("deep\none\ntwo\n");
    const denied = await runs(take(ids, made.id, "{contents: read}"));
    expect([jobOf(denied, "take").conclusion, notesOf(jobOf(denied, "take"))]).toEqual([
      "failure",
      [`failure: /repos/octo/lab/actions/runs/${made.id}/artifacts answered 403`],
    ]);
    const stranger = await runs(take(`${ids},1`, made.id, "{actions: read}"));
    expect(notesOf(jobOf(stranger, "take"))).toEqual(["failure: artifact 1 is not one of the run's artifacts"]);
  });

  it("that are not what their digest says fail the step", async () => {
    const { runs, notesOf } = current();
    const made = await runs(make);
    const [first] = made.artifacts;
    first?.zip.writeUInt8((first.zip.readUInt8(40) + 1) % 256, 40);
    const taken = await runs(take(String(first?.id), made.id, "{actions: read}"));
    expect(notesOf(jobOf(taken, "take"))[0]).toMatch(/^failure: the digest of artifact folder is sha256:/);
  });

  it("are listed by exact name over all runs, the newest first, expired ones as such", async () => {
    const { bench, put, dispatch, ended } = current();
    put(oneJob(`      - run: echo > x\n${upload("key", "x")}${upload("key-2", "x")}`));
    const first = await ended(dispatch());
    const second = await ended(dispatch());
    for (const artifact of first.artifacts) artifact.expiresAt = 1;
    const listed = await bench.call("GET", "/repos/octo/lab/actions/artifacts?name=key&per_page=100");
    expect(
      listOf(listed.body, "artifacts").map((row) => [row["name"], at(row, "workflow_run", "id"), row["expired"]]),
    ).toEqual([
      ["key", second.id, false],
      ["key", first.id, true],
    ]);
  });

  it("have one owner of a name, and nothing to upload is as bad as the file says", async () => {
    const { runs, notesOf } = current();
    const run = await runs(
      oneJob(`      - run: echo > x\n${upload("a", "none")}${upload("b", "x")}${upload("b", "x")}`),
    );
    expect(notesOf(jobOf(run))).toEqual([
      "warning: No files were found with the provided path: none. No artifacts will be uploaded.",
      "failure: an artifact with the name b already exists on the workflow run",
    ]);
    const strict = await runs(oneJob(upload("a", "none", ", if-no-files-found: error")));
    expect(jobOf(strict).conclusion).toBe("failure");
    expect(strict.artifacts).toEqual([]);
  });
});

describe("caches", () => {
  const text = (mode: string): string =>
    dispatchable(
      `  job:
    runs-on: ubuntu-24.04
    steps:
      - id: cache
        uses: ${pin("actions/cache/restore")}
        with: {path: tree, key: k-1}
      - run: echo "hit=\${{ steps.cache.outputs.cache-hit }} $(cat tree/x 2>/dev/null || echo nothing)"
      - run: mkdir -p tree && echo kept > tree/x
      - uses: ${pin("actions/cache/save")}
        with: {path: tree, key: k-1}
`,
      `cache-mode: ${mode}\n`,
    );
  const line = async (mode: string): Promise<string | undefined> => {
    const { log } = jobOf(await current().runs(text(mode)));
    return log.split("\n").find((one) => one.startsWith("hit="));
  };

  it("are written where the file lets the job write, and restored by exact key where it lets it read", async () => {
    expect(await line("read")).toBe("hit= nothing");
    expect(await line("write")).toBe("hit= nothing");
    expect(await line("read")).toBe("hit=true kept");
    expect(await line("none")).toBe("hit= nothing");
    expect(await line("write-only")).toBe("hit= nothing");
  });

  it("of a pull request are not the default branch's", async () => {
    const { bench, put, dispatch, ended } = current();
    put(text("write").replace("workflow_dispatch", "[workflow_dispatch, pull_request]"));
    bench.repo.openPullRequest({ author: "ada", files: { "x.txt": "x\n" } });
    await bench.hook("workflow_run", "completed");
    const main = await ended(dispatch());
    expect(jobOf(main).log).toContain("hit= nothing\n");
  });
});

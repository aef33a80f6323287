import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  lstatSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { compileHeaders, nvrtcVersion, PROBE_KERNEL } from "../../cli/payload/nvrtc.ts";
import {
  parsePayloadKind,
  payloadProblems,
  resolveLink,
  travels,
  treeOf,
  type PayloadEntry,
} from "../../shared/hosted/payload.ts";
import { fill, noise, temporaryFolder } from "./folder.ts";
import { gpuGate } from "./io.ts";

const TARGET = "targets/x86_64-linux";

/** An installed toolkit in small: one physical copy below targets/, aliases beside it, and everything that must stay behind. */
function toolkit(folder: string): string {
  fill(folder, {
    "version.json": "{}",
    "EULA.txt": "terms",
    "bin/nvcc": "compiler",
    "bin/crt/link.stub": "x",
    "nvvm/lib64/libnvvm.so.4.0.0": "compiler library",
    "extras/CUPTI/lib64/libcupti.so.12": "tools",
    [`${TARGET}/include/cuda_fp16.h`]: "half",
    [`${TARGET}/include/crt/mma.h`]: "crt",
    [`${TARGET}/include/cuda/std/type_traits`]: "cccl",
    [`${TARGET}/lib/libcublas_static.a`]: "static",
    [`${TARGET}/lib/stubs/libcuda.so`]: "stub",
    [`${TARGET}/lib/stubs/libcublas.so`]: "stub",
    [`${TARGET}/lib/libcuda.so`]: "a driver stub in the wrong place",
    [`${TARGET}/lib/cmake/cccl/cccl-config.cmake`]: "x",
  });
  for (const [index, library] of ["nvrtc", "cublas", "cusolver", "cusparse", "cudart"].entries()) {
    fill(folder, { [`${TARGET}/lib/lib${library}.so.12.8.1`]: noise(100 + index, index) });
    symlinkSync(`lib${library}.so.12.8.1`, join(folder, TARGET, `lib/lib${library}.so.12`));
    symlinkSync(`lib${library}.so.12`, join(folder, TARGET, `lib/lib${library}.so`));
  }
  symlinkSync(`${TARGET}/lib`, join(folder, "lib64"));
  symlinkSync(`${TARGET}/include`, join(folder, "include"));
  return folder;
}

function common(folder: string): string {
  const data = "print('x')";
  const digest = createHash("sha256").update(data).digest("base64url");
  fill(folder, {
    "bin/cargo": "#!/bin/sh\n",
    "lib/libcutensor.so.2.0.2": noise(64, 1),
    "lib/libcutensorMg.so.2.0.2": noise(65, 2),
    "lib/libcutensorMp.so.2": noise(66, 3),
    "lib/libcutensor_static.a": "static",
    "include/cutensor.h": "h",
    "include/cutensorMg.h": "h",
    "wheels-unpacked/pkg-1.0-py3-none-any/pkg/mod, one.py": data,
    "wheels-unpacked/pkg-1.0-py3-none-any/pkg/libstatic.a": "kept: a wheel travels whole",
    "wheels-unpacked/pkg-1.0-py3-none-any/pkg-1.0.dist-info/RECORD": `"pkg/mod, one.py",sha256=${digest},10\npkg/libstatic.a,,\npkg-1.0.dist-info/RECORD,,\n`,
    "wheels/old-2.0-py3-none-any.whl": emptyZip(),
  });
  symlinkSync("libcutensor.so.2.0.2", join(folder, "lib/libcutensor.so.2"));
  return folder;
}

/** One stored file of no bytes, then the end record: the smallest thing that ends like a wheel. */
function emptyZip(): Uint8Array {
  const bytes = new Uint8Array(60);
  bytes.set([0x50, 0x4b, 0x05, 0x06], 60 - 22);
  return bytes;
}

function files(folder: string, prefix = ""): string[] {
  return readdirSync(join(folder, prefix)).flatMap((name) => {
    const path = prefix === "" ? name : `${prefix}/${name}`;
    return lstatSync(join(folder, path)).isDirectory() ? files(folder, path) : [path];
  });
}

const stage = (cwd: string, kind: string) =>
  gpuGate(["payload", "stage", "src", "--kind", kind, "--out", "tree"], { cwd });
const pack = (cwd: string, kind: string) =>
  gpuGate(["payload", "pack", "tree", "--kind", kind, "--out", "packed"], { cwd });
const verify = (cwd: string, kind: string, folder: string) =>
  gpuGate(["payload", "verify", folder, "--kind", kind], { cwd });

describe("staging a toolkit", () => {
  test("headers and shared libraries travel, links stay links to one physical copy, nothing else comes along", async () => {
    const cwd = temporaryFolder();
    toolkit(join(cwd, "src"));
    expect(await stage(cwd, "cuda12.8")).toMatchObject({ code: 0, err: "" });
    const libraries = ["cublas", "cudart", "cusolver", "cusparse", "nvrtc"].flatMap((name) =>
      ["", ".12", ".12.8.1"].map((version) => `${TARGET}/lib/lib${name}.so${version}`),
    );
    const headers = ["crt/mma.h", "cuda/std/type_traits", "cuda_fp16.h"].map((name) => `${TARGET}/include/${name}`);
    expect(files(join(cwd, "tree")).sort()).toEqual(
      [".gpu-gate-complete", "EULA.txt", "include", "lib64", "version.json", ...headers, ...libraries].sort(),
    );
    expect(readlinkSync(join(cwd, "tree/lib64"))).toBe(`${TARGET}/lib`);
    expect(lstatSync(join(cwd, `tree/${TARGET}/lib/libcublas.so.12`)).isSymbolicLink()).toBe(true);
    expect(await verify(cwd, "cuda12.8", "tree")).toMatchObject({ code: 0 });
  });

  test("an absolute link into the toolkit becomes a relative one", async () => {
    const cwd = temporaryFolder();
    toolkit(join(cwd, "src"));
    rmSync(join(cwd, "src/lib64"));
    symlinkSync(join(cwd, "src", TARGET, "lib"), join(cwd, "src/lib64"));
    expect((await stage(cwd, "cuda12.8")).code).toBe(0);
    expect(readlinkSync(join(cwd, "tree/lib64"))).toBe(`${TARGET}/lib`);
  });

  test.each<[string, (src: string) => void, RegExp]>([
    [
      "a library link that leads nowhere",
      (src) => rmSync(join(src, TARGET, "lib/libcudart.so.12.8.1")),
      /libcudart\.so\.12 -> libcudart\.so\.12\.8\.1 does not resolve/,
    ],
    [
      "a link that leads out of the toolkit",
      (src) => symlinkSync("/usr/lib/libm.so.6", join(src, TARGET, "lib/libm.so.6")),
      /libm\.so\.6 -> .* does not resolve/,
    ],
    [
      "a link to something that stays behind",
      (src) => symlinkSync("stubs/libcuda.so", join(src, TARGET, "lib/libx.so")),
      /libx\.so -> stubs\/libcuda\.so does not resolve/,
    ],
    [
      "no cuSPARSE",
      (src) => ["", ".12", ".12.8.1"].forEach((end) => rmSync(join(src, TARGET, `lib/libcusparse.so${end}`))),
      /libcusparse\.so is missing/,
    ],
    [
      "only a static cuSOLVER",
      (src) => {
        for (const end of ["", ".12", ".12.8.1"]) rmSync(join(src, TARGET, `lib/libcusolver.so${end}`));
        writeFileSync(join(src, TARGET, "lib/libcusolver_static.a"), "x");
      },
      /libcusolver\.so is missing/,
    ],
    ["no CRT headers", (src) => rmSync(join(src, TARGET, "include/crt"), { recursive: true }), /CRT headers/],
    ["no CCCL headers", (src) => rmSync(join(src, TARGET, "include/cuda"), { recursive: true }), /CCCL headers/],
    [
      "a second physical copy of a library",
      (src) => fill(src, { [`${TARGET}/lib/libcublas.so.13`]: noise(101, 1) }),
      /libcublas\.so\.13 is a second copy/,
    ],
  ])("%s is refused and no tree is made", async (_what, damage, reason) => {
    const cwd = temporaryFolder();
    damage(toolkit(join(cwd, "src")));
    const answer = await stage(cwd, "cuda12.8");
    expect(answer.code).toBe(1);
    expect(answer.err).toMatch(reason);
    expect(readdirSync(cwd)).toEqual(["src"]);
  });

  test("NVRTC that cannot be loaded is said, and refused where it is required", async () => {
    const cwd = temporaryFolder();
    toolkit(join(cwd, "src"));
    const args = ["payload", "stage", "src", "--kind", "cuda12.8", "--out", "tree"];
    const strict = await gpuGate([...args, "--nvrtc", "require"], { cwd });
    expect(strict.code).toBe(1);
    expect(strict.err).toContain("headers were not compiled");
    expect((await gpuGate(args, { cwd })).out).toContain("headers: not compiled: ");
  });
});

describe("packing", () => {
  test("the common payload keeps single-GPU cuTENSOR and whole wheels, unpacked or as ZIP files", async () => {
    const cwd = temporaryFolder();
    common(join(cwd, "src"));
    expect(await stage(cwd, "common")).toMatchObject({ code: 0, err: "" });
    expect(await pack(cwd, "common")).toMatchObject({ code: 0, err: "" });
    expect(files(join(cwd, "packed")).sort()).toEqual([
      ".gpu-gate-complete",
      "SHA256SUMS",
      "bin/cargo",
      "include/cutensor.h",
      "lib/libcutensor.so.2",
      "lib/libcutensor.so.2.0.2",
      "wheels-unpacked/pkg-1.0-py3-none-any/pkg-1.0.dist-info/RECORD",
      "wheels-unpacked/pkg-1.0-py3-none-any/pkg/libstatic.a",
      "wheels-unpacked/pkg-1.0-py3-none-any/pkg/mod, one.py",
      "wheels/old-2.0-py3-none-any.whl",
    ]);
    const check = spawnSync("sha256sum", ["--check", "--strict", "--quiet", "SHA256SUMS"], {
      cwd: join(cwd, "packed"),
      encoding: "utf8",
    });
    expect(check).toMatchObject({ status: 0, stderr: "" });
    expect(await verify(cwd, "common", "packed")).toMatchObject({ code: 0 });
  });

  test("a packed runtime travels as an archive and is complete on arrival", async () => {
    const cwd = temporaryFolder();
    toolkit(join(cwd, "src"));
    await stage(cwd, "cuda12.8");
    expect(await pack(cwd, "cuda12.8")).toMatchObject({ code: 0, err: "" });
    const name = ["--name", "runtime-cuda12.8"];
    expect((await gpuGate(["archive", "split", "packed", "--out", "parts", ...name], { cwd })).code).toBe(0);
    expect((await gpuGate(["archive", "join", "--in", "parts", "--out", "arrived", ...name], { cwd })).code).toBe(0);
    expect(await verify(cwd, "cuda12.8", "arrived")).toEqual({ code: 0, out: "cuda12.8: complete.\n", err: "" });
  });

  test.each<[string, (tree: string) => void, RegExp]>([
    ["without its marker", (tree) => rmSync(join(tree, ".gpu-gate-complete")), /no completion marker/],
    [
      "with half a marker",
      (tree) => writeFileSync(join(tree, ".gpu-gate-complete"), '{"format":1'),
      /no completion marker/,
    ],
    [
      "that lost a library since",
      (tree) => rmSync(join(tree, TARGET, "lib/libcublas.so.12.8.1")),
      /libcublas\.so\.12 -> .* does not resolve/,
    ],
    ["with a compiler put into it", (tree) => fill(tree, { "bin/ptxas": "x" }), /bin\/ptxas does not belong/],
    [
      "with a static library put into it",
      (tree) => fill(tree, { [`${TARGET}/lib/libcufft_static.a`]: "x" }),
      /libcufft_static\.a does not belong/,
    ],
  ])("refuses a tree %s", async (_what, damage, reason) => {
    const cwd = temporaryFolder();
    toolkit(join(cwd, "src"));
    await stage(cwd, "cuda12.8");
    damage(join(cwd, "tree"));
    for (const answer of [await pack(cwd, "cuda12.8"), await verify(cwd, "cuda12.8", "tree")]) {
      expect(answer.code).toBe(1);
      expect(answer.err).toMatch(reason);
    }
    expect(existsSync(join(cwd, "packed"))).toBe(false);
  });

  test("refuses a tree that was staged as another kind", async () => {
    const cwd = temporaryFolder();
    toolkit(join(cwd, "src"));
    await stage(cwd, "cuda12.8");
    expect((await pack(cwd, "cuda12.6")).err).toContain("staged as cuda12.8, not as cuda12.6");
  });

  test.each<[string, (tree: string) => void, RegExp]>([
    [
      "a wheel file that is missing",
      (tree) => rmSync(join(tree, "wheels-unpacked/pkg-1.0-py3-none-any/pkg/mod, one.py")),
      /mod, one\.py is missing/,
    ],
    [
      "a wheel file that was changed",
      (tree) => writeFileSync(join(tree, "wheels-unpacked/pkg-1.0-py3-none-any/pkg/mod, one.py"), "print('y')"),
      /mod, one\.py is not the file/,
    ],
    [
      "a wheel folder without RECORD",
      (tree) => rmSync(join(tree, "wheels-unpacked/pkg-1.0-py3-none-any/pkg-1.0.dist-info"), { recursive: true }),
      /has no dist-info\/RECORD/,
    ],
    [
      "a ZIP wheel cut short",
      (tree) => writeFileSync(join(tree, "wheels/old-2.0-py3-none-any.whl"), noise(500, 3)),
      /not a whole ZIP file/,
    ],
    [
      "a wheel in both forms",
      (tree) => fill(tree, { "wheels/pkg-1.0-py3-none-any.whl": emptyZip() }),
      /both unpacked and as a ZIP/,
    ],
  ])("refuses %s", async (_what, damage, reason) => {
    const cwd = temporaryFolder();
    common(join(cwd, "src"));
    await stage(cwd, "common");
    damage(join(cwd, "tree"));
    const answer = await pack(cwd, "common");
    expect(answer.code).toBe(1);
    expect(answer.err).toMatch(reason);
  });

  test("verify holds what arrived against the checksum file, in both directions", async () => {
    const cwd = temporaryFolder();
    common(join(cwd, "src"));
    await stage(cwd, "common");
    await pack(cwd, "common");
    writeFileSync(join(cwd, "packed/include/cutensor.h"), "H");
    rmSync(join(cwd, "packed/bin/cargo"));
    fill(cwd, { "packed/lib/libextra.so.1": "x" });
    rmSync(join(cwd, "packed/lib/libcutensor.so.2"));
    symlinkSync("libextra.so.1", join(cwd, "packed/lib/libcutensor.so.2"));
    const answer = await verify(cwd, "common", "packed");
    expect(answer.code).toBe(1);
    expect(answer.err.split("\n").filter(Boolean).sort()).toEqual([
      "bin/cargo is missing.",
      "include/cutensor.h is damaged.",
      "lib/libcutensor.so.2 is damaged.",
      "lib/libextra.so.1 is extra.",
    ]);
  });
});

describe("links inside a tree", () => {
  const file = (path: string): PayloadEntry => ({ kind: "file", path, bytes: 1 });
  const link = (path: string, target: string): PayloadEntry => ({ kind: "link", path, target });
  const tree = treeOf([
    file("a/b/f"),
    link("alias", "a"),
    link("chain", "alias/b/f"),
    link("a/up", "../chain"),
    link("folder", "a/b"),
    link("loop1", "loop2"),
    link("loop2", "loop1"),
    link("out", "../x"),
    link("abs", "/a/b/f"),
    link("through-a-file", "a/b/f/g"),
  ]);

  test.each([
    ["chain", "a/b/f"],
    ["a/up", "a/b/f"],
    ["folder", "a/b"],
    ["loop1", null],
    ["out", null],
    ["abs", null],
    ["through-a-file", null],
  ])("%s leads to %s", (path, expected) => {
    expect(resolveLink(tree, path)).toBe(expected);
  });
});

test("required libraries may be in lib, lib64 or below targets, with or without links", () => {
  const kind = parsePayloadKind("cuda12.6");
  if (kind === null) throw new Error("cuda12.6 is a kind");
  const names = ["nvrtc", "cublas", "cusolver", "cusparse"];
  const entries: PayloadEntry[] = [
    ...names.map((name, index): PayloadEntry => ({ kind: "file", path: `lib64/lib${name}.so.12`, bytes: index })),
    { kind: "file", path: "include/crt/x.h", bytes: 1 },
    { kind: "file", path: "include/cccl/cuda/std/array", bytes: 1 },
  ];
  expect(payloadProblems(kind, entries)).toEqual([]);
  expect(entries.every((entry) => travels(kind, entry))).toBe(true);
});

test.each([
  ["common", true],
  ["cuda12.6", true],
  ["cuda12.10", true],
  ["cuda12.4", false],
  ["cuda12", false],
  ["cuda", false],
  ["../common", false],
])("'%s' is a kind: %s", (text, expected) => {
  expect(parsePayloadKind(text) !== null).toBe(expected);
});

describe("NVRTC", () => {
  const compiler = spawnSync("cc", ["--version"]).status === 0;
  const python = spawnSync("python3", ["--version"]).status === 0;

  // A stand-in that speaks NVRTC's interface and checks what it is given, for machines without the real one.
  const FAKE = `
    #include <string.h>
    static int has_include;
    int nvrtcVersion(int *major, int *minor) { *major = 12; *minor = 8; return 0; }
    int nvrtcCreateProgram(void **p, const char *src, const char *name, int n, void *h, void *i) {
      *p = (void *)src; return (n == 0 && strstr(src, "mma.h")) ? 0 : 3; }
    int nvrtcCompileProgram(void *p, int n, const char **o) {
      for (int i = 0; i < n; i++) if (!strncmp(o[i], "--include-path=/", 16) && !strstr(o[i], "broken")) has_include = 1;
      return has_include ? 0 : 6; }
    int nvrtcGetPTXSize(void *p, unsigned long *size) { *size = 100; return 0; }
    int nvrtcGetProgramLogSize(void *p, unsigned long *size) { *size = 40; return 0; }
    int nvrtcGetProgramLog(void *p, char *log) { strcpy(log, "probe.cu(2): error: no such header.\\nmore"); return 0; }
  `;

  test.skipIf(!compiler || !python)("the calling sequence, against a stand-in (needs cc and python3)", () => {
    const folder = fill(temporaryFolder(), { "fake.c": FAKE });
    const library = join(folder, "libnvrtc.so.12");
    expect(spawnSync("cc", ["-shared", "-fPIC", "-o", library, join(folder, "fake.c")]).status).toBe(0);
    expect(nvrtcVersion(library)).toEqual({ ok: true, value: [12, 8] });
    expect(compileHeaders(library, ["/include"])).toEqual({ ok: true, value: [12, 8] });
    expect(compileHeaders(library, ["/broken"])).toEqual({
      ok: false,
      error: { reason: "failed", detail: "code 6: probe.cu(2): error: no such header" },
    });
  });

  const nvcc = "/usr/local/cuda/bin/nvcc";
  test.skipIf(!existsSync(nvcc))(
    "the probe kernel is valid CUDA and reaches CRT and CCCL (needs a CUDA compiler)",
    () => {
      const folder = fill(temporaryFolder(), { "probe.cu": PROBE_KERNEL });
      const run = spawnSync(nvcc, ["-M", "-arch=compute_80", join(folder, "probe.cu")], { encoding: "utf8" });
      expect(run.stderr).toBe("");
      expect(run.stdout).toMatch(/\/crt\/mma\.h/);
      expect(run.stdout).toMatch(/\/cuda\/std\/type_traits/);
      const compiled = spawnSync(
        nvcc,
        ["-ptx", "-arch=compute_80", "-o", join(folder, "probe.ptx"), join(folder, "probe.cu")],
        { encoding: "utf8" },
      );
      expect(compiled).toMatchObject({ status: 0, stderr: "" });
      expect(readFileSync(join(folder, "probe.ptx"), "utf8")).toContain("wmma.store");
    },
  );

  const installed = ["/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib", "/usr/lib/x86_64-linux-gnu"]
    .flatMap((folder) => (existsSync(folder) ? readdirSync(folder).map((name) => join(folder, name)) : []))
    .find((path) => /\/libnvrtc\.so\.\d+$/.test(path));
  test.skipIf(installed === undefined)(
    "the real NVRTC compiles a toolkit's own headers (needs NVRTC on this machine)",
    () => {
      const includes = ["/usr/local/cuda/include", "/usr/local/cuda/include/cccl"].filter((folder) =>
        existsSync(folder),
      );
      expect(compileHeaders(installed ?? "", includes)).toMatchObject({ ok: true });
    },
  );
});

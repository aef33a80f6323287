/** `gpu-gate payload`: stages, packs and verifies what the rented machine gets besides the test archives. */
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { MARKER_FILE, parsePayloadKind, REQUIRED_LIBRARIES, SUMS_FILE } from "../../shared/hosted/payload.ts";
import { EXIT_NO, EXIT_OK, UsageError, type Command, type Io } from "../command.ts";
import { allGiven, required } from "../files.ts";
import { packTree, verifyTree } from "../payload/pack.ts";
import { stageTree } from "../payload/stage.ts";

const usage = `
gpu-gate payload stage  SOURCE --kind KIND --out TREE [--nvrtc auto|require]
gpu-gate payload pack   TREE   --kind KIND --out DIR
gpu-gate payload verify TREE   --kind KIND

--out is the folder to make; --kind KIND is 'common' (bin/, lib/, wheels-unpacked/<wheel>/ or the older wheels/*.whl) or 'cuda12.6', 'cuda12.8', ...

stage   copies what travels out of an installed toolkit or a folder: headers and shared libraries; no compilers, static
        libraries or driver stubs, no multi-GPU cuTENSOR. Links stay links and must resolve inside the tree. The headers
        are compiled once with the tree's own NVRTC (--nvrtc require: or it fails). Last comes the marker ${MARKER_FILE}.
pack    refuses a tree without its marker or without ${REQUIRED_LIBRARIES.join(", ")}; checks wheels by their
        RECORD; makes DIR with ${SUMS_FILE}, to be sent with 'gpu-gate archive split'.
verify  says what is wrong with a staged or packed tree; a packed one is held against ${SUMS_FILE}.

Exit codes: 0 fine, 1 the tree is not complete (each reason on a line), 2 wrong call.
`;

export const payloadCommand: Command = {
  name: "payload",
  summary: "Stage, pack and verify the runtime libraries for the rented machine",
  usage,
  run: async (args, io) => {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: { kind: { type: "string" }, out: { type: "string" }, nvrtc: { type: "string", default: "auto" } },
    });
    const [action, folder, ...rest] = positionals;
    if (action !== "stage" && action !== "pack" && action !== "verify")
      throw new UsageError("Say what to do with the payload: stage, pack or verify.");
    allGiven(
      [folder, action === "stage" ? "SOURCE" : "TREE", "the folder"],
      [values.kind, "--kind", "the kind of payload"],
      [action === "verify" ? "no matter" : values.out, "--out", "the folder to make"],
    );
    if (folder === undefined || rest.length > 0) throw new UsageError("Give exactly one folder.");
    const kindName = required(values.kind, "--kind", "The kind of payload");
    const kind = parsePayloadKind(kindName);
    if (kind === null)
      throw new UsageError(`'${kindName}' is not a kind of payload; use common, or cuda12.6 or newer.`);
    const tree = resolve(io.cwd, folder);
    if (action === "verify") return tell(io, verifyTree({ tree, kind, kindName }), `${kindName}: complete.`);
    const target = resolve(io.cwd, required(values.out, "--out", "The folder to make"));
    if (action === "pack") return tell(io, packTree({ tree, kind, kindName, target }), `${kindName}: packed.`);
    const { nvrtc } = values;
    if (nvrtc !== "auto" && nvrtc !== "require") throw new UsageError(`--nvrtc is auto or require, not '${nvrtc}'.`);
    const staged = stageTree({ source: tree, kind, kindName, target, nvrtc });
    return tell(
      io,
      staged.ok ? [] : staged.error,
      `${kindName}: staged; headers: ${staged.ok ? staged.value.headers : ""}.`,
    );
  },
};

function tell(io: Io, problems: readonly string[], fine: string): number {
  if (problems.length === 0) {
    io.stdout(`${fine}\n`);
    return EXIT_OK;
  }
  io.stderr(problems.map((problem) => `${problem}\n`).join(""));
  return EXIT_NO;
}

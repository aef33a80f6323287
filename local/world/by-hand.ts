/**
 * What a person can do with the running world after its opening day: open further pull requests by a word, and watch what
 * becomes of them, with the operator's commands in another terminal.
 */
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { NAME, OWNER } from "./opening-day.ts";
import { BROKEN_TESTS, SLOW_TESTS } from "./project.ts";
import { Progress, type Heads } from "./progress.ts";
import type { World } from "./world.ts";

interface Kind {
  readonly word: string;
  /** Also the pull request's title. */
  readonly what: string;
  readonly files: (name: string) => Readonly<Record<string, string>>;
  readonly fork?: true;
}

const code = (name: string): Readonly<Record<string, string>> => ({ [`src/${name}.rs`]: `pub fn ${name}() {}\n` });

const KINDS: readonly Kind[] = [
  { word: "docs", what: "documentation: no GPU is needed", files: (name) => ({ [`docs/${name}.md`]: `# ${name}\n` }) },
  { word: "code", what: "code: its GPU tests pass", files: code },
  {
    word: "slow",
    what: "code: its GPU tests take half a minute",
    files: (name) => ({ ...code(name), [SLOW_TESTS]: "yes\n" }),
  },
  { word: "fail", what: "code: its GPU tests fail", files: (name) => ({ ...code(name), [BROKEN_TESTS]: "yes\n" }) },
  { word: "fork", what: "code of a fork: refused", files: code, fork: true },
];

/** As the opening day's configuration leaves it. */
const DEFAULT_CHECK = "CI GPU gate";

const WATCH_MS = 500;

/** Where the operator's commands go, for another terminal: they read both from the environment. */
export function operatorHint(world: World): string {
  return [
    "To ask and to command it from another terminal:",
    `  export GPU_GATE_URL=${world.worker.url} GPU_GATE_OPERATOR_TOKEN=${world.operatorToken}`,
    "  npm run gpu-gate -- status",
  ].join("\n");
}

/** One line a word. */
export function wordList(): string {
  return [
    "Type a word and Enter to open one more pull request:",
    ...KINDS.map(({ word, what }) => `  ${word}  ${what}`),
    'Or `rerun N` to press "Re-run" on the gate\'s check of pull request N.',
  ].join("\n");
}

/**
 * Opens a pull request for each known word on `input` and tells every change of any request, until `stop` resolves. An
 * input that ends (there may be none) ends only the words.
 */
export async function byHand(
  world: World,
  say: (text: string) => void,
  input: Readable,
  stop: Promise<void>,
): Promise<void> {
  const repository = world.github.repository(`${OWNER}/${NAME}`);
  const heads: Heads = new Map();
  const watch = new Progress(world, heads, say);
  await Promise.race([watch.catchUp(), stop]);
  let opened = 0;
  const lines = createInterface({ input });
  lines.on("line", (line) => {
    const word = line.trim().toLowerCase();
    if (word === "") return;
    const number = /^rerun #?([1-9]\d{0,5})$/.exec(word)?.[1];
    if (number !== undefined) {
      const pressed = repository.rerequestNewest(Number(number), DEFAULT_CHECK, "mira");
      return say(pressed ? `#${number}: mira pressed Re-run` : `#${number} has no check \`${DEFAULT_CHECK}\` here`);
    }
    const kind = KINDS.find((one) => one.word === word);
    if (kind === undefined)
      return say(`'${word}' is no word here: ${KINDS.map((one) => one.word).join(", ")}, rerun N`);
    opened += 1;
    const author = kind.fork === undefined ? "mira" : "stranger";
    const pull = repository.openPullRequest({
      author,
      title: kind.what,
      files: kind.files(`by_hand_${opened}`),
      ...(kind.fork === undefined ? {} : { fork: true }),
    });
    say(`#${pull.number} opened by ${author}: ${kind.what}`);
  });
  const ended = stop.then(() => true);
  const tick = async (): Promise<false> => {
    await watch.view();
    return new Promise((resolve) => setTimeout(() => resolve(false), WATCH_MS));
  };
  while (!(await Promise.race([ended, tick()]))) {
    // Told by the look itself.
  }
  lines.close();
}

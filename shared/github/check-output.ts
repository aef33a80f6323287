/**
 * The text and the buttons of a check run, kept inside GitHub's limits.
 *
 * An update that breaks a limit is refused as a whole (422), and a required check that never concludes blocks a merge:
 * so text is cut, visibly, rather than sent too long.
 */

import { assert } from "../result.ts";

export interface CheckOutput {
  readonly title: string;
  /** Markdown. */
  readonly summary: string;
  /** Markdown, shown below the summary. */
  readonly text?: string;
}

/** A button. GitHub sends its identifier back in `check_run.requested_action`. */
export interface CheckAction {
  /** At most 20 characters; cut when longer. */
  readonly label: string;
  /** At most 40 characters; cut when longer. */
  readonly description: string;
  /** At most 20 characters; a longer one is a bug, since it would come back as another. */
  readonly identifier: string;
}

/** Documented as characters. Counted here in UTF-8 bytes, which are never fewer, so that either reading is kept. */
export const OUTPUT_LIMIT_BYTES = 65_535;
const TITLE_LIMIT = 255;
const ACTIONS_MAX = 3;
/** How far back a cut may go to end at a line's end. */
const LINE_SEARCH = 2_000;

export function fitOutput(output: CheckOutput): CheckOutput {
  const fitted = { title: cutLine(output.title, TITLE_LIMIT), summary: cutMarkdown(output.summary) };
  return output.text === undefined ? fitted : { ...fitted, text: cutMarkdown(output.text) };
}

export function fitActions(actions: readonly CheckAction[]): readonly CheckAction[] {
  assert(actions.length <= ACTIONS_MAX, `a check run has at most ${ACTIONS_MAX} actions`);
  return actions.map((action) => {
    assert(action.identifier.length <= 20, `the action identifier ${action.identifier} is longer than 20 characters`);
    return {
      label: cutLine(action.label, 20),
      description: cutLine(action.description, 40),
      identifier: action.identifier,
    };
  });
}

/** Cuts at a line's end where one is near, never inside a character, closes an open code fence, and says so. */
export function cutMarkdown(markdown: string, limitBytes = OUTPUT_LIMIT_BYTES): string {
  const bytes = new TextEncoder().encode(markdown);
  if (bytes.length <= limitBytes) return markdown;
  const mark = `\n\n_Cut here: the full text has ${bytes.length} bytes, GitHub takes ${limitBytes}._`;
  const room = limitBytes - new TextEncoder().encode(`\n~~~~${mark}`).length;
  // A decoder that is told more will follow leaves out the bytes of a character that is not whole.
  let kept = new TextDecoder().decode(bytes.subarray(0, Math.max(0, room)), { stream: true });
  const lineEnd = kept.lastIndexOf("\n");
  if (lineEnd > 0 && kept.length - lineEnd <= LINE_SEARCH) kept = kept.slice(0, lineEnd);
  return kept + closingFence(kept) + mark;
}

function closingFence(markdown: string): string {
  let open: string | null = null;
  for (const line of markdown.split("\n")) {
    const fence = /^\s{0,3}(`{3,4}|~{3,4})/.exec(line)?.[1];
    if (fence === undefined) continue;
    if (open === null) open = fence;
    else if (fence.startsWith(open)) open = null;
  }
  return open === null ? "" : `\n${open}`;
}

function cutLine(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const kept = text.slice(0, limit - 1);
  // Half of a surrogate pair is no character.
  return `${/[\ud800-\udbff]$/.test(kept) ? kept.slice(0, -1) : kept}…`;
}

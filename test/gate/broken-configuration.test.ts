/** The configuration breaks and is repaired: what a fork was told meanwhile is no longer the word over the greens at its commit. */
import { expect, it } from "vitest";
import { CONFIG } from "./life.ts";
import { at, compare, conclusion, ended, said, sharedLife } from "./shared-heads.ts";

const FILE = ".github/gpu-gate.yml";

it("a fork's refusal for it ends with the first comparison that can read it, and nobody else is asked about", async (test) => {
  const world = await sharedLife(test);
  const { repository } = world;
  repository.commit({ branch: "words", author: "mira", files: { "docs/words.md": "x" } });
  const docs = { author: "mira", branch: "topic", files: { "README.md": "# more\n" } };
  const { headSha } = repository.openPullRequest(docs);
  await ended(world, headSha, 1);
  const own = repository.openPullRequest({ author: "mira", branch: "later", files: { "src/a.rs": "x" }, draft: true });
  repository.commit({ author: "mira", files: { [FILE]: "version: 1\nnonsense: true\n" } });
  repository.setDraft(own.number, false, "mira");
  await ended(world, own.headSha, 1);
  repository.openPullRequest({ ...at("walt", "words"), fork: true });
  await ended(world, headSha, 2);
  await compare(world);
  expect(said(world, headSha)).toEqual(["#1 docs-only", "#3 configuration-invalid"]);
  expect(conclusion(world, headSha)).toBe("action_required");

  repository.commit({ author: "mira", files: { [FILE]: CONFIG } });
  await compare(world);
  await ended(world, headSha, 3);
  await compare(world);
  expect(said(world, headSha)).toEqual(["#1 docs-only", "#3 configuration-invalid", "#3 docs-only"]);
  expect(conclusion(world, headSha)).toBe("success");
  expect(said(world, own.headSha)).toEqual(["#2 configuration-invalid"]);
});

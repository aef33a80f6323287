/** What lies in a repository's tree, as far as rules about things that are not there need it. */

export interface Tree {
  /** Paths as git prints them: relative, forward slashes. */
  readonly files: ReadonlySet<string>;
  /** Folders whose content is not known (a submodule that is not checked out, a link): everything may be below them. */
  readonly closed: readonly string[];
}

/** Is this very path there? */
export function hasFile(tree: Tree, path: string): boolean {
  return tree.files.has(path) || isClosed(tree, path);
}

/**
 * Is there a file that is called by this path from some folder? A step's working folder is not always to be told, so
 * `ci/test.sh` stands for `ci/test.sh` in any folder.
 */
export function hasCalled(tree: Tree, path: string): boolean {
  if (hasFile(tree, path)) return true;
  for (const file of tree.files) if (file.endsWith(`/${path}`)) return true;
  return false;
}

function isClosed(tree: Tree, path: string): boolean {
  return tree.closed.some((folder) => path === folder || path.startsWith(`${folder}/`));
}

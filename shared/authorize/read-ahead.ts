/**
 * The reads of an authorisation begun before they are asked for, where what was true last time says which they will be.
 *
 * Inside the lock everything is read once more, one read after the other would take a second, and others wait for the
 * lock. So a port is put in front of GitHub that begins each read as soon as its own question is known. Whoever decides
 * asks the same questions in the same order and gets the same answers; the order of refusals is theirs alone. A wrong guess
 * costs a request, never an answer: an answer is handed out only for exactly the question that was asked.
 *
 * One order is kept because it carries meaning: the second read of the pull request begins after the list of its files has
 * been read, for it vouches for that list.
 */
import type { AuthorizePort } from "./authorize.ts";
import { CONFIG_PATH } from "../config/schema.ts";

export interface Guess {
  readonly repositoryId: string;
  readonly prNumber: number;
  readonly headSha: string;
  readonly defaultBranch: string;
  /** Paths of the trusted workflow files. */
  readonly workflows: readonly string[];
  /** Logins whose role will be asked for. */
  readonly logins: readonly string[];
  /** Whether the merge commit is what is tested. */
  readonly merge: boolean;
}

/** Begins reading at once. The port serves one authorisation: each answer that was read ahead is handed out once. */
export function readAhead(port: AuthorizePort, guess: Guess): AuthorizePort {
  const begun = new Map<string, Promise<unknown>>();

  /** Begins a read under a key, unless it is under way. */
  function begin<T>(key: string, read: () => Promise<T>): Promise<T> {
    const answer = read();
    // A read nobody asks for may fail unheard; one that is asked for fails where it is asked.
    answer.catch(() => undefined);
    begun.set(key, answer);
    return answer;
  }

  /** Hands out what was begun under this key, or reads now. */
  function take<T>(key: string, read: () => Promise<T>): Promise<T> {
    const ready = begun.get(key);
    begun.delete(key);
    // Only `begin` puts promises here, under the key of the same question.
    return ready === undefined ? read() : (ready as Promise<T>);
  }

  const files = (path: string, ref: string) => `file ${ref} ${path}`;
  const beginFile = (path: string, ref: string): void => void begin(files(path, ref), () => port.getFile(path, ref));

  async function aheadOfRules(): Promise<void> {
    const head = await begin(`head ${guess.defaultBranch}`, () => port.getBranchHead(guess.defaultBranch));
    if (head.ok) for (const path of [CONFIG_PATH, ...guess.workflows]) beginFile(path, head.value);
  }

  async function aheadOfMerge(name: string): Promise<void> {
    const ref = await begin(`ref ${name}`, () => port.getRef(name));
    if (!ref.ok || ref.value === null) return;
    const sha = ref.value;
    void begin(`commit ${sha}`, () => port.getCommit(sha));
  }

  async function aheadOfPull(): Promise<void> {
    const { prNumber } = guess;
    const pull = await begin(`pull ${prNumber}`, () => port.getPull(prNumber));
    if (!pull.ok || pull.value.state !== "open" || pull.value.headSha !== guess.headSha) return;
    if (pull.value.headRepositoryId === guess.repositoryId) {
      for (const login of new Set(guess.logins)) void begin(`role ${login}`, () => port.getRole(login));
      if (guess.merge) {
        aheadOfMerge(`pull/${prNumber}/merge`).catch(() => undefined);
      }
    }
    const listed = await begin(`files ${prNumber}`, () => port.listPullFiles(prNumber));
    if (listed.ok && !begun.has(`pull ${prNumber}`)) void begin(`pull ${prNumber}`, () => port.getPull(prNumber));
  }

  void begin("repository", () => port.getRepository());
  aheadOfRules().catch(() => undefined);
  aheadOfPull().catch(() => undefined);

  return {
    getRepository: () => take("repository", () => port.getRepository()),
    getBranchHead: (branch) => take(`head ${branch}`, () => port.getBranchHead(branch)),
    getFile: (path, ref) => take(files(path, ref), () => port.getFile(path, ref)),
    getPull: (number) => take(`pull ${number}`, () => port.getPull(number)),
    getRole: (login) => take(`role ${login}`, () => port.getRole(login)),
    getRef: (ref) => take(`ref ${ref}`, () => port.getRef(ref)),
    getCommit: (sha) => take(`commit ${sha}`, () => port.getCommit(sha)),
    listPullFiles: (number) => take(`files ${number}`, () => port.listPullFiles(number)),
  };
}

/**
 * What `node:util`'s `parseArgs` objects to, in words for whoever typed it. Node's own text goes on about writing an
 * unknown option as a value, and runs over three lines where a value begins with a dash.
 */

/**
 * The objection as one clause without a full stop; null for an error that is not about arguments. Node tells the cases
 * apart by `code`, and what they are about only by the beginning of its message.
 */
export function argumentProblem(error: unknown): string | null {
  if (!(error instanceof Error)) return null;
  const code = String((error as { code?: unknown }).code);
  if (!code.startsWith("ERR_PARSE_ARGS_")) return null;
  const { message } = error;
  const positional = /^Unexpected argument '([\s\S]*)'\. /.exec(message)?.[1];
  if (positional !== undefined) return `'${positional}' is one word too many`;
  // The option as it is declared: `--port`, `-0, --null` or `--url <value>`.
  const option = /^Option '(?:-\w, )?(--?[\w-]+)/.exec(message)?.[1];
  if (code === "ERR_PARSE_ARGS_INVALID_OPTION_VALUE" && option !== undefined) {
    if (message.includes("does not take an argument")) return `Option '${option}' takes no value`;
    if (message.includes("is ambiguous"))
      return `Option '${option}' needs a value; one that begins with '-' is written '${option}=VALUE'`;
    return `Option '${option}' needs a value`;
  }
  const [first = ""] = message.split(/\. |\n/);
  return first.replace(/\.$/, "");
}

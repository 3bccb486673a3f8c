// The contract's `handler` for functions that return plain objects and throw plain errors.

/** A failure for the model; throw it. */
export function failure(code, message, hint) {
  return { code, message, hint };
}

/**
 * Makes the `handler` of a component. Each function has `description`, `parameters`, `effects`, `metadata` (optional) and
 * `run`, which gets the arguments and returns `{ text, truncated, cursor, deletions, details }`; only `text` is required.
 */
export function answering({ name, version, description, metadata }, functions) {
  const json = (value) => (value === undefined ? undefined : JSON.stringify(value));
  return {
    describe: () => ({
      name,
      version,
      description,
      functions: Object.entries(functions).map(([name, { description, parameters, effects, metadata }]) => ({
        name,
        description,
        parameters: JSON.stringify(parameters),
        effects,
        metadata: json(metadata),
      })),
      metadata: json(metadata),
    }),

    call(name, text) {
      try {
        const answer = functions[name].run(JSON.parse(text));
        const { truncated = false, cursor, deletions = [], details } = answer;
        return { text: answer.text, truncated, cursor, deletions, details: json(details) };
      } catch (error) {
        throw asFailure(error);
      }
    },
  };
}

/** What was thrown as a failure: one of the host or of `failure` as it is, an error of JavaScript with its place. */
function asFailure(error) {
  const thrown = error?.payload ?? error;
  if (typeof thrown?.code === "string" && typeof thrown?.message === "string" && !(thrown instanceof Error)) {
    return { code: thrown.code, message: thrown.message, hint: thrown.hint };
  }
  const place = thrown instanceof Error ? thrown.stack?.split("\n").slice(0, 3).join("; ") : undefined;
  return { code: "failed", message: String(thrown?.message ?? thrown), hint: place };
}

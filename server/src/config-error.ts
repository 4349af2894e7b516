/**
 * Invalid settings. Each problem is one sentence that names its setting, and never quotes what may be a secret. The
 * message has all of them, a line each.
 */
export class ConfigError extends Error {
  readonly problems: readonly string[]

  constructor(...problems: string[]) {
    super(problems.join('\n'))
    this.problems = problems
  }
}

/** Reads one setting. A wrong one is noted, and the fallback lets the others be read. */
export type ReadOr = <Value>(fallback: Value, read: () => Value) => Value

/** Notes every wrong setting, so that all of them are named at once. The result is used only if there is none. */
export function readAll<Result>(read: (or: ReadOr) => Result): Result {
  const problems = new Set<string>()
  const result = read((fallback, readOne) => {
    try {
      return readOne()
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      for (const problem of error.problems) problems.add(problem)
      return fallback
    }
  })
  if (problems.size > 0) throw new ConfigError(...problems)
  return result
}

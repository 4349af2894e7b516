/** Flags: what a command declares, and their values in the arguments. */
import { usageError } from './error.ts'

export type Flag = {
  /** `list` may be given several times; `optional` may be given without a value, which is then ''. */
  readonly type: 'boolean' | 'string' | 'list' | 'optional'
  readonly short?: string
  /** Name of the value in the help, such as `KEY`. */
  readonly value?: string
  readonly about: string
  /** The only values that are accepted. */
  readonly choices?: readonly string[]
  /** The choice to propose for another value. */
  readonly nearest?: (value: string) => string | undefined
}

export type Flags = Readonly<Record<string, Flag>>

export type FlagValues<Declared extends Flags> = {
  readonly [Name in keyof Declared]: Declared[Name]['type'] extends 'boolean'
    ? boolean
    : Declared[Name]['type'] extends 'list'
      ? readonly string[]
      : string | undefined
}

export const globalFlags = {
  url: { type: 'string', value: 'URL', about: 'Address of the service' },
  workspace: { type: 'string', short: 'w', value: 'SLUG', about: 'Workspace' },
  project: { type: 'string', short: 'p', value: 'SLUG', about: 'Project' },
  environment: { type: 'string', short: 'e', value: 'NAME', about: 'Environment' },
  'allow-http': { type: 'boolean', about: 'Use plain http with other machines too' },
  cwd: { type: 'string', short: 'C', value: 'FOLDER', about: 'Work in this folder' },
  json: { type: 'boolean', about: 'Print JSON' },
  quiet: { type: 'boolean', short: 'q', about: 'Print no remarks' },
  verbose: { type: 'boolean', short: 'v', about: 'Print more, such as the id of a failed request' },
  'no-input': { type: 'boolean', about: 'Never ask; fail instead' },
  'no-color': { type: 'boolean', about: 'Print without colours' },
  help: { type: 'boolean', short: 'h', about: 'Print the help' },
} as const satisfies Flags

export type GlobalFlags = FlagValues<typeof globalFlags>

export type Parsed = {
  readonly flags: Readonly<Record<string, string | boolean | readonly string[] | undefined>>
  readonly args: readonly string[]
}

/**
 * Parses what follows the name of a command. Unknown flags and missing values are usage errors. No message holds an
 * argument: it may be a value.
 */
export function parseFlags(declared: Flags, given: readonly string[], command: string): Parsed {
  const flags: Record<string, string | boolean | string[] | undefined> = {}
  const positionals: string[] = []
  for (const name of Object.keys(declared)) {
    const type = declared[name]?.type
    if (type === 'boolean') flags[name] = false
    if (type === 'list') flags[name] = []
  }
  for (const token of tokenize(declared, given)) {
    if (token.kind === 'positional') {
      positionals.push(token.value)
      continue
    }
    // The separator was removed before: Node found one in joined flags such as `-q-`.
    if (token.kind === 'option-terminator') throw unknownFlag('--', declared, command)
    const flag = Object.hasOwn(declared, token.name) ? declared[token.name] : undefined
    if (!flag) throw unknownFlag(token.rawName, declared, command)
    if (flag.type === 'boolean') {
      if (token.value !== undefined) throw usageError(`${token.rawName} takes no value.`)
      flags[token.name] = true
      continue
    }
    const value = token.value ?? (flag.type === 'optional' ? '' : undefined)
    if (value === undefined || (token.inlineValue === false && isFlag(declared, value)))
      throw usageError(`${token.rawName} needs a value.`, `--${token.name}=${flag.value ?? 'VALUE'}`)
    if (flag.choices && !flag.choices.includes(value)) {
      const near = flag.nearest?.(value)
      throw usageError(
        `${token.rawName} must be one of: ${flag.choices.join(', ')}.`,
        near && `${token.rawName} ${near}`,
      )
    }
    if (flag.type === 'list') flags[token.name] = [...((flags[token.name] as string[]) ?? []), value]
    else if (flags[token.name] !== undefined) throw usageError(`${token.rawName} is given twice.`)
    else flags[token.name] = value
  }
  return { flags, args: positionals }
}

/** Short flags may be joined: `-qv` is `-q -v`, and `-eprod` is `-e prod`. */
function tokenize(declared: Flags, given: readonly string[]) {
  const options = Object.fromEntries(
    Object.entries(declared).map(([name, { type, short }]) => {
      const takesNext = type === 'string' || type === 'list'
      return [name, { type: takesNext ? ('string' as const) : ('boolean' as const), ...(short && { short }) }]
    }),
  )
  const { parseArgs } = process.getBuiltinModule('node:util')
  // Not strict: the errors of Node quote arguments.
  return parseArgs({ args: [...given], options, strict: false, allowPositionals: true, tokens: true }).tokens
}

/** Whether an argument is one of these flags. Other values may begin with a dash, as every 64th digest does. */
function isFlag(declared: Flags, argument: string): boolean {
  if (argument === '--') return true
  return Object.entries(declared).some(
    ([name, { short }]) =>
      argument === `--${name}` ||
      argument.startsWith(`--${name}=`) ||
      (short !== undefined && argument === `-${short}`),
  )
}

function unknownFlag(rawName: string, declared: Flags, command: string) {
  const close = closestOf(rawName.replace(/^-+/, ''), Object.keys(declared))
  return usageError(`${rawName} is not a flag of ${command}.`, close ? `--${close}` : `${command} --help`)
}

/** The name that differs in at most two letters, for a hint. */
export function closestOf(word: string, names: readonly string[]): string | undefined {
  const [best] = names.map((name) => ({ name, steps: distance(word, name) })).sort((a, b) => a.steps - b.steps)
  return best && best.steps <= 2 && best.steps < word.length ? best.name : undefined
}

function distance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (const [i, letter] of [...from].entries()) {
    const next = [i + 1]
    for (const [j, other] of [...to].entries()) {
      next.push(Math.min((next[j] ?? 0) + 1, (row[j + 1] ?? 0) + 1, (row[j] ?? 0) + (letter === other ? 0 : 1)))
    }
    row = next
  }
  return row.at(-1) ?? 0
}

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
  const options = Object.fromEntries(
    Object.entries(declared).map(([name, { type, short }]) => [
      name,
      {
        type: type === 'boolean' ? ('boolean' as const) : ('string' as const),
        multiple: type === 'list',
        ...(short && { short }),
      },
    ]),
  )
  const args = given.map((arg) => (declared[arg.replace(/^--/, '')]?.type === 'optional' ? `${arg}=` : arg))
  // An import would load all of node:util, which takes a quarter of the start.
  const { parseArgs } = process.getBuiltinModule('node:util')
  const { tokens } = parseArgs({ args, options, allowPositionals: true, strict: false, tokens: true })
  const flags: Record<string, string | boolean | string[] | undefined> = {}
  const positionals: string[] = []
  for (const [name, { type }] of Object.entries(declared)) {
    if (type === 'boolean') flags[name] = false
    if (type === 'list') flags[name] = []
  }
  for (const token of tokens) {
    if (token.kind === 'positional') positionals.push(token.value)
    if (token.kind !== 'option') continue
    const flag = declared[token.name]
    if (!flag) throw unknownFlag(token.rawName, declared, command)
    if (flag.type === 'boolean') {
      if (token.value !== undefined) throw usageError(`${token.rawName} takes no value.`)
      flags[token.name] = true
      continue
    }
    const isMissing =
      token.value === undefined || (!token.inlineValue && token.value.startsWith('-') && token.value !== '-')
    if (isMissing) throw usageError(`${token.rawName} needs a value.`, `${token.rawName}=${flag.value ?? 'VALUE'}`)
    const value = token.value ?? ''
    if (flag.choices && !flag.choices.includes(value)) {
      throw usageError(`${token.rawName} must be one of: ${flag.choices.join(', ')}.`)
    }
    if (flag.type === 'list') flags[token.name] = [...((flags[token.name] as string[]) ?? []), value]
    else if (flags[token.name] !== undefined) throw usageError(`${token.rawName} is given twice.`)
    else flags[token.name] = value
  }
  return { flags, args: positionals }
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

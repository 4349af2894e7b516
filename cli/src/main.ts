/** Finds the command, runs it, and turns its outcome into an exit code and a sentence. */
import { statSync, writeSync } from 'node:fs'
import { resolve } from 'node:path'
import { CofferError } from '@coffer/sdk'
import type { Command, CommandEntry } from './command.ts'
import { commandTable } from './commands/table.ts'
import type { Context } from './context.ts'
import { CliError, exitCodes, exitNameOf, hintOf, usageError } from './error.ts'
import { closestOf, type GlobalFlags, globalFlags, parseFlags } from './flag.ts'
import { commandHelp, groupHelp, programHelp } from './help.ts'
import { createOutput } from './output/output.ts'
import { visible } from './output/table.ts'
import { openTerminal } from './output/terminal.ts'
import { repairLoginFile } from './session/login-file.ts'
import { describeVersion } from './version.ts'

export async function main(argv: readonly string[] = process.argv.slice(2)): Promise<void> {
  const separator = argv.indexOf('--')
  const given = separator < 0 ? argv : argv.slice(0, separator)
  const rest = separator < 0 ? undefined : argv.slice(separator + 1)
  try {
    process.exitCode = await start(given, rest)
  } catch (error) {
    process.exitCode = report(error, given)
  }
}

async function start(given: readonly string[], rest: readonly string[] | undefined): Promise<number> {
  const { path, entry, left } = findCommand(asFlags(given))
  const wantsHelp = left.includes('--help') || left.includes('-h')
  if (!entry) {
    if (left.includes('--version')) return print(`${describeVersion()}\n`)
    if (wantsHelp || (left.length === 0 && path === '')) return print(programHelp(commandTable))
    throw usageError('A command is missing.', 'coffer --help')
  }
  if (entry.commands) {
    if (wantsHelp) return print(groupHelp(path, entry))
    throw usageError(`A command is missing after \`coffer ${path}\`.`, `coffer ${path} --help`)
  }
  const command = await entry.load()
  if (wantsHelp) return print(commandHelp(path, entry, command))
  try {
    return await runCommand(`coffer ${path}`, command, left, rest)
  } catch (error) {
    const code = report(error, given)
    return command.failure === undefined ? code : exitCodes[command.failure]
  }
}

/** `coffer help run` and `coffer version` are what people type first. */
function asFlags(given: readonly string[]): readonly string[] {
  const [first, ...others] = given
  if (first === 'help') return [...others, '--help']
  return first === 'version' ? ['--version', ...others] : given
}

async function runCommand(
  name: string,
  command: Command,
  given: readonly string[],
  rest: readonly string[] | undefined,
): Promise<number> {
  const { flags, args } = parseFlags({ ...globalFlags, ...command.flags }, given, name)
  const [min, max] = command.args
  const usage = `${name} ${command.usage}`.trim()
  if (args.length < min) throw usageError('An argument is missing.', usage)
  if (args.length > max) throw usageError('There are too many arguments.', usage)
  if (rest && !command.takesRest) throw usageError(`${name} takes no \`--\`.`, usage)
  // The parser has just given each declared flag a value of its type.
  const global = flags as GlobalFlags
  checkGlobal(global)
  const terminal = openTerminal(process.env, global)
  const ctx: Context = {
    env: process.env,
    cwd: resolve(global.cwd ?? '.'),
    flags: global,
    terminal,
    out: createOutput(terminal, global),
    now: Date.now,
  }
  const repaired = repairLoginFile(process.env)
  if (repaired !== undefined) {
    ctx.out.warn(`Other users could read ${repaired}, or write to it; now only you can.`)
    ctx.out.warn('try: coffer logout --all, then coffer login, if there are other users here')
  }
  try {
    const placed = command.findsPlace ? await (await import('./place/token-place.ts')).locate(ctx) : ctx
    return (await command.run(placed, { flags: flags as never, args, rest })) ?? exitCodes.ok
  } catch (error) {
    if (!(error instanceof CofferError)) throw error
    const { explain } = await import('./explain.ts')
    throw await explain(ctx, name, error)
  }
}

/** A variable that a script has not set must not lead to the place that is used without the flag. */
function checkGlobal(flags: GlobalFlags): void {
  for (const name of ['url', 'workspace', 'project', 'environment', 'cwd'] as const) {
    if (flags[name] === '') throw usageError(`--${name} is empty.`, `--${name}=${globalFlags[name].value}`)
  }
  if (flags.cwd !== undefined && !statSync(flags.cwd, { throwIfNoEntry: false })?.isDirectory()) {
    throw usageError(`There is no folder ${flags.cwd}.`)
  }
}

type Found = {
  /** Names of the command, separated by spaces. */
  readonly path: string
  readonly entry: CommandEntry | undefined
  /** Arguments without the names of the command. */
  readonly left: readonly string[]
}

/** The first words that are not flags name the command. Global flags may stand before them. */
function findCommand(given: readonly string[]): Found {
  const left = [...given]
  const names: string[] = []
  let entry: CommandEntry | undefined
  let entries: readonly CommandEntry[] | undefined = commandTable
  for (let index = 0; entries && index < left.length; ) {
    const word = left[index] ?? ''
    if (word.startsWith('-')) {
      index += takesValue(word) ? 2 : 1
      continue
    }
    const next: CommandEntry | undefined = entries.find(({ name, aliases }) => name === word || aliases?.includes(word))
    if (!next) throw unknownCommand(names, word, entries)
    left.splice(index, 1)
    names.push(next.name)
    entry = next
    entries = next.commands
  }
  return { path: names.join(' '), entry, left }
}

function unknownCommand(names: readonly string[], word: string, entries: readonly CommandEntry[]): CliError {
  const parent = ['coffer', ...names].join(' ')
  const ofSecrets = commandTable
    .find(({ name }) => name === 'secrets' && names.length === 0)
    ?.commands?.find(({ name, aliases }) => name === word || aliases?.includes(word))
  const close = ofSecrets
    ? `secrets ${ofSecrets.name}`
    : closestOf(
        word,
        entries.map(({ name }) => name),
      )
  return usageError(`\`${visible(word)}\` is not a command of ${parent}.`, `${parent} ${close ?? '--help'}`)
}

const takesValue = (word: string): boolean =>
  Object.entries(globalFlags).some(
    ([name, flag]) =>
      flag.type !== 'boolean' && (word === `--${name}` || ('short' in flag && word === `-${flag.short}`)),
  )

/** Help and version. Opening process.stdout would take a tenth of the start. */
function print(text: string): number {
  try {
    writeSync(1, text)
  } catch {
    // The reader has closed its end, or reads too slowly for a write that does not wait.
    process.stdout.on('error', () => undefined).write(text)
  }
  return exitCodes.ok
}

/** Prints what went wrong and what to try. */
function report(error: unknown, given: readonly string[]): number {
  const isVerbose = given.includes('-v') || given.includes('--verbose')
  const lines = isExpected(error)
    ? [`coffer: ${visible(error.message)}`]
    : ['coffer: an unexpected error occurred; please report it.', ...describeBug(error)]
  const hint = hintOf(error)
  if (hint) lines.push(`try: ${visible(hint)}`)
  const answer = error instanceof CliError ? error.cause : error
  if (isVerbose && answer instanceof CofferError && answer.requestId) lines.push(`request id: ${answer.requestId}`)
  process.stderr.on('error', () => undefined).write(`${lines.join('\n')}\n`)
  return exitCodes[exitNameOf(error)]
}

const isExpected = (error: unknown): error is CliError | CofferError =>
  error instanceof CliError || error instanceof CofferError

/** The place of a defect without its message, which may quote a value. */
function describeBug(error: unknown): string[] {
  if (!(error instanceof Error)) return []
  const frames = (error.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line))
  return [error.name, ...frames.slice(0, 5)]
}

/** The commands of the server's command line: finds the one that was asked for, and explains why it failed. */
import { readConfig } from './config.ts'
import { ConfigError } from './config-error.ts'
import { Failure } from './failure.ts'
import { installation } from './installation.ts'
import { traceOf } from './log.ts'
import { MasterKeyError } from './master-key/error.ts'
import { commandTable, type OperatorCommand } from './operator/table.ts'
import type { Print } from './operator/with-operator.ts'
import { serve } from './serve.ts'
import { settings } from './setting.ts'
import { StartError } from './start-error.ts'
import { describeVersion } from './version.ts'

const usageWidth = 30
const aboutIndent = ' '.repeat(usageWidth + 3)

function describe({ usage, about }: Pick<OperatorCommand, 'usage' | 'about'>): string {
  const gap = usage.length <= usageWidth ? ' '.repeat(usageWidth + 1 - usage.length) : `\n${aboutIndent}`
  return `  ${usage}${gap}${about.replaceAll('\n', `\n${aboutIndent}`)}`
}

const help = `Coffer, a self-hosted secrets manager.

Usage: ${installation.start.padEnd(42)} run the service
       ${installation.command} <command>

Commands:
${describe({ usage: 'serve', about: 'run the service (the default)' })}
${commandTable.map(describe).join('\n')}
  --help, --version

Settings (environment variables, or lines of the file that COFFER_CONFIG names):
${settings.map((setting) => `  ${setting.name.padEnd(28)} ${setting.meaning} [${setting.default}]`).join('\n')}
`

export async function runCommand(args: readonly string[], env: Record<string, string | undefined>): Promise<number> {
  const [first = 'serve'] = args
  try {
    if (args.includes('--help') || first === 'help') return print(help)
    if (first === '--version') return print(`${describeVersion()}\n`)
    if (first === 'serve' && args.length <= 1) return await serve(readConfig(env))
    const found = findCommand(args)
    if (found && fits(found)) return await found.command.run({ env, args: found.rest, print })
    process.stderr.write(`${found ? usageOf([found.command]) : explainUnknown(args)}\n`)
    return 2
  } catch (error) {
    process.stderr.write(`${explain(error, first === 'serve')}\n`)
    return 1
  }
}

type Found = { readonly command: OperatorCommand; readonly rest: readonly string[] }

/** The longest command whose words begin the arguments. */
function findCommand(args: readonly string[]): Found | undefined {
  const [longest] = commandTable
    .map((command) => ({ command, words: command.words.split(' ') }))
    .filter(({ words }) => words.every((word, index) => args[index] === word))
    .toSorted((one, other) => other.words.length - one.words.length)
  return longest && { command: longest.command, rest: args.slice(longest.words.length) }
}

function fits({ command, rest }: Found): boolean {
  const [least, most] = command.args
  return rest.length >= least && rest.length <= most
}

function usageOf(commands: readonly OperatorCommand[]): string {
  return `Usage: ${commands.map(({ usage }) => `${installation.command} ${usage}`).join('\n       ')}`
}

function explainUnknown(args: readonly string[]): string {
  const similar = commandTable.filter(({ words }) => words.split(' ')[0] === args[0])
  const unknown = `"${args.join(' ')}" is not a command.`
  return similar.length > 0 ? `${unknown}\n${usageOf(similar)}` : `${unknown} --help lists them.`
}

const print: Print = (text) => {
  process.stdout.write(text)
  return 0
}

/**
 * Expected errors show their message. Any other error shows only where it occurred, because its message might hold a
 * secret.
 */
function explain(error: unknown, isStart: boolean): string {
  const isExpected = [ConfigError, StartError, MasterKeyError, Failure].some((kind) => error instanceof kind)
  if (isExpected && error instanceof Error) return isStart ? `Coffer cannot start. ${error.message}` : error.message
  const { errorName, code, stack } = traceOf(error)
  return `Coffer stopped unexpectedly (${[errorName, code].filter(Boolean).join(' ')}).\n${stack ?? ''}`
}

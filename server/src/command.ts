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
import { readVersion } from './version.ts'

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
    if (first === '--version') return print(`${readVersion()}\n`)
    if (first === 'serve' && args.length <= 1) return await serve(readConfig(env))
    const found = findCommand(args)
    if (found) return await found.command.run({ env, args: found.rest, print })
    process.stderr.write(`"${args.join(' ')}" is not a command. --help lists them.\n`)
    return 2
  } catch (error) {
    process.stderr.write(`${explain(error, first === 'serve')}\n`)
    return 1
  }
}

type Found = { readonly command: OperatorCommand; readonly rest: readonly string[] }

/** The command whose words begin the arguments, if the number of the other arguments is right too. */
function findCommand(args: readonly string[]): Found | undefined {
  for (const command of commandTable) {
    const words = command.words.split(' ')
    const rest = args.slice(words.length)
    const [least, most] = command.args
    if (words.every((word, index) => args[index] === word) && rest.length >= least && rest.length <= most) {
      return { command, rest }
    }
  }
  return undefined
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

/** The help of the program and of each command. */
import type { Command, CommandEntry } from './command.ts'
import { type Flags, globalFlags } from './flag.ts'

export function programHelp(table: readonly CommandEntry[]): string {
  const rows = table.filter(({ isHidden }) => !isHidden).map(({ name, about }): [string, string] => [name, about])
  return [
    'Usage: coffer <command> [flags]',
    '',
    'Commands:',
    ...align(rows),
    '',
    'Flags of every command:',
    ...flagLines(globalFlags),
    '',
    'Help about a command: coffer <command> --help',
    '',
  ].join('\n')
}

export function groupHelp(path: string, { about, commands }: CommandEntry): string {
  const rows = (commands ?? []).map(({ name, about }): [string, string] => [name, about])
  return [`${about}.`, '', `Usage: coffer ${path} <command> [flags]`, '', 'Commands:', ...align(rows), ''].join('\n')
}

export function commandHelp(path: string, { about, aliases = [] }: CommandEntry, command: Command): string {
  const own = flagLines(command.flags)
  return [
    `${about}.`,
    '',
    `Usage: coffer ${path}${command.usage ? ` ${command.usage}` : ''}`,
    ...(aliases.length > 0 ? [`Also: ${aliases.join(', ')}`] : []),
    ...(own.length > 0 ? ['', 'Flags:', ...own] : []),
    ...(command.details ? ['', command.details.trim()] : []),
    '',
    'Flags of every command:',
    ...flagLines(globalFlags),
    '',
  ].join('\n')
}

export const flagLines = (flags: Flags): string[] =>
  align(
    Object.entries(flags).map(([name, { type, short, value, about, choices }]): [string, string] => {
      const word = value ?? 'VALUE'
      const taken = { boolean: '', string: ` ${word}`, list: ` ${word}`, optional: `[=${word}]` }[type]
      const only = choices ? ` (${choices.join(', ')})` : ''
      return [`${short ? `-${short}, ` : '    '}--${name}${taken}`, about + only]
    }),
  )

function align(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.max(0, ...rows.map(([left]) => left.length))
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`)
}

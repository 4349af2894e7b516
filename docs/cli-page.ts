/** Writes the reference in docs/cli.md from the help of every command. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { CommandEntry } from '../cli/src/command.ts'
import { commandTable } from '../cli/src/commands/table.ts'
import { globalFlags } from '../cli/src/flag.ts'
import { commandHelp, flagLines } from '../cli/src/help.ts'

const file = join(import.meta.dirname, 'cli.md')
const section = /(<!-- commands -->\n)[\s\S]*?(<!-- \/commands -->)/

/** The page as it should be: the prose of the file, with a fresh reference. */
export async function cliPage(): Promise<{ readonly file: string; readonly text: string }> {
  const reference = [
    'Flags of every command:',
    codeBlock(flagLines(globalFlags).join('\n')),
    ...(await Promise.all(commandTable.map((entry) => describe(entry, '')))).flat(),
  ].join('\n\n')
  return { file, text: readFileSync(file, 'utf8').replace(section, (_, start, end) => `${start}${reference}\n${end}`) }
}

async function describe(entry: CommandEntry, parent: string): Promise<string[]> {
  if (entry.isHidden) return []
  const path = `${parent}${entry.name}`
  if (entry.commands) return (await Promise.all(entry.commands.map((inner) => describe(inner, `${path} `)))).flat()
  const help = commandHelp(path, entry, await entry.load())
  return [`### ${path}`, codeBlock(help.slice(0, help.indexOf('\nFlags of every command:')).trimEnd())]
}

const codeBlock = (text: string): string => `\`\`\`text\n${text}\n\`\`\``

if (import.meta.main) {
  const { file, text } = await cliPage()
  writeFileSync(file, text)
}

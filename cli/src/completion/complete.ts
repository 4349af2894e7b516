/** The words that may come next on a command line. */
import type { Command, CommandEntry } from '../command.ts'
import { type Flag, type Flags, globalFlags } from '../flag.ts'

type Suggestion = { readonly word: string; readonly about?: string }

/** The kinds of names that the service is asked for. */
export type NameKind = 'workspace' | 'project' | 'environment' | 'secret'

/** Global flags among the words, which say where to look for names. */
export type GivenFlags = Readonly<Record<string, string>>

export type FindNames = (kind: NameKind, given: GivenFlags) => Promise<readonly string[]>

/** The last word is the one to complete. */
export async function complete(
  table: readonly CommandEntry[],
  words: readonly string[],
  findNames: FindNames,
): Promise<Suggestion[]> {
  const { before, current, isSplit } = joinParts(words)
  const line = await readLine(table, before)
  if (line.isOver) return []
  const names = async (kind: NameKind | undefined) =>
    kind ? (await findNames(kind, line.given)).map((word): Suggestion => ({ word })) : []
  const valuesOf = async (name: string, flag: Flag) =>
    flag.choices?.map((word): Suggestion => ({ word })) ?? names(kindOfFlag(name, flag))
  if (line.openFlag) {
    const [name, flag] = line.openFlag
    return startingWith(await valuesOf(name, flag), current)
  }
  const equals = current.startsWith('--') ? current.indexOf('=') : -1
  if (equals > 0) {
    const name = current.slice(2, equals)
    const flag = line.flags[name]
    const found = flag && flag.type !== 'boolean' ? await valuesOf(name, flag) : []
    const values = startingWith(found, current.slice(equals + 1))
    return isSplit ? values : values.map(({ word }) => ({ word: `--${name}=${word}` }))
  }
  if (current.startsWith('-')) return startingWith(flagWords(line.flags, before), current)
  if (line.entries) return startingWith(commandWords(line.entries), current)
  const usage = line.command?.usage ?? ''
  return startingWith([...choicesOf(usage), ...(await names(kindOfUsage(usage)))], current)
}

type Parts = {
  readonly before: readonly string[]
  readonly current: string
  /** The shell replaces only what follows `=`. */
  readonly isSplit: boolean
}

/** Bash makes three words of `--flag=value`; PowerShell cannot pass an empty word and sends two quotes. */
function joinParts(words: readonly string[]): Parts {
  const joined: string[] = []
  for (const [index, word] of words.entries()) {
    const isValue = index > 1 && words[index - 1] === '=' && words[index - 2]?.startsWith('--')
    if (isValue || (word === '=' && joined.at(-1)?.startsWith('--'))) joined.push(`${joined.pop() ?? ''}${word}`)
    else joined.push(word === '""' ? '' : word)
  }
  return { before: joined.slice(0, -1), current: joined.at(-1) ?? '', isSplit: joined.length < words.length }
}

type Line = {
  /** Commands that may follow; undefined once a command is complete. */
  readonly entries: readonly CommandEntry[] | undefined
  readonly command: Command | undefined
  readonly flags: Flags
  /** A flag that still needs its value. */
  readonly openFlag: readonly [name: string, flag: Flag] | undefined
  readonly given: GivenFlags
  /** What follows `--` belongs to another program; after a wrong word there is nothing to say. */
  readonly isOver: boolean
}

async function readLine(table: readonly CommandEntry[], words: readonly string[]): Promise<Line> {
  let entries: readonly CommandEntry[] | undefined = table
  let command: Command | undefined
  let flags: Flags = globalFlags
  let openFlag: Line['openFlag']
  const given: Record<string, string> = {}
  for (const word of words) {
    if (openFlag) {
      given[openFlag[0]] = word
      openFlag = undefined
    } else if (word === '--') return { entries, command, flags, openFlag, given, isOver: true }
    else if (word.startsWith('-')) {
      const [name = '', value] = word.split(/=(.*)/s)
      const found = findFlag(flags, name)
      if (found && value !== undefined) given[found[0]] = value
      else if (found && (found[1].type === 'string' || found[1].type === 'list')) openFlag = found
    } else if (entries) {
      const next: CommandEntry | undefined = entries.find(
        ({ name, aliases }) => name === word || aliases?.includes(word),
      )
      if (!next) return { entries, command, flags, openFlag, given, isOver: true }
      entries = next.commands
      command = await next.load?.()
      flags = { ...globalFlags, ...command?.flags }
    }
  }
  return { entries, command, flags, openFlag, given, isOver: false }
}

function findFlag(flags: Flags, word: string): readonly [string, Flag] | undefined {
  return Object.entries(flags).find(([name, { short }]) => word === `--${name}` || (short && word === `-${short}`))
}

const startingWith = (found: readonly Suggestion[], start: string): Suggestion[] => {
  // In a list such as `A,B` the last item is completed.
  const kept = start.slice(0, start.lastIndexOf(',') + 1)
  const typed = start.slice(kept.length)
  return found.filter(({ word }) => word.startsWith(typed)).map(({ word, ...rest }) => ({ word: kept + word, ...rest }))
}

const flagWords = (flags: Flags, before: readonly string[]): Suggestion[] =>
  Object.entries(flags)
    .filter(([name, { type, short }]) => {
      const isGiven = before.some((word) => word.split('=')[0] === `--${name}` || word === `-${short}`)
      return type === 'list' || !isGiven
    })
    .map(([name, { about }]) => ({ word: `--${name}`, about }))

const commandWords = (entries: readonly CommandEntry[]): Suggestion[] =>
  entries.filter(({ isHidden }) => !isHidden).map(({ name, about }) => ({ word: name, about }))

/** `bash|zsh` in the usage of a command. */
const choicesOf = (usage: string): Suggestion[] =>
  (/^[a-z]+(\|[a-z]+)+$/.test(usage) ? usage.split('|') : []).map((word) => ({ word }))

function kindOfFlag(name: string, { value = '' }: Flag): NameKind | undefined {
  if (name === 'workspace' || name === 'project' || name === 'environment') return name
  return kindOfUsage(value)
}

function kindOfUsage(usage: string): NameKind | undefined {
  if (/\bKEYS?\b/.test(usage)) return 'secret'
  return /\b(FROM|ENV|ENVIRONMENT)\b/.test(usage) ? 'environment' : undefined
}

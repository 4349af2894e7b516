/** Names to offer after `${`. */
import type { GridEnvironment, GridRow } from '../cells.ts'

export type Completion = {
  /** Position of the name in the text, after `${`. */
  readonly start: number
  readonly names: readonly string[]
}

const mostNames = 8

/** `${env.` offers names of that environment; anything else names of the same one, and environments. */
export function complete(
  text: string,
  caret: number,
  rows: readonly GridRow[],
  environments: readonly GridEnvironment[],
  own: { readonly name: string; readonly environmentId: string },
): Completion | undefined {
  const typed = /(?<!\$)\$\{([A-Za-z0-9 _.-]*)$/.exec(text.slice(0, caret))?.[1]
  if (typed === undefined) return undefined
  const dot = typed.lastIndexOf('.')
  const prefix = typed.slice(0, dot + 1)
  const wanted = typed.toLowerCase()
  const place =
    dot < 0 ? own.environmentId : environments.find(({ name }) => `${name}.`.toLowerCase() === prefix.toLowerCase())?.id
  if (place === undefined) return undefined
  const isOwn = ({ name }: GridRow) => name === own.name && place === own.environmentId
  const keys = rows.filter((row) => row.cells.has(place) && !isOwn(row)).map(({ name }) => prefix + name)
  const others = dot < 0 ? environments.filter(({ id }) => id !== place).map(({ name }) => `${name}.`) : []
  const all = [...keys, ...others]
  const starting = all.filter((name) => name.toLowerCase().startsWith(wanted))
  const containing = all.filter((name) => !starting.includes(name) && name.toLowerCase().includes(wanted))
  const names = [...starting, ...containing].slice(0, mostNames)
  return names.length > 0 ? { start: caret - typed.length, names } : undefined
}

/** The text with the chosen name, and the caret behind it. An environment is only half of a name. */
export function insertName(text: string, caret: number, { start }: Completion, name: string) {
  const isWhole = !name.endsWith('.')
  const rest = text.slice(caret).replace(/^}/, '')
  const before = `${text.slice(0, start)}${name}${isWhole ? '}' : ''}`
  return { text: before + rest, caret: before.length }
}

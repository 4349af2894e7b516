/** Secrets as they are found in the export of another tool. */
import { CliError } from '../error.ts'

export type FoundSecret = {
  /** Folders, then the name, as the tool spells them. */
  readonly path: readonly string[]
  readonly value: string
  readonly note?: string
}

export type Found = {
  readonly secrets: readonly FoundSecret[]
  /** What is not imported, and why, such as `username (empty)`. */
  readonly leftOut?: readonly string[]
  /** Remarks about the export as a whole. */
  readonly warnings?: readonly string[]
}

const maxListed = 20

/** A list for a sentence, cut off where nobody would read on. */
export function listNames(names: readonly string[]): string {
  const shown = names.slice(0, maxListed).join(', ')
  return names.length > maxListed ? `${shown} and ${names.length - maxListed} more` : shown
}

/** Nothing is imported if anything cannot be. `names` never holds a value. */
export const cannotImport = (problem: string, names: readonly string[], hint?: string) =>
  new CliError('failure', `${problem}: ${listNames(names)}. Nothing was imported.`, hint)

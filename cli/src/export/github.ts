/**
 * For a step of GitHub Actions: commands on stdout that mask each line of every value in the log, and lines for the file
 * $GITHUB_ENV or $GITHUB_OUTPUT.
 */
import { cannotHold, type Entry } from './entry.ts'

/** Shorter lines, such as `{` or `true`, would blot out ordinary text all over the log. */
const minMaskedLength = 6

type Masks = { readonly commands: string; readonly unmasked: readonly string[] }

export function maskCommands(entries: readonly Entry[]): Masks {
  const lines = new Set<string>()
  const unmasked: string[] = []
  for (const [key, value] of entries) {
    const found = value
      .split(/\r\n|\r|\n/)
      .map((line) => line.trim())
      .filter((line) => line.length >= minMaskedLength)
    for (const line of found) lines.add(line)
    if (found.length === 0 && value !== '') unmasked.push(key)
  }
  return { commands: [...lines].map((line) => `::add-mask::${escapeData(line)}\n`).join(''), unmasked }
}

/** The escapes of the data of a workflow command, as the toolkit of GitHub Actions writes them. */
const escapeData = (text: string) => text.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A')

export function environmentFile(entries: readonly Entry[], createDelimiter: () => string): string {
  return entries
    .map(([key, value]) => {
      refuse(key, value)
      let delimiter = createDelimiter()
      while (value.includes(delimiter)) delimiter = createDelimiter()
      return `${key}<<${delimiter}\n${value}\n${delimiter}\n`
    })
    .join('')
}

function refuse(key: string, value: string): void {
  if (value.includes('\0')) throw cannotHold('github', key, 'its value contains a NUL character')
  if (/^(GITHUB_|RUNNER_|NODE_OPTIONS$)/i.test(key)) {
    throw cannotHold('github', key, 'GitHub Actions ignores variables of this name')
  }
}

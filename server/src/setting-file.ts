/** Reads the file that COFFER_CONFIG names. */
import { readFileSync } from 'node:fs'
import { parseEnv } from 'node:util'
import { codeOf } from './error-code.ts'

/** The settings in the file, or the sentence that says why it cannot be used. */
export function readSettingsFile(path: string): Record<string, string | undefined> | string {
  let content: string
  try {
    content = readFileSync(path, 'utf8')
  } catch (error) {
    return `the file ${path} cannot be read (${codeOf(error)}).`
  }
  // Windows editors may write a byte order mark, which would become part of the first name.
  const lines = content.replace(/^\uFEFF/, '').split('\n')
  const problems = lines.map((line) => problemOf(line.trim()))
  const at = problems.findIndex((problem) => problem !== undefined)
  // The line may hold a password, so it is not quoted in the message.
  if (at >= 0) return `line ${at + 1} of the file ${path} ${problems[at]}.`
  return parseEnv(lines.join('\n'))
}

/** `parseEnv` silently skips lines that it cannot parse, and an unclosed quote swallows the lines after it. */
function problemOf(line: string): string | undefined {
  if (line === '' || line.startsWith('#')) return undefined
  const value = /^(?:export\s+)?[A-Za-z_]\w*\s*=\s*(.*)$/.exec(line)?.[1]
  if (value === undefined) return 'is not NAME=value'
  const quote = /^["'`]/.exec(value)?.[0]
  if (quote === undefined) {
    // `parseEnv` treats any # in an unquoted value as the start of a comment, and would silently cut off a password
    // that contains one.
    return /^[^#]*[^\s#]#/.test(line) ? 'has a # in its value: put the value in quotes' : undefined
  }
  const end = value.indexOf(quote, 1)
  if (end < 0) return 'has a quote that is never closed'
  return /^\s*(#|$)/.test(value.slice(end + 1)) ? undefined : 'has text after its closing quote'
}

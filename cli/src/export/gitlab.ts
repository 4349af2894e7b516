/**
 * A dotenv report of GitLab CI (`artifacts: reports: dotenv`). Its parser knows no quotes, no escapes and no empty lines,
 * strips white space around a value and expands variables in it. Values that would arrive changed are refused.
 */
import { cannotHold, type Entry } from './entry.ts'

/** Limits of GitLab by default; an administrator can raise both. */
export const gitlabLimits = { bytes: 5 * 1024, variables: 20 }

export function dotenvReport(entries: readonly Entry[]): string {
  return entries
    .map(([key, value]) => {
      const reason = reasonAgainst(key, value)
      if (reason) throw cannotHold('gitlab', key, reason)
      return `${key}=${value}\n`
    })
    .join('')
}

function reasonAgainst(key: string, value: string): string | undefined {
  if (!/^[A-Za-z0-9_]+$/.test(key)) return 'a variable is named with letters, digits and _'
  if (/[\r\n]/.test(value)) return 'its value contains a line break'
  if (value.includes('\0')) return 'its value contains a NUL character'
  if (/^[\t\v\f ]|[\t\v\f ]$/.test(value)) return 'its value begins or ends with white space, which GitLab removes'
  if (/\$|%\w*%/.test(value)) return 'its value contains $ or %…%, which GitLab expands'
  return undefined
}

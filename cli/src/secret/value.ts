/** Values and names of secrets as they are shown. */
import type { Secret, SecretRow } from '@coffer/sdk'
import type { Context } from '../context.ts'
import { visible } from '../output/table.ts'

/** A personal value takes precedence over the shared one of its environment. */
export const effectiveRow = ({ values }: Pick<Secret, 'values'>): SecretRow | undefined =>
  values.find(({ isPersonal }) => isPersonal) ?? values[0]

const maxCellLength = 100

/** One cell of a table: cut on a terminal, whole for programs. */
export function cellOf({ terminal }: Context, text: string): string {
  if (terminal.stdout.isTTY !== true || text.length <= maxCellLength) return text
  return `${text.slice(0, maxCellLength - 1).replace(/[\ud800-\udbff]$/, '')}…`
}

/** A value alone: as it is for programs; without control characters other than line breaks and tabs on a terminal. */
export function printable({ terminal }: Context, value: string): string {
  if (terminal.stdout.isTTY !== true) return value
  return value
    .split('\n')
    .map((line) => line.split('\t').map(visible).join('\t'))
    .join('\n')
}

/** References that could not be resolved, of each secret. True if there are any. */
export function warnUnresolved({ out }: Context, secrets: readonly Pick<Secret, 'name' | 'values'>[]): boolean {
  let isWarned = false
  for (const { name, values } of secrets) {
    const left = [...new Set(values.flatMap(({ unresolved = [] }) => unresolved))]
    if (left.length === 0) continue
    isWarned = true
    out.warn(`${name}: refers to ${visible(left.join(', '))}, which cannot be resolved.`)
  }
  return isWarned
}

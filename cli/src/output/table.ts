/** Tables: aligned for people, as wide as their terminal at most; tab-separated for programs. */
import { fitColumns, recordsOf, widthOf, wrap } from './layout.ts'

export type Table = {
  readonly columns: readonly string[]
  readonly rows: readonly (readonly (string | number)[])[]
  /** Printed to a terminal instead of an empty table. */
  readonly empty?: string
  /** Lines are as long as their cells, which people copy. */
  readonly isWhole?: boolean
}

type Style = { readonly isTerminal: boolean; readonly hasColor: boolean; readonly width?: number | undefined }

export function formatTable({ columns, rows, empty, isWhole }: Table, { isTerminal, hasColor, width }: Style): string {
  if (!isTerminal) return rows.map((row) => `${row.map((cell) => escapeCell(String(cell))).join('\t')}\n`).join('')
  if (rows.length === 0) return empty ? `${empty}\n` : ''
  const cells = rows.map((row) => row.map((cell) => visible(String(cell))))
  const dim = (text: string) => (hasColor ? `\u001b[2m${text}\u001b[22m` : text)
  const head = columns.map((name) => name.toUpperCase())
  const widths = fitColumns([head, ...cells], isWhole ? undefined : width)
  if (!widths) return recordsOf(head, cells, width ?? 0, dim)
  const linesOf = (row: readonly string[]): string[] => {
    const parts = row.map((cell, column) => wrap(cell, widths[column] ?? 0))
    return Array.from({ length: Math.max(1, ...parts.map(({ length }) => length)) }, (_, line) =>
      parts
        .map((lines, column) => padded(lines[line] ?? '', widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
  }
  return [...linesOf(head).map(dim), ...cells.flatMap(linesOf)].map((line) => `${line}\n`).join('')
}

const padded = (text: string, width: number) => text + ' '.repeat(Math.max(0, width - widthOf(text)))

/** One line and one cell whatever the text holds, so that programs can split it. */
const escapeCell = (text: string): string =>
  text.replace(/[\\\t\n\r]/g, (letter) => ({ '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' })[letter] ?? '')

/** Shows control characters as text: names, notes and values of others must not steer the terminal. */
export const visible = (text: string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  text.replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, (letter) =>
    letter === '\n' ? '\\n' : letter === '\t' ? '\\t' : escapeLetter(letter),
  )

/** JSON that a terminal shows as it is: JSON itself escapes neither C1 nor characters that turn the direction of text. */
export const visibleJson = (json: string): string =>
  json.replace(/[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, escapeLetter)

const escapeLetter = (letter: string) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`

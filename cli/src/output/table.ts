/** Tables: aligned for people, tab-separated for programs. */

export type Table = {
  readonly columns: readonly string[]
  readonly rows: readonly (readonly (string | number)[])[]
  /** Printed to a terminal instead of an empty table. */
  readonly empty?: string
}

type Style = { readonly isTerminal: boolean; readonly hasColor: boolean; readonly width?: number | undefined }

export function formatTable({ columns, rows, empty }: Table, { isTerminal, hasColor }: Style): string {
  if (!isTerminal) return rows.map((row) => `${row.map((cell) => escapeCell(String(cell))).join('\t')}\n`).join('')
  if (rows.length === 0) return empty ? `${empty}\n` : ''
  const cells = rows.map((row) => row.map((cell) => visible(String(cell))))
  const widths = columns.map((name, column) => Math.max(name.length, ...cells.map((row) => widthOf(row[column] ?? ''))))
  const lineOf = (row: readonly string[]) =>
    row
      .map((cell, column) => cell + ' '.repeat(Math.max(0, (widths[column] ?? 0) - widthOf(cell))))
      .join('  ')
      .trimEnd()
  const head = lineOf(columns.map((name) => name.toUpperCase()))
  return [hasColor ? `\u001b[2m${head}\u001b[22m` : head, ...cells.map(lineOf)].map((line) => `${line}\n`).join('')
}

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

/** Columns on the screen; wide letters and emoji count as two. */
function widthOf(text: string): number {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: plain ASCII, for which the segmenter is not loaded
  if (/^[\u0000-\u007f]*$/.test(text)) return text.length
  // Takes 10 ms of processor time to load.
  segmenter ??= new Intl.Segmenter()
  let width = 0
  for (const { segment } of segmenter.segment(text)) width += isWide(segment) ? 2 : 1
  return width
}

let segmenter: Intl.Segmenter | undefined
const isWide = (segment: string) =>
  /^[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|^\p{Extended_Pictographic}/u.test(
    segment,
  )

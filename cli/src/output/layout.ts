/** Fits the cells of a table into the width of a terminal. Nothing is cut off. */

const gap = 2
/** Ids are not broken: people copy them. Longer words may be. */
const wholeWord = 36

/** The width of each column; undefined if even columns with broken lines are too wide. Without a width all fit. */
export function fitColumns(rows: readonly (readonly string[])[], width: number | undefined): number[] | undefined {
  const natural = maxima(rows, widthOf)
  // Some terminals say 0 for an unknown width.
  const room = (width || Number.POSITIVE_INFINITY) - gap * (natural.length - 1)
  if (sum(natural) <= room) return natural
  const least = maxima(rows, (cell) => Math.min(wholeWord, Math.max(...cell.split(' ').map(widthOf))))
  if (sum(least) > room) return undefined
  // The widest columns give way first.
  for (let cap = room; ; cap--) {
    const widths = natural.map((most, column) => Math.max(least[column] ?? 0, Math.min(most, cap)))
    if (sum(widths) <= room) return widths
  }
}

const maxima = (rows: readonly (readonly string[])[], measure: (cell: string) => number): number[] =>
  (rows[0] ?? []).map((_, column) => rows.reduce((most, row) => Math.max(most, measure(row[column] ?? '')), 0))

const sum = (numbers: readonly number[]) => numbers.reduce((total, one) => total + one, 0)

/** For terminals that are too narrow for columns: each row as lines of a name and a value. */
export function recordsOf(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  width: number,
  dim: (text: string) => string,
): string {
  const indent = Math.max(...head.map(widthOf)) + gap
  const room = Math.max(1, width - indent)
  const records = rows.map((row) =>
    row
      .flatMap((cell, column) => {
        const [first = '', ...others] = wrap(cell, room, { breaksWords: false })
        const name = head[column] ?? ''
        return [
          `${dim(name)}${' '.repeat(indent - widthOf(name))}${first}`,
          ...others.map((line) => `${' '.repeat(indent)}${line}`),
        ]
      })
      .map((line) => `${line.trimEnd()}\n`)
      .join(''),
  )
  return records.join('\n')
}

/** Lines of this width, broken between words if possible. */
export function wrap(text: string, width: number, { breaksWords } = { breaksWords: true }): string[] {
  if (widthOf(text) <= width) return [text]
  const lines: string[] = []
  let line: string | undefined
  for (const word of text.split(' ')) {
    const joined: string = line === undefined ? word : `${line} ${word}`
    if (widthOf(joined) <= width) {
      line = joined
      continue
    }
    if (line !== undefined) lines.push(line)
    const pieces = breaksWords ? cut(word, width) : [word]
    lines.push(...pieces.slice(0, -1))
    line = pieces.at(-1)
  }
  return line === undefined ? lines : [...lines, line]
}

function cut(word: string, width: number): string[] {
  const pieces: string[] = []
  let piece = ''
  for (const letter of lettersOf(word)) {
    if (piece !== '' && widthOf(piece + letter) > width) {
      pieces.push(piece)
      piece = ''
    }
    piece += letter
  }
  return [...pieces, piece]
}

/** Columns on the screen; wide letters and emoji count as two. */
export function widthOf(text: string): number {
  if (isAscii(text)) return text.length
  return lettersOf(text).reduce((width, letter) => width + (isWide(letter) ? 2 : 1), 0)
}

function lettersOf(text: string): string[] {
  // The segmenter takes 10 ms of processor time to load.
  if (isAscii(text)) return [...text]
  segmenter ??= new Intl.Segmenter()
  return Array.from(segmenter.segment(text), ({ segment }) => segment)
}

let segmenter: Intl.Segmenter | undefined

// biome-ignore lint/suspicious/noControlCharactersInRegex: plain ASCII
const isAscii = (text: string) => /^[\u0000-\u007f]*$/.test(text)

const isWide = (segment: string) =>
  /^[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|^\p{Extended_Pictographic}/u.test(
    segment,
  )

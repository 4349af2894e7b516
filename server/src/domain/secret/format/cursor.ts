/** A position in a text that is read from left to right, with its line number for error messages. */
export type Cursor = { readonly content: string; offset: number; line: number }

export function startOf(content: string): Cursor {
  return { content, offset: 0, line: 1 }
}

/** Skips the text that the pattern matches at the cursor, if any. The pattern must be sticky. */
export function skip(cursor: Cursor, pattern: RegExp): void {
  pattern.lastIndex = cursor.offset
  const skipped = pattern.exec(cursor.content)?.[0] ?? ''
  cursor.offset += skipped.length
  cursor.line += countLineBreaks(skipped)
}

/** LF, CR LF and CR each end a line. */
export function countLineBreaks(text: string): number {
  let count = 0
  for (let index = 0; index < text.length; index += 1) {
    const character = text.charCodeAt(index)
    if (character === 10 || (character === 13 && text.charCodeAt(index + 1) !== 10)) count += 1
  }
  return count
}

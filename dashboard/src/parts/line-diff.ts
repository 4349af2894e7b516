/** Differences between two texts, line by line. */
export type DiffLine = { readonly kind: 'same' | 'removed' | 'added'; readonly text: string }

/** A larger table would hold up the page; the changed part is then shown as replaced as a whole. */
const maxCells = 1_000_000

export function diffLines(before: string, after: string): DiffLine[] {
  const [old, next] = [before.split('\n'), after.split('\n')]
  let start = 0
  while (start < old.length && start < next.length && old[start] === next[start]) start += 1
  let end = 0
  while (end < old.length - start && end < next.length - start && old.at(-1 - end) === next.at(-1 - end)) end += 1
  return [
    ...lines('same', old.slice(0, start)),
    ...diffMiddle(old.slice(start, old.length - end), next.slice(start, next.length - end)),
    ...lines('same', old.slice(old.length - end)),
  ]
}

const lines = (kind: DiffLine['kind'], texts: readonly string[]): DiffLine[] => texts.map((text) => ({ kind, text }))

/** By the longest common subsequence. */
function diffMiddle(old: readonly string[], next: readonly string[]): DiffLine[] {
  if (old.length * next.length > maxCells) return [...lines('removed', old), ...lines('added', next)]
  const width = next.length + 1
  const common = new Uint32Array((old.length + 1) * width)
  const at = (row: number, column: number) => common[row * width + column] ?? 0
  for (let row = old.length - 1; row >= 0; row -= 1) {
    for (let column = next.length - 1; column >= 0; column -= 1) {
      common[row * width + column] =
        old[row] === next[column] ? at(row + 1, column + 1) + 1 : Math.max(at(row + 1, column), at(row, column + 1))
    }
  }
  const found: DiffLine[] = []
  let [row, column] = [0, 0]
  while (row < old.length || column < next.length) {
    if (row < old.length && old[row] === next[column]) {
      found.push({ kind: 'same', text: old[row] ?? '' })
      row += 1
      column += 1
    } else if (column >= next.length || (row < old.length && at(row + 1, column) >= at(row, column + 1))) {
      found.push({ kind: 'removed', text: old[row] ?? '' })
      row += 1
    } else {
      found.push({ kind: 'added', text: next[column] ?? '' })
      column += 1
    }
  }
  return found
}

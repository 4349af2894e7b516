/** Patterns in rules of identities and in filters of syncs. */

/**
 * `*` matches any text, including none; everything else matches itself. Each part between stars is searched once, after
 * the previous part, without backtracking, so a hostile value costs no more than a plain one.
 */
export function matchesPattern(pattern: string, value: string): boolean {
  return matchesAny(pattern, [value])
}

/** True if one of the values matches. The pattern is split only once, because the list may be long. */
export function matchesAny(pattern: string, values: readonly string[]): boolean {
  const [first = '', ...rest] = pattern.split('*')
  const last = rest.pop()
  if (last === undefined) return values.includes(pattern)
  const shortest = pattern.length - rest.length - 1
  return values.some((value) => value.length >= shortest && matchesParts(first, rest, last, value))
}

function matchesParts(first: string, parts: readonly string[], last: string, value: string): boolean {
  if (!value.startsWith(first) || !value.endsWith(last)) return false
  const end = value.length - last.length
  let at = first.length
  for (const part of parts) {
    const found = value.indexOf(part, at)
    if (found === -1 || found + part.length > end) return false
    at = found + part.length
  }
  return true
}

/**
 * Parses JSON objects without duplicate names and without deep nesting. JSON.parse uses the last of two equal names,
 * other parsers the first, so a token with duplicate claims is refused.
 */
export type JsonObject = Readonly<Record<string, unknown>>

const maxDepth = 32

export function parseJsonObject(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text)
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
    // The cast is safe: JSON.parse returned an object, and its fields stay unknown.
    return isObject && isPlain(text) ? (value as JsonObject) : undefined
  } catch {
    return undefined
  }
}

/** Expects valid JSON, so only strings and brackets need parsing. */
function isPlain(text: string): boolean {
  /** The names seen so far in each open object; undefined for an array. */
  const open: (Set<string> | undefined)[] = []
  let isNameNext = false
  for (let at = 0; at < text.length; at++) {
    const character = text[at]
    if (character === '{') open.push(new Set())
    else if (character === '[') open.push(undefined)
    else if (character === '}' || character === ']') open.pop()
    // Code that serialises deeply nested data would overflow the stack.
    if (open.length > maxDepth) return false
    if (character === '{' || character === ',') isNameNext = true
    else if (character === '"') {
      const end = endOfString(text, at)
      const names = open.at(-1)
      if (names && isNameNext) {
        // Unescaped, because "\u0069ss" is another spelling of "iss".
        const name: string = JSON.parse(text.slice(at, end + 1))
        if (names.has(name)) return false
        names.add(name)
      }
      isNameNext = false
      at = end
    }
  }
  return true
}

function endOfString(text: string, start: number): number {
  let at = start + 1
  while (text[at] !== '"') at += text[at] === '\\' ? 2 : 1
  return at
}

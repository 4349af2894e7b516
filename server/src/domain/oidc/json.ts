/**
 * JSON objects in which every name stands once, and that nest no deeper than anything real. Of two claims of one name
 * JSON.parse takes the last, another reader takes the first: a token that says both is not believed at all.
 */
export type JsonObject = Readonly<Record<string, unknown>>

const maxDepth = 32

export function parseJsonObject(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text)
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
    // JSON gave an object: its fields are still unknown.
    return isObject && isPlain(text) ? (value as JsonObject) : undefined
  } catch {
    return undefined
  }
}

/** For text that is known to be JSON: only strings and brackets need to be told apart. */
function isPlain(text: string): boolean {
  /** The names so far of each object that is open; undefined for a list. */
  const open: (Set<string> | undefined)[] = []
  let isNameNext = false
  for (let at = 0; at < text.length; at++) {
    const character = text[at]
    if (character === '{') open.push(new Set())
    else if (character === '[') open.push(undefined)
    else if (character === '}' || character === ']') open.pop()
    // Whoever writes it out again would run out of stack.
    if (open.length > maxDepth) return false
    if (character === '{' || character === ',') isNameNext = true
    else if (character === '"') {
      const end = endOfString(text, at)
      const names = open.at(-1)
      if (names && isNameNext) {
        // Unescaped: "\u0069ss" is another spelling of "iss".
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

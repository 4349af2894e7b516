/**
 * Finds names that occur twice in one JSON object. JSON.parse uses the last of two equal names, other parsers the
 * first, so a proxy in front may have checked another value than this service uses.
 */
import type { GiveWay } from './long-work.ts'

/** Characters between two looks at the clock: scanned in less than a portion of long work, whatever they hold. */
const stepLength = 64 * 1024
/** No schema knows longer names, or more names in one object: they are refused as unknown, and not compared here. */
const maxNameLength = 4_096
const maxNames = 10_000
/** Up to so many names, a list is faster than a set. */
const fewNames = 8

type Names = { readonly list: string[]; set: Set<string> | undefined }
type Found = { readonly name: string } | 'too deep'

/** Expects valid JSON, so only strings and brackets need parsing. */
export function findRepeatedName(text: string, maxDepth = Number.POSITIVE_INFINITY): Found | undefined {
  const scan = scanNames(text, maxDepth)
  let step = scan.next()
  while (!step.done) step = scan.next()
  return step.value
}

/** For texts of any length: other requests are served in between. */
export async function findRepeatedNameInPortions(text: string, giveWay: GiveWay): Promise<Found | undefined> {
  const scan = scanNames(text, Number.POSITIVE_INFINITY)
  let step = scan.next()
  while (!step.done) {
    await giveWay()
    step = scan.next()
  }
  return step.value
}

const [quote, backslash, comma, opening, closing, openingList, closingList] = [...'"\\,{}[]'].map((letter) =>
  letter.charCodeAt(0),
)

function* scanNames(text: string, maxDepth: number): Generator<void, Found | undefined> {
  /** The names seen so far in each open object; undefined for a list. */
  const open: (Names | undefined)[] = []
  let isNameNext = false
  let textFrom = -1
  let hasEscape = false
  for (let at = 0, pauseAt = stepLength; at < text.length; at++) {
    if (at >= pauseAt) {
      pauseAt = at + stepLength
      yield
    }
    const letter = text.charCodeAt(at)
    if (textFrom >= 0) {
      if (letter === backslash) {
        hasEscape = true
        at++
      } else if (letter === quote) {
        const names = isNameNext ? open.at(-1) : undefined
        const length = at - textFrom - 1
        if (names && length <= maxNameLength) {
          const raw = text.slice(textFrom + 1, at)
          // Unescaped, because "\u0069ss" is another spelling of "iss".
          const name: string = hasEscape ? JSON.parse(`"${raw}"`) : raw
          if (!isNew(names, name)) return { name }
        }
        isNameNext = false
        textFrom = -1
      }
    } else if (letter === quote) {
      textFrom = at
      hasEscape = false
    } else if (letter === opening || letter === openingList) {
      open.push(letter === opening ? { list: [], set: undefined } : undefined)
      // Code that serialises deeply nested data would overflow the stack.
      if (open.length > maxDepth) return 'too deep'
      isNameNext = letter === opening
    } else if (letter === closing || letter === closingList) open.pop()
    else if (letter === comma) isNameNext = true
  }
  return undefined
}

function isNew(names: Names, name: string): boolean {
  const { list, set } = names
  if (set ? set.has(name) : list.includes(name)) return false
  if (set) {
    if (set.size < maxNames) set.add(name)
  } else if (list.push(name) > fewNames) names.set = new Set(list)
  return true
}

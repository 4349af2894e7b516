/** The rules of an identity: which subject and which claims of a token fit. Pure functions. */
import type { ClaimRules, IdentityCheck } from '@coffer/contract/oidc'
import type { JsonObject } from './json.ts'

export type Rules = { readonly subject: string | null; readonly claims: ClaimRules }

/**
 * `*` stands for any text, also for none, and everything else for itself. Each part between stars is looked for once,
 * after the one before it: nothing is ever tried again, so a hostile value costs no more than a plain one.
 */
export function matchesPattern(pattern: string, value: string): boolean {
  return matchesAny(pattern, [value])
}

/** Of a list that is as long as whoever made the token likes: the pattern is taken apart once. */
function matchesAny(pattern: string, values: readonly string[]): boolean {
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

/**
 * The claim of that name, or the one that the name leads to: `a.b` is first the claim "a.b", then "b" in "a". Names may
 * hold dots themselves (`kubernetes.io.namespace`), so the longest one that is there goes first.
 */
export function findClaim(claims: JsonObject, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name]
  for (let dot = name.lastIndexOf('.'); dot > 0; dot = name.lastIndexOf('.', dot - 1)) {
    const outer = name.slice(0, dot)
    const inner = Object.hasOwn(claims, outer) ? claims[outer] : undefined
    if (typeof inner !== 'object' || inner === null || Array.isArray(inner)) continue
    // It is no list: a JSON object.
    const found = findClaim(inner as JsonObject, name.slice(dot + 1))
    if (found !== undefined) return found
  }
  return undefined
}

/** An identity without a `*` in any rule goes before one that has some. */
export function isExact({ subject, claims }: Rules): boolean {
  return [subject ?? '', ...Object.values(claims).flat()].every((pattern) => !pattern.includes('*'))
}

/** Whether some rule asks for more than that there is a value. */
export function isNarrowing({ subject, claims }: Rules): boolean {
  const asksForMore = (pattern: string) => /[^*]/.test(pattern)
  const alternatives = Object.values(claims).map((rule) => [rule].flat())
  return asksForMore(subject ?? '') || alternatives.some((patterns) => patterns.every(asksForMore))
}

/** One check for the subject, if there is a rule for it, and one for each claim: all must hold. */
export function checkRules({ subject, claims: rules }: Rules, claims: JsonObject): IdentityCheck[] {
  const checks = Object.entries(rules).map(([name, rule]): IdentityCheck => {
    const [patterns, actual] = [[rule].flat(), findClaim(claims, name)]
    const texts = textsOf(actual)
    const ok = patterns.some((pattern) => matchesAny(pattern, texts))
    return { check: `claims.${name}`, ok, expected: patterns.join(' or '), actual: describe(actual) }
  })
  if (subject === null) return checks
  const ok = typeof claims.sub === 'string' && matchesPattern(subject, claims.sub)
  return [{ check: 'subject', ok, expected: subject, actual: describe(claims.sub) }, ...checks]
}

/** What a rule is compared with: a text, each text of a list, and numbers and truth values as JSON writes them. */
function textsOf(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap((item) => (typeof item === 'string' ? item : []))
  if (typeof value === 'string') return [value]
  // Beyond the safe integers two numbers of a token would become one.
  return typeof value === 'boolean' || Number.isSafeInteger(value) ? [String(value)] : []
}

const maxDescribedLength = 300

/** A part of a token for people: cut, so that a huge one does not come back whole. */
export function describe(value: unknown): string {
  if (value === undefined) return 'absent'
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.length > maxDescribedLength ? `${text.slice(0, maxDescribedLength)}…` : text
}

/** Rules of an identity: which subject and claims of a token match. Pure functions. */
import type { ClaimRules, IdentityCheck } from '@coffer/contract/oidc'
import { matchesAny, matchesPattern } from '../pattern.ts'
import type { JsonObject } from './json.ts'

export type Rules = { readonly subject: string | null; readonly claims: ClaimRules }

/**
 * Finds a claim by name or path: `a.b` is first the claim "a.b", then "b" inside "a". Names may contain dots themselves
 * (`kubernetes.io.namespace`), so the longest existing name wins.
 */
export function findClaim(claims: JsonObject, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name]
  for (let dot = name.lastIndexOf('.'); dot > 0; dot = name.lastIndexOf('.', dot - 1)) {
    const outer = name.slice(0, dot)
    const inner = Object.hasOwn(claims, outer) ? claims[outer] : undefined
    if (typeof inner !== 'object' || inner === null || Array.isArray(inner)) continue
    // The cast is safe: arrays and null are excluded, so this is a JSON object.
    const found = findClaim(inner as JsonObject, name.slice(dot + 1))
    if (found !== undefined) return found
  }
  return undefined
}

/** True if no rule contains a `*`. Exact identities win over those with patterns. */
export function isExact({ subject, claims }: Rules): boolean {
  return [subject ?? '', ...Object.values(claims).flat()].every((pattern) => !pattern.includes('*'))
}

/** True if at least one rule requires more than the existence of a value. */
export function isNarrowing({ subject, claims }: Rules): boolean {
  const asksForMore = (pattern: string) => /[^*]/.test(pattern)
  const alternatives = Object.values(claims).map((rule) => [rule].flat())
  return asksForMore(subject ?? '') || alternatives.some((patterns) => patterns.every(asksForMore))
}

/** One check for the subject, if there is a rule for it, and one per claim. All must pass. */
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

/** The texts that a rule is compared with: a string, each string of an array, or a number or boolean as in JSON. */
function textsOf(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap((item) => (typeof item === 'string' ? item : []))
  if (typeof value === 'string') return [value]
  // Beyond the safe integers, two different numbers in a token could be parsed to the same one.
  return typeof value === 'boolean' || Number.isSafeInteger(value) ? [String(value)] : []
}

const maxDescribedLength = 300

/** Formats a part of a token for people, truncated so that a huge value is not echoed. */
export function describe(value: unknown): string {
  if (value === undefined) return 'absent'
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.length > maxDescribedLength ? `${text.slice(0, maxDescribedLength)}…` : text
}

/** The form of an identity: rows of claims instead of an object, and templates with words to replace. */
import type { ClaimRules, Identity, IdentityPreset, NewIdentity, Permission, Scope } from '@coffer/sdk'
import { nothing } from '../../../parts/scope/scope.ts'

/** One claim; its values are alternatives, of which one must match. */
export type ClaimRow = { readonly id: number; readonly name: string; readonly values: readonly string[] }

export type IdentityFields = {
  readonly name: string
  readonly issuer: string
  readonly audience: string
  readonly subject: string
  readonly claims: readonly ClaimRow[]
  readonly permission: Permission
  readonly scope: Scope
  readonly enabled: boolean
}

const toRows = (claims: ClaimRules): ClaimRow[] =>
  Object.entries(claims).map(([name, rule], id) => ({ id, name, values: [rule].flat() }))

export function fieldsOfPreset({ name, issuer, audience, subject, claims }: IdentityPreset): IdentityFields {
  const rules = { issuer, audience, subject: subject ?? '', claims: toRows(claims) }
  return { name, ...rules, permission: 'read', scope: nothing, enabled: true }
}

export function fieldsOfIdentity({ name, issuer, audience, subject, claims, ...rest }: Identity): IdentityFields {
  const { permission, scope, enabled } = rest
  return { name, issuer, audience, subject: subject ?? '', claims: toRows(claims), permission, scope, enabled }
}

/** Empty rows and values are left out; an empty subject is no rule. */
export function toNewIdentity({ claims, subject, ...rest }: IdentityFields): NewIdentity {
  const rules = claims.flatMap(({ name, values }) => {
    const given = values.filter((value) => value !== '')
    return name === '' || given.length === 0 ? [] : [[name, given.length === 1 ? given.join('') : given] as const]
  })
  return { ...rest, subject: subject === '' ? null : subject, claims: Object.fromEntries(rules) }
}

const textsOf = ({ issuer, subject, claims }: Pick<IdentityFields, 'issuer' | 'subject' | 'claims'>) => [
  issuer,
  subject,
  ...claims.flatMap(({ values }) => values),
]

const capitals = /[A-Z]+(?:_[A-Z]+)*/g

/** The words in capitals of a template that the form still has: such an identity would match no token. */
export function placeholdersLeft(preset: IdentityPreset | undefined, fields: IdentityFields): string[] {
  if (!preset) return []
  const wordsIn = (texts: readonly string[]) => new Set(texts.flatMap((text) => text.match(capitals) ?? []))
  const left = wordsIn(textsOf(fields))
  return [...wordsIn(textsOf(fieldsOfPreset(preset)))].filter((word) => left.has(word))
}

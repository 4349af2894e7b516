/** Filters of the audit log: in the address as the service takes them, in the page as a person writes them. */

export const actions = [
  'CREATE',
  'UPDATE',
  'DELETE',
  'VIEW',
  'COMPARE',
  'LOGIN',
  'LOGOUT',
  'EXCHANGE',
  'ROTATE',
  'PUSH',
  'ACCEPT',
  'DECLINE',
] as const

/** Suggestions: an entity is also found by its id or its name. */
export const entityTypes = [
  'secret',
  'environment',
  'project',
  'team',
  'workspace',
  'member',
  'invite',
  'token',
  'oidc',
  'share',
  'sync',
  'session',
  'user',
  'device-login',
  'second-factor',
  'audit',
] as const

/** The page calls some things by the names that its other pages have. */
export const typeName = (type: string) => (type === 'oidc' ? 'identity' : type)

/** A moment as a `datetime-local` field has it, in the time zone of the browser. Empty for anything else. */
export function toLocalTime(iso: string | undefined): string {
  const at = Date.parse(iso ?? '')
  if (Number.isNaN(at)) return ''
  return new Date(at - new Date(at).getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}

export const fromLocalTime = (local: string): string => (local === '' ? '' : new Date(local).toISOString())

import type { Session } from '@coffer/sdk'

/** More special names first: most browsers name the engines of others too. */
const browsers = [
  ['Edg/', 'Edge'],
  ['OPR/', 'Opera'],
  ['Firefox/', 'Firefox'],
  ['Chrome/', 'Chrome'],
  ['Safari/', 'Safari'],
] as const

const systems = [
  ['Android', 'Android'],
  ['iPhone', 'iPhone'],
  ['iPad', 'iPad'],
  ['Windows', 'Windows'],
  ['Mac OS', 'macOS'],
  ['Linux', 'Linux'],
] as const

/** A name that the person recognises, such as "Firefox on Windows". */
export function deviceOf({ type, userAgent }: Pick<Session, 'type' | 'userAgent'>): string {
  const find = (names: readonly (readonly [string, string])[]) => names.find(([sign]) => userAgent.includes(sign))?.[1]
  const system = find(systems)
  const program = type === 'cli' ? 'Command line' : (find(browsers) ?? 'Browser')
  return system ? `${program} on ${system}` : program
}

/** The flags of a new token, of a person or of a service account. */
import type { NewToken, Scope } from '@coffer/sdk'
import type { Context } from '../context.ts'
import { usageError } from '../error.ts'
import type { Flags, FlagValues } from '../flag.ts'
import { findLifetime, lifetimeWords, nearestLifetime } from './lifetime.ts'
import { openPlaces, scopeWords } from './scope.ts'
import type { Workspace } from './token.ts'

export const newTokenFlags = {
  permission: {
    type: 'string',
    value: 'RIGHT',
    about: 'What it may do; read by default',
    choices: ['read', 'read-write'],
  },
  scope: { type: 'list', value: 'PLACE', about: `What it reaches: ${scopeWords}; several times for several` },
  expires: {
    type: 'string',
    value: 'TIME',
    about: 'How long it works; 30d by default',
    choices: lifetimeWords,
    nearest: nearestLifetime,
  },
  ip: { type: 'list', value: 'CIDR', about: 'Accept it only from this address or network' },
  raw: { type: 'boolean', about: 'Print the token alone, without a line break at its end' },
} as const satisfies Flags

type Wanted = { readonly token: NewToken; readonly scopeText: string }

/** Looks up every name before the token is created: a failure afterwards would lose it. */
export async function readNewToken(
  ctx: Context,
  { api, ws }: Workspace,
  name: string,
  flags: FlagValues<typeof newTokenFlags>,
  /** A scope, or the word for one. */
  defaultScope: () => Scope | string,
): Promise<Wanted> {
  if (flags.raw && ctx.flags.json) throw usageError('Give --raw or --json.')
  const otherwise = flags.scope.length > 0 ? undefined : defaultScope()
  const places = await openPlaces(api, ws)
  const words = typeof otherwise === 'string' ? [otherwise] : flags.scope
  const scope = typeof otherwise === 'object' ? otherwise : await places.parse(words)
  const token: NewToken = {
    name,
    permission: flags.permission === 'read-write' ? 'read-write' : 'read',
    scope,
    expiresIn: findLifetime(flags.expires).sent,
    ...(flags.ip.length > 0 && { allowedIps: [...flags.ip] }),
  }
  return { token, scopeText: await places.describe(scope) }
}

import type { Me, Preferences } from '@coffer/contract/me'
import { Failure } from '../failure.ts'
import type { Account } from '../store/account.ts'
import { type Context, credentialPermission, everything, grantOf } from './context.ts'
import { iso, maybeIso } from './time.ts'

export const defaultPreferences: Preferences = {
  theme: 'system',
  defaultWorkspace: null,
  maskValues: true,
  emailNotifications: true,
}

export async function readMe(ctx: Context): Promise<Me> {
  const { credential } = ctx.actor
  const who = await findWho(ctx)
  if (!who || credential.type === 'none') throw new Failure('unauthenticated')
  const grant = grantOf(credential)
  return {
    id: who.id,
    email: who.email,
    name: who.name,
    createdAt: iso(who.createdAt),
    mfa: false,
    preferences: who.preferences,
    credential: {
      type: credential.type === 'cli-token' ? 'cli' : credential.type,
      permission: credentialPermission(credential),
      scope: grant?.scope ?? everything,
      workspaceId: grant?.workspaceId ?? null,
      expiresAt: maybeIso(credential.expiresAt),
    },
  }
}

/** The account of a person, or the identity that stands for itself. */
async function findWho(
  ctx: Context,
): Promise<Pick<Account, 'id' | 'email' | 'name' | 'createdAt' | 'preferences'> | undefined> {
  const { credential, userId } = ctx.actor
  if (!('identity' in credential)) return ctx.store.accounts.find(userId)
  const { id, name, createdAt } = credential.identity
  return { id, email: '', name, createdAt, preferences: defaultPreferences }
}

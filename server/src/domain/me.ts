import type { Me, Preferences } from '@coffer/contract/me'
import { Failure } from '../failure.ts'
import { type Context, credentialPermission, everything } from './context.ts'
import { iso, maybeIso } from './time.ts'

export const defaultPreferences: Preferences = {
  theme: 'system',
  defaultWorkspace: null,
  maskValues: true,
  emailNotifications: true,
}

export async function readMe(ctx: Context): Promise<Me> {
  const { credential, userId } = ctx.actor
  const account = await ctx.store.accounts.find(userId)
  if (!account || credential.type === 'none') throw new Failure('unauthenticated')
  const token = 'token' in credential ? credential.token : undefined
  return {
    id: account.id,
    email: account.email,
    name: account.name,
    createdAt: iso(account.createdAt),
    mfa: false,
    preferences: account.preferences,
    credential: {
      type: credential.type === 'cli-token' ? 'cli' : credential.type,
      permission: credentialPermission(credential),
      scope: token?.scope ?? everything,
      workspaceId: token?.workspaceId ?? null,
      expiresAt: maybeIso(credential.expiresAt),
    },
  }
}

import type { Me, MeChange, Preferences, PreferencesChange } from '@coffer/contract/me'
import { Failure, invalid } from '../../failure.ts'
import type { Account } from '../../store/account/account.ts'
import { listAccesses, requireSession } from '../access/access.ts'
import { credentialPermission, grantOf } from '../actor.ts'
import { systemChain } from '../audit/event.ts'
import { record } from '../audit/record.ts'
import type { Context } from '../context.ts'
import { requireClearName } from '../new-name.ts'
import { everything } from '../scope.ts'
import { iso, maybeIso } from '../time.ts'
import { inTransaction } from '../transaction.ts'
import { inPersonTransaction, personEntity, requireAccount } from './person.ts'

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
    emailVerified: who.emailVerifiedAt !== null,
    name: who.name,
    createdAt: iso(who.createdAt),
    mfa: who.totpId !== null,
    preferences: await preferencesOf(ctx, who),
    credential: {
      type: credential.type === 'cli-token' ? 'cli' : credential.type,
      permission: credentialPermission(credential),
      scope: grant?.scope ?? everything,
      workspaceId: grant?.workspaceId ?? null,
      mayAdminister: 'token' in credential && credential.token.mayAdminister,
      expiresAt: maybeIso(credential.expiresAt),
    },
  }
}

/** The account of a person; an identity or a service account in the shape of one. */
async function findWho(
  ctx: Context,
): Promise<
  Pick<Account, 'id' | 'email' | 'emailVerifiedAt' | 'name' | 'createdAt' | 'totpId' | 'preferences'> | undefined
> {
  const machine = await findMachine(ctx)
  if (!machine) return ctx.store.accounts.find(ctx.actor.userId)
  const { id, name, createdAt } = machine
  return { id, email: '', emailVerifiedAt: null, name, createdAt, totpId: null, preferences: defaultPreferences }
}

async function findMachine(ctx: Context): Promise<Pick<Account, 'id' | 'name' | 'createdAt'> | undefined> {
  const { credential } = ctx.actor
  if ('identity' in credential) return credential.identity
  if (!('token' in credential) || credential.token.serviceAccountId === null) return undefined
  return ctx.store.serviceAccounts.find(credential.token.serviceAccountId, credential.token.workspaceId)
}

export async function updateMe(ctx: Context, { name, preferences }: MeChange): Promise<void> {
  const { userId } = requireSession(ctx)
  if (preferences) await checkPreferences(ctx, preferences, 'preferences.')
  await inPersonTransaction(ctx, userId, async (ctx, recordEvent) => {
    const account = await requireAccount(ctx, userId)
    requireClearName(name, account.name)
    const entity = personEntity(account)
    const next = { ...account, name: name ?? account.name, preferences: merged(account, preferences) }
    ctx.store.accounts.update(next, ctx.now())
    // Others see the name, so their workspaces record its change; preferences are private.
    if (name !== undefined) {
      await recordEvent({ action: 'UPDATE', entity, before: { name: account.name }, after: { name } })
    }
    if (preferences) record(ctx, { chain: systemChain, action: 'UPDATE', entity, after: { preferences } })
  })
}

export async function readPreferences(ctx: Context): Promise<Preferences> {
  const { userId } = requireSession(ctx)
  return preferencesOf(ctx, await requireAccount(ctx, userId))
}

export async function updatePreferences(
  ctx: Context,
  preferences: PreferencesChange,
): Promise<Preferences & { success: boolean }> {
  const { userId } = requireSession(ctx)
  await checkPreferences(ctx, preferences)
  const next = await inTransaction(ctx, systemChain, async (ctx) => {
    const account = await requireAccount(ctx, userId)
    const next = { ...account, preferences: merged(account, preferences) }
    ctx.store.accounts.update(next, ctx.now())
    const entity = personEntity(account)
    record(ctx, { chain: systemChain, action: 'UPDATE', entity, after: { preferences } })
    return next
  })
  return { success: true, ...(await preferencesOf(ctx, next)) }
}

const merged = (account: Account, change: PreferencesChange | undefined): Preferences => {
  const preferences = { ...account.preferences, ...change }
  return { ...preferences, defaultWorkspace: preferences.defaultWorkspace?.toLowerCase() ?? null }
}

async function checkPreferences(ctx: Context, change: PreferencesChange, path = ''): Promise<void> {
  const id = change.defaultWorkspace?.toLowerCase()
  if (id !== undefined && !(await reachesWorkspace(ctx, id))) {
    throw invalid(`${path}defaultWorkspace`, 'is not the id of a workspace that you belong to.')
  }
}

/** Hides a default workspace that the person has left, or that this credential does not reach. */
async function preferencesOf(ctx: Context, { preferences }: Pick<Account, 'preferences'>): Promise<Preferences> {
  const id = preferences.defaultWorkspace
  return id === null || (await reachesWorkspace(ctx, id)) ? preferences : { ...preferences, defaultWorkspace: null }
}

async function reachesWorkspace(ctx: Context, id: string): Promise<boolean> {
  return (await listAccesses(ctx)).some(({ snapshot }) => snapshot.workspace.id === id)
}

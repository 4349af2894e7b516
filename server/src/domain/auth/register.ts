/** Creates an account, with its first workspace or a place in the workspace that it was invited to. */
import type { Registration } from '@coffer/contract/auth'
import { newId } from '../../crypto/id.ts'
import { hashPassword } from '../../crypto/password.ts'
import { Failure } from '../../failure.ts'
import type { NewAccount } from '../../store/account/account.ts'
import { normaliseEmail } from '../account/email.ts'
import { defaultPreferences } from '../account/me.ts'
import { asUser, personEntity } from '../account/person.ts'
import { type OpenedSession, openBrowserSession } from '../account/session.ts'
import { systemChain } from '../audit/event.ts'
import { record } from '../audit/record.ts'
import type { Context } from '../context.ts'
import { requireClearName } from '../new-name.ts'
import { inPasswordSlot } from '../slot.ts'
import { announce, inTransaction } from '../transaction.ts'
import { findOpenInvite, type OpenInvite, takeUpInvite } from '../workspace/invite.ts'
import { checkWorkspaceSlug } from '../workspace/slug.ts'
import { claimSlug, insertWorkspace } from '../workspace/workspace.ts'
import { requireSetupCode } from './setup-code.ts'

const firstWorkspace = { name: 'Main', slug: 'main' }

export async function register(ctx: Context, body: Registration): Promise<OpenedSession> {
  const email = normaliseEmail(body.email)
  requireClearName(body.name)
  requireClearName(body.workspace?.name, undefined, 'workspace.name')
  if (body.workspace) checkWorkspaceSlug(body.workspace.slug, 'workspace.slug')
  const { invite } = await admitRegistration(ctx, body, email)
  const passwordHash = await inPasswordSlot(ctx, (slot) => hashPassword(slot, body.password))
  const at = ctx.now()
  const account: NewAccount = {
    id: newId(),
    email,
    name: body.name,
    passwordHash,
    preferences: defaultPreferences,
    createdAt: at,
    emailVerifiedAt: invite?.isMailed ? at : null,
  }
  const chains = [systemChain, ...(invite ? [invite.workspaceId] : [])]
  return inTransaction(asUser(ctx, account), chains, async (ctx) => {
    // Checked again under the lock of the system chain: of two concurrent first accounts, only one is the first.
    const { isFirst } = await admitRegistration(ctx, body, email)
    const wanted = body.workspace ?? (isFirst ? firstWorkspace : undefined)
    const workspace = wanted && { id: newId(), ...wanted, createdAt: at }
    // Slug first: a taken one must not reveal to the holder of an invite whether the address has an account.
    if (workspace) await claimSlug(ctx, workspace)
    if (!(await ctx.store.accounts.insert(account))) {
      throw new Failure('conflict', 'An account with this email address already exists: sign in instead.')
    }
    record(ctx, { chain: systemChain, action: 'CREATE', entity: personEntity(account) })
    if (workspace) await insertWorkspace(ctx, workspace, account.id)
    // Every node then removes the file of the setup code.
    if (workspace && isFirst) announce(ctx, 'workspace', workspace.id)
    if (invite) await takeUpInvite(ctx, invite, account)
    record(ctx, { chain: systemChain, action: 'LOGIN', entity: personEntity(account) })
    return openBrowserSession(ctx, account, null)
  })
}

type Admission = { readonly isFirst: boolean; readonly invite?: OpenInvite }

/** An account needs a reason: it is the first one, it is invited, or registration is open. Throws otherwise. */
async function admitRegistration(ctx: Context, body: Registration, email: string): Promise<Admission> {
  const isFirst = (await ctx.store.accounts.count()) === 0
  if (!isFirst) {
    if (body.inviteToken !== undefined) {
      const invite = await findOpenInvite(ctx, body.inviteToken)
      if (invite?.email === email) return { isFirst, invite }
      throw new Failure(
        'forbidden',
        'inviteToken: this invite was used, has expired or is for another address: ask an admin of your workspace for a new one.',
      )
    }
    if (ctx.config.signup === 'open') return { isFirst }
    throw new Failure('forbidden', 'Registration is closed: ask an admin of your workspace for an invite.')
  }
  requireSetupCode(ctx.setupCode, body.setupCode)
  return { isFirst }
}

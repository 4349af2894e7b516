/**
 * Invites: an address, the role and scope on offer, and a token that is shown once and works once, for that address
 * only. A second token is only mailed: the inviter never sees it, so using it proves access to the mailbox.
 */
import type { IdPath, WorkspacePath } from '@coffer/contract/field'
import type {
  FoundInvite,
  InviteAccepted,
  InviteLookup,
  InviteToken,
  IssuedInvite,
  NewInvite,
} from '@coffer/contract/invite'
import { newId } from '../../crypto/id.ts'
import { bearerKind, createBearer, hashBearer, invitePrefix } from '../../crypto/token.ts'
import { Failure } from '../../failure.ts'
import type { Account } from '../../store/account/account.ts'
import { type Invite, isOpen } from '../../store/workspace/invite.ts'
import { reauthorise, requireSession, requireWorkspace } from '../access/access.ts'
import { requireGrantsWithin } from '../access/scope-grant.ts'
import { normaliseEmail } from '../account/email.ts'
import { setConfirmed } from '../account/email-confirmation.ts'
import { countMailTo } from '../account/mail-limit.ts'
import { personEntity, requireAccount } from '../account/person.ts'
import { systemChain } from '../audit/event.ts'
import { record } from '../audit/record.ts'
import type { Context, WriteContext } from '../context.ts'
import { inTokenLookUpSlot } from '../slot.ts'
import { dayMs, iso } from '../time.ts'
import { announce, inQuietTransaction, inTransaction } from '../transaction.ts'
import { inviteMail } from './invite-mail.ts'
import { grantText, inviteEntity, requireRoom } from './member.ts'

const lifetimeMs = 7 * dayMs

export async function createInvite(ctx: Context, path: WorkspacePath, body: NewInvite): Promise<IssuedInvite> {
  const access = await requireWorkspace(ctx, path, 'member:write')
  const { workspace } = access.snapshot
  const { tokens, issued } = issue(ctx)
  const invite: Invite = {
    id: newId(),
    workspaceId: workspace.id,
    email: normaliseEmail(body.email),
    grants: requireGrantsWithin(access, body),
    invitedBy: ctx.actor.userId,
    createdAt: issued.mailAt,
    ...issued,
  }
  await countMailTo(ctx, invite.email)
  await inTransaction(ctx, workspace.id, async (ctx) => {
    await reauthorise(ctx, access, 'member:write')
    // Only members of this workspace are checked, so the response does not reveal accounts elsewhere.
    if ((await ctx.store.accounts.listAddresses(workspace.id)).includes(invite.email)) {
      throw new Failure('conflict', 'This address already belongs to a member: change their role or scope instead.')
    }
    const taken = await ctx.store.invites.insert(invite)
    if (taken !== undefined) {
      throw new Failure('conflict', `This address is already invited: resend, change or remove the invite ${taken}.`)
    }
    const after = { ...grantText(invite), expiresAt: iso(invite.expiresAt) }
    record(ctx, { chain: workspace.id, action: 'CREATE', entity: inviteEntity(invite), after })
  })
  return deliver(ctx, workspace.name, invite, tokens)
}

export async function resendInvite(ctx: Context, path: IdPath): Promise<IssuedInvite> {
  const access = await requireWorkspace(ctx, path, 'member:write')
  const { workspace } = access.snapshot
  const id = path.id.toLowerCase()
  const known = await ctx.store.invites.find(id, workspace.id)
  if (known) await countMailTo(ctx, known.email)
  const { tokens, issued } = issue(ctx)
  const renewed = await inTransaction(ctx, workspace.id, async (ctx) => {
    await reauthorise(ctx, access, 'member:write')
    const invite = await ctx.store.invites.find(id, workspace.id)
    if (!invite) {
      if (!(await ctx.store.members.find(id, workspace.id))) throw new Failure('notFound')
      throw new Failure('conflict', 'This invite was accepted: there is nothing to send.')
    }
    const next = { ...invite, ...issued, invitedBy: ctx.actor.userId }
    ctx.store.invites.update(next)
    const expiries = { before: { expiresAt: iso(invite.expiresAt) }, after: { expiresAt: iso(next.expiresAt) } }
    record(ctx, { chain: workspace.id, action: 'ROTATE', entity: inviteEntity(invite), ...expiries })
    return next
  })
  return deliver(ctx, workspace.name, renewed, tokens)
}

/** For the page behind an invite link. Every reason to refuse is the same 404. */
export async function lookUpInvite(ctx: Context, { token }: InviteLookup): Promise<FoundInvite> {
  const found = await inTokenLookUpSlot(ctx, async () => {
    const invite = await findOpenInvite(ctx, token)
    return invite && { invite, workspace: await ctx.store.workspaces.find(invite.workspaceId) }
  })
  if (!found?.workspace) throw new Failure('notFound')
  const { name, slug } = found.workspace
  const { email, grants, expiresAt } = found.invite
  return { workspace: { name, slug }, email, role: grants[0].role, expiresAt: iso(expiresAt) }
}

export async function acceptInvite(ctx: Context, body: InviteToken): Promise<InviteAccepted> {
  const { invite, account } = await requireOwnInvite(ctx, body)
  const chains = invite.isMailed ? [systemChain, invite.workspaceId] : invite.workspaceId
  return inTransaction(ctx, chains, async (ctx) => {
    await takeUpInvite(ctx, invite, account)
    if (invite.isMailed) await confirmInvited(ctx, account.id, invite.email)
    const workspace = await ctx.store.workspaces.find(invite.workspaceId)
    if (!workspace) throw new Failure('notFound')
    return { slug: workspace.slug }
  })
}

/** Using the mailed token proves access to the mailbox, so the address counts as confirmed. */
async function confirmInvited(ctx: WriteContext, userId: string, email: string): Promise<void> {
  const account = await requireAccount(ctx, userId)
  if (account.email !== email) throw anotherAddress()
  if (account.emailVerifiedAt !== null) return
  const change = await setConfirmed(ctx, account, email)
  record(ctx, { chain: systemChain, action: 'UPDATE', entity: personEntity(account), ...change })
}

export async function declineInvite(ctx: Context, body: InviteToken): Promise<void> {
  const { invite } = await requireOwnInvite(ctx, body)
  await inTransaction(ctx, invite.workspaceId, async (ctx) => {
    const open = await requireStillOpen(ctx, invite)
    ctx.store.invites.update({ ...open, hash: null, hashRootId: null, mailedHash: null, declinedAt: ctx.now() })
    record(ctx, { chain: open.workspaceId, action: 'DECLINE', entity: inviteEntity(open) })
  })
}

/** An invite found by its token. Whether it is still open must be checked again under the workspace lock. */
export type OpenInvite = Invite & { readonly hash: Uint8Array; readonly isMailed: boolean }

/** Undefined if the token is unknown, used, expired or declined. */
export async function findOpenInvite(ctx: Context, token: string): Promise<OpenInvite | undefined> {
  if (bearerKind(token) !== invitePrefix) return undefined
  const invite = await ctx.keys.lookTwice('invite', () => ctx.store.invites.findByValue(token))
  return invite && isOpen(invite, ctx.now()) ? { ...invite, hash: invite.hash } : undefined
}

/** Turns the invite into a membership, in the caller's transaction. */
export async function takeUpInvite(ctx: WriteContext, found: OpenInvite, account: Pick<Account, 'id'>): Promise<void> {
  const { id, workspaceId, grants, createdAt } = await requireStillOpen(ctx, found)
  await ctx.store.invites.remove(id, workspaceId)
  // The member keeps the id and date of the invite, so that it stays the same row in the list.
  const member = { id, workspaceId, userId: account.id, isOwner: false, grants, createdAt }
  if (!(await ctx.store.members.insert(member))) {
    throw new Failure('conflict', 'You already belong to this workspace.')
  }
  await requireRoom(ctx, account.id)
  const after = { ...grantText(member), user: account.id, link: found.isMailed ? 'mailed' : 'shown' }
  record(ctx, { chain: workspaceId, action: 'ACCEPT', entity: inviteEntity(found), after })
  announce(ctx, 'workspace', workspaceId)
}

/** The invite of a token, if it is addressed to the signed-in person. */
async function requireOwnInvite(
  ctx: Context,
  { token }: InviteToken,
): Promise<{ invite: OpenInvite; account: Account }> {
  const { userId } = requireSession(ctx)
  const invite = await findOpenInvite(ctx, token)
  if (!invite) throw new Failure('notFound')
  const account = await ctx.store.accounts.find(userId)
  if (account?.email !== invite.email) throw anotherAddress()
  return { invite, account }
}

const anotherAddress = () =>
  new Failure('forbidden', 'This invite is for another address: sign in with the address that was invited.')

/** An invite that was used, renewed, declined or withdrawn in the meantime counts as unknown. */
async function requireStillOpen(ctx: WriteContext, found: OpenInvite): Promise<Invite> {
  const invite = await ctx.store.invites.find(found.id, found.workspaceId)
  const isSame = invite && isOpen(invite, ctx.now()) && Buffer.compare(invite.hash, found.hash) === 0
  if (!invite || !isSame) throw new Failure('notFound')
  return invite
}

type Tokens = { readonly shown: string; readonly mailed: string }

/** New tokens, and the fields of the invite that are reset with them. */
function issue(ctx: Context) {
  const root = ctx.keys.keyring.active
  const at = ctx.now()
  const tokens: Tokens = { shown: createBearer(invitePrefix), mailed: createBearer(invitePrefix) }
  const issued = {
    hash: hashBearer(root, tokens.shown),
    hashRootId: root.id,
    mailedHash: ctx.mail ? hashBearer(root, tokens.mailed) : null,
    expiresAt: at + lifetimeMs,
    declinedAt: null,
    mail: ctx.mail ? 'sending' : 'off',
    mailAt: at,
  } as const
  return { tokens, issued }
}

/** Returns one link to the inviter, and mails the other in the background if there is a mail server. */
function deliver(ctx: Context, workspaceName: string, invite: Invite, { shown, mailed }: Tokens): IssuedInvite {
  // The fragment after # is never sent to a server or proxy.
  const urlOf = (token: string) => `${ctx.config.publicUrl}/invite#${token}`
  const invitedBy = ctx.actor.type === 'user' ? ctx.actor.name : undefined
  ctx.mail?.post(inviteMail({ workspaceName, invite, inviteUrl: urlOf(mailed), invitedBy }), (outcome) =>
    inQuietTransaction(ctx, 'mail', (store) => store.invites.noteMail(invite, outcome)),
  )
  const { id, expiresAt } = invite
  return {
    id,
    inviteUrl: urlOf(shown),
    inviteToken: shown,
    expiresAt: iso(expiresAt),
    mail: ctx.mail ? 'sending' : 'off',
  }
}

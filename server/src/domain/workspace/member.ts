/** Members and invites of a workspace: their grants, and the cleanup when a member leaves. */
import type { DryRunQuery, IdPath, WorkspacePath } from '@coffer/contract/field'
import type { Member, MemberChange, Removal } from '@coffer/contract/member'
import { Failure } from '../../failure.ts'
import type { Account } from '../../store/account/account.ts'
import type { Grants } from '../../store/workspace/grant.ts'
import type { Invite, MailState } from '../../store/workspace/invite.ts'
import type { Member as MemberRecord } from '../../store/workspace/member.ts'
import { type Access, reauthorise, requireWorkspace } from '../access/access.ts'
import { requireChangedGrantsWithin } from '../access/scope-grant.ts'
import { record } from '../audit/record.ts'
import type { Context, WriteContext } from '../context.ts'
import { iso, minuteMs } from '../time.ts'
import { announce, inTransaction } from '../transaction.ts'
import { listOpenInvites, nothingEnds, surveyPerson } from './removal.ts'

/** Sending a mail times out well before this: one that is still marked as sending then was lost with its node. */
const mailLostAfterMs = 2 * minuteMs

/** A person's events lock and write the trails of all their workspaces: without a limit they would block everyone. */
const maxWorkspaces = 1_000

/** Call inside the transaction, after inserting the new membership. */
export async function requireRoom(ctx: WriteContext, userId: string): Promise<void> {
  if ((await ctx.store.members.countOf(userId)) <= maxWorkspaces) return
  throw new Failure(
    'conflict',
    `You belong to ${maxWorkspaces} workspaces: delete one, or have an admin remove you from one.`,
  )
}

export async function listMembers(ctx: Context, path: WorkspacePath): Promise<Member[]> {
  const { snapshot } = await requireWorkspace(ctx, path, 'member:read')
  const workspaceId = snapshot.workspace.id
  // Reads the store, so that a change made on any node a moment ago is visible here.
  const [{ members }, accounts, invites] = await Promise.all([
    ctx.store.members.list(workspaceId),
    ctx.store.accounts.listOfWorkspace(workspaceId),
    ctx.store.invites.list(workspaceId),
  ])
  const accountOf = new Map(accounts.map((account) => [account.id, account]))
  const rows = [
    ...members.map((member) => toMember(member, accountOf.get(member.userId))),
    ...invites.map((invite) => toInvited(invite, ctx.now())),
  ]
  return rows.sort((a, b) => (a.id < b.id ? -1 : 1))
}

export async function updateMember(
  ctx: Context,
  path: IdPath,
  change: MemberChange,
): Promise<Member & { success: boolean }> {
  const access = await requireWorkspace(ctx, path, 'member:write')
  return inTransaction(ctx, access.snapshot.workspace.id, async (ctx) => {
    const { member, invite } = await requireRow(ctx, access, path.id)
    const grants = await requireChangedGrantsWithin(ctx, access, (member ?? invite).grants, change)
    const changed = member ? await changeMember(ctx, member, grants) : await changeInvite(ctx, invite, grants)
    return { success: true, ...changed }
  })
}

export async function removeMember(ctx: Context, path: IdPath, { dryRun }: DryRunQuery): Promise<Removal> {
  const access = await requireWorkspace(ctx, path, 'member:write')
  const workspaceId = access.snapshot.workspace.id
  return inTransaction(ctx, workspaceId, async (ctx) => {
    const { member, invite } = await requireRow(ctx, access, path.id)
    if (invite) {
      if (!dryRun) await withdraw(ctx, invite)
      return nothingEnds
    }
    if (member.isOwner) throw new Failure('conflict', 'The owner cannot be removed: transfer ownership first.')
    const ends = await surveyPerson(ctx, member.userId, workspaceId)
    if (!dryRun) await expel(ctx, member)
    return ends
  })
}

type Row =
  | { readonly member: MemberRecord; readonly invite?: undefined }
  | { readonly member?: undefined; readonly invite: Invite }

/** A row of the member list, reloaded under the workspace lock: a member or an invite. */
async function requireRow(ctx: WriteContext, access: Access, id: string): Promise<Row> {
  await reauthorise(ctx, access, 'member:write')
  const workspaceId = access.snapshot.workspace.id
  const member = await ctx.store.members.find(id.toLowerCase(), workspaceId)
  if (member) return { member }
  const invite = await ctx.store.invites.find(id.toLowerCase(), workspaceId)
  if (!invite) throw new Failure('notFound')
  return { invite }
}

async function changeMember(ctx: WriteContext, member: MemberRecord, grants: Grants): Promise<Member> {
  const [first, another] = grants
  if (member.isOwner && (first.role !== 'admin' || !first.scope.all || another)) {
    throw new Failure('conflict', 'The owner always has the role admin and the scope "all": transfer ownership first.')
  }
  const changed = { ...member, grants }
  await ctx.store.members.update(changed, ctx.now())
  const account = await recordMember(ctx, 'UPDATE', member, changed)
  announce(ctx, 'workspace', member.workspaceId)
  return toMember(changed, account)
}

async function changeInvite(ctx: WriteContext, invite: Invite, grants: Grants): Promise<Member> {
  const changed = { ...invite, grants }
  ctx.store.invites.update(changed)
  const details = { before: grantText(invite), after: grantText(changed) }
  record(ctx, { chain: invite.workspaceId, action: 'UPDATE', entity: inviteEntity(invite), ...details })
  return toInvited(changed, ctx.now())
}

/** Deletes the member's tokens, open invites and personal values, revokes their share links. Shared values and audit entries stay. */
async function expel(ctx: WriteContext, member: MemberRecord): Promise<void> {
  const { userId, workspaceId } = member
  const tokens = await ctx.store.tokens.removeOf(userId, workspaceId)
  const invites = await listOpenInvites(ctx, userId, workspaceId)
  for (const invite of invites) await withdraw(ctx, invite)
  const personalValues = await ctx.store.personalValues.removeOf(userId, workspaceId)
  const shares = await ctx.store.shares.revokeOf(userId, workspaceId, ctx.now())
  await ctx.store.members.remove(member.id, workspaceId)
  await recordMember(ctx, 'DELETE', member, { removed: { tokens, invites: invites.length, personalValues, shares } })
  announce(ctx, 'workspace', workspaceId)
}

async function withdraw(ctx: WriteContext, invite: Invite): Promise<void> {
  await ctx.store.invites.remove(invite.id, invite.workspaceId)
  const before = grantText(invite)
  record(ctx, { chain: invite.workspaceId, action: 'DELETE', entity: inviteEntity(invite), before })
}

/** Records the membership before and after the change; returns the account of the member. */
export async function recordMember(
  ctx: WriteContext,
  action: 'UPDATE' | 'DELETE',
  before: MemberRecord,
  after: Granted | { readonly removed: Readonly<Record<string, number>> },
): Promise<Account | undefined> {
  const account = await ctx.store.accounts.find(before.userId)
  const entity = { type: 'member', id: before.id, name: account?.email ?? '' }
  const details = { before: grantText(before), after: 'removed' in after ? after : grantText(after) }
  record(ctx, { chain: before.workspaceId, action, entity, ...details })
  return account
}

export const inviteEntity = ({ id, email }: Invite) => ({ type: 'invite', id, name: email })

type Granted = { readonly grants: Grants }

/** The first grant, as a client that knows only one shows it, and all of them. */
export const shownGrants = ({ grants }: Granted) => ({ ...grants[0], grants: [...grants] })

/** For the audit trail. */
export const grantText = ({ grants }: Granted) => {
  const [first, another] = grants
  return another ? { grants } : { role: first.role, scope: first.scope }
}

function toMember(member: MemberRecord, account: Account | undefined): Member {
  const { id, workspaceId, userId, isOwner, createdAt } = member
  const emailVerified = account !== undefined && account.emailVerifiedAt !== null
  const user = { id: userId, email: account?.email ?? '', emailVerified, name: account?.name ?? '' }
  return {
    id,
    workspaceId,
    user,
    status: 'account-created',
    isOwner,
    ...shownGrants(member),
    invitedAt: iso(createdAt),
  }
}

/** Contains only what the inviting admin already knows, not whether the address has an account. */
function toInvited(invite: Invite, nowMs: number): Member {
  const { id, workspaceId, email, createdAt, expiresAt } = invite
  return {
    id,
    workspaceId,
    user: { id: '', email, emailVerified: false, name: '' },
    status: invite.declinedAt !== null ? 'declined' : expiresAt <= nowMs ? 'expired' : 'invite-sent',
    isOwner: false,
    ...shownGrants(invite),
    invitedAt: iso(createdAt),
    expiresAt: iso(expiresAt),
    mail: mailState(invite, nowMs),
  }
}

function mailState({ mail, mailAt }: Invite, nowMs: number): MailState {
  return mail === 'sending' && mailAt + mailLostAfterMs <= nowMs ? 'failed' : mail
}

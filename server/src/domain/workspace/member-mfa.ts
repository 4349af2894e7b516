/** Resets the second factor of a member who has lost it, so that not every lost phone needs the operator. */
import type { IdPath } from '@coffer/contract/field'
import { Failure } from '../../failure.ts'
import type { Member } from '../../store/workspace/member.ts'
import { type Access, reauthorise, requireWorkspace } from '../access/access.ts'
import { secondFactorResetMail } from '../account/mail.ts'
import { removeLostFactor } from '../account/mfa.ts'
import { inPersonTransaction } from '../account/person.ts'
import type { Context, WriteContext } from '../context.ts'

export async function resetMemberMfa(ctx: Context, path: IdPath): Promise<void> {
  const access = await requireWorkspace(ctx, path, 'member:write')
  const { workspace } = access.snapshot
  const id = path.id.toLowerCase()
  const known = await ctx.store.members.find(id, workspace.id)
  if (!known) throw new Failure('notFound')
  const account = await inPersonTransaction(ctx, known.userId, async (ctx, recordEvent) => {
    const current = await reauthorise(ctx, access, 'member:write')
    const member = await ctx.store.members.find(id, workspace.id)
    if (!member) throw new Failure('notFound')
    await requireResettable(ctx, current, member)
    return removeLostFactor(ctx, member.userId, recordEvent)
  })
  const by = `An admin of the workspace ${workspace.name}`
  ctx.mail?.post(secondFactorResetMail(account.email, by), async () => undefined)
}

/** An account that others trust too is the operator's to reset: an admin must not open it to reach their workspaces. */
async function requireResettable(ctx: WriteContext, { member: admin }: Access, member: Member): Promise<void> {
  if (member.userId === admin.userId) {
    // Otherwise a stolen session or token could remove the second factor of its owner without the password.
    throw new Failure('forbidden', 'To remove your own second factor, call DELETE /v1/me/mfa/totp.')
  }
  const outranks = member.isOwner && !admin.isOwner
  if (outranks || (await ctx.store.members.countOf(member.userId)) > 1) {
    throw new Failure(
      'forbidden',
      'Only the operator can reset the second factor of this person: coffer-server account reset-mfa <email>.',
    )
  }
}

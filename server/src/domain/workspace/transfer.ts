/** Gives a workspace to another owner: by its owner, or by the operator if the owner is gone. */
import { newId } from '../../crypto/id.ts'
import { Failure } from '../../failure.ts'
import type { Account } from '../../store/account/account.ts'
import type { Member } from '../../store/workspace/member.ts'
import type { WorkspaceRow } from '../../store/workspace/workspace.ts'
import { requireAddressee } from '../account/person.ts'
import { systemChain } from '../audit/event.ts'
import { record } from '../audit/record.ts'
import type { Context, WriteContext } from '../context.ts'
import { wholeAdmin } from '../grant.ts'
import { announce, inTransaction } from '../transaction.ts'
import { grantText, recordMember } from './member.ts'

type Transfer = {
  readonly workspace: Pick<WorkspaceRow, 'id' | 'name'>
  readonly owner: Member | undefined
  readonly heir: Member
  readonly chains: readonly string[]
}

/** The heir becomes admin of the whole workspace. Call under its lock, after checking who may do this. */
export async function moveOwnership(ctx: WriteContext, { workspace, owner, heir, chains }: Transfer): Promise<void> {
  const raised = { ...heir, isOwner: true, grants: wholeAdmin }
  if (owner) await ctx.store.members.update({ ...owner, isOwner: false }, ctx.now())
  await ctx.store.members.update(raised, ctx.now())
  await recordMember(ctx, 'UPDATE', heir, raised)
  for (const chain of chains) {
    record(ctx, {
      chain,
      action: 'UPDATE',
      entity: { type: 'workspace', id: workspace.id, name: workspace.name },
      before: { owner: owner?.userId ?? null },
      after: { owner: heir.userId },
    })
  }
  announce(ctx, 'workspace', workspace.id)
}

/** For the operator. A person who is no member joins: nobody may be left who could send an invite. */
export async function transferWorkspace(
  ctx: Context,
  slugOrId: string,
  email: string,
): Promise<{ readonly name: string; readonly email: string }> {
  const id = await ctx.store.workspaces.findIdForAnybody(slugOrId)
  const workspace = id === undefined ? undefined : await ctx.store.workspaces.find(id)
  if (!workspace) throw new Failure('notFound', `There is no workspace "${slugOrId}".`)
  const account = await requireAddressee(ctx, email)
  const chains = [systemChain, workspace.id]
  await inTransaction(ctx, chains, async (ctx) => {
    const { members, tampered } = await ctx.store.members.list(workspace.id)
    const owner = members.find(({ isOwner }) => isOwner)
    if (!owner && tampered > 0) throw changedOutside()
    const heir = members.find(({ userId }) => userId === account.id) ?? (await join(ctx, workspace.id, account))
    if (heir.isOwner) throw new Failure('conflict', 'This person owns the workspace already: nothing was changed.')
    await moveOwnership(ctx, { workspace, owner, heir, chains })
  })
  return { name: workspace.name, email: account.email }
}

const changedOutside = () =>
  new Failure('conflict', 'Memberships of this workspace were changed outside of Coffer: run doctor.')

async function join(ctx: WriteContext, workspaceId: string, account: Account): Promise<Member> {
  const joined = {
    id: newId(),
    workspaceId,
    userId: account.id,
    isOwner: false,
    grants: wholeAdmin,
    createdAt: ctx.now(),
  }
  if (!(await ctx.store.members.insert(joined))) {
    throw changedOutside()
  }
  const entity = { type: 'member', id: joined.id, name: account.email }
  record(ctx, { chain: workspaceId, action: 'CREATE', entity, after: grantText(joined) })
  return joined
}

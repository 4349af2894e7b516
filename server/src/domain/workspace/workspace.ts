import type { Confirmation, WorkspacePath } from '@coffer/contract/field'
import type { Handover, NewWorkspace, Workspace, WorkspaceChange } from '@coffer/contract/workspace'
import { newId } from '../../crypto/id.ts'
import { Failure } from '../../failure.ts'
import type { WorkspaceRow } from '../../store/workspace/workspace.ts'
import { type Access, listAccesses, reauthorise, requireSession, requireWorkspace } from '../access/access.ts'
import { requireConfirmation } from '../account/confirmation.ts'
import { systemChain } from '../audit/event.ts'
import { record } from '../audit/record.ts'
import type { Context, WriteContext } from '../context.ts'
import { wholeAdmin } from '../grant.ts'
import { requireClearName } from '../new-name.ts'
import { iso } from '../time.ts'
import { announce, inTransaction } from '../transaction.ts'
import { requireRoom, shownGrants } from './member.ts'
import { checkWorkspaceSlug } from './slug.ts'
import { moveOwnership } from './transfer.ts'

const entity = ({ id, name }: { id: string; name: string }) => ({ type: 'workspace', id, name })

export async function listWorkspaces(ctx: Context): Promise<Workspace[]> {
  return (await listAccesses(ctx)).map(toWorkspace)
}

export async function readWorkspace(ctx: Context, path: WorkspacePath): Promise<Workspace> {
  return toWorkspace(await requireWorkspace(ctx, path, 'workspace:read'))
}

export async function createWorkspace(ctx: Context, body: NewWorkspace): Promise<Workspace> {
  const { userId } = requireSession(ctx)
  checkWorkspaceSlug(body.slug)
  requireClearName(body.name)
  const workspace = { id: newId(), name: body.name, slug: body.slug, createdAt: ctx.now() }
  await inTransaction(ctx, workspace.id, async (ctx) => {
    await claimSlug(ctx, workspace)
    await insertWorkspace(ctx, workspace, userId)
    await requireRoom(ctx, userId)
  })
  const { id, createdAt } = workspace
  return { ...body, id, isOwner: true, ...shownGrants({ grants: wholeAdmin }), createdAt: iso(createdAt) }
}

/** Inserts the row of a new workspace, which reserves its slug; `insertWorkspace` adds the rest. */
export async function claimSlug(ctx: WriteContext, workspace: WorkspaceRow): Promise<void> {
  if (!(await ctx.store.workspaces.insert(workspace))) throw slugTaken(workspace.slug)
}

/** Adds the owner of a new workspace, and a first team that projects can belong to. */
export async function insertWorkspace(ctx: WriteContext, workspace: WorkspaceRow, ownerId: string): Promise<void> {
  const { id: workspaceId, createdAt } = workspace
  const owner = { id: newId(), workspaceId, userId: ownerId, isOwner: true, grants: wholeAdmin, createdAt }
  await ctx.store.members.insert(owner)
  await ctx.store.teams.insert({ id: newId(), workspaceId, name: 'Everyone', createdAt })
  const after = { name: workspace.name, slug: workspace.slug, owner: ownerId }
  record(ctx, { chain: workspaceId, action: 'CREATE', entity: entity(workspace), after })
}

export async function updateWorkspace(
  ctx: Context,
  path: WorkspacePath,
  change: WorkspaceChange,
): Promise<Workspace & { success: boolean }> {
  const access = await requireWorkspace(ctx, path, 'workspace:write')
  const { workspace } = access.snapshot
  // A slug that became a reserved word later stays valid.
  if (change.slug !== undefined && change.slug !== workspace.slug) checkWorkspaceSlug(change.slug)
  const after = await inTransaction(ctx, workspace.id, async (ctx) => {
    // Uses the stored row: fields that this change omits may have just changed.
    const current = await ctx.store.workspaces.find(workspace.id)
    if (!current) throw new Failure('notFound')
    requireClearName(change.name, current.name)
    const before = { name: current.name, slug: current.slug }
    const after = { ...before, ...change }
    if (!(await ctx.store.workspaces.update(workspace.id, after, ctx.now()))) throw slugTaken(after.slug)
    record(ctx, { chain: workspace.id, action: 'UPDATE', entity: entity(current), before, after })
    announce(ctx, 'workspace', workspace.id)
    return after
  })
  return { success: true, ...toWorkspace(access), ...after }
}

export async function deleteWorkspace(ctx: Context, path: WorkspacePath, body: Confirmation): Promise<void> {
  const access = await requireWorkspace(ctx, path, 'workspace:delete')
  const { workspace } = access.snapshot
  await requireConfirmation(ctx, body, { action: 'DELETE', entity: entity(workspace) })
  await inTransaction(ctx, [systemChain, workspace.id], async (ctx) => {
    await reauthorise(ctx, access, 'workspace:delete')
    ctx.store.workspaces.remove(workspace.id)
    const event = { action: 'DELETE', entity: entity(workspace), before: { slug: workspace.slug } } as const
    // The workspace's own trail ends here; the operator still sees in the system chain that it existed.
    record(ctx, { chain: workspace.id, ...event })
    record(ctx, { chain: systemChain, ...event })
    announce(ctx, 'workspace', workspace.id)
  })
}

export async function handOverWorkspace(ctx: Context, path: WorkspacePath, body: Handover): Promise<void> {
  const access = await requireWorkspace(ctx, path, 'workspace:handover')
  const { workspace } = access.snapshot
  const memberId = body.memberId.toLowerCase()
  await requireConfirmation(ctx, body, { action: 'UPDATE', entity: entity(workspace) })
  await inTransaction(ctx, workspace.id, async (ctx) => {
    // Authorised again under the lock: two concurrent handovers must not leave two owners, or none.
    const { member: owner } = await reauthorise(ctx, access, 'workspace:handover')
    const heir = await ctx.store.members.find(memberId, workspace.id)
    if (!heir) throw new Failure('notFound')
    if (heir.id === owner.id) return
    await moveOwnership(ctx, { workspace, owner, heir, chains: [workspace.id] })
  })
}

function toWorkspace({ snapshot, member }: Access): Workspace {
  const { id, name, slug, createdAt } = snapshot.workspace
  return { id, name, slug, isOwner: member.isOwner, ...shownGrants(member), createdAt: iso(createdAt) }
}

function slugTaken(slug: string): Failure {
  return new Failure('conflict', `The slug "${slug}" is taken.`)
}

/** The policy of a workspace: who may enter it, and what may be shared. Only the owner sets it. */
import type { WorkspacePath } from '@coffer/contract/field'
import { type ChangedPolicy, openPolicy, type Policy, type PolicyChange } from '@coffer/contract/policy'
import { Failure } from '../../failure.ts'
import type { WorkspaceRow } from '../../store/workspace/workspace.ts'
import { reauthorise, requireWorkspace } from '../access/access.ts'
import { checkAddresses } from '../allowed-address.ts'
import { record } from '../audit/record.ts'
import type { Context } from '../context.ts'
import { isAddressAllowed, type ReadyPolicy, toRules } from '../policy.ts'
import { announce, inTransaction } from '../transaction.ts'
import { listShutOut } from './shut-out.ts'

export async function readPolicy(ctx: Context, path: WorkspacePath): Promise<Policy> {
  const { snapshot } = await requireWorkspace(ctx, path, 'policy:read')
  return shown(snapshot.policy)
}

/** A dry run makes every check and lists who would be shut out, but saves nothing. */
export async function updatePolicy(ctx: Context, path: WorkspacePath, body: PolicyChange): Promise<ChangedPolicy> {
  const access = await requireWorkspace(ctx, path, 'policy:write')
  const { workspace } = access.snapshot
  const { dryRun = false, allowedIps = [], ...rules } = body
  checkAddresses(allowedIps)
  const policy = { ...rules, ...(allowedIps.length > 0 && { allowedIps }) }
  refuseOwnLockOut(ctx, policy)
  const shutOut = await listShutOut(ctx, access, toRules(policy))
  if (dryRun) return { success: true, ...policy, shutOut }
  await inTransaction(ctx, workspace.id, async (ctx) => {
    const current = await reauthorise(ctx, access, 'policy:write')
    await ctx.store.policies.save(workspace.id, policy, ctx.now())
    const states = { before: { ...shown(current.snapshot.policy) }, after: { ...policy } }
    record(ctx, { chain: workspace.id, action: 'UPDATE', entity: entity(workspace), ...states })
    announce(ctx, 'workspace', workspace.id)
  })
  return { success: true, ...policy, shutOut }
}

/** For the operator: opens a workspace whose owner is shut out, or whose policy was tampered with. */
export async function resetPolicy(ctx: Context, slugOrId: string): Promise<void> {
  const id = await ctx.store.workspaces.findIdForAnybody(slugOrId)
  const workspace = id === undefined ? undefined : await ctx.store.workspaces.find(id)
  if (!workspace) throw new Failure('notFound', `There is no workspace "${slugOrId}".`)
  await inTransaction(ctx, workspace.id, async (ctx) => {
    const stored = await ctx.store.policies.find(workspace.id)
    if (stored === undefined) throw new Failure('conflict', 'This workspace has no policy: nothing was changed.')
    await ctx.store.policies.remove(workspace.id)
    const before = stored === 'tampered' ? { isTampered: true } : { ...stored }
    record(ctx, { chain: workspace.id, action: 'DELETE', entity: entity(workspace), before })
    announce(ctx, 'workspace', workspace.id)
  })
}

const entity = ({ id, name }: WorkspaceRow) => ({ type: 'policy', id, name })

const shown = (policy: ReadyPolicy | undefined): Policy => (typeof policy === 'object' ? policy.document : openPolicy)

/** A missing second factor is no lock-out: the owner can set one up without entering the workspace. */
function refuseOwnLockOut({ actor, request, mail }: Context, policy: Policy): void {
  if (!isAddressAllowed(toRules(policy), request.ip)) {
    throw new Failure(
      'conflict',
      `allowedIps: does not hold your own address, ${request.ip}: with this list you could not enter the workspace.`,
    )
  }
  if (policy.requireVerifiedEmail && !actor.emailVerified && !mail) {
    throw new Failure(
      'conflict',
      'requireVerifiedEmail: your own address is not confirmed, and this service has no mail server to confirm it by.',
    )
  }
}

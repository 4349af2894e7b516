/** Giving a token to a service account. Its id, value and settings stay, so that whatever uses it goes on. */
import type { IdPath, Role, Transfer } from '@coffer/contract/field'
import type { Token } from '@coffer/contract/token'
import { Failure } from '../../failure.ts'
import { ownerOf } from '../../store/owner.ts'
import type { TokenRecord } from '../../store/token.ts'
import type { ServiceAccount } from '../../store/workspace/service-account.ts'
import { type Access, reauthorise, requireWorkspace } from '../access/access.ts'
import { covers } from '../access/compare-reach.ts'
import { hasRoleIn } from '../access/scope-grant.ts'
import { record } from '../audit/record.ts'
import type { Context, WriteContext } from '../context.ts'
import { findStoredPrincipal, servicePrincipal } from '../principal.ts'
import { toScopeSet } from '../scope.ts'
import { announce, inTransaction } from '../transaction.ts'
import { toTokens } from './token.ts'
import { requireTokenRoom, tokenEntity } from './token-issue.ts'

export async function transferToken(ctx: Context, path: IdPath, body: Transfer): Promise<Token & { success: boolean }> {
  const access = await requireWorkspace(ctx, path, 'token:transfer')
  const workspaceId = access.snapshot.workspace.id
  const transferred = await inTransaction(ctx, workspaceId, async (ctx) => {
    await reauthorise(ctx, access, 'token:transfer')
    const token = await ctx.store.tokens.findForChange(path.id.toLowerCase(), workspaceId)
    const account = await ctx.store.serviceAccounts.find(body.serviceAccountId.toLowerCase(), workspaceId)
    if (!token || !account) throw new Failure('notFound')
    requireTransferable(ctx, token, account)
    requireNoLoss(access, token, account)
    await requireNoGain(ctx, access, token, account)
    const next = { ...token, serviceAccountId: account.id }
    await requireTokenRoom(ctx, next)
    // A use of the token during a root rotation re-hashes its row, and this update then matches nothing.
    if (!(await ctx.store.tokens.update(next, token))) throw new Failure('unavailable')
    const details = { before: { owner: ownerOf(token) }, after: { owner: account.id, serviceAccount: account.name } }
    record(ctx, { chain: workspaceId, action: 'UPDATE', entity: tokenEntity(token), ...details })
    announce(ctx, 'workspace', workspaceId)
    return { token: next, account }
  })
  const [shown] = await toTokens(ctx, access, [transferred.token])
  if (!shown) throw new Failure('notFound')
  return { success: true, ...shown, ownerName: transferred.account.name }
}

function requireTransferable(ctx: Context, token: TokenRecord, { id, name }: ServiceAccount): void {
  const refuse = (why: string) => new Failure('conflict', why)
  if (token.type === 'cli') {
    throw refuse('A token of the command line cannot be transferred: it belongs to one person and expires in hours.')
  }
  if (token.mayAdminister) {
    throw refuse('A token that may administer cannot be transferred: it ends with the person who answers for it.')
  }
  if (token.revokedAt !== null) throw refuse('This token is revoked: create a new one for the service account.')
  if (token.expiresAt !== null && token.expiresAt <= ctx.now()) {
    throw refuse('This token has expired: create a new one for the service account.')
  }
  if (token.serviceAccountId === id) throw refuse(`This token already belongs to the service account ${name}.`)
}

/** Whatever uses the token must not find out later that it can do less. */
function requireNoLoss(access: Access, token: TokenRecord, account: ServiceAccount): void {
  const { rights } = servicePrincipal(account)
  const ofAccount = { ...access, rights, reach: [rights.member] }
  if (!covers(access.snapshot, ofAccount.reach, [toScopeSet(token.scope)])) {
    throw new Failure(
      'conflict',
      `The scope of this token goes beyond the grants of the service account ${account.name}: extend the grants first.`,
    )
  }
  if (token.permission === 'read-write' && !hasRoleIn(ofAccount, 'developer', token.scope)) {
    throw new Failure(
      'conflict',
      `This is a read-write token, and the service account ${account.name} has the role developer nowhere in its scope: give it the role first.`,
    )
  }
}

/** Whoever knows the value, perhaps a person who has lost rights since, must not be able to do more with it. */
async function requireNoGain(
  ctx: WriteContext,
  { snapshot }: Access,
  token: TokenRecord,
  account: ServiceAccount,
): Promise<void> {
  const owner = await findStoredPrincipal(ctx.store, ownerOf(token), token.workspaceId)
  const scope = toScopeSet(token.scope)
  const { rights } = servicePrincipal(account)
  const gains = (role: Role) => !owner || !covers(snapshot, [owner.rights[role], scope], [rights[role], scope])
  if (gains('member')) {
    throw new Failure(
      'conflict',
      'The scope of this token goes beyond what its owner may reach now, so a transfer would give it more rights: create a new token for the service account.',
    )
  }
  const role = (['developer', 'admin'] as const).find(gains)
  if (role) {
    throw new Failure(
      'conflict',
      `In the scope of this token the service account ${account.name} has the role ${role} where the owner of the token does not, so a transfer would give it more rights: create a new token for the service account.`,
    )
  }
}

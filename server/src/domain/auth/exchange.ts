import type { AccessToken } from '@coffer/contract/auth'
import { Failure } from '../../failure.ts'
import { requireWorkspace } from '../access/access.ts'
import type { Context } from '../context.ts'
import { issueJwt } from '../credential/jwt.ts'
import { recordAct } from '../transaction.ts'

/** Exchanges an API token for a JWT. */
export async function exchangeToken(ctx: Context): Promise<AccessToken> {
  const { credential } = ctx.actor
  if (credential.type !== 'static' && credential.type !== 'cli-token') {
    throw new Failure('forbidden', 'Only an API token can be exchanged: use a JWT or a session as it is.')
  }
  const { token } = credential
  await requireWorkspace(ctx, { ws: token.workspaceId }, 'workspace:read')
  const { generation } = credential
  const issued = issueJwt(ctx, { sub: token.id, kind: 'token', workspace: token.workspaceId, generation })
  const entity = { type: 'token', id: token.id, name: token.name }
  await recordAct(ctx, { chain: token.workspaceId, action: 'EXCHANGE', entity })
  return issued
}

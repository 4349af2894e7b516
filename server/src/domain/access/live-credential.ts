import { Failure } from '../../failure.ts'
import { ownerOf } from '../../store/owner.ts'
import type { Context } from '../context.ts'
import { StartOver } from '../start-over.ts'

/**
 * Checks the credential in the store, not in the caches. Called under a lock: a session that has just ended, or a token
 * just revoked or rotated, must not create another credential.
 */
export async function requireLiving(ctx: Context): Promise<void> {
  const { credential, userId } = ctx.actor
  const { sessions, tokens, oidc } = ctx.store
  if (hasExpired(ctx)) throw new Failure('unauthenticated')
  if ('sessionId' in credential && !(await sessions.exists(credential.sessionId, userId))) {
    throw new Failure('unauthenticated')
  }
  if ('identity' in credential) {
    const { id, workspaceId, generation } = credential.identity
    const identity = await oidc.find(id, workspaceId)
    if (!identity?.enabled || identity.generation !== generation) throw new Failure('unauthenticated')
  }
  if (!('token' in credential)) return
  const token = await tokens.find(credential.token.id, credential.token.workspaceId)
  // Compares the generation of the presented value: only the immediately previous value has a grace period.
  const age = (token?.generation ?? 0) - credential.generation
  const isSame = age === 0 || (age === 1 && (token?.previousUntil ?? 0) > ctx.now())
  if (token?.revokedAt !== null || !isSame) throw new Failure('unauthenticated')
  // The token was transferred meanwhile, and acts with the rights of its new owner.
  if (ownerOf(token) !== userId) throw new StartOver()
}

export function hasExpired({ actor: { credential }, now }: Context): boolean {
  return 'expiresAt' in credential && credential.expiresAt !== null && credential.expiresAt <= now()
}

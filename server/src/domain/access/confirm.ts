/**
 * Checks the caller's credential and granted rights again after a wait, because they may have been revoked meanwhile.
 * Without a known change on this node the check needs no query.
 */

import type { Member } from '../../store/workspace/member.ts'
import { grantOf } from '../actor.ts'
import type { Context } from '../context.ts'
import { findStoredPrincipal } from '../principal.ts'
import type { Granted } from '../request-run.ts'
import { StartOver } from '../start-over.ts'
import { hasExpired, requireLiving } from './live-credential.ts'
import { isStillAdmitted, mayProofsHaveChanged } from './policy.ts'

/** After a wait outside of a transaction, and before an answer leaves. Undefined where nothing has changed. */
export function confirmRights(ctx: Context): Promise<void> | undefined {
  return mayHaveChanged(ctx) ? confirm(ctx) : undefined
}

/** While an answer is being sent, which cannot begin anew: it ends with the rights that it began by. */
export function confirmOngoing(ctx: Context): Promise<void> | undefined {
  return confirmRights(ctx)?.catch((error) => {
    throw error instanceof StartOver ? error.giveUp() : error
  })
}

/** Call under the locks of a transaction: rights that have ended must not write, or record a read, any more. */
export async function confirmWithin(ctx: Context): Promise<void> {
  if (mayHaveChanged(ctx)) await confirm(ctx)
}

/** False while this node knows of no change, committed or pending, to the credential or to what it was granted. */
export function mayHaveChanged(ctx: Context): boolean {
  const { credential, userId } = ctx.actor
  const { pendingChanges } = ctx
  if (credential.type === 'none') return false
  if (hasExpired(ctx)) return true
  if ('sessionId' in credential && credential.generation !== ctx.credentials.generation) return true
  if ('sessionId' in credential && pendingChanges.has('user', userId)) return true
  const grant = grantOf(credential)
  if (grant) {
    const snapshot = ctx.snapshots.peek(grant.workspaceId)
    const known = 'token' in credential ? snapshot?.tokens.peek(grant.id) : snapshot?.identities.peek(grant.id)
    if (known !== grant || pendingChanges.has('workspace', grant.workspaceId)) return true
  }
  return ctx.run.granted.some((granted) => {
    const { workspace, policy } = granted.snapshot
    if (ctx.snapshots.peek(workspace.id) !== granted.snapshot) return true
    return pendingChanges.has('workspace', workspace.id) || (policy !== undefined && mayProofsHaveChanged(ctx, granted))
  })
}

/** Reads the store, because the caches of this node do not show changes of the same commit yet. */
async function confirm(ctx: Context): Promise<void> {
  await requireLiving(ctx)
  // Several calls may have granted access to the same workspace.
  const granted = new Map(ctx.run.granted.map((access) => [access.snapshot.workspace.id, access]))
  for (const access of granted.values()) if (!(await isGrantedStill(ctx, access))) throw new StartOver()
}

/**
 * Compares policy, grants and project moves only: a token's scope never changes, an identity's only with its
 * generation.
 */
async function isGrantedStill(ctx: Context, granted: Granted): Promise<boolean> {
  const { snapshot, member } = granted
  const { workspace } = snapshot
  if (!(await isStillAdmitted(ctx, granted))) return false
  const scopes = [...member.grants.map(({ scope }) => scope), grantOf(ctx.actor.credential)?.scope]
  if (ctx.actor.userId !== '') {
    const current = await findStoredPrincipal(ctx.store, ctx.actor.userId, workspace.id)
    if (!current || !isSame(current.member, member)) return false
  }
  // Moving a project to another team changes who reaches it by a team scope.
  if (scopes.every((scope) => !scope || scope.all || scope.teams.length === 0)) return true
  const projects = await ctx.store.projects.list(workspace.id)
  return projects.every(({ id, teamId }) => (snapshot.projects.get(id)?.teamId ?? teamId) === teamId)
}

const isSame = (a: Member, b: Member): boolean =>
  a.id === b.id && a.isOwner === b.isOwner && JSON.stringify(a.grants) === JSON.stringify(b.grants)

/** Whom a question about access concerns, and the actor that requests of theirs have. */
import type { AccessActor } from '@coffer/contract/access'
import { Failure } from '../../failure.ts'
import { type Account, proofsOf } from '../../store/account/account.ts'
import type { IdentityRecord } from '../../store/oidc.ts'
import { ownerOf } from '../../store/owner.ts'
import type { TokenRecord } from '../../store/token.ts'
import type { Grants } from '../../store/workspace/grant.ts'
import type { Invite } from '../../store/workspace/invite.ts'
import type { ServiceAccount } from '../../store/workspace/service-account.ts'
import { normaliseEmail } from '../account/email.ts'
import { type Actor, anonymous } from '../actor.ts'
import type { WorkspaceSnapshot } from '../cache/workspace-snapshot.ts'
import type { Context } from '../context.ts'
import { identityActor } from '../credential/credential.ts'
import { findRefusal } from '../credential/token-refusal.ts'
import { isId } from '../id.ts'
import type { Principal } from '../principal.ts'
import { type ReadyToken, toReadyIdentity, toReadyToken } from '../ready-token.ts'
import { newRun } from '../request-run.ts'
import { everything } from '../scope.ts'
import { iso } from '../time.ts'

export type Subject = {
  readonly shown: AccessActor
  readonly actor: Actor
  /** The grants that its rights come from. An identity has none: its permission and scope stand for one. */
  readonly grants: Grants | undefined
  /** The owner of a token, whose rights limit it. */
  readonly owner: AccessActor | null
  readonly isOwner: boolean
  /** Set if every request is refused before anything is decided: with which status and why. */
  readonly refusal?: { readonly status: 401 | 404; readonly because: string }
}

/** A session or JWT that does not end while the question is answered. */
const lasting = Number.POSITIVE_INFINITY

/** `account` is that of the person; a service account has none. */
export function ofPrincipal(ctx: Context, { member, serviceAccount }: Principal, account?: Account): Subject {
  if (serviceAccount) return ofServiceAccount(ctx, serviceAccount)
  const { id, userId, grants, isOwner } = member
  const name = account?.email ?? ''
  const credential = {
    type: 'session',
    sessionId: '',
    // The newest sign-in of a person who has a second factor uses it.
    factorId: account?.totpId ?? null,
    expiresAt: lasting,
    generation: ctx.credentials.generation,
  } as const
  const actor: Actor = { type: 'user', id: userId, name, userId, ...(account && proofsOf(account)), credential }
  return { shown: { type: 'user', id, name }, actor, grants, owner: null, isOwner }
}

/** All that a token of the account could do: read-write, everywhere and new. */
function ofServiceAccount({ now }: Context, account: ServiceAccount): Subject {
  const { id, name, workspaceId, createdBy, grants } = account
  const none = { previousHash: null, previousHashRootId: null, previousUntil: null, lastUsedAt: null, lastUsedIp: null }
  const token = toReadyToken({
    ...none,
    id,
    workspaceId,
    createdBy,
    serviceAccountId: id,
    name,
    type: 'static',
    prefix: '',
    hash: new Uint8Array(),
    hashRootId: '',
    generation: 1,
    permission: 'read-write',
    scope: everything,
    allowedIps: [],
    mayAdminister: false,
    createdAt: now(),
    expiresAt: null,
    revokedAt: null,
  })
  const credential = { type: 'static', token, generation: 1, expiresAt: null } as const
  const actor: Actor = { type: 'token', id, name, userId: id, credential }
  return { shown: { type: 'service', id, name }, actor, grants, owner: null, isOwner: false }
}

export function ofInvite({ id, email, grants }: Invite): Subject {
  const shown = { type: 'user', id, name: email } as const
  const refusal = { status: 404, because: 'the invite has not been accepted yet' } as const
  return { shown, actor: anonymous, grants, owner: null, isOwner: false, refusal }
}

export const isPending = ({ now }: Context, { declinedAt, expiresAt }: Invite): boolean =>
  declinedAt === null && expiresAt > now()

/** `ip` undefined leaves the addresses that the token is bound to unchecked. */
export function ofToken(ctx: Context, record: TokenRecord, owner: Subject | undefined, ip?: string): Subject {
  const token = toReadyToken(record)
  const { id, name, generation, expiresAt } = token
  const type = token.type === 'cli' ? 'cli-token' : 'static'
  const actor: Actor = {
    type: 'token',
    id,
    name,
    userId: ownerOf(token),
    emailVerified: owner?.actor.emailVerified,
    secondFactorId: owner?.actor.secondFactorId,
    credential: { type, token, generation, expiresAt },
  }
  const because = findTokenProblem(ctx, token, owner, ip)
  return {
    shown: { type: 'token', id, name },
    actor,
    grants: owner?.grants,
    owner: owner?.shown ?? null,
    isOwner: owner?.isOwner ?? false,
    ...(because !== undefined && { refusal: { status: 401, because } }),
  }
}

function findTokenProblem(
  { now }: Context,
  token: ReadyToken,
  owner: Subject | undefined,
  ip: string | undefined,
): string | undefined {
  const { revokedAt, expiresAt, allowedIps } = token
  const refusal = findRefusal(token, now(), ip)
  if (refusal === 'revoked') return `it was revoked at ${iso(revokedAt ?? 0)}`
  if (refusal === 'expired') return `it expired at ${iso(expiresAt ?? 0)}`
  if (refusal === 'address') return `it is accepted from ${allowedIps.join(', ')} only, not from ${ip}`
  return owner ? undefined : 'its owner no longer belongs to the workspace'
}

export function ofIdentity(identity: IdentityRecord): Subject {
  const { id, name, enabled } = identity
  return {
    shown: { type: 'oidc', id, name },
    actor: identityActor(toReadyIdentity(identity), lasting),
    grants: undefined,
    owner: null,
    isOwner: false,
    ...(!enabled && { refusal: { status: 401, because: 'it is disabled' } }),
  }
}

export function asSubject(ctx: Context, { actor }: Subject, ip?: string): Context {
  const request = { ...ctx.request, ip: ip ?? '', hasNoAddress: ip === undefined }
  return { ...ctx, actor, request, run: newRun() }
}

/**
 * By the address of a person, or by the id of a member, person, invite, service account, token or identity of this
 * workspace.
 */
export async function requireSubject(
  ctx: Context,
  snapshot: WorkspaceSnapshot,
  given: string,
  ip: string | undefined,
): Promise<Subject> {
  const found = isId(given)
    ? await findById(ctx, snapshot, given.toLowerCase(), ip)
    : await findByEmail(ctx, snapshot, given)
  if (found) return found
  throw new Failure(
    'notFound',
    'Nobody in this workspace has this id or address. Give the address of a member, or the id of a member, a token, a service account or an identity.',
  )
}

async function findByEmail(ctx: Context, snapshot: WorkspaceSnapshot, given: string): Promise<Subject | undefined> {
  const email = normaliseEmail(given)
  const account = await ctx.store.accounts.findByEmail(email)
  const principal = snapshot.principals.get(account?.id ?? '')
  if (principal) return ofPrincipal(ctx, principal, account)
  const invites = await ctx.store.invites.list(snapshot.workspace.id)
  const invite = invites.find((one) => one.email === email && isPending(ctx, one))
  return invite && ofInvite(invite)
}

async function findById(
  ctx: Context,
  snapshot: WorkspaceSnapshot,
  id: string,
  ip: string | undefined,
): Promise<Subject | undefined> {
  const workspaceId = snapshot.workspace.id
  const holder = await findHolder(ctx, snapshot, id)
  if (holder) return holder
  const token = await ctx.store.tokens.find(id, workspaceId)
  if (token) return ofToken(ctx, token, await findHolder(ctx, snapshot, ownerOf(token)), ip)
  const identity = await ctx.store.oidc.find(id, workspaceId)
  if (identity) return ofIdentity(identity)
  const invite = await ctx.store.invites.find(id, workspaceId)
  return invite && isPending(ctx, invite) ? ofInvite(invite) : undefined
}

/** Somebody with grants, by the id of the person, of the membership or of the service account. */
async function findHolder(ctx: Context, { principals }: WorkspaceSnapshot, id: string): Promise<Subject | undefined> {
  const principal = principals.get(id) ?? principals.values().find(({ member }) => member.id === id)
  if (!principal) return undefined
  const account = principal.serviceAccount ? undefined : await ctx.store.accounts.find(principal.member.userId)
  return ofPrincipal(ctx, principal, account)
}

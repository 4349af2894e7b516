/** Creating, listing and revoking shares. A share holds a copy: later changes of a secret do not affect it. */
import type { ProjectPath } from '@coffer/contract/field'
import {
  type IssuedShare,
  maxShareBytes,
  type NewShare,
  type Share,
  type ShareEnvelope,
  type SharePath,
  type ShareView,
  shareBlockBytes,
  shareOverheadBytes,
} from '@coffer/contract/share'
import { newId } from '../../crypto/id.ts'
import { hashPassword } from '../../crypto/password.ts'
import { createShareToken } from '../../crypto/token.ts'
import { Failure, invalid } from '../../failure.ts'
import { ownerOf } from '../../store/owner.ts'
import type { ShareContent } from '../../store/share/content.ts'
import type { ShareLock, ShareRecord } from '../../store/share/share.ts'
import { inRole, type ProjectAccess, reachesEnvironments, reauthorise, requireProject } from '../access/access.ts'
import { requireSharing } from '../access/policy.ts'
import { record } from '../audit/record.ts'
import type { Context, WriteContext } from '../context.ts'
import { shareEnd } from '../policy.ts'
import { reachesProject } from '../scope.ts'
import { secretsEntity } from '../secret/audit-record.ts'
import { inPasswordSlot } from '../slot.ts'
import { dayMs, iso, maybeIso, secondMs } from '../time.ts'
import { inTransaction } from '../transaction.ts'
import { type CopiedSecrets, copySecrets } from './secret.ts'

/** Limit per project: more than anyone creates by hand, and at most 512 MiB of content. */
const maxLivingShares = 1_000

/** How long the record of an ended share is kept. */
export const endedShareLifeMs = 90 * dayMs

export const entity = ({ id, label }: { id: string; label: string }) => ({ type: 'share', id, name: label })

type Plan = Pick<ShareRecord, 'kind' | 'sizeBytes'> & {
  readonly content: ShareContent
  readonly lock: ShareLock
  /** The project's secrets that were copied into the share. */
  readonly copied?: CopiedSecrets
}

export async function createShare(ctx: Context, path: ProjectPath, body: NewShare): Promise<IssuedShare> {
  const access = await requireProject(ctx, path, 'share:write')
  const { project, snapshot } = access
  const workspaceId = snapshot.workspace.id
  // Checked before secrets are read into the share, and again under the lock.
  requireSharing(snapshot.policy, { kind: body.envelope ? 'e2e' : 'server', lifeMs: body.expiresIn * secondMs })
  const { content, lock, copied, ...plan } = await planShare(ctx, access, body)
  const at = ctx.now()
  const share: ShareRecord & ShareLock = {
    ...plan,
    ...lock,
    id: newId(),
    workspaceId,
    projectId: project.id,
    ...makerOf(ctx),
    label: body.label ?? '',
    environmentIds: copied?.environmentIds ?? [],
    hasPassword: lock.passwordHash !== null || lock.passProofHash !== null,
    maxViews: body.maxViews ?? 1,
    views: 0,
    maxFailures: body.maxFailures ?? 10,
    failures: 0,
    state: 'active',
    createdAt: at,
    expiresAt: at + body.expiresIn * secondMs,
    lastViewedAt: null,
    endedAt: null,
  }
  const token = createShareToken()
  await inTransaction(ctx, workspaceId, async (ctx) => {
    // Checked again under the lock: a member removed meanwhile must not leave a share that opens once they rejoin, and
    // a deleted environment must not leave a share of its values.
    const current = await reauthorise(ctx, access, 'share:write')
    requireSharing(current.snapshot.policy, { kind: share.kind, lifeMs: body.expiresIn * secondMs })
    const { environmentIds } = share
    if ((await ctx.store.environments.count(environmentIds, workspaceId)) < environmentIds.length) {
      throw new Failure('notFound')
    }
    if ((await ctx.store.shares.countLiving(project.id, workspaceId)) >= maxLivingShares) {
      throw new Failure(
        'conflict',
        `This project has ${maxLivingShares} active shares: revoke some, or wait until some expire.`,
      )
    }
    await ctx.store.shares.insert(share, token, content)
    await recordMaking(ctx, access, share, copied)
  })
  const url = `${ctx.config.publicUrl}/share/${token}`
  return { id: share.id, token, url, expiresAt: iso(share.expiresAt), maxViews: share.maxViews }
}

/** The share of a service account ends with the account, not with the person who created the token. */
function makerOf({ actor }: Context): Pick<ShareRecord, 'createdBy' | 'serviceAccountId'> {
  if (!('token' in actor.credential)) return { createdBy: actor.userId, serviceAccountId: null }
  const { createdBy, serviceAccountId } = actor.credential.token
  return { createdBy, serviceAccountId }
}

/** Copying secrets into a share is a read, and is recorded as one. */
async function recordMaking(
  ctx: WriteContext,
  { project, snapshot }: ProjectAccess,
  share: ShareRecord,
  copied: CopiedSecrets | undefined,
): Promise<void> {
  const chain = snapshot.workspace.id
  const projectId = project.id
  const { environmentIds } = share
  if (copied) {
    const { keys, environments, referenced } = copied
    const after = { keys, environments, ...(referenced.length > 0 && { referenced }), share: share.id }
    record(ctx, { chain, action: 'VIEW', entity: secretsEntity(project), projectId, environmentIds, after })
  }
  const { kind, maxViews, maxFailures, hasPassword, sizeBytes } = share
  const limits = { maxViews, maxFailures, hasPassword, expiresAt: iso(share.expiresAt) }
  const after = { kind, sizeBytes, ...limits, ...(copied && { keys: copied.keys }) }
  record(ctx, { chain, action: 'CREATE', entity: entity(share), projectId, environmentIds, after })
}

async function planShare(ctx: Context, access: ProjectAccess, body: NewShare): Promise<Plan> {
  const given = [body.secrets, body.content, body.envelope].filter((part) => part !== undefined)
  if (given.length !== 1) throw invalid('content', 'send exactly one of secrets, content and envelope.')
  if (body.envelope) return planEnvelope(body, body.envelope)
  const copied = body.secrets && (await copySecrets(ctx, access, body.secrets))
  const content = copied ? { secrets: copied.secrets } : { content: body.content ?? '' }
  const sizeBytes = copied
    ? copied.secrets.reduce((sum, { name, value }) => sum + Buffer.byteLength(name) + Buffer.byteLength(value), 0)
    : Buffer.byteLength(body.content ?? '')
  // Measured as the JSON that is sealed, like the content of an end-to-end share.
  if (Buffer.byteLength(JSON.stringify(content)) > maxShareBytes) {
    throw invalid(copied ? 'secrets' : 'content', 'a share holds 512 KiB at most, as JSON.')
  }
  const { password } = body
  const passwordHash = password === undefined ? null : await inPasswordSlot(ctx, (slot) => hashPassword(slot, password))
  const lock = { passwordHash, linkProofHash: null, passProofHash: null }
  return { kind: 'server', sizeBytes, content, lock, ...(copied && { copied }) }
}

/** Checks the form only: the content is end-to-end encrypted, and the service cannot read it. */
function planEnvelope(body: NewShare, envelope: ShareEnvelope): Plan {
  if (body.password !== undefined) {
    throw invalid('password', 'must not be sent for an end-to-end share: the client encrypts with it.')
  }
  const { ciphertext, commit, linkProofHash, passProofHash } = envelope
  const sizeBytes = bytesOf('envelope.ciphertext', ciphertext).length
  if ((sizeBytes - shareOverheadBytes) % shareBlockBytes !== 0) {
    throw invalid('envelope.ciphertext', 'its plaintext is not padded to a multiple of 256 bytes.')
  }
  bytesOf('envelope.commit', commit)
  return {
    kind: 'e2e',
    sizeBytes,
    content: { ciphertext, commit },
    lock: {
      passwordHash: null,
      linkProofHash: bytesOf('envelope.linkProofHash', linkProofHash),
      passProofHash: passProofHash === undefined ? null : bytesOf('envelope.passProofHash', passProofHash),
    },
  }
}

function bytesOf(field: string, text: string): Buffer {
  const bytes = Buffer.from(text, 'base64url')
  if (bytes.toString('base64url') !== text) throw invalid(field, 'is not base64url without padding.')
  return bytes
}

export async function listShares(ctx: Context, path: ProjectPath): Promise<Share[]> {
  const access = await requireProject(ctx, path, 'share:read')
  const { project, snapshot } = access
  const whose = managesShares(access) ? null : ctx.actor.userId
  const shares = await ctx.store.shares.list(project.id, snapshot.workspace.id, whose)
  return shares.filter((share) => isVisible(ctx, access, share)).map((share) => toShare(ctx, access, share))
}

export async function revokeShare(ctx: Context, path: SharePath): Promise<void> {
  const { share, access } = await requireShare(ctx, path, 'share:write')
  const chain = access.snapshot.workspace.id
  await inTransaction(ctx, chain, async (ctx) => {
    if (!(await ctx.store.shares.revoke(share, ctx.now()))) return
    const { projectId, environmentIds } = share
    record(ctx, { chain, action: 'DELETE', entity: entity(share), projectId, environmentIds })
  })
}

export async function listShareViews(ctx: Context, path: SharePath): Promise<ShareView[]> {
  const { share } = await requireShare(ctx, path, 'share:read')
  const views = await ctx.store.shareViews.list(share.id)
  return views.map(({ at, ip, userAgent, outcome }) => ({ at: iso(at), ip, userAgent, outcome }))
}

async function requireShare(
  ctx: Context,
  path: SharePath,
  permission: 'share:read' | 'share:write',
): Promise<{ share: ShareRecord; access: ProjectAccess }> {
  const access = await requireProject(ctx, path, permission)
  const { project, snapshot } = access
  const share = await ctx.store.shares.find(path.id.toLowerCase(), project.id, snapshot.workspace.id)
  if (!share || !isVisible(ctx, access, share)) throw new Failure('notFound')
  return { share, access }
}

/** Admins who reach the whole project see everyone's shares. */
const managesShares = (access: ProjectAccess) => reachesProject(inRole(access, 'admin').reach, access.project)

/** Others see their own shares, if the credential reaches the environments that these were made from. */
function isVisible(ctx: Context, access: ProjectAccess, share: ShareRecord): boolean {
  if (managesShares(access)) return true
  return ownerOf(share) === ctx.actor.userId && reachesEnvironments(inRole(access, 'developer'), share.environmentIds)
}

function toShare(ctx: Context, { snapshot }: ProjectAccess, share: ShareRecord): Share {
  const expiresAt = shareEnd(snapshot.policy, share) ?? share.expiresAt
  const { id, label, kind, views, maxViews, failures, maxFailures, hasPassword } = share
  const hasExpired = share.state === 'active' && expiresAt <= ctx.now()
  return {
    id,
    label,
    kind,
    state: hasExpired ? 'expired' : share.state,
    views,
    maxViews,
    failures,
    maxFailures,
    hasPassword,
    createdById: ownerOf(share),
    createdAt: iso(share.createdAt),
    expiresAt: iso(expiresAt),
    lastViewedAt: maybeIso(share.lastViewedAt),
  }
}

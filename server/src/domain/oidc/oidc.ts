/** Identities that outside issuers vouch for. They belong to the workspace, and stay when their creator leaves. */
import type { IdPath, WorkspacePath } from '@coffer/contract/field'
import type { ClaimRules, Identity, IdentityChange, NewIdentity } from '@coffer/contract/oidc'
import { newId } from '../../crypto/id.ts'
import { Failure, invalid } from '../../failure.ts'
import { unlistedWorkspace } from '../../outbound.ts'
import type { IdentityRecord } from '../../store/oidc.ts'
import { type Access, reauthorise, requireWorkspace } from '../access/access.ts'
import { reachOf } from '../access/outbound-reach.ts'
import { requireChangedScopeWithin, requireScopeWithin } from '../access/scope-grant.ts'
import { record } from '../audit/record.ts'
import type { Context } from '../context.ts'
import { requireClearName } from '../new-name.ts'
import { iso, maybeIso } from '../time.ts'
import { announce, inTransaction } from '../transaction.ts'
import { isNarrowing, type Rules } from './rule.ts'

const maxIdentities = 200
const maxClaimNameLength = 200
/** Anyone can send a token that names an issuer, which loads all rules for it: their size is limited. */
const maxClaimsLength = 4_096

const entity = ({ id, name }: { id: string; name: string }) => ({ type: 'oidc', id, name })

export async function listIdentities(ctx: Context, path: WorkspacePath): Promise<Identity[]> {
  const access = await requireWorkspace(ctx, path, 'oidc:read')
  const identities = await ctx.store.oidc.list(access.snapshot.workspace.id)
  return identities.map((identity) => toIdentity(ctx, identity))
}

export async function readIdentity(ctx: Context, path: IdPath): Promise<Identity> {
  const { identity } = await requireIdentity(ctx, path, 'oidc:read')
  return toIdentity(ctx, identity)
}

export async function createIdentity(ctx: Context, path: WorkspacePath, body: NewIdentity): Promise<Identity> {
  const access = await requireWorkspace(ctx, path, 'oidc:write')
  const workspaceId = access.snapshot.workspace.id
  const at = ctx.now()
  const identity: IdentityRecord = {
    ...body,
    id: newId(),
    workspaceId,
    subject: body.subject ?? null,
    claims: body.claims ?? {},
    scope: requireScopeWithin(access, body.scope),
    enabled: body.enabled ?? true,
    createdBy: ctx.actor.userId,
    generation: 1,
    createdAt: at,
    updatedAt: at,
    lastUsedAt: null,
  }
  await checkIssuer(ctx, workspaceId, identity.issuer)
  checkLength(identity.claims)
  checkOwnRules(identity)
  requireClearName(identity.name)
  await inTransaction(ctx, workspaceId, async (ctx) => {
    await reauthorise(ctx, access, 'oidc:write')
    if ((await ctx.store.oidc.count(workspaceId)) >= maxIdentities) {
      throw new Failure(
        'conflict',
        `A workspace can have ${maxIdentities} identities at most: delete one that is not used.`,
      )
    }
    await ctx.store.oidc.insert(identity)
    record(ctx, { chain: workspaceId, action: 'CREATE', entity: entity(identity), after: settingsOf(identity) })
    announce(ctx, 'workspace', workspaceId)
  })
  return toIdentity(ctx, identity)
}

export async function updateIdentity(
  ctx: Context,
  path: IdPath,
  change: IdentityChange,
): Promise<Identity & { success: boolean }> {
  const { identity: found, access } = await requireIdentity(ctx, path, 'oidc:write')
  const { workspaceId } = found
  if (change.issuer !== undefined) await checkIssuer(ctx, workspaceId, change.issuer)
  if (change.claims !== undefined) checkLength(change.claims)
  const updated = await inTransaction(ctx, workspaceId, async (ctx) => {
    await reauthorise(ctx, access, 'oidc:write')
    const current = await ctx.store.oidc.findForChange(found.id, workspaceId)
    if (!current) throw new Failure('notFound')
    const scope = change.scope && (await requireChangedScopeWithin(ctx, access, current.scope, change.scope))
    const changed = { ...current, ...change, scope: scope ?? current.scope, updatedAt: ctx.now() }
    checkOwnRules(changed)
    requireClearName(changed.name, current.name)
    const { before, after } = differences(current, changed)
    // A new generation ends all JWTs that were issued under the old rules or rights.
    const isOnlyRenamed = Object.keys(after).every((field) => field === 'name')
    const next = { ...changed, generation: current.generation + (isOnlyRenamed ? 0 : 1) }
    await ctx.store.oidc.update(next)
    record(ctx, { chain: workspaceId, action: 'UPDATE', entity: entity(current), before, after })
    announce(ctx, 'workspace', workspaceId)
    return next
  })
  return { success: true, ...toIdentity(ctx, updated) }
}

export async function deleteIdentity(ctx: Context, path: IdPath): Promise<void> {
  const { identity, access } = await requireIdentity(ctx, path, 'oidc:write')
  const { workspaceId } = identity
  await inTransaction(ctx, workspaceId, async (ctx) => {
    await reauthorise(ctx, access, 'oidc:write')
    const current = await ctx.store.oidc.findForChange(identity.id, workspaceId)
    if (!current) throw new Failure('notFound')
    await ctx.store.oidc.remove(current.id, workspaceId)
    record(ctx, { chain: workspaceId, action: 'DELETE', entity: entity(current), before: settingsOf(current) })
    announce(ctx, 'workspace', workspaceId)
  })
}

export async function requireIdentity(
  ctx: Context,
  path: IdPath,
  permission: 'oidc:read' | 'oidc:write',
): Promise<{ identity: IdentityRecord; access: Access }> {
  const access = await requireWorkspace(ctx, path, permission)
  const identity = await ctx.store.oidc.find(path.id.toLowerCase(), access.snapshot.workspace.id)
  if (!identity) throw new Failure('notFound')
  return { identity, access }
}

/** Checks only the URL. The IP address is checked at every call, because DNS can change. */
async function checkIssuer(ctx: Context, workspaceId: string, issuer: string): Promise<void> {
  const url = URL.parse(issuer)
  if (url?.username !== '' || url.password !== '') throw invalid('issuer', 'is not a valid URL.')
  if (url.protocol !== 'http:') return
  const { hosts, ranges } = ctx.config.outboundAllow
  if (hosts.size + ranges.length === 0) {
    throw invalid('issuer', 'must start with https:// unless the operator allows it in COFFER_OUTBOUND_ALLOW.')
  }
  if ((await reachOf(ctx, workspaceId)) === 'public')
    throw invalid('issuer', `must start with https://. ${unlistedWorkspace}`)
}

/** Checks only the submitted claims, so an older identity that is too long can still be disabled. */
function checkLength(claims: ClaimRules): void {
  if (JSON.stringify(claims).length > maxClaimsLength) {
    throw invalid('claims', `must not have more than ${maxClaimsLength} characters of JSON in all.`)
  }
}

function checkOwnRules(rules: Rules): void {
  const names = Object.keys(rules.claims)
  if (rules.subject === null && names.length === 0) {
    throw invalid('subject', 'set a subject, claims or both: the issuer alone would accept too many tokens.')
  }
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  const wrong = names.find((name) => name.length > maxClaimNameLength || !/^[^\u0000-\u001f\u007f]+$/.test(name))
  if (wrong !== undefined) {
    throw invalid('claims', `a name must have 1 to ${maxClaimNameLength} characters and no control characters.`)
  }
  if (!isNarrowing(rules)) {
    const field = rules.subject === null ? 'claims' : 'subject'
    throw invalid(field, '"*" alone accepts every token of the issuer: make one of the rules more specific.')
  }
}

const settings = ['name', 'issuer', 'audience', 'subject', 'claims', 'permission', 'scope', 'enabled'] as const

const settingsOf = (identity: IdentityRecord) => Object.fromEntries(settings.map((field) => [field, identity[field]]))

function differences(current: IdentityRecord, next: IdentityRecord) {
  const isSame = (field: (typeof settings)[number]) => JSON.stringify(current[field]) === JSON.stringify(next[field])
  const changed = settings.filter((field) => !isSame(field))
  const pick = (identity: IdentityRecord) => Object.fromEntries(changed.map((field) => [field, identity[field]]))
  return { before: pick(current), after: pick(next) }
}

function toIdentity(ctx: Context, identity: IdentityRecord): Identity {
  const { workspaceId: _workspace, generation: _generation, createdBy, ...shown } = identity
  const { createdAt, updatedAt, lastUsedAt, ...rest } = shown
  const notedAt = ctx.usage.pendingIdentity(identity.id)?.at ?? 0
  // Another node may have seen the identity more recently than this one.
  const usedAt = notedAt > (lastUsedAt ?? 0) ? notedAt : lastUsedAt
  const times = { createdAt: iso(createdAt), updatedAt: iso(updatedAt), lastUsedAt: maybeIso(usedAt) }
  return { ...rest, createdById: createdBy, ...times }
}

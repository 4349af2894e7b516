/**
 * Stores planned changes: one revision per environment. Versions, audit entry and the announcement to other nodes
 * commit in the same transaction.
 */
import type { SecretRecord } from '../../../store/secret/secret.ts'
import type { SealedValue, VersionRow } from '../../../store/secret/value.ts'
import type { ProjectAccess } from '../../access/access.ts'
import type { AuditEvent } from '../../audit/event.ts'
import { recordAll } from '../../audit/record.ts'
import type { WriteContext } from '../../context.ts'
import { recordSecrets, secretsEntity } from '../audit-record.ts'
import { announceEverywhere, announceSecrets } from './announce.ts'
import { isDescribedAnew, type Planned, valueName, type WritePlan, withFields } from './plan.ts'
import type { Revisions } from './revision.ts'

/** Changes of one request: one revision per environment, and one audit entry. */
export type ProjectChange = WritePlan & {
  readonly ctx: WriteContext
  readonly revisions: Revisions
  readonly message: string
}

/** The revisions of the environments before the changes. */
type KnownRevisions = ReadonlyMap<string, number>

/** Applies the changes of requests to one project, in this order. */
export async function applyChanges(
  ctx: WriteContext,
  access: ProjectAccess,
  changes: readonly ProjectChange[],
  known: KnownRevisions,
): Promise<void> {
  const changed = changes.filter(({ planned }) => planned.length > 0)
  await applyValues(ctx, access, changed, known)
  for (const change of changes) if (change.described.size > 0) await describe(access, change)
}

/** The only function that changes values. */
async function applyValues(
  ctx: WriteContext,
  access: ProjectAccess,
  changes: readonly ProjectChange[],
  known: KnownRevisions,
): Promise<void> {
  if (changes.length === 0) return
  const { snapshot, project } = access
  const workspaceId = snapshot.workspace.id
  const fresh = changes.flatMap((change) => [...change.fresh.values()])
  if (fresh.length > 0) {
    await ctx.store.secrets.insertMany(fresh)
    await ctx.store.secrets.countAll(project.id, workspaceId, fresh.length)
  }
  takeRevisions(ctx, workspaceId, changes, known)
  const values = new Map<string, SealedValue & { workspaceId: string }>()
  const versions: (VersionRow & { workspaceId: string })[] = []
  const touched = new Map<string, SecretRecord>()
  const environmentIds = new Set<string>()
  for (const change of changes) {
    const now = change.revisions.at
    const by = { createdAt: now, createdBy: change.ctx.actor.name, message: change.message }
    for (const { edit, secret, ownerId, status, version, authors } of change.planned) {
      const environmentId = edit.environment.id
      environmentIds.add(environmentId)
      const place = { workspaceId, projectId: project.id, environmentId, secretId: secret.id, ownerId }
      const sealing =
        edit.value === null
          ? null
          : ctx.store.secretValues.seal(place, version, edit.value, authors, snapshot.environmentKeys)
      const sealed = sealing instanceof Promise ? await sealing : sealing
      // If several changes write the same value, only the last one is stored as current.
      values.set(valueName(environmentId, secret.id, ownerId), { ...place, version, sealed, authors, updatedAt: now })
      if (ownerId === '') {
        const revision = change.revisions.of(environmentId)
        versions.push({ ...place, version, revision, name: secret.name, action: status, sealed, authors, ...by })
      }
      if (isDescribedAnew(secret, edit) && !change.fresh.has(secret.name)) {
        touched.set(secret.id, { ...withFields(secret, edit), updatedAt: now })
      }
    }
  }
  const stored = [ctx.store.secretValues.putMany([...values.values()]), ctx.store.secretValues.insertVersions(versions)]
  // Personal values have no versions, so each list counts by itself.
  if (isOneInsert([...values.values()]) && isOneInsert(versions))
    for (const insert of stored) ctx.transaction.later(insert)
  else await Promise.all(stored)
  await ctx.store.secrets.updateMany([...touched.values()])
  await recordAll(changes.map((change) => ({ ctx: change.ctx, event: describeChange(access, change) })))
  const isNew = fresh.length > 0 || touched.size > 0
  if (isNew) await announceEverywhere(ctx, access)
  else await announceSecrets(ctx, access, environmentIds)
}

/** Saves notes and types that were sent with an unchanged value. */
async function describe(access: ProjectAccess, change: ProjectChange): Promise<void> {
  const { ctx, described, planned } = change
  const updatedAt = ctx.now()
  const secrets = [...described.values()]
  // The entry of the changed values names the equal ones already, if there is one.
  const unchanged = planned.length > 0 ? {} : nameUnchanged(change)
  await ctx.store.secrets.updateMany(secrets.map((secret) => ({ ...secret, updatedAt })))
  await recordSecrets(ctx, access, 'UPDATE', secrets, (secret) => {
    const { type, dataType } = secret
    return { type, dataType, ...(secret === secrets[0] && unchanged) }
  })
  await announceEverywhere(ctx, access)
}

/** Rows that surely fit one insert: the transaction need not wait for it. */
function isOneInsert(rows: readonly { readonly sealed: Uint8Array | null }[]): boolean {
  const bytes = rows.reduce((sum, { sealed }) => sum + (sealed?.length ?? 0), 0)
  return rows.length <= 64 && bytes <= 1024 * 1024
}

/** Reserves revision numbers with one statement per environment. The numbers follow the order of the requests. */
function takeRevisions(
  ctx: WriteContext,
  workspaceId: string,
  changes: readonly ProjectChange[],
  known: KnownRevisions,
): void {
  const shared = changes.flatMap(({ planned, revisions }) =>
    planned.flatMap(({ edit, ownerId, status }) =>
      ownerId === '' ? [{ id: edit.environment.id, revisions, status }] : [],
    ),
  )
  for (const [environmentId, entries] of Map.groupBy(shared, ({ id }) => id)) {
    const counted = entries.reduce((sum, { status }) => sum + countedBy[status], 0)
    const takers = [...new Set(entries.map(({ revisions }) => revisions))].filter(({ of }) => of(environmentId) === 0)
    const { secretValues } = ctx.store
    const before = known.get(environmentId) ?? 0
    // The lock of the workspace keeps the number, so the answer is not needed.
    ctx.transaction.later(secretValues.advanceRevision(environmentId, workspaceId, takers.length, counted, ctx.now()))
    for (const [index, revisions] of takers.entries()) revisions.set(environmentId, before + 1 + index)
  }
}

const countedBy = { created: 1, updated: 0, deleted: -1 } as const

/** One audit entry for the whole request. It names keys and actions, never values. */
function describeChange({ snapshot, project }: ProjectAccess, change: ProjectChange): AuditEvent {
  const { planned, unchanged, message } = change
  const [first] = planned
  const isOne = (what: (one: Planned) => string) => planned.every((one) => first && what(one) === what(first))
  const isOneSecret = isOne(({ secret }) => secret.id)
  return {
    chain: snapshot.workspace.id,
    action: first && isOne(({ status }) => status) ? actions[first.status] : 'UPDATE',
    entity:
      first && isOneSecret ? { type: 'secret', id: first.secret.id, name: first.secret.name } : secretsEntity(project),
    projectId: project.id,
    environmentIds: [...planned.map(({ edit }) => edit), ...unchanged].map(({ environment }) => environment.id),
    after: {
      ...(message !== '' && { message }),
      changes: planned.map(({ edit, secret, status, version }) => ({
        ...(!isOneSecret && { id: secret.id }),
        key: edit.key,
        environment: edit.environment.name,
        status,
        version,
        ...(edit.isPersonal && { personal: true }),
      })),
      ...nameUnchanged(change),
    },
  }
}

function nameUnchanged({ unchanged }: ProjectChange) {
  if (unchanged.length === 0) return {}
  return {
    unchanged: unchanged.map(({ key, environment, isPersonal }) => ({
      key,
      environment: environment.name,
      ...(isPersonal && { personal: true }),
    })),
  }
}

const actions = { created: 'CREATE', updated: 'UPDATE', deleted: 'DELETE' } as const

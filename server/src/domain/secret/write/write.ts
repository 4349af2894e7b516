/**
 * Every change of values goes through here. Edits are compared with the stored values, and the differences become one
 * revision per environment. Versions, audit entry and the announcement to other nodes commit in the same transaction.
 */
import type { WriteMode, WriteResult } from '@coffer/contract/secret'
import { newId } from '../../../crypto/id.ts'
import type { SecretRecord } from '../../../store/secret/secret.ts'
import type { SealedValue, VersionRow } from '../../../store/secret/value.ts'
import { type ProjectAccess, reauthorise } from '../../access/access.ts'
import type { AuditEvent } from '../../audit/event.ts'
import { recordAll } from '../../audit/record.ts'
import type { WriteContext } from '../../context.ts'
import { recordSecrets, secretsEntity } from '../audit-record.ts'
import { personalOwner } from '../choose-environment.ts'
import { findUnseen } from '../find.ts'
import { maxRowsOf, openValues } from '../load.ts'
import { refuseCycles } from '../reference/cycle.ts'
import { refuseManyReferences } from '../reference/limit.ts'
import { requireDeveloper } from '../right.ts'
import { createWriteAllowance, refuseTooMuch } from '../size.ts'
import { announceEverywhere, announceSecrets } from './announce.ts'
import type { CompareContext } from './compare.ts'
import {
  checkEdit,
  type Edit,
  isDescribedAnew,
  listWithoutValue,
  type Planned,
  type Present,
  planEdits,
  presentValues,
  valueName,
  withFields,
} from './plan.ts'
import { createRevisions, type Revisions } from './revision.ts'

export type WriteOptions = {
  readonly mode: WriteMode
  readonly revisions: Revisions
  readonly message?: string | undefined
}

/** Options for a write that creates or overwrites, whatever is stored. */
export function upsert(ctx: WriteContext, access: ProjectAccess, message?: string) {
  return { mode: 'upsert', message, revisions: createRevisions(ctx, access) } as const
}

export async function writeValues(
  ctx: CompareContext,
  access: ProjectAccess,
  edits: readonly Edit[],
  options: WriteOptions,
): Promise<WriteResult[]> {
  for (const edit of edits) checkEdit(edit)
  refuseTooMuch(ctx, edits)
  await refuseManyReferences(edits)
  const secrets = await findSecrets(ctx, access, edits)
  const ownerId = edits.some(({ isPersonal }) => isPersonal) ? personalOwner(ctx) : ''
  // A personal value must not outlive its owner's membership, which may have ended since the request was authorised.
  if (ownerId !== '') await reauthorise(ctx, access, 'secret:update')
  const environments = edits.map(({ environment }) => environment)
  const keys = edits.map(({ key }) => key)
  ctx.compared.push({ environments, keys, secrets: [...secrets.values()] })
  const environmentIds = environments.map(({ id }) => id)
  const present = await loadPresent(ctx, access, environmentIds, secrets, ownerId)
  const unseen = await findUnseen(ctx, access, listWithoutValue(present))
  const { revisions, message = '' } = options
  const atOnce = { ...ctx, now: () => revisions.at }
  const plan = planEdits(atOnce, access, withoutFields(edits, secrets, unseen), options.mode, present, ownerId)
  if (plan.planned.some(({ edit }) => !edit.isPersonal)) requireDeveloper(access)
  await checkCycles(ctx, access, plan.planned, ownerId)
  const fresh = [...plan.fresh.values()]
  await applyChanges(ctx, access, [{ ctx, planned: plan.planned, fresh, revisions, message }])
  await describe(ctx, access, [...plan.described.values()])
  return ctx.isDryRun ? withoutIds(plan.results, unseen) : plan.results
}

/** Callers who cannot see a secret may write a value under its name, but may not change its note or type. */
function withoutFields(
  edits: readonly Edit[],
  secrets: ReadonlyMap<string, SecretRecord>,
  unseen: ReadonlySet<string>,
): readonly Edit[] {
  if (unseen.size === 0) return edits
  return edits.map((edit) => {
    const isUnseen = unseen.has(secrets.get(edit.key)?.id ?? '')
    return isUnseen ? { ...edit, type: undefined, dataType: undefined, note: undefined } : edit
  })
}

/** Gives unseen secrets a random id in the results of a dry run: their real id would reveal that they exist. */
function withoutIds(results: WriteResult[], unseen: ReadonlySet<string>): WriteResult[] {
  const ids = new Map([...unseen].map((id) => [id, newId()]))
  return results.map((result) => ({ ...result, id: ids.get(result.id) ?? result.id }))
}

/** Loads and decrypts the stored values of these secrets. The workspace lock keeps them unchanged until the commit. */
export async function loadPresent(
  ctx: WriteContext,
  access: ProjectAccess,
  environmentIds: readonly string[],
  secrets: Map<string, SecretRecord>,
  ownerId: string,
): Promise<Present> {
  const { workspace, environmentKeys } = access.snapshot
  const { secretValues } = ctx.store
  const unique = [...new Set(environmentIds)]
  await secretValues.requireNewestKeys(unique, workspace.id, environmentKeys)
  const names = new Map([...secrets.values()].map(({ id, name }) => [id, name]))
  const secretIds = [...names.keys()]
  const rows = await createWriteAllowance(ctx).load(
    maxRowsOf(unique.length * secretIds.length, ownerId),
    () => secretValues.measureOf(unique, secretIds, ownerId),
    () => secretValues.listOf(unique, secretIds, ownerId),
  )
  const opened = await openValues(ctx, access, rows, names)
  return { secrets, values: presentValues(rows, opened, ownerId) }
}

/** Shared values must be acyclic for everyone, personal ones for their owner. */
async function checkCycles(
  ctx: WriteContext,
  access: ProjectAccess,
  planned: readonly Planned[],
  ownerId: string,
): Promise<void> {
  const placesOf = (list: readonly Planned[]) => ({
    written: list.flatMap(({ edit: { environment, key, value } }) =>
      value === null ? [] : [{ environmentId: environment.id, key, value }],
    ),
    removed: list.flatMap(({ edit: { environment, key, value, isPersonal } }) =>
      value === null && !isPersonal ? [{ environmentId: environment.id, key }] : [],
    ),
  })
  const shared = placesOf(planned.filter(({ edit }) => !edit.isPersonal))
  await refuseCycles(ctx, access, shared.written, shared.removed, '')
  if (ownerId === '') return
  const all = placesOf(planned)
  await refuseCycles(ctx, access, all.written, all.removed, ownerId)
}

/** Saves notes and types that were sent with an unchanged value. */
async function describe(ctx: WriteContext, access: ProjectAccess, secrets: readonly SecretRecord[]): Promise<void> {
  if (secrets.length === 0) return
  const updatedAt = ctx.now()
  await ctx.store.secrets.updateMany(secrets.map((secret) => ({ ...secret, updatedAt })))
  await recordSecrets(ctx, access, 'UPDATE', secrets, ({ type, dataType }) => ({ type, dataType }))
  await announceEverywhere(ctx, access)
}

/** Changes of one request: one revision per environment, and one audit entry. */
export type ProjectChange = {
  readonly ctx: WriteContext
  readonly planned: readonly Planned[]
  readonly fresh: readonly SecretRecord[]
  readonly revisions: Revisions
  readonly message: string
}

/** The only function that changes values. Applies the planned changes of requests to one project, in this order. */
export async function applyChanges(
  ctx: WriteContext,
  access: ProjectAccess,
  asked: readonly ProjectChange[],
): Promise<void> {
  const changes = asked.filter(({ planned }) => planned.length > 0)
  if (changes.length === 0) return
  const { snapshot, project } = access
  const workspaceId = snapshot.workspace.id
  const fresh = changes.flatMap((change) => change.fresh)
  if (fresh.length > 0) {
    await ctx.store.secrets.insertMany(fresh)
    await ctx.store.secrets.countAll(project.id, workspaceId, fresh.length)
  }
  await takeRevisions(ctx, workspaceId, changes)
  const values = new Map<string, SealedValue & { workspaceId: string }>()
  const versions: (VersionRow & { workspaceId: string })[] = []
  const touched = new Map<string, SecretRecord>()
  const environmentIds = new Set<string>()
  for (const change of changes) {
    const now = change.revisions.at
    const by = { createdAt: now, createdBy: change.ctx.actor.name, message: change.message }
    const isFresh = new Set(change.fresh)
    for (const { edit, secret, ownerId, status, version, authors } of change.planned) {
      const environmentId = edit.environment.id
      environmentIds.add(environmentId)
      const place = { workspaceId, projectId: project.id, environmentId, secretId: secret.id, ownerId }
      const sealed =
        edit.value === null
          ? null
          : await ctx.store.secretValues.seal(place, version, edit.value, authors, snapshot.environmentKeys)
      // If several changes write the same value, only the last one is stored as current.
      values.set(valueName(environmentId, secret.id, ownerId), { ...place, version, sealed, authors, updatedAt: now })
      if (ownerId === '') {
        const revision = change.revisions.of(environmentId)
        versions.push({ ...place, version, revision, name: secret.name, action: status, sealed, authors, ...by })
      }
      if (isDescribedAnew(secret, edit) && !isFresh.has(secret)) {
        touched.set(secret.id, { ...withFields(secret, edit), updatedAt: now })
      }
    }
  }
  await ctx.store.secretValues.putMany([...values.values()])
  await ctx.store.secretValues.insertVersions(versions)
  await ctx.store.secrets.updateMany([...touched.values()])
  await recordAll(changes.map((change) => ({ ctx: change.ctx, event: describeChange(access, change) })))
  const isNew = fresh.length > 0 || touched.size > 0
  if (isNew) await announceEverywhere(ctx, access)
  else await announceSecrets(ctx, access, environmentIds)
}

/** Reserves revision numbers with one statement per environment. The numbers follow the order of the requests. */
async function takeRevisions(ctx: WriteContext, workspaceId: string, changes: readonly ProjectChange[]): Promise<void> {
  const shared = changes.flatMap(({ planned, revisions }) =>
    planned.flatMap(({ edit, ownerId, status }) =>
      ownerId === '' ? [{ id: edit.environment.id, revisions, status }] : [],
    ),
  )
  for (const [environmentId, entries] of Map.groupBy(shared, ({ id }) => id)) {
    const counted = entries.reduce((sum, { status }) => sum + countedBy[status], 0)
    const takers = [...new Set(entries.map(({ revisions }) => revisions))].filter(({ of }) => of(environmentId) === 0)
    const { secretValues } = ctx.store
    const last = await secretValues.advanceRevision(environmentId, workspaceId, takers.length, counted, ctx.now())
    for (const [index, revisions] of takers.entries()) revisions.set(environmentId, last - takers.length + 1 + index)
  }
}

const countedBy = { created: 1, updated: 0, deleted: -1 } as const

/** One audit entry for the whole request. It names keys and actions, never values. */
function describeChange({ snapshot, project }: ProjectAccess, { planned, message }: ProjectChange): AuditEvent {
  const [first] = planned
  const isOne = (what: (one: Planned) => string) => planned.every((one) => first && what(one) === what(first))
  const isOneSecret = isOne(({ secret }) => secret.id)
  return {
    chain: snapshot.workspace.id,
    action: first && isOne(({ status }) => status) ? actions[first.status] : 'UPDATE',
    entity:
      first && isOneSecret ? { type: 'secret', id: first.secret.id, name: first.secret.name } : secretsEntity(project),
    projectId: project.id,
    environmentIds: planned.map(({ edit }) => edit.environment.id),
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
    },
  }
}

const actions = { created: 'CREATE', updated: 'UPDATE', deleted: 'DELETE' } as const

async function findSecrets(
  ctx: WriteContext,
  access: ProjectAccess,
  edits: readonly Edit[],
): Promise<Map<string, SecretRecord>> {
  const known = new Map(edits.flatMap(({ key, secret }) => (secret ? [[key, secret]] : [])))
  const keys = [...new Set(edits.map(({ key }) => key))].filter((key) => !known.has(key))
  const found = await ctx.store.secrets.listByNames(access.project.id, keys)
  for (const secret of found) known.set(secret.name, secret)
  return known
}

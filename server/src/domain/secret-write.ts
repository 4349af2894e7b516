/**
 * Every change of values goes through here: what is wished for is compared with what is there, and what differs becomes
 * one revision of each environment, with its versions, its audit entry and the word to every node, in one transaction.
 */
import { type DataType, maxValueBytes, type WriteMode, type WriteResult } from '@coffer/contract/secret'
import { newId } from '../crypto/id.ts'
import { Failure, invalid } from '../failure.ts'
import type { SecretRecord } from '../store/secret.ts'
import type { SealedValue, VersionRow } from '../store/secret-value.ts'
import { hasRole, type ProjectAccess, reauthorise } from './access.ts'
import { record } from './audit.ts'
import type { Context, WriteContext } from './context.ts'
import type { PicturedEnvironment } from './picture.ts'
import { isId } from './secret.ts'
import { refuseCycles } from './secret-cycle.ts'
import { personalOwner } from './secret-environment.ts'
import { recordSecret } from './secret-owner.ts'
import { openValues } from './secret-read.ts'
import { announce } from './transaction.ts'

/** What one key should be in one environment; null is its removal. */
export type Wish = {
  readonly key: string
  /** Where it was looked up already. */
  readonly secret?: SecretRecord
  readonly environment: PicturedEnvironment
  readonly value: string | null
  readonly isPersonal?: boolean
  readonly ifVersion?: number | undefined
  readonly type?: string | undefined
  readonly dataType?: DataType | undefined
  readonly note?: string | undefined
}
/** The revisions that one request makes: at most one of each environment, however much it changes there. */
export type Revisions = {
  take(environmentId: string, counted: number): Promise<number>
  of(environmentId: string): number
}

export function createRevisions(ctx: WriteContext, access: ProjectAccess): Revisions {
  const taken = new Map<string, number>()
  return {
    async take(environmentId, counted) {
      const step = taken.has(environmentId) ? 0 : 1
      const { secretValues } = ctx.store
      const workspaceId = access.picture.workspace.id
      const revision = await secretValues.advanceRevision(environmentId, workspaceId, step, counted, ctx.now())
      taken.set(environmentId, revision)
      return revision
    },
    of: (environmentId) => taken.get(environmentId) ?? 0,
  }
}

export type WriteOptions = {
  readonly mode: WriteMode
  readonly revisions: Revisions
  readonly message?: string | undefined
  readonly dryRun?: boolean | undefined
}

type Planned = {
  readonly wish: Wish
  readonly secret: SecretRecord
  readonly before: SealedValue | undefined
  readonly status: 'created' | 'updated' | 'deleted'
  readonly version: number
}

export async function writeValues(
  ctx: WriteContext,
  access: ProjectAccess,
  wishes: readonly Wish[],
  options: WriteOptions,
): Promise<WriteResult[]> {
  for (const wish of wishes) checkWish(wish)
  const known = await findSecrets(ctx, access, wishes)
  const fresh = new Map<string, SecretRecord>()
  const ownerId = wishes.some(({ isPersonal }) => isPersonal) ? personalOwner(ctx) : ''
  // A value of one's own must not outlive the membership that it goes with.
  if (ownerId !== '') await reauthorise(ctx, access, 'secret:update')
  const secretIds = [...known.values()].map(({ id }) => id)
  const environmentIds = [...new Set(wishes.map(({ environment }) => environment.id))]
  const { workspace, environmentKeys } = access.picture
  await ctx.store.secretValues.requireNewestKeys(environmentIds, workspace.id, environmentKeys)
  const rows = await ctx.store.secretValues.listOf(environmentIds, secretIds, ownerId)
  const current = new Map(rows.map((row) => [rowName(row.environmentId, row.secretId, row.ownerId), row]))
  const names = new Map([...known.values()].map(({ id, name }) => [id, name]))
  const opened = await openValues(ctx, access, rows, names)
  const plain = new Map(
    opened.map((row) => [rowName(row.environmentId, row.secretId, row.isPersonal ? ownerId : ''), row.value]),
  )

  const results: WriteResult[] = []
  const planned: Planned[] = []
  const described: SecretRecord[] = []
  const taken: string[] = []
  for (const wish of wishes) {
    const secret = known.get(wish.key) ?? fresh.get(wish.key) ?? newSecret(ctx, access, wish)
    const owner = wish.isPersonal ? ownerId : ''
    const before = current.get(rowName(wish.environment.id, secret.id, owner))
    const exists = before !== undefined && before.sealed !== null
    refuseStale(wish, exists ? before.version : 0)
    const result = { key: wish.key, environmentId: wish.environment.id, id: secret.id }
    if (wish.value === null) {
      if (!exists) throw new Failure('notFound')
      planned.push({ wish, secret, before, status: 'deleted', version: before.version + 1 })
      results.push({ ...result, status: 'deleted', version: before.version + 1 })
      continue
    }
    if (exists && options.mode === 'create') taken.push(wish.key)
    else if (exists && options.mode === 'skip') results.push({ ...result, status: 'skipped', version: before.version })
    else if (exists && plain.get(rowName(wish.environment.id, secret.id, owner)) === wish.value) {
      results.push({ ...result, status: 'unchanged', version: before.version })
      const next = withFields(secret, wish)
      if (isDescribedAnew(secret, next)) described.push(next)
    } else {
      const version = (before?.version ?? 0) + 1
      const status = exists ? 'updated' : 'created'
      if (!known.has(wish.key)) fresh.set(wish.key, secret)
      planned.push({ wish, secret, before, status, version })
      results.push({ ...result, status, version })
    }
  }
  if (taken.length > 0) throw new Failure('conflict', `These exist already: ${listKeys(taken)}.`)
  await checkCycles(ctx, access, planned, ownerId)
  if (options.dryRun) return results
  if (planned.length > 0) await apply(ctx, access, planned, [...fresh.values()], options)
  await describe(ctx, access, described)
  return results
}

/** What is shared must not circle for anyone; what is one's own, not for oneself. */
async function checkCycles(
  ctx: WriteContext,
  access: ProjectAccess,
  planned: readonly Planned[],
  ownerId: string,
): Promise<void> {
  const placesOf = (list: readonly Planned[]) => ({
    written: list.flatMap(({ wish: { environment, key, value } }) =>
      value === null ? [] : [{ environmentId: environment.id, key, value }],
    ),
    removed: list.flatMap(({ wish: { environment, key, value, isPersonal } }) =>
      value === null && !isPersonal ? [{ environmentId: environment.id, key }] : [],
    ),
  })
  const shared = placesOf(planned.filter(({ wish }) => !wish.isPersonal))
  await refuseCycles(ctx, access, shared.written, shared.removed, '')
  if (ownerId === '') return
  const all = placesOf(planned)
  await refuseCycles(ctx, access, all.written, all.removed, ownerId)
}

/** A note or type that was sent with an equal value is kept all the same. */
async function describe(ctx: WriteContext, access: ProjectAccess, secrets: readonly SecretRecord[]): Promise<void> {
  for (const secret of secrets) {
    await ctx.store.secrets.update({ ...secret, updatedAt: ctx.now() })
    const { type, dataType } = secret
    await recordSecret(ctx, access, 'UPDATE', secret, { type, dataType })
  }
  if (secrets.length > 0) await announceSecrets(ctx, access, environmentIdsOf(access))
}

function withFields(secret: SecretRecord, { type, dataType, note }: Wish): SecretRecord {
  return { ...secret, type: type ?? secret.type, dataType: dataType ?? secret.dataType, note: note ?? secret.note }
}

function isDescribedAnew(a: SecretRecord, b: SecretRecord): boolean {
  return a.type !== b.type || a.dataType !== b.dataType || a.note !== b.note
}

const environmentIdsOf = (access: ProjectAccess) => access.project.environments.map(({ id }) => id)

async function apply(
  ctx: WriteContext,
  access: ProjectAccess,
  planned: readonly Planned[],
  fresh: readonly SecretRecord[],
  { revisions, message = '' }: WriteOptions,
): Promise<void> {
  const { picture, project } = access
  const workspaceId = picture.workspace.id
  const now = ctx.now()
  if (fresh.length > 0) {
    await ctx.store.secrets.insertMany(fresh)
    await ctx.store.secrets.countAll(project.id, workspaceId, fresh.length)
  }
  const values: (SealedValue & { workspaceId: string })[] = []
  const versions: (VersionRow & { workspaceId: string })[] = []
  const shared = planned.filter(({ wish }) => !wish.isPersonal)
  for (const [environmentId, changes] of Map.groupBy(shared, ({ wish }) => wish.environment.id)) {
    const counted = changes.reduce(
      (sum, { status }) => sum + (status === 'created' ? 1 : status === 'deleted' ? -1 : 0),
      0,
    )
    await revisions.take(environmentId, counted)
  }
  const touched = new Map<string, SecretRecord>()
  for (const { wish, secret, status, version } of planned) {
    const ownerId = wish.isPersonal ? personalOwner(ctx) : ''
    const place = {
      workspaceId,
      projectId: project.id,
      environmentId: wish.environment.id,
      secretId: secret.id,
      ownerId,
    }
    const sealed =
      wish.value === null
        ? null
        : await ctx.store.secretValues.seal(place, version, wish.value, picture.environmentKeys)
    values.push({ ...place, version, sealed, updatedAt: now })
    if (!wish.isPersonal) {
      const revision = revisions.of(wish.environment.id)
      const by = { createdAt: now, createdBy: ctx.actor.name, message }
      versions.push({ ...place, version, revision, name: secret.name, action: status, sealed, ...by })
    }
    const next = withFields(secret, wish)
    if (isDescribedAnew(secret, next) && !fresh.includes(secret)) touched.set(secret.id, { ...next, updatedAt: now })
  }
  await ctx.store.secretValues.putMany(values)
  await ctx.store.secretValues.insertVersions(versions)
  for (const secret of touched.values()) await ctx.store.secrets.update(secret)
  await recordChanges(ctx, access, planned, message)
  const isNew = fresh.length > 0 || touched.size > 0
  await announceSecrets(
    ctx,
    access,
    isNew ? project.environments.map(({ id }) => id) : planned.map(({ wish }) => wish.environment.id),
  )
}

/** One entry for the whole request. Values are not in it, only what was done to which key. */
async function recordChanges(
  ctx: WriteContext,
  access: ProjectAccess,
  planned: readonly Planned[],
  message: string,
): Promise<void> {
  const { picture, project } = access
  const secrets = new Set(planned.map(({ secret }) => secret.id))
  const environments = new Set(planned.map(({ wish }) => wish.environment.id))
  const [first] = planned
  if (!first) return
  const statuses = new Set(planned.map(({ status }) => status))
  const action =
    statuses.size > 1 ? 'UPDATE' : ({ created: 'CREATE', updated: 'UPDATE', deleted: 'DELETE' } as const)[first.status]
  await record(ctx, {
    chain: picture.workspace.id,
    action,
    entity:
      secrets.size === 1
        ? { type: 'secret', id: first.secret.id, name: first.secret.name }
        : { type: 'project', id: project.id, name: project.slug },
    projectId: project.id,
    ...(environments.size === 1 && { environmentId: first.wish.environment.id }),
    after: {
      ...(message !== '' && { message }),
      changes: planned.map(({ wish, status, version }) => ({
        key: wish.key,
        environment: wish.environment.name,
        status,
        version,
        ...(wish.isPersonal && { personal: true }),
      })),
    },
  })
}

export async function announceSecrets(
  ctx: WriteContext,
  access: ProjectAccess,
  environmentIds: Iterable<string>,
): Promise<void> {
  for (const id of new Set(environmentIds)) await announce(ctx, 'environment', `${access.picture.workspace.id}:${id}`)
}

/** Members may write their own values; the shared ones need a developer. */
export function requireWriter(
  ctx: Context,
  access: ProjectAccess,
  wishes: readonly { isPersonal?: boolean | undefined }[],
): void {
  const isPersonal = wishes.some((wish) => wish.isPersonal)
  if (isPersonal && personalOwner(ctx) === '') {
    throw new Failure('forbidden', 'Personal values belong to people: a token cannot write them.')
  }
  const isShared = wishes.length === 0 || wishes.some((wish) => !wish.isPersonal)
  if (isShared && !hasRole(access, 'developer')) throw new Failure('forbidden', 'This needs the role developer.')
}

export function listKeys(keys: readonly string[]): string {
  const unique = [...new Set(keys)]
  return unique.length > 20 ? `${unique.slice(0, 20).join(', ')} and ${unique.length - 20} more` : unique.join(', ')
}

function checkWish({ key, value, environment, isPersonal }: Wish): void {
  if (isId(key)) throw invalid('key', 'must not look like an id.')
  if (isPersonal && !environment.hasPersonalOverrides) {
    throw invalid('isPersonal', `personal values are switched off in ${environment.name}.`)
  }
  if (value === null) return
  if (Buffer.byteLength(value) > maxValueBytes) throw invalid('value', `the value of ${key} is larger than 64 KiB.`)
  if (/^(\*{8,}|•{4,})$/.test(value))
    throw invalid('value', `the value of ${key} is only a display mask: send the value itself.`)
}

function refuseStale(wish: Wish, version: number): void {
  if (wish.ifVersion !== undefined && wish.ifVersion !== version) {
    throw new Failure('preconditionFailed', `${wish.key} is at version ${version} now: read it again.`)
  }
}

async function findSecrets(
  ctx: WriteContext,
  access: ProjectAccess,
  wishes: readonly Wish[],
): Promise<Map<string, SecretRecord>> {
  const known = new Map(wishes.flatMap(({ key, secret }) => (secret ? [[key, secret]] : [])))
  const keys = [...new Set(wishes.map(({ key }) => key))].filter((key) => !known.has(key))
  const found = await ctx.store.secrets.listByNames(access.project.id, keys)
  for (const secret of found) known.set(secret.name, secret)
  return known
}

function newSecret(ctx: WriteContext, access: ProjectAccess, wish: Wish): SecretRecord {
  const now = ctx.now()
  return {
    id: newId(),
    workspaceId: access.picture.workspace.id,
    projectId: access.project.id,
    name: wish.key,
    type: wish.type ?? 'runtime',
    dataType: wish.dataType ?? 'text',
    note: wish.note ?? '',
    createdAt: now,
    updatedAt: now,
    trashedAt: null,
  }
}

const rowName = (environmentId: string, secretId: string, ownerId: string) => `${environmentId} ${secretId} ${ownerId}`

/** Writes what is wished for, whatever is there. */
export function upsert(ctx: WriteContext, access: ProjectAccess, message?: string) {
  return { mode: 'upsert', message, revisions: createRevisions(ctx, access) } as const
}

/** Reads of secrets: the hot path of the service. */
import type { ProjectPath } from '@coffer/contract/field'
import type { Secret, SecretListQuery, SecretPath, SecretQuery, SecretRow } from '@coffer/contract/secret'
import { findKnownEtag } from '../../../etag.ts'
import { Failure, invalid, isFailure } from '../../../failure.ts'
import type { ReminderRow } from '../../../store/secret/reminder.ts'
import type { SecretRecord } from '../../../store/secret/secret.ts'
import { type ProjectAccess, reachedEnvironments, requireProject, requireWorkspace } from '../../access/access.ts'
import { grantOf } from '../../actor.ts'
import { type ReadDetails, readDetails, recordRead } from '../../audit/record-read.ts'
import type { CachedResponse } from '../../cache/response-cache.ts'
import type { SnapshotEnvironment } from '../../cache/workspace-snapshot.ts'
import type { Context } from '../../context.ts'
import { reachesProject } from '../../scope.ts'
import { iso } from '../../time.ts'
import { secretsEntity } from '../audit-record.ts'
import { toCells } from '../cell.ts'
import { chooseEnvironments, personalOwner } from '../choose-environment.ts'
import { findSecret } from '../find.ts'
import { loadProject, loadWithoutValues, maxRowsOf, type OpenValue, openValues, valueKey } from '../load.ts'
import { mayExist } from '../name.ts'
import { type AuditedRead, withBases } from '../name-base.ts'
import { namePlaces, resolveRows } from '../reference/follow.ts'
import type { Resolved } from '../reference/resolution.ts'
import { createAllowance } from '../size.ts'
import { cacheKeyOf } from './cache-key.ts'
import type { Chunks } from './chunks.ts'
import { type Answered, writeSecrets } from './text.ts'

/** A response that may be sent: the read is already in the audit trail. */
export type ReadAnswer = {
  readonly etag: string
  readonly body: string | Buffer | Chunks | undefined
  readonly bytes?: number
}

type Reading = {
  readonly access: ProjectAccess
  /** Cache key of the response. */
  readonly cacheKey: string
  readonly environments: readonly SnapshotEnvironment[]
  /** The request or the credential names the environments: secrets without a value in them are not listed. */
  readonly isChosen: boolean
  readonly query: SecretListQuery
  /** One secret by name or id; undefined for the list. */
  readonly key?: string
}

export async function listSecrets(
  ctx: Context,
  path: ProjectPath,
  query: SecretListQuery,
  ifNoneMatch: string | undefined,
): Promise<ReadAnswer> {
  const access = await requireProject(ctx, path, 'secret:read')
  const environments = chooseEnvironments(access, query)
  const isChosen = query.environmentId !== undefined
  const cacheKey = cacheKeyOf(ctx, access, query, environments, isChosen)
  return answer(ctx, { access, environments, isChosen, query, cacheKey }, ifNoneMatch)
}

export async function readSecret(
  ctx: Context,
  path: SecretPath,
  query: SecretQuery,
  ifNoneMatch: string | undefined,
): Promise<ReadAnswer> {
  const access = await requireProject(ctx, path, 'secret:read')
  if (!mayExist(path.key)) throw new Failure('notFound')
  const environments = chooseEnvironments(access, query)
  const isChosen = query.environmentId !== undefined
  const cacheKey = cacheKeyOf(ctx, access, query, environments, isChosen, path.key)
  return answer(ctx, { access, environments, isChosen, query, cacheKey, key: path.key }, ifNoneMatch)
}

const scopedQuery: SecretListQuery = { resolve: true }

/** Reads the one environment that the credential is scoped to, so the request needs no parameters. */
export async function listScopedSecrets(ctx: Context, ifNoneMatch: string | undefined): Promise<ReadAnswer> {
  const { credential } = ctx.actor
  const grant = grantOf(credential)
  const scope = grant?.scope
  const [environmentId, ...others] = scope?.environments ?? []
  const isOne = scope && !scope.all && scope.teams.length + scope.projects.length + others.length === 0
  if (!grant || !environmentId || !isOne) {
    throw invalid(
      'scope',
      'this credential is not for exactly one environment: call /v1/workspace/{ws}/project/{prj}/secret?environmentId=….',
    )
  }
  const found = await requireWorkspace(ctx, { ws: grant.workspaceId }, 'workspace:read')
  const environment = found.snapshot.environments.get(environmentId)
  const project = environment && found.snapshot.projects.get(environment.projectId)
  if (!environment || !project) throw new Failure('notFound')
  const access = { ...found, project }
  if (!reachedEnvironments(access.reach, project).includes(environment)) throw new Failure('notFound')
  const cacheKey = cacheKeyOf(ctx, access, scopedQuery, [environment], true)
  const reading = { access, environments: [environment], isChosen: true, query: scopedQuery, cacheKey }
  return answer(ctx, reading, ifNoneMatch)
}

/** A response from the cache, or one just made, which may be too large for the cache. */
type Prepared = Omit<CachedResponse, 'body'> & { readonly body: string | Buffer | Chunks }

async function answer(ctx: Context, reading: Reading, ifNoneMatch: string | undefined): Promise<ReadAnswer> {
  const known: Prepared =
    ctx.responseCache.find(reading.cacheKey, reading.access.snapshot) ?? (await makeOnce(ctx, reading))
  // Not recorded: the caller already has these values, and none is sent.
  const etag = findKnownEtag(ifNoneMatch, known.etag)
  if (etag !== undefined) return { etag, body: undefined }
  if (known.auditDetails) await recordReading(ctx, reading, known, known.auditDetails)
  return known
}

function recordReading(ctx: Context, reading: Reading, known: Prepared, details: ReadDetails): Promise<void> {
  const { access, environments, key, query } = reading
  const [only] = environments
  const { project, snapshot } = access
  const event = {
    chain: snapshot.workspace.id,
    // Cells show which values are equal, but no value.
    action: query.view === 'cells' ? 'COMPARE' : 'VIEW',
    entity: key === undefined ? secretsEntity(project) : { type: 'secret', ...known.entity },
    projectId: project.id,
    ...(only && environments.length === 1 && { environmentId: only.id }),
  } as const
  return recordRead(ctx, event, details, known.bytes)
}

/**
 * Clients that start together ask for the same response: the first makes it, the others wait and look into the cache
 * again. Each of them would hold all rows otherwise.
 */
async function makeOnce(ctx: Context, reading: Reading): Promise<Prepared> {
  const { access, cacheKey } = reading
  const make = () => makeAnswer(ctx, reading)
  const made = await ctx.responseCache.makeAlone(cacheKey, make)
  // A response that failed, is too large for the cache, or is out of date by now helps nobody else.
  return made ?? ctx.responseCache.find(cacheKey, access.snapshot) ?? make()
}

async function makeAnswer(ctx: Context, reading: Reading): Promise<Prepared> {
  const { access, environments, cacheKey } = reading
  const chosen = environments.map(({ id }) => ({ environmentId: id, version: ctx.environmentVersions.of(id) }))
  const made = await readSecrets(ctx, reading)
  const { body, bytes, etag } = await writeSecrets(ctx, made)
  const { auditDetails } = made
  const entity = { id: made.secrets[0]?.id ?? '', name: made.secrets[0]?.name ?? '' }
  const answer = { etag, auditDetails, entity }
  if (typeof body === 'string') {
    // If a referenced environment changed during the read, its version no longer matches: the entry is never served.
    const referenced = new Set(made.environmentIds).difference(new Set(environments.map(({ id }) => id)))
    const dependencies = [
      ...chosen,
      ...[...referenced].map((id) => ({ environmentId: id, version: made.environmentVersions.get(id) ?? -1 })),
    ]
    ctx.responseCache.keep(cacheKey, access.snapshot, dependencies, { ...answer, body })
  }
  return { ...answer, bytes, body }
}

/** ETag that a plain read of these environments would return; undefined if the read would find nothing. */
export async function findEtag(
  ctx: Context,
  access: ProjectAccess,
  environments: readonly SnapshotEnvironment[],
  key: string,
): Promise<string | undefined> {
  try {
    const made = await readSecrets(ctx, { access, environments, isChosen: false, query: {}, cacheKey: '', key })
    return (await writeSecrets(ctx, made)).etag
  } catch (error) {
    if (isFailure(error, 'notFound')) return undefined
    throw error
  }
}

type Made = Answered & {
  readonly auditDetails: ReadDetails | undefined
  readonly environmentIds: ReadonlySet<string>
  readonly environmentVersions: ReadonlyMap<string, number>
}

async function readSecrets(ctx: Context, reading: Reading): Promise<Made> {
  const { access, environments, query, key } = reading
  const ownerId = personalOwner(ctx)
  // Environment versions are taken before the read: a change in between makes the cache entry stale, not wrong.
  const mayRefer = query.resolve === true ? access.snapshot.environments.keys() : []
  const environmentVersions = new Map([...mayRefer].map((id) => [id, ctx.environmentVersions.of(id)]))
  const hasValues = query.view === undefined || query.view === 'full'
  const loaded = key === undefined ? await loadList(ctx, reading, ownerId) : await loadOne(ctx, reading, key, ownerId)
  const { secrets, values } = loaded
  const names = new Map(secrets.map(({ id, name }) => [id, name]))
  const resolution =
    query.resolve === true && hasValues
      ? await resolveRows(ctx, access, values, names, { ownerId, onUnresolved: query.onUnresolved ?? 'keep' })
      : undefined
  if (query.onUnresolved === 'error' && resolution) refuseUnresolved(resolution.byRow, names)
  const order = new Map(environments.map(({ id }, index) => [id, index]))
  const rowsBySecret = Map.groupBy(values, (value) => value.secretId)
  // Callers who reach only part of the project must not learn what else is in it.
  const isWhole = !reading.isChosen && reachesProject(access.reach, access.project)
  const shown = isWhole ? secrets : secrets.filter(({ id }) => rowsBySecret.has(id))
  const findReminder = createReminderIndex(loaded.reminders)
  const describe = (secret: SecretRecord): Secret => {
    const rows = (rowsBySecret.get(secret.id) ?? []).sort(
      (a, b) =>
        (order.get(a.environmentId) ?? 0) - (order.get(b.environmentId) ?? 0) ||
        Number(a.isPersonal) - Number(b.isPersonal),
    )
    return toSecret(
      secret,
      rows.map((row) => toRow(row, query, resolution?.byRow.get(row), findReminder(row))),
    )
  }
  // A secret does not exist for callers who see none of its values.
  if (key !== undefined && values.length === 0) throw new Failure('notFound')
  const keys = secrets.filter(({ id }) => rowsBySecret.has(id)).map(({ name }) => name)
  const places = resolution?.referenced ?? []
  const read = {
    keys,
    environments: environments.map(({ name }) => name),
    environmentIds: [...environments.map(({ id }) => id), ...places.map(({ environmentId }) => environmentId)],
    referenced: namePlaces(access, places),
  }
  const auditDetails =
    query.view === 'keys' || keys.length === 0
      ? undefined
      : describeRead(isNarrowed(reading) ? await withBases(ctx, access, read, loaded.allNames, places) : read)
  return {
    secrets: shown,
    describe,
    isList: key === undefined,
    advice: loaded.advice,
    auditDetails,
    environmentIds: resolution?.environmentIds ?? new Set(),
    environmentVersions,
  }
}

/** True if a caller can ask for any number of different lists: by search, by key, or by choice of environments. */
function isNarrowed({ access, key, query, isChosen, environments }: Reading): boolean {
  if (key !== undefined || query.q !== undefined) return true
  return environments.length > 1 && (isChosen || environments.length < access.project.environments.length)
}

function describeRead({ keys, environments, environmentIds, referenced, bases }: AuditedRead): ReadDetails {
  return readDetails({ keys, environments, ...(referenced.length > 0 && { referenced }) }, environmentIds, bases)
}

type Loaded = {
  readonly secrets: readonly SecretRecord[]
  /** The names of all secrets of the project, sorted. */
  readonly allNames: () => readonly string[]
  readonly values: readonly OpenValue[]
  readonly reminders: readonly ReminderRow[]
  /** Error text for a response that is too large: how to ask for less. */
  readonly advice: string
}

function loadList(ctx: Context, reading: Reading, ownerId: string): Promise<Loaded> {
  const { access, environments, query } = reading
  const { q: part, view } = query
  return view === 'keys' || view === 'cells'
    ? loadWithoutValues(ctx, access, environments, ownerId, { part, hasCells: view === 'cells' })
    : loadProject(ctx, access, environments, ownerId, { part })
}

async function loadOne(ctx: Context, reading: Reading, key: string, ownerId: string): Promise<Loaded> {
  const secret = await findSecret(ctx, reading.access, key)
  if (!secret || secret.trashedAt !== null) throw new Failure('notFound')
  const { secretValues, secretReminders } = ctx.store
  const ids = reading.environments.map(({ id }) => id)
  const secretIds = [secret.id]
  const advice = 'name fewer environments'
  const allowance = createAllowance(ctx, 'environmentId', advice)
  const sealed = await allowance.load(
    maxRowsOf(ids.length, ownerId),
    () => secretValues.measureOf(ids, secretIds, ownerId),
    () => secretValues.listOf(ids, secretIds, ownerId),
  )
  const opened = await openValues(ctx, reading.access, sealed, new Map([[secret.id, secret.name]]))
  const values = reading.query.view === 'cells' ? await toCells(opened) : opened
  const reminders = ids.length === 0 ? [] : await secretReminders.listOf(ids, secret.id)
  return { secrets: [secret], allNames: () => [secret.name], values, reminders, advice }
}

function refuseUnresolved(byRow: ReadonlyMap<OpenValue, Resolved>, names: ReadonlyMap<string, string>): void {
  for (const [row, { unresolved }] of byRow) {
    if (unresolved.length > 0) throw new Failure('conflict', tellUnresolved(names.get(row.secretId) ?? '', unresolved))
  }
}

const tellUnresolved = (name: string, unresolved: readonly string[]): string =>
  `${name}: refers to ${unresolved.slice(0, 10).join(', ')}, which cannot be resolved.`

/** Looks reminders up by environment and secret. Personal values have none. */
export function createReminderIndex(reminders: readonly ReminderRow[]): (row: OpenValue) => ReminderRow | undefined {
  if (reminders.length === 0) return () => undefined
  const byPlace = new Map(reminders.map((reminder) => [valueKey(reminder), reminder]))
  return (row) => (row.isPersonal ? undefined : byPlace.get(valueKey(row)))
}

function toSecret(record: SecretRecord, values: SecretRow[]): Secret {
  const { id, name, note, type, dataType, createdAt, updatedAt } = record
  return { id, name, note, type, dataType, createdAt: iso(createdAt), updatedAt: iso(updatedAt), values }
}

function toRow(
  row: OpenValue,
  { view, resolve }: SecretQuery,
  resolved: Resolved | undefined,
  reminder: ReminderRow | undefined,
): SecretRow {
  return {
    environmentId: row.environmentId,
    ...(view !== 'keys' && view !== 'cells' && { value: resolved?.value ?? row.value }),
    isPersonal: row.isPersonal,
    // Resolved values carry no version: a client could write them back with it, and so overwrite the references.
    ...(resolve !== true && { version: row.version }),
    updatedAt: iso(row.updatedAt),
    ...(row.cell && { ...row.cell, references: [...row.cell.references] }),
    ...(resolved && resolved.unresolved.length > 0 && { unresolved: [...resolved.unresolved] }),
    ...(reminder && {
      reminder: { id: reminder.id, type: reminder.type, nextReminderDate: iso(reminder.nextAt) },
    }),
  }
}

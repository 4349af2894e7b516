/** History: versions of a value, differences, restoring versions and promoting values. */
import { createHmac } from 'node:crypto'
import type { EnvironmentPath, ProjectPath } from '@coffer/contract/field'
import type {
  Diff,
  DiffQuery,
  Promoted,
  Promotion,
  SecretVersion,
  SecretVersionValue,
  VersionListQuery,
  VersionPath,
  VersionQuery,
  VersionRestore,
  VersionsPath,
} from '@coffer/contract/history'
import { Failure, invalid } from '../../../failure.ts'
import type { NameBases } from '../../../store/audit/key-list.ts'
import type { SecretRecord } from '../../../store/secret/secret.ts'
import type { ChangeRow } from '../../../store/secret/value.ts'
import type { ValuePlace } from '../../../store/secret/value-seal.ts'
import { type ProjectAccess, requireEnvironment, requireProject } from '../../access/access.ts'
import type { AuditEvent } from '../../audit/event.ts'
import { record } from '../../audit/record.ts'
import { readDetails, recordRead } from '../../audit/record-read.ts'
import type { SnapshotEnvironment } from '../../cache/workspace-snapshot.ts'
import type { Context, WriteContext } from '../../context.ts'
import { decodeCursor } from '../../cursor.ts'
import { isId } from '../../id.ts'
import { defaultPageLength, type Page, pageOf } from '../../page.ts'
import { iso } from '../../time.ts'
import { secretsEntity } from '../audit-record.ts'
import { requireNamed, requireReached } from '../choose-environment.ts'
import { findSecret, findUnseen } from '../find.ts'
import { placeOf } from '../load.ts'
import { loadPastBases } from '../name-base.ts'
import { type Chunks, commaAt, writeAnswer } from '../read/chunks.ts'
import { requireDeveloper } from '../right.ts'
import { createAllowance } from '../size.ts'
import { inSecretTransaction, recordComparison } from '../write/compare.ts'
import type { Edit } from '../write/plan.ts'
import { createRevisions, writeRevision } from '../write/revision.ts'
import { writeValues } from '../write/write.ts'
import { openVersion, parseState, stateAt, stateNow } from './state.ts'

export async function listVersions(
  ctx: Context,
  path: VersionsPath,
  query: VersionListQuery,
): Promise<Page<SecretVersion>> {
  const { place } = await requireValue(ctx, path, query, 'secret:read')
  const limit = query.limit ?? defaultPageLength
  const before = query.cursor === undefined ? Number.MAX_SAFE_INTEGER : decodeCursor(query.cursor)
  const rows = await ctx.store.secretVersions.list(place, before, limit + 1)
  // A secret that never had a value in this environment does not exist here, whichever page is asked for.
  if (rows.length === 0 && (await ctx.store.secretVersions.list(place, Number.MAX_SAFE_INTEGER, 1)).length === 0)
    throw new Failure('notFound')
  return pageOf(rows, limit, { item: toVersion, position: ({ version }) => version })
}

export async function readVersion(ctx: Context, path: VersionPath, query: VersionQuery): Promise<SecretVersionValue> {
  const { access, environment, secret, place } = await requireValue(ctx, path, query, 'secret:read')
  const row = await ctx.store.secretValues.findVersion(place, path.version)
  if (!row) throw new Failure('notFound')
  if (row.sealed === null) return toVersion(row)
  const value = await openVersion(ctx, access, place, row)
  const bytes = Buffer.byteLength(JSON.stringify(value))
  await recordView(ctx, access, [environment], secret, { keys: [secret.name], version: path.version }, bytes)
  return { ...toVersion(row), value }
}

export async function restoreVersion(
  ctx: Context,
  path: VersionPath,
  body: VersionRestore,
): Promise<{ success: boolean; version: number }> {
  const { access, environment, secret: named, place } = await requireValue(ctx, path, body, 'secret:write')
  return inSecretTransaction(ctx, access, async (ctx) => {
    // Loaded again under the workspace lock: the secret may have been renamed meanwhile, or its name reused.
    const secret = await requireLive(ctx, access, named.id)
    const row = await ctx.store.secretValues.findVersion(place, path.version)
    if (!row) throw new Failure('notFound')
    if (row.sealed === null)
      throw new Failure('conflict', `Version ${path.version} is a deletion: there is nothing to restore.`)
    const value = await openVersion(ctx, access, place, row)
    const options = {
      mode: 'upsert',
      message: `restored version ${path.version}`,
      revisions: createRevisions(ctx, access),
    } as const
    const edit = { key: secret.name, secret, environment, value, copiedFrom: row.authors }
    const [result] = await writeValues(ctx, access, [edit], options)
    return { success: true, version: result?.version ?? 0 }
  })
}

const diffAdvice = 'compare versions of single secrets'

/** Returns the diff as JSON. */
export async function diffSecrets(ctx: Context, path: ProjectPath, query: DiffQuery): Promise<string | Chunks> {
  const access = await requireProject(ctx, path, 'secret:read')
  const [from, to] = [await parseState(ctx, access, 'from', query.from), await parseState(ctx, access, 'to', query.to)]
  const allowance = createAllowance(ctx, 'from', diffAdvice)
  const before = await stateAt(ctx, access, allowance, from.environment, from.revision)
  const after = await stateAt(ctx, access, allowance, to.environment, to.revision)
  const all = [...new Set([...before.keys(), ...after.keys()])].sort()
  const diff: Diff = { added: [], removed: [], changed: [], same: [] }
  for (const key of all) {
    const [old, next] = [before.get(key), after.get(key)]
    if (!old) diff.added.push(key)
    else if (!next) diff.removed.push(key)
    else (old.value === next.value ? diff.same : diff.changed).push(key)
  }
  const environments = [from.environment, to.environment]
  const keys = [...diff.added, ...diff.removed, ...diff.changed].sort()
  const values = keys.map((key): [string, DiffValue] => {
    const [old, next] = [before.get(key), after.get(key)]
    return [key, { ...(old && { from: old.value }), ...(next && { to: next.value }) }]
  })
  const entries = query.values ? diffEntries(diff, values) : [JSON.stringify(diff)]
  const { body, bytes } = await writeAnswer(ctx, entries, createAllowance(ctx, 'from', diffAdvice))
  const states = { from: query.from, to: query.to }
  const bases = await loadPastBases(ctx, access, all)
  await recordComparison(ctx, access, [{ keys: all, environments, bases }], 'success', states, bytes)
  if (query.values) await recordView(ctx, access, environments, undefined, { keys, ...states }, bytes, bases)
  return body
}

type DiffValue = { from?: string; to?: string }

function* diffEntries(diff: Diff, values: readonly (readonly [key: string, value: DiffValue])[]): Generator<string> {
  yield `${JSON.stringify(diff).slice(0, -1)},"values":{`
  for (const [index, [key, value]] of values.entries()) {
    yield `${commaAt(index)}${JSON.stringify(key)}:${JSON.stringify(value)}`
  }
  yield '}}'
}

export async function promoteSecrets(ctx: Context, path: EnvironmentPath, body: Promotion): Promise<Promoted> {
  const access = await requireEnvironment(ctx, path, 'secret:write')
  const { environment } = access
  const source = requireReached(access, body.from)
  if (source.id === environment.id) throw invalid('from', 'must be another environment.')
  let diff = ''
  const written = await writeRevision(ctx, access, environment, body.dryRun, async (ctx) => {
    // Each side has its own allowance, and the target loads only replaced values: a promotion that fits is repeatable.
    const load = (from: SnapshotEnvironment, keys?: readonly string[]) => {
      const allowance = createAllowance(ctx, 'keys', 'promote fewer keys at once')
      return stateNow(ctx, access, allowance, from, keys)
    }
    const there = await load(source, body.keys)
    const missing = (body.keys ?? []).filter((key) => !there.has(key))
    if (missing.length > 0) throw invalid('keys', `${missing.slice(0, 20).join(', ')} is not in ${source.name}.`)
    const wanted = [...new Set(body.keys ?? there.keys())].sort()
    const here = await load(environment, wanted)
    ctx.compared.push({ environments: [source, environment], keys: wanted })
    diff = digestOf(
      ctx,
      wanted.map((key) => [key, there.get(key), here.get(key)] as const),
    )
    if (body.ifDiff !== undefined && body.ifDiff !== diff) {
      throw new Failure('preconditionFailed', 'The environments have changed since the dry run: do the dry run again.')
    }
    const edits = wanted.flatMap((key): Edit[] => {
      const state = there.get(key)
      return state ? [{ key, environment, value: state.value, copiedFrom: state.authors }] : []
    })
    const revisions = createRevisions(ctx, access)
    const { mode = 'upsert', message = `promoted from ${source.name}` } = body
    const results = await writeValues(ctx, access, edits, { mode, message, revisions })
    // Copying is a read of the source environment. Recorded in the same transaction: no copy without its audit entry.
    const after = { keys: wanted, promotedTo: environment.name }
    record(ctx, { ...viewOf(access, [source]), after })
    return results
  })
  return { ...written, diff }
}

type Found = {
  access: ProjectAccess
  environment: SnapshotEnvironment
  secret: SecretRecord
  place: ValuePlace
}

async function requireValue(
  ctx: Context,
  path: VersionsPath,
  named: VersionQuery,
  permission: 'secret:read' | 'secret:write',
): Promise<Found> {
  const access = await requireProject(ctx, path, permission)
  const environment = requireNamed(access, named.environmentId)
  if (permission === 'secret:write') requireDeveloper(access, environment)
  const secret = await requireLive(ctx, access, path.key)
  const place = placeOf(access, environment, secret.id)
  if (!isId(path.key)) await requireKnownName(ctx, access, secret, place)
  return { access, environment, secret, place }
}

/** Never confirms the current name of a secret to someone who sees only its old versions. */
async function requireKnownName(
  ctx: Context,
  access: ProjectAccess,
  { id, name }: SecretRecord,
  place: ValuePlace,
): Promise<void> {
  if ((await findUnseen(ctx, access, [id])).size === 0) return
  const [newest] = await ctx.store.secretVersions.list(place, Number.MAX_SAFE_INTEGER, 1)
  if (newest?.name !== name) throw new Failure('notFound')
}

async function requireLive(ctx: Context, access: ProjectAccess, key: string): Promise<SecretRecord> {
  const secret = await findSecret(ctx, access, key)
  if (!secret || secret.trashedAt !== null) throw new Failure('notFound')
  return secret
}

function recordView(
  ctx: Context,
  access: ProjectAccess,
  environments: readonly SnapshotEnvironment[],
  secret: SecretRecord | undefined,
  after: { readonly keys: readonly string[]; readonly [field: string]: unknown },
  bytes: number,
  bases?: NameBases,
): Promise<void> {
  const view = viewOf(access, environments, secret)
  return recordRead(ctx, view, readDetails(after, view.environmentIds, bases), bytes)
}

function viewOf(access: ProjectAccess, environments: readonly SnapshotEnvironment[], secret?: SecretRecord) {
  const { project, snapshot } = access
  return {
    chain: snapshot.workspace.id,
    action: 'VIEW',
    entity: secret ? { type: 'secret', id: secret.id, name: secret.name } : secretsEntity(project),
    projectId: project.id,
    environmentIds: environments.map(({ id }) => id),
  } as const satisfies AuditEvent
}

type Compared = { readonly version: number; readonly secretId: string } | undefined

/** Keyed digest that identifies a diff without revealing it. */
function digestOf(
  ctx: WriteContext,
  entries: readonly (readonly [key: string, from: Compared, to: Compared])[],
): string {
  const canonical = entries.map(([key, from, to]) => [key, from?.secretId, from?.version ?? 0, to?.version ?? 0])
  return createHmac('sha256', ctx.keys.keyring.active.audit).update(JSON.stringify(canonical)).digest('base64url')
}

function toVersion({ version, createdAt, createdBy, message, action }: ChangeRow): SecretVersion {
  return { version, createdAt: iso(createdAt), createdBy, message, deleted: action === 'deleted' }
}

/** Restores an environment to one of its revisions, as a new revision. */
import type { RevisionPath, RevisionRestore } from '@coffer/contract/history'
import type { RevisionResults } from '@coffer/contract/secret'
import { Failure } from '../../../failure.ts'
import type { SecretRecord } from '../../../store/secret/secret.ts'
import { type ProjectAccess, reachedEnvironments, requireEnvironment } from '../../access/access.ts'
import type { Context, WriteContext } from '../../context.ts'
import { reachesProject } from '../../scope.ts'
import { recordSecrets } from '../audit-record.ts'
import { findUnseen } from '../find.ts'
import { refuseReserved } from '../name.ts'
import { loadPastBases } from '../name-base.ts'
import { createAllowance } from '../size.ts'
import { announceEverywhere } from '../write/announce.ts'
import type { Edit } from '../write/plan.ts'
import { writeRevision } from '../write/revision.ts'
import { isKept } from '../write/trash.ts'
import { upsert, writeValues } from '../write/write.ts'
import { type StateValue, stateAt } from './state.ts'

export async function restoreRevision(
  ctx: Context,
  path: RevisionPath,
  body: RevisionRestore,
): Promise<RevisionResults> {
  const access = await requireEnvironment(ctx, path, 'secret:write')
  const { environment, snapshot } = access
  return writeRevision(ctx, access, environment, body.dryRun, async (ctx) => {
    const current = await ctx.store.secretValues.currentRevision(environment.id, snapshot.workspace.id)
    if (path.revision > current) throw new Failure('notFound')
    const load = (revision: number) => {
      const allowance = createAllowance(ctx, 'revision', 'restore versions of single secrets')
      return stateAt(ctx, access, allowance, environment, revision)
    }
    const [then, now] = [await load(path.revision), await load(current)]
    const keys = [...then.keys(), ...now.keys()]
    const bases = await loadPastBases(ctx, access, keys)
    ctx.compared.push({ environments: [environment], keys, bases })
    const set = [...then].filter(([key, { value }]) => now.get(key)?.value !== value)
    const origins = await findOrigins(ctx, access, set)
    const edits: Edit[] = [
      ...[...now.keys()].filter((key) => !then.has(key)).map((key) => ({ key, environment, value: null })),
      ...set.map(([key, { value, authors }]) => ({
        key,
        environment,
        value,
        copiedFrom: authors,
        ...origins.get(key),
      })),
    ]
    await takeFromTrash(ctx, access, [...origins.values()])
    const { message = `restored revision ${path.revision}` } = body
    return writeValues(ctx, access, edits, upsert(ctx, access, message))
  })
}

/** How a name that is no longer in use comes back: as a secret from the trash, or as a new one with these fields. */
type Origin = Pick<Edit, 'secret' | 'note' | 'type' | 'dataType'>

/**
 * A secret in the trash comes back with its id, note and versions. A renamed secret keeps its new name in the other
 * environments, and the old name becomes a new secret. Note and type are copied only if the caller may know them.
 */
async function findOrigins(
  ctx: WriteContext,
  access: ProjectAccess,
  set: readonly (readonly [key: string, then: StateValue])[],
): Promise<ReadonlyMap<string, Origin>> {
  const { project, reach } = access
  const keys = set.map(([key]) => key)
  const taken = new Set((await ctx.store.secrets.listByNames(project.id, keys)).map(({ name }) => name))
  const free = set.filter(([key]) => !taken.has(key))
  const ids = free.map(([, { secretId }]) => secretId)
  const records = ids.length === 0 ? [] : await ctx.store.secrets.listWithTrash(project.id, ids)
  const byId = new Map(records.map((secret) => [secret.id, secret]))
  const unknown = await findUnknown(ctx, access, records)
  // Only callers who reach the whole project may take a secret out of the trash.
  const isTakenOut = (secret: SecretRecord) =>
    secret.trashedAt !== null && isKept(ctx, secret) && reachesProject(reach, project)
  return new Map(
    free.flatMap(([key, { secretId }]): [string, Origin][] => {
      const old = byId.get(secretId)
      if (!old || unknown.has(old.id)) return []
      const { note, type, dataType } = old
      if (!isTakenOut(old)) return [[key, { note, type, dataType }]]
      if (key !== old.name) refuseReserved('key', key)
      return [[key, { secret: { ...old, name: key, trashedAt: null, updatedAt: ctx.now() } }]]
    }),
  )
}

/** Secrets that the caller neither sees now nor saw until they were deleted. These stay in the trash untouched. */
async function findUnknown(
  ctx: WriteContext,
  access: ProjectAccess,
  records: readonly SecretRecord[],
): Promise<ReadonlySet<string>> {
  const unseen = await findUnseen(
    ctx,
    access,
    records.map(({ id }) => id),
  )
  const environmentIds = reachedEnvironments(access.reach, access.project).map(({ id }) => id)
  const rows = await ctx.store.secretValues.listOf(environmentIds, [...unseen], '')
  const trashedAt = new Map(records.map((secret) => [secret.id, secret.trashedAt]))
  // A value that the deletion itself removed was visible until then.
  const seenLast = rows.flatMap(({ secretId, updatedAt }) => (updatedAt === trashedAt.get(secretId) ? [secretId] : []))
  return unseen.difference(new Set(seenLast))
}

async function takeFromTrash(ctx: WriteContext, access: ProjectAccess, origins: readonly Origin[]): Promise<void> {
  const { project, snapshot } = access
  const secrets = origins.flatMap(({ secret }) => (secret ? [secret] : []))
  if (secrets.length === 0) return
  await ctx.store.secrets.updateMany(secrets)
  recordSecrets(ctx, access, 'UPDATE', secrets, () => ({ restored: true }))
  ctx.store.secrets.countAll(project.id, snapshot.workspace.id, secrets.length)
  await announceEverywhere(ctx, access)
}

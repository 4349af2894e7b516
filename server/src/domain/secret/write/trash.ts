/** The trash keeps a deleted secret for thirty days. During that time, the secret can be restored or purged. */
import type { ProjectPath } from '@coffer/contract/field'
import type { SecretPath, TrashedSecret } from '@coffer/contract/secret'
import { Failure } from '../../../failure.ts'
import type { SecretRecord } from '../../../store/secret/secret.ts'
import { type ProjectAccess, requireProject, requireRole } from '../../access/access.ts'
import { withStoredEnvironments } from '../../access/stored-environment.ts'
import type { Context } from '../../context.ts'
import { isId } from '../../id.ts'
import { reachesProject } from '../../scope.ts'
import { dayMs, iso } from '../../time.ts'
import { recordSecret } from '../audit-record.ts'
import { findSecret, requireSecret } from '../find.ts'
import { listWhole } from '../long-list.ts'
import { requireWholeProject } from '../right.ts'
import { announceEverywhere } from './announce.ts'
import { type CompareContext, inSecretTransaction } from './compare.ts'
import { requireMatch } from './match.ts'
import type { Edit } from './plan.ts'
import { upsert, writeValues } from './write.ts'

export const trashLifeMs = 30 * dayMs

/** Removes the secret's shared values, which adds a version to each, and moves the secret to the trash. */
export async function trashSecret(
  ctx: Context,
  stale: ProjectAccess,
  key: string,
  ifMatch: string | undefined,
): Promise<void> {
  await inSecretTransaction(ctx, stale, async (ctx) => {
    const access = await withStoredEnvironments(ctx, stale)
    const secret = await requireSecret(ctx, access, key)
    await requireMatch(ctx, access, secret, ifMatch)
    const rows = await ctx.store.secretValues.listOf(
      access.project.environments.map(({ id }) => id),
      [secret.id],
      '',
    )
    // Later than every earlier removal, even if the clock was set back: restore finds the removed values by this time.
    const now = Math.max(ctx.now(), ...rows.map(({ updatedAt }) => updatedAt + 1))
    await removeEverywhere({ ...ctx, now: () => now }, access, secret)
    await ctx.store.secrets.update({ ...secret, trashedAt: now, updatedAt: now })
    ctx.store.secrets.countAll(access.project.id, access.snapshot.workspace.id, -1)
    recordSecret(ctx, access, 'DELETE', secret, { trash: true })
    await announceEverywhere(ctx, access)
  })
}

async function removeEverywhere(ctx: CompareContext, access: ProjectAccess, secret: SecretRecord): Promise<void> {
  const { environments } = access.project
  const rows = await ctx.store.secretValues.listOf(
    environments.map(({ id }) => id),
    [secret.id],
    '',
  )
  const live = new Set(rows.filter(({ sealed }) => sealed !== null).map(({ environmentId }) => environmentId))
  const edits = environments
    .filter(({ id }) => live.has(id))
    .map((environment) => ({ key: secret.name, environment, value: null }))
  if (edits.length > 0) await writeValues(ctx, access, edits, upsert(ctx, access))
}

export async function listTrash(ctx: Context, path: ProjectPath): Promise<TrashedSecret[]> {
  const access = await requireProject(ctx, path, 'secret:read')
  // A secret in the trash has no environment: only callers who reach the whole project see it.
  if (!reachesProject(access.reach, access.project)) return []
  const rows = await listKept(ctx, access)
  return rows.map(({ id, name, note, type, dataType, createdAt, updatedAt, trashedAt }) => ({
    id,
    name,
    note,
    type,
    dataType,
    createdAt: iso(createdAt),
    updatedAt: iso(updatedAt),
    deletedAt: iso(trashedAt ?? 0),
    purgeAt: iso((trashedAt ?? 0) + trashLifeMs),
  }))
}

export async function restoreSecret(ctx: Context, path: SecretPath): Promise<void> {
  const stale = await requireProject(ctx, path, 'secret:write')
  requireWholeProject(stale, 'restore a secret')
  await inSecretTransaction(ctx, stale, async (ctx) => {
    const access = await withStoredEnvironments(ctx, stale)
    const { project, snapshot } = access
    const secret = await findTrashed(ctx, access, path.key)
    if (await ctx.store.secrets.findByName(project.id, secret.name)) {
      throw new Failure('conflict', `A secret named ${secret.name} already exists: rename or delete it first.`)
    }
    await ctx.store.secrets.update({ ...secret, trashedAt: null, updatedAt: ctx.now() })
    ctx.store.secrets.countAll(project.id, snapshot.workspace.id, 1)
    const edits: Edit[] = []
    for (const row of await ctx.store.secretValues.listOf(
      project.environments.map(({ id }) => id),
      [secret.id],
      '',
    )) {
      const environment = snapshot.environments.get(row.environmentId)
      // Restores only values that the deletion itself removed.
      if (!environment || row.sealed !== null || row.updatedAt !== secret.trashedAt) continue
      const place = {
        workspaceId: snapshot.workspace.id,
        projectId: project.id,
        environmentId: environment.id,
        secretId: secret.id,
        ownerId: '',
      }
      const last = await ctx.store.secretValues.findVersion(place, row.version - 1)
      if (!last?.sealed) continue
      const value = await ctx.store.secretValues.open(place, { ...last, sealed: last.sealed }, snapshot.environmentKeys)
      edits.push({ key: secret.name, environment, value, copiedFrom: last.authors })
    }
    if (edits.length > 0) await writeValues(ctx, access, edits, upsert(ctx, access, 'restored from the trash'))
    recordSecret(ctx, access, 'UPDATE', secret, { restored: true })
    await announceEverywhere(ctx, access)
  })
}

/** Destroys the secret and every version of it. This cannot be undone. */
export async function purgeSecret(
  ctx: Context,
  stale: ProjectAccess,
  key: string,
  ifMatch: string | undefined,
): Promise<void> {
  requireRole(stale, 'admin', stale)
  requireWholeProject(stale, 'purge a secret', 'admin')
  await inSecretTransaction(ctx, stale, async (ctx) => {
    const access = await withStoredEnvironments(ctx, stale)
    const secret = (await findSecret(ctx, access, key)) ?? (await findTrashed(ctx, access, key))
    await requireMatch(ctx, access, secret, ifMatch)
    if (secret.trashedAt === null) {
      await removeEverywhere(ctx, access, secret)
      ctx.store.secrets.countAll(access.project.id, access.snapshot.workspace.id, -1)
    }
    await ctx.store.secrets.remove(secret.id, access.project.id)
    recordSecret(ctx, access, 'DELETE', secret, { purged: true })
    await announceEverywhere(ctx, access)
  })
}

async function findTrashed(ctx: Context, access: ProjectAccess, key: string): Promise<SecretRecord> {
  const trash = await listKept(ctx, access)
  const secret = trash.find(({ id, name }) => (isId(key) ? id === key.toLowerCase() : name === key))
  if (!secret) throw new Failure('notFound')
  return secret
}

async function listKept(ctx: Context, access: ProjectAccess): Promise<SecretRecord[]> {
  const { project, snapshot } = access
  const list = () => ctx.store.secrets.listTrash(project.id, snapshot.workspace.id)
  const trash = await listWhole(ctx, snapshot, `trash ${project.id}`, list)
  return trash.filter((secret) => isKept(ctx, secret))
}

/** After thirty days a secret counts as gone: cleanup may already have removed parts of it. */
export const isKept = (ctx: Context, { trashedAt }: SecretRecord): boolean => (trashedAt ?? 0) + trashLifeMs > ctx.now()

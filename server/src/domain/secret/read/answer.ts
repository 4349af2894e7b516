/** Reads of secrets: the hot path of the service. How the response to a selection is cached, compared and recorded. */
import type { ProjectPath } from '@coffer/contract/field'
import type { SecretListQuery, SecretPath, SecretQuery } from '@coffer/contract/secret'
import { findKnownEtag } from '../../../etag.ts'
import { isFailure } from '../../../failure.ts'
import { type ProjectAccess, requireProject, requireWorkspace } from '../../access/access.ts'
import type { CachedResponse } from '../../cache/response-cache.ts'
import type { SnapshotEnvironment } from '../../cache/workspace-snapshot.ts'
import type { Context } from '../../context.ts'
import { recordSelection } from './audit-record.ts'
import { cacheKeyOf } from './cache-key.ts'
import type { Chunks } from './chunks.ts'
import { readSelection } from './reading.ts'
import { requireScopedPath, type Selection, selectList, selectOne, selectPlain, selectScoped } from './selection.ts'
import { writeSecrets } from './text.ts'

/** A response that may be sent: the read is already in the audit trail. */
export type ReadAnswer = {
  readonly etag: string
  readonly body: string | Buffer | Chunks | undefined
  readonly bytes?: number
}

export async function listSecrets(
  ctx: Context,
  path: ProjectPath,
  query: SecretListQuery,
  ifNoneMatch: string | undefined,
): Promise<ReadAnswer> {
  const access = await requireProject(ctx, path, 'secret:read')
  return answer(ctx, selectList(access, query), ifNoneMatch)
}

export async function readSecret(
  ctx: Context,
  path: SecretPath,
  query: SecretQuery,
  ifNoneMatch: string | undefined,
): Promise<ReadAnswer> {
  const access = await requireProject(ctx, path, 'secret:read')
  return answer(ctx, selectOne(access, query, path.key), ifNoneMatch)
}

/** Reads the one environment that the credential is scoped to, so the request needs no parameters. */
export async function listScopedSecrets(ctx: Context, ifNoneMatch: string | undefined): Promise<ReadAnswer> {
  const path = requireScopedPath(ctx)
  const access = await requireWorkspace(ctx, path, 'workspace:read')
  return answer(ctx, selectScoped(access, path), ifNoneMatch)
}

/** A response from the cache, or one just made, which may be too large for the cache. */
type Prepared = Omit<CachedResponse, 'body'> & { readonly body: string | Buffer | Chunks }

async function answer(ctx: Context, selection: Selection, ifNoneMatch: string | undefined): Promise<ReadAnswer> {
  const cacheKey = cacheKeyOf(ctx, selection)
  const known: Prepared =
    ctx.responseCache.find(cacheKey, selection.access.snapshot) ?? (await makeOnce(ctx, selection, cacheKey))
  // Not recorded: the caller already has these values, and none is sent.
  const etag = findKnownEtag(ifNoneMatch, known.etag)
  if (etag !== undefined) return { etag, body: undefined }
  if (known.auditDetails) await recordSelection(ctx, selection, known.auditDetails, known)
  return known
}

/**
 * Clients that start together ask for the same response: the first makes it, the others wait and look into the cache
 * again. Each of them would hold all rows otherwise.
 */
async function makeOnce(ctx: Context, selection: Selection, cacheKey: string): Promise<Prepared> {
  const make = () => makeAnswer(ctx, selection, cacheKey)
  const made = await ctx.responseCache.makeAlone(cacheKey, make)
  // A response that failed, is too large for the cache, or is out of date by now helps nobody else.
  return made ?? ctx.responseCache.find(cacheKey, selection.access.snapshot) ?? make()
}

async function makeAnswer(ctx: Context, selection: Selection, cacheKey: string): Promise<Prepared> {
  const reading = await readSelection(ctx, selection)
  const { body, bytes, etag } = await writeSecrets(ctx, reading)
  const { auditDetails, dependencies, secrets } = reading
  const entity = { id: secrets[0]?.id ?? '', name: secrets[0]?.name ?? '' }
  const made = { etag, auditDetails, entity }
  if (typeof body === 'string') {
    ctx.responseCache.keep(cacheKey, selection.access.snapshot, dependencies, { ...made, body })
  }
  return { ...made, bytes, body }
}

/** ETag that a plain read of these environments would return; undefined if the read would find nothing. */
export async function findEtag(
  ctx: Context,
  access: ProjectAccess,
  environments: readonly SnapshotEnvironment[],
  key: string,
): Promise<string | undefined> {
  try {
    const reading = await readSelection(ctx, selectPlain(access, environments, key))
    return (await writeSecrets(ctx, reading)).etag
  } catch (error) {
    if (isFailure(error, 'notFound')) return undefined
    throw error
  }
}

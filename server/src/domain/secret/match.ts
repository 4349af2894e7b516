/** If-Match: a change that happens only while the secret is as its caller has read it. */
import { Failure } from '../../failure.ts'
import type { SecretRecord } from '../../store/secret.ts'
import { type ProjectAccess, reachedEnvironments } from '../access/access.ts'
import type { PicturedEnvironment } from '../cache/workspace-snapshot.ts'
import { findEtag } from './answer.ts'
import type { CompareContext } from './compare.ts'

/**
 * Call under the lock of the workspace, before anything is changed: of many who have read the same, one is first. Fits
 * the tag of a plain read, and that of a read of the one environment that the request is about.
 */
export async function requireMatch(
  ctx: CompareContext,
  access: ProjectAccess,
  secret: SecretRecord,
  ifMatch: string | undefined,
  environment?: PicturedEnvironment,
): Promise<void> {
  if (ifMatch === undefined) return
  if (ifMatch.trim() === '*' && secret.trashedAt === null) return
  ctx.compared.add({ environments: environment ? [environment] : [], keys: [secret.name], secrets: [secret] })
  // A weak tag differs from every tag that we give, and so never fits.
  const tags = new Set(ifMatch.split(',').map((tag) => tag.trim()))
  const reads = [reachedEnvironments(access.reach, access.project), ...(environment ? [[environment]] : [])]
  for (const environments of reads) {
    const etag = await findEtag(ctx, access, environments, secret.id)
    if (etag !== undefined && tags.has(etag)) return
  }
  throw new Failure('preconditionFailed', `${secret.name} has changed since you read it: read it again.`)
}

/** If-Match: applies a change only if the secret is still as the caller read it. */
import { isMatch } from '../../../etag.ts'
import { Failure } from '../../../failure.ts'
import type { SecretRecord } from '../../../store/secret/secret.ts'
import { type ProjectAccess, reachedEnvironments } from '../../access/access.ts'
import type { SnapshotEnvironment } from '../../cache/workspace-snapshot.ts'
import { findEtag } from '../read/answer.ts'
import type { CompareContext } from './compare.ts'

/**
 * Call under the workspace lock, before any change: of several callers with the same ETag, only the first may succeed.
 * Accepts the ETag of a plain read, or of a read of the one environment that the request is about.
 */
export async function requireMatch(
  ctx: CompareContext,
  access: ProjectAccess,
  secret: SecretRecord,
  ifMatch: string | undefined,
  environment?: SnapshotEnvironment,
): Promise<void> {
  if (ifMatch === undefined) return
  if (ifMatch.trim() === '*' && secret.trashedAt === null) return
  ctx.compared.push({ environments: environment ? [environment] : [], keys: [secret.name], secrets: [secret] })
  const reads = [reachedEnvironments(access.reach, access.project), ...(environment ? [[environment]] : [])]
  for (const environments of reads) {
    const etag = await findEtag(ctx, access, environments, secret.id)
    if (etag !== undefined && isMatch(ifMatch, etag)) return
  }
  throw new Failure('preconditionFailed', `${secret.name} has changed since you read it: read it again.`)
}

/** Writes single values. Concurrent requests for one project share a transaction. */
import type { SecretPath, ValueChange, WriteResult } from '@coffer/contract/secret'
import { headRows } from '../../../store/audit/head.ts'
import type { JointWork } from '../../../store/engine/sql.ts'
import { type ProjectAccess, requireProject } from '../../access/access.ts'
import { confirmWithin } from '../../access/confirm.ts'
import type { Context } from '../../context.ts'
import { enterTransaction } from '../../transaction.ts'
import { requireReached } from '../choose-environment.ts'
import { requireSecret } from '../find.ts'
import { requireWriter } from '../right.ts'
import type { ProjectChange } from './apply.ts'
import { type Comparison, inSecretTransaction, recordingComparison } from './compare.ts'
import { requireMatch } from './match.ts'
import type { Edit } from './plan.ts'
import { mayShareWrite, upsert, writeRequests, writeValues } from './write.ts'

export async function writeSecretValue(
  ctx: Context,
  path: SecretPath,
  body: ValueChange,
  ifMatch: string | undefined,
): Promise<{ success: boolean; version: number }> {
  const access = await requireProject(ctx, path, 'secret:update')
  const { value, message, ifVersion, isPersonal = false } = body
  requireWriter(ctx, access, [{ isPersonal }])
  const environment = requireReached(access, body.environmentId)
  requireWriter(ctx, access, [{ isPersonal, environment }])
  const edit = { key: path.key, environment, value, isPersonal, ifVersion }
  const [result] =
    ifMatch === undefined && mayShareWrite(edit)
      ? await joinWrite(ctx, access, edit, message)
      : await inSecretTransaction(ctx, access, async (ctx) => {
          const secret = await requireSecret(ctx, access, path.key)
          await requireMatch(ctx, access, secret, ifMatch, environment)
          return writeValues(ctx, access, [{ ...edit, key: secret.name, secret }], upsert(ctx, access, message))
        })
  return { success: true, version: result?.version ?? 0 }
}

type Asked = {
  readonly ctx: Context
  readonly access: ProjectAccess
  readonly edit: Edit
  readonly message: string | undefined
  readonly compared: Comparison[]
}

function joinWrite(ctx: Context, access: ProjectAccess, edit: Edit, message?: string): Promise<readonly WriteResult[]> {
  return recordingComparison(ctx, access, async (compared) => {
    const { workspace } = access.snapshot
    const asked = { ctx, access, edit, message, compared }
    const { planned, results } = await ctx.engine.joinTransaction(
      workspace.id,
      access.project.id,
      asked,
      writeTogether,
      headRows([workspace.id]),
    )
    ctx.run.hasCommitted = true
    return { result: results, isRecorded: planned.length > 0 }
  })
}

const writeTogether: JointWork<Asked, ProjectChange> = async (transaction, asked) => {
  const [first] = asked
  if (!first) return []
  const { store } = await enterTransaction(first.ctx, transaction, [first.access.snapshot.workspace.id])
  const requests = asked.map(({ ctx, access, edit, message, compared }) => {
    const own = { ...ctx, store, transaction, compared, isDryRun: false }
    return { ctx: own, access, edits: [edit], options: { ...upsert(own, access, message), mustExist: true } }
  })
  // If the rights of one caller have ended, this throws, and the queue repeats the work for each caller alone.
  for (const { ctx } of requests) await confirmWithin(ctx)
  return writeRequests(requests)
}

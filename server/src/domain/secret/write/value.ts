/** Writes single values. Concurrent requests for one project share a transaction, and each has its own outcome. */
import type { SecretPath, ValueChange } from '@coffer/contract/secret'
import { Failure } from '../../../failure.ts'
import type { JointWork } from '../../../store/engine/sql.ts'
import type { SecretRecord } from '../../../store/secret/secret.ts'
import { type ProjectAccess, requireProject } from '../../access/access.ts'
import { confirmEach } from '../../access/confirm.ts'
import type { SnapshotEnvironment } from '../../cache/workspace-snapshot.ts'
import type { Context, WriteContext } from '../../context.ts'
import { isId } from '../../id.ts'
import { enterTransaction } from '../../transaction.ts'
import { requireReached } from '../choose-environment.ts'
import { listUnseen, requireSecret } from '../find.ts'
import { mayExist } from '../name.ts'
import { hasReferences } from '../reference/reference.ts'
import { requireWriter } from '../right.ts'
import { type Comparison, inSecretTransaction, recordingComparison, type Written } from './compare.ts'
import { requireMatch } from './match.ts'
import { applyToPresent, checkEdit, hasValue, type Present, planEdits } from './plan.ts'
import { createRevisions } from './revision.ts'
import { applyChanges, loadPresent, type ProjectChange, upsert, writeValues } from './write.ts'

type Version = { readonly success: boolean; readonly version: number }

export async function writeSecretValue(
  ctx: Context,
  path: SecretPath,
  body: ValueChange,
  ifMatch: string | undefined,
): Promise<Version> {
  const access = await requireProject(ctx, path, 'secret:update')
  const { value, ifVersion, isPersonal = false } = body
  requireWriter(ctx, access, [{ isPersonal }])
  const environment = requireReached(access, body.environmentId)
  const { workspace } = access.snapshot
  // Personal values (re-authorised), references (checked for cycles) and If-Match (a read) need their own transaction.
  if (!isPersonal && ifMatch === undefined && !hasReferences(value)) {
    return recordingComparison(ctx, access, async (compared) => {
      const request = { ctx, access, environment, key: path.key, body, compared }
      const written = await ctx.engine.joinTransaction(workspace.id, access.project.id, request, writeTogether)
      ctx.run.hasCommitted = true
      return written
    })
  }
  return inSecretTransaction(ctx, access, async (ctx) => {
    const secret = await requireSecret(ctx, access, path.key)
    await requireMatch(ctx, access, secret, ifMatch, environment)
    const edit = { key: secret.name, secret, environment, value, isPersonal, ifVersion }
    const [result] = await writeValues(ctx, access, [edit], upsert(ctx, access, body.message))
    return { success: true, version: result?.version ?? 0 }
  })
}

type Request = {
  readonly ctx: Context
  readonly access: ProjectAccess
  readonly environment: SnapshotEnvironment
  readonly key: string
  readonly body: ValueChange
  readonly compared: Comparison[]
}

/** Same result as one request after the other: each is planned on the values that the ones before it leave. */
const writeTogether: JointWork<Request, Written<Version>> = async (transaction, requests) => {
  const [first] = requests
  if (!first) return []
  const { access } = first
  const ctx = await enterTransaction(first.ctx, transaction, [access.snapshot.workspace.id])
  const callers = requests.map(({ ctx }) => ctx)
  const confirmed = await confirmEach(callers, transaction, ctx.store)
  const secrets = await findSecrets(ctx, access, [...new Set(requests.map(({ key }) => key))])
  const environmentIds = requests.map(({ environment }) => environment.id)
  const present = await loadPresent(ctx, access, environmentIds, secrets, '')
  const unseen = await findUnseenRequests(ctx, requests, secrets, present)
  const changes: ProjectChange[] = []
  const outcomes = requests.map((request, index): PromiseSettledResult<Written<Version>> => {
    const confirmation = confirmed[index]
    if (confirmation?.status === 'rejected') return confirmation
    try {
      const { environment, key, body } = request
      const own = { ...request.ctx, store: ctx.store, transaction }
      const secret = secrets.get(key)
      if (!secret || unseen.has(request)) throw new Failure('notFound')
      request.compared.push({ environments: [environment], keys: [secret.name], secrets: [secret] })
      const edit = { key: secret.name, environment, value: body.value, ifVersion: body.ifVersion }
      checkEdit(edit)
      const plan = planEdits(own, access, [edit], 'upsert', present, '')
      applyToPresent(present, plan)
      const revisions = createRevisions(own, access)
      changes.push({ ctx: own, planned: plan.planned, fresh: [], revisions, message: body.message ?? '' })
      const result = { success: true, version: plan.results[0]?.version ?? 0 }
      return { status: 'fulfilled', value: { result, isRecorded: plan.planned.length > 0 } }
    } catch (reason) {
      return { status: 'rejected', reason }
    }
  })
  await applyChanges(ctx, access, changes)
  return outcomes
}

/** Requests whose caller reaches only part of the project, and no value of the secret there. */
async function findUnseenRequests(
  ctx: WriteContext,
  requests: readonly Request[],
  secrets: ReadonlyMap<string, SecretRecord>,
  present: Present,
): Promise<ReadonlySet<Request>> {
  const looks = requests.flatMap((request) => {
    const secret = secrets.get(request.key)
    if (!secret || hasValue(present, request.environment.id, secret.id)) return []
    return [{ ctx: request.ctx, access: request.access, secretId: secret.id, request }]
  })
  const unseen = await listUnseen(ctx.store, looks)
  return new Set(unseen.map(({ request }) => request))
}

/** Existing secrets, keyed by the names or ids that the requests use. */
async function findSecrets(
  ctx: WriteContext,
  access: ProjectAccess,
  keys: readonly string[],
): Promise<Map<string, SecretRecord>> {
  const { secrets } = ctx.store
  const [ids, names] = [keys.filter(isId), keys.filter((key) => !isId(key) && mayExist(key))]
  const byName = names.length === 0 ? [] : await secrets.listByNames(access.project.id, names)
  const known = new Map(byName.map((secret) => [secret.name, secret]))
  const folded = ids.map((id) => id.toLowerCase())
  const byId = ids.length === 0 ? [] : await secrets.listByIds(access.project.id, folded)
  for (const secret of byId) {
    known.set(secret.name, secret)
    for (const id of ids) if (id.toLowerCase() === secret.id) known.set(id, secret)
  }
  return known
}

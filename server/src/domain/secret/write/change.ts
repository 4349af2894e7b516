/** Creating, updating, batch-writing and deleting secrets. */
import type { ProjectPath } from '@coffer/contract/field'
import type {
  BatchResults,
  NewSecrets,
  SecretBatch,
  SecretChange,
  SecretDeletion,
  SecretPath,
  WriteMode,
  WriteResult,
  WriteResults,
} from '@coffer/contract/secret'
import { maxEnvironmentsPerRequest, maxSecretsPerRequest } from '@coffer/contract/secret'
import { invalid } from '../../../failure.ts'
import type { SecretRecord } from '../../../store/secret/secret.ts'
import { type ProjectAccess, requireProject } from '../../access/access.ts'
import type { SnapshotEnvironment } from '../../cache/workspace-snapshot.ts'
import type { Context, WriteContext } from '../../context.ts'
import { recordSecret } from '../audit-record.ts'
import { findNamed, requireNamed, requireReached } from '../choose-environment.ts'
import { requireSecret } from '../find.ts'
import { refuseReserved } from '../name.ts'
import { requireDeveloper, requirePerson, requireWholeProject, requireWriter } from '../right.ts'
import { announceEverywhere } from './announce.ts'
import { type CompareContext, inSecretTransaction } from './compare.ts'
import { requireMatch } from './match.ts'
import { type Edit, listKeys } from './plan.ts'
import { refuseRenamedCycles, renameSecrets } from './rename.ts'
import { createRevisions, listRevisions } from './revision.ts'
import { changedFields, withoutEchoes } from './stale-echo.ts'
import { purgeSecret, trashSecret } from './trash.ts'
import { upsert, writeValues } from './write.ts'

export async function createSecrets(ctx: Context, path: ProjectPath, body: NewSecrets): Promise<WriteResults> {
  const access = await requireProject(ctx, path, 'secret:write')
  const environments = [...new Set(body.environments.map((idOrName) => requireReached(access, idOrName)))]
  for (const environment of environments) requireDeveloper(access, environment)
  refuseDuplicates(body.secrets.map(({ key }) => key))
  if (environments.length * body.secrets.length > maxSecretsPerRequest) {
    throw invalid(
      'secrets',
      `at most ${maxSecretsPerRequest} values at once: send fewer secrets or fewer environments.`,
    )
  }
  const edits = environments.flatMap((environment) => body.secrets.map((secret) => ({ ...secret, environment })))
  const results = await inSecretTransaction(ctx, access, (ctx) => writeAll(ctx, access, edits, body), body.dryRun)
  return { success: true, results }
}

export async function updateSecret(
  ctx: Context,
  path: SecretPath,
  body: SecretChange,
  ifMatch: string | undefined,
): Promise<void> {
  const access = await requireProject(ctx, path, 'secret:update')
  const rows = body.values.map((row) => ({ ...row, environment: requireReached(access, row.environmentId) }))
  const places = rows.map(({ environment, isPersonal }) => `${environment.name}${isPersonal ? ' (personal)' : ''}`)
  refuseDuplicates(places, 'values')
  await inSecretTransaction(ctx, access, async (ctx) => {
    let secret = await requireSecret(ctx, access, path.key)
    const environments = rows.map(({ environment }) => environment)
    ctx.compared.push({ environments, keys: [secret.name], secrets: [secret] })
    requirePerson(ctx, rows)
    // An ETag in If-Match shows that nothing has changed since the read: an earlier name or note is sent on purpose.
    const isEchoed = rows.some(({ version }) => version !== undefined) && (ifMatch ?? '*').trim() === '*'
    const fields = await changedFields(ctx, secret, body, isEchoed)
    const { name, type, dataType, note } = fields
    const hasNewFields = type !== secret.type || dataType !== secret.dataType || note !== secret.note
    const isRename = name !== secret.name
    // Members may send shared rows back unchanged; only an actual change needs the role developer.
    if (isRename || hasNewFields || rows.length === 0) requireDeveloper(access)
    const [first, another] = new Set(environments)
    await requireMatch(ctx, access, secret, ifMatch, another ? undefined : first)
    const changed = await withoutEchoes(ctx, access, secret, rows)
    const options = { mode: 'upsert', message: body.message, revisions: createRevisions(ctx, access) } as const
    if (isRename) {
      requireWholeProject(access, 'rename a secret')
      refuseReserved('name', name)
      await renameSecrets(ctx, access, [{ key: secret.id, to: name }], options)
    }
    secret = { ...secret, ...fields }
    if (hasNewFields) await updateFields(ctx, access, secret)
    const edits = changed.map(({ environment, value, isPersonal = false }) => ({
      key: name,
      secret,
      environment,
      value,
      isPersonal,
    }))
    if (edits.length > 0) await writeValues(ctx, access, edits, options)
    if (isRename) await refuseRenamedCycles(ctx, access, new Map([[secret.id, name]]))
  })
}

async function updateFields(ctx: WriteContext, access: ProjectAccess, secret: SecretRecord): Promise<void> {
  await ctx.store.secrets.update({ ...secret, updatedAt: ctx.now() })
  const { type, dataType } = secret
  recordSecret(ctx, access, 'UPDATE', secret, { type, dataType })
  await announceEverywhere(ctx, access)
}

export async function writeBatch(ctx: Context, path: ProjectPath, body: SecretBatch): Promise<BatchResults> {
  const access = await requireProject(ctx, path, 'secret:update')
  requireWriter(ctx, access, body.operations.map(isPersonalOperation))
  const operations = placeOperations(access, body)
  requireWriter(ctx, access, operations.map(withPersonal))
  const [first] = operations
  if (!first) throw invalid('operations', 'must not be empty.')
  const own = body.environmentId === undefined ? first.environment : requireReached(access, body.environmentId)
  const environments = [...new Set([own, ...operations.map(({ environment }) => environment)])]
  if (environments.length > maxEnvironmentsPerRequest) {
    throw invalid('operations', `name more than ${maxEnvironmentsPerRequest} environments: send several batches.`)
  }
  refuseRepeated(operations)
  const renames = operations.flatMap((operation) => (operation.op === 'rename' ? [operation] : []))
  if (renames.length > 0) requireWholeProject(access, 'rename a secret')
  for (const { to } of renames) refuseReserved('to', to)
  refuseOvertaken(body)
  const edits = operations.flatMap((operation): Edit[] => {
    if (operation.op === 'rename') return []
    const { key, environment, isPersonal = false, ifVersion } = operation
    if (operation.op === 'delete') return [{ key, environment, value: null, isPersonal, ifVersion }]
    return [{ key, environment, value: operation.value, note: operation.note, isPersonal, ifVersion }]
  })
  const work = async (ctx: CompareContext): Promise<BatchResults> => {
    ctx.compared.push({ environments, keys: operations.map(({ key }) => key) })
    const options = upsert(ctx, access, body.message)
    const renamed = await renameSecrets(ctx, access, renames, options)
    const results = renamed.map(({ secret, to }, index): WriteResult => {
      const environmentId = renames[index]?.environment.id ?? own.id
      return { key: to, environmentId, status: 'renamed', id: secret.id, version: 0 }
    })
    results.push(...(await writeValues(ctx, access, edits, options)))
    await refuseRenamedCycles(ctx, access, new Map(renamed.map(({ secret, to }) => [secret.id, to])))
    const touched = [...new Set([...environments.map(({ id }) => id), ...options.revisions.environmentIds()])]
    const revisions = await listRevisions(ctx, access, touched, options.revisions)
    return { success: true, results, revision: revisions[0]?.revision ?? 0, revisions }
  }
  return inSecretTransaction(ctx, access, work, body.dryRun)
}

type Operation = SecretBatch['operations'][number]
type PlacedOperation = Operation & { readonly environment: SnapshotEnvironment }

const isPersonalOperation = (operation: Operation) => ({
  isPersonal: operation.op !== 'rename' && operation.isPersonal === true,
})

const withPersonal = (operation: PlacedOperation) => ({ ...operation, ...isPersonalOperation(operation) })

/** Finds the environment of each operation: its own or, if it names none, that of the batch. */
function placeOperations(access: ProjectAccess, { environmentId, operations }: SecretBatch): PlacedOperation[] {
  const found = new Map<string, SnapshotEnvironment>()
  return operations.map((operation) => {
    const idOrName = operation.environmentId ?? environmentId
    const environment = found.get(idOrName ?? '') ?? requireNamed(access, idOrName)
    if (idOrName !== undefined) found.set(idOrName, environment)
    return { ...operation, environment }
  })
}

/** A value may be written once, and a secret renamed in the batch may not be written under its old name. */
function refuseRepeated(operations: readonly PlacedOperation[]): void {
  const renamed = new Set(operations.flatMap(({ op, key }) => (op === 'rename' ? [key] : [])))
  const seen = new Set<string>()
  const twice = operations.filter((operation) => {
    const { key, environment } = operation
    if (operation.op === 'rename') return seen.size === seen.add(key).size
    const { isPersonal = false } = operation
    return renamed.has(key) || seen.size === seen.add(`${key} ${environment.id} ${isPersonal}`).size
  })
  if (twice.length > 0) throw invalid('key', `given more than once: ${listKeys(twice.map(({ key }) => key))}.`)
}

export async function deleteSecret(
  ctx: Context,
  path: SecretPath,
  query: SecretDeletion,
  ifMatch: string | undefined,
): Promise<void> {
  const access = await requireProject(ctx, path, 'secret:update')
  const isPersonal = query.personal ?? false
  requireWriter(ctx, access, [{ isPersonal: isPersonal && !query.purge }])
  const environment = findNamed(access, [query.environmentId])
  if (query.purge && (environment || isPersonal)) {
    throw invalid('purge', 'destroys the whole secret; send it without environmentId and personal.')
  }
  if (environment) requireWriter(ctx, access, [{ isPersonal, environment }])
  if (query.purge) return purgeSecret(ctx, access, path.key, ifMatch)
  if (!environment) {
    if (isPersonal) throw invalid('environmentId', 'is required with personal=true.')
    requireWholeProject(access, 'delete a secret everywhere')
    return trashSecret(ctx, access, path.key, ifMatch)
  }
  await inSecretTransaction(ctx, access, async (ctx) => {
    const secret = await requireSecret(ctx, access, path.key)
    await requireMatch(ctx, access, secret, ifMatch, environment)
    await writeValues(
      ctx,
      access,
      [{ key: secret.name, secret, environment, value: null, isPersonal }],
      upsert(ctx, access),
    )
  })
}

type Wanted = { readonly mode?: WriteMode; readonly message?: string }

/** Writes all edits or none, as one revision per environment. */
export function writeAll(
  ctx: CompareContext,
  access: ProjectAccess,
  edits: readonly Edit[],
  { mode = 'create', message }: Wanted,
): Promise<WriteResult[]> {
  return writeValues(ctx, access, edits, { mode, message, revisions: createRevisions(ctx, access) })
}

/** Renames run first, so a write listed before a rename to the same name would change the renamed secret instead. */
function refuseOvertaken({ operations }: SecretBatch): void {
  const written = new Set<string>()
  for (const operation of operations) {
    if (operation.op !== 'rename') written.add(operation.key)
    else if (written.has(operation.to)) {
      throw invalid(
        'operations',
        `${operation.to} is written before ${operation.key} is renamed to it: put the rename first.`,
      )
    }
  }
}

function refuseDuplicates(names: readonly string[], field = 'key'): void {
  const seen = new Set<string>()
  const twice = names.filter((name) => seen.size === seen.add(name).size)
  if (twice.length > 0) throw invalid(field, `given more than once: ${listKeys(twice)}.`)
}

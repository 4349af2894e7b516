/**
 * Every change of values goes through here. Edits are compared with the stored values, and the differences are applied.
 * Requests that share a transaction are looked up, loaded and applied together, but each has its own outcome.
 */
import type { WriteMode, WriteResult } from '@coffer/contract/secret'
import { newId } from '../../../crypto/id.ts'
import { Failure, isFailure } from '../../../failure.ts'
import type { SecretRecord } from '../../../store/secret/secret.ts'
import type { SealedValue } from '../../../store/secret/value.ts'
import { type ProjectAccess, reauthorise } from '../../access/access.ts'
import type { WriteContext } from '../../context.ts'
import { isId } from '../../id.ts'
import { personalOwner } from '../choose-environment.ts'
import { findUnseenByEach } from '../find.ts'
import { maxRowsOf, openValues } from '../load.ts'
import { mayExist } from '../name.ts'
import { refuseCycles } from '../reference/cycle.ts'
import { refuseManyReferences } from '../reference/limit.ts'
import { hasReferences, mayRefer } from '../reference/reference.ts'
import { requireDeveloper, requireDeveloperOf } from '../right.ts'
import { createWriteAllowance, refuseTooMuch } from '../size.ts'
import { applyChanges, type ProjectChange } from './apply.ts'
import type { CompareContext } from './compare.ts'
import {
  applyToPresent,
  checkEdit,
  type Edit,
  isDescribedAnew,
  type Planned,
  type Present,
  planEdits,
  presentValues,
  type WritePlan,
} from './plan.ts'
import { createRevisions, type Revisions } from './revision.ts'

export type WriteOptions = {
  readonly mode: WriteMode
  readonly revisions: Revisions
  readonly message?: string | undefined
  /** Refuses secrets that the caller does not see. Only then may a key be an id. */
  readonly mustExist?: boolean
}

/** Options for a write that creates or overwrites, whatever is stored. */
export function upsert(ctx: WriteContext, access: ProjectAccess, message?: string) {
  return { mode: 'upsert', message, revisions: createRevisions(ctx, access) } as const
}

type WriteRequest = {
  readonly ctx: CompareContext
  readonly access: ProjectAccess
  readonly edits: readonly Edit[]
  readonly options: WriteOptions
}

/** Writes the values of one request, or throws its refusal. */
export async function writeValues(
  ctx: CompareContext,
  access: ProjectAccess,
  edits: readonly Edit[],
  options: WriteOptions,
): Promise<WriteResult[]> {
  const [outcome] = await writeRequests([{ ctx, access, edits, options }])
  if (outcome?.status !== 'fulfilled') throw outcome?.reason
  return outcome.value.results
}

/**
 * Whether this edit of an existing secret may be written together with other requests. `writeRequests` loads personal
 * values of one owner only, and it checks each request for cycles without the values of the others.
 */
export const mayShareWrite = ({ value, isPersonal }: Edit): boolean =>
  !isPersonal && (value === null || !hasReferences(value))

/**
 * Writes the values of requests to one project. Same result as one request after the other: each is planned on the
 * values that the ones before it leave. A refused request changes nothing and does not fail the others.
 */
export async function writeRequests(requests: readonly WriteRequest[]): Promise<PromiseSettledResult<ProjectChange>[]> {
  const [first] = requests
  if (!first) return []
  const { ctx, access } = first
  const edits = requests.flatMap((request) => request.edits)
  const environmentIds = [...new Set(edits.map(({ environment }) => environment.id))]
  const { workspace, environmentKeys } = access.snapshot
  // Sent together with the next query, and awaited once a request needs its result.
  const revisions = ctx.store.secretValues.requireNewestKeys(environmentIds, workspace.id, environmentKeys)
  revisions.catch(() => undefined)
  const early = readEarly(ctx, access, edits)
  const secrets = await findSecrets(ctx, access, edits)
  const unseen = await findUnseenByEach(ctx.store, requests, ({ edits }) =>
    edits.flatMap(({ key }) => secrets.get(key)?.id ?? []),
  )
  const checked: PromiseSettledResult<CheckedRequest>[] = []
  for (const request of requests) {
    checked.push(await settle(checkRequest(request, secrets, unseen.get(request))))
  }
  const allowed = listFulfilled(checked)
  if (allowed.length === 0) return listRefusals(checked)
  const known = await revisions
  const present = await loadPresent(ctx, access, allowed, secrets, early)
  const planned: PromiseSettledResult<ProjectChange>[] = []
  for (const outcome of checked) {
    planned.push(outcome.status === 'rejected' ? outcome : await settle(planRequest(outcome.value, present)))
  }
  await applyChanges(ctx, access, listFulfilled(planned), known)
  return planned
}

async function settle<Result>(step: Promise<Result>): Promise<PromiseSettledResult<Result>> {
  try {
    return { status: 'fulfilled', value: await step }
  } catch (reason) {
    // Only a refusal is an outcome. Other errors may have broken the transaction, so they must end it.
    if (!isFailure(reason) || reason.status >= 500) throw reason
    return { status: 'rejected', reason }
  }
}

const listRefusals = (outcomes: readonly PromiseSettledResult<unknown>[]): PromiseRejectedResult[] =>
  outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome] : []))

const listFulfilled = <Result>(outcomes: readonly PromiseSettledResult<Result>[]): Result[] =>
  outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []))

/** Existing secrets, keyed by the names or ids that the edits use. */
async function findSecrets(
  ctx: WriteContext,
  access: ProjectAccess,
  edits: readonly Edit[],
): Promise<Map<string, SecretRecord>> {
  const known = new Map(edits.flatMap(({ key, secret }) => (secret ? [[key, secret]] : [])))
  const keys = [...new Set(edits.map(({ key }) => key))].filter((key) => !known.has(key))
  const ids = keys.filter(isId)
  const names = keys.filter((key) => !isId(key) && mayExist(key))
  for (const secret of await ctx.store.secrets.listByNames(access.project.id, names)) known.set(secret.name, secret)
  if (ids.length === 0) return known
  const lowerCase = ids.map((id) => id.toLowerCase())
  const byId = new Map((await ctx.store.secrets.listByIds(access.project.id, lowerCase)).map((one) => [one.id, one]))
  for (const id of ids) {
    const secret = byId.get(id.toLowerCase())
    if (secret) known.set(id, secret).set(secret.name, secret)
  }
  return known
}

type CheckedRequest = WriteRequest & { readonly ownerId: string; readonly unseen: ReadonlySet<string> }

async function checkRequest(
  request: WriteRequest,
  secrets: ReadonlyMap<string, SecretRecord>,
  unseen: ReadonlySet<string> = new Set(),
): Promise<CheckedRequest> {
  const { ctx, access, options } = request
  const edits = request.edits.map((edit) => {
    const secret = secrets.get(edit.key)
    const isUnseen = secret !== undefined && unseen.has(secret.id)
    if (options.mustExist) {
      if (!secret || isUnseen) throw new Failure('notFound')
      return { ...edit, key: secret.name }
    }
    // Callers who cannot see a secret may write a value under its name, but may not change its note or type.
    return isUnseen ? { ...edit, type: undefined, dataType: undefined, note: undefined } : edit
  })
  for (const edit of edits) checkEdit(edit)
  refuseTooMuch(ctx, edits)
  if (edits.some(mayRefer)) await refuseManyReferences(edits)
  const ownerId = edits.some(({ isPersonal }) => isPersonal) ? personalOwner(ctx) : ''
  // A personal value must not outlive its owner's membership, which may have ended since the request was authorised.
  if (ownerId !== '') await reauthorise(ctx, access, 'secret:update')
  ctx.compared.push({
    environments: edits.map(({ environment }) => environment),
    keys: edits.map(({ key }) => key),
    secrets: edits.flatMap(({ key }) => secrets.get(key) ?? []),
  })
  return { ctx, access, edits, options, ownerId, unseen }
}

/** So few values need not be measured before they are loaded. */
const maxEarly = 64

/**
 * Reads the stored values by name, together with the secrets: other nodes wait for the lock one round trip less. Undefined
 * if there is no round trip to save, or if the secrets must be known first.
 */
function readEarly(
  ctx: WriteContext,
  access: ProjectAccess,
  edits: readonly Edit[],
): Promise<readonly SealedValue[]> | undefined {
  if (ctx.engine.kind === 'sqlite') return undefined
  const environmentIds = [...new Set(edits.map(({ environment }) => environment.id))]
  const names = [...new Set(edits.map(({ key }) => key))]
  const isPlain = edits.every(({ key, secret, isPersonal }) => !secret && !isPersonal && !isId(key) && mayExist(key))
  if (!isPlain || environmentIds.length * names.length > maxEarly) return undefined
  const reading = ctx.store.secretValues.listPresentByNames(access.project.id, environmentIds, names)
  ctx.transaction.later(reading)
  return reading
}

/** Loads and decrypts the stored values of these secrets. The workspace lock keeps them unchanged until the commit. */
async function loadPresent(
  ctx: WriteContext,
  access: ProjectAccess,
  requests: readonly CheckedRequest[],
  secrets: Map<string, SecretRecord>,
  early?: Promise<readonly SealedValue[]>,
): Promise<Present> {
  const { secretValues } = ctx.store
  const edits = requests.flatMap((request) => request.edits)
  // Requests with personal values are written alone: see `mayShareWrite`.
  const ownerId = requests[0]?.ownerId ?? ''
  const names = new Map([...secrets.values()].map(({ id, name }) => [id, name]))
  const allowance = createWriteAllowance(ctx)
  const rows: SealedValue[] = []
  for (const { environmentIds, secretIds } of listBlocks(edits, secrets)) {
    const isWanted = ({ environmentId, secretId }: SealedValue) =>
      environmentIds.includes(environmentId) && secretIds.includes(secretId)
    const loaded = await allowance.load(
      maxRowsOf(environmentIds.length * secretIds.length, ownerId),
      () => secretValues.measureOf(environmentIds, secretIds, ownerId),
      async () => (await early)?.filter(isWanted) ?? secretValues.listOf(environmentIds, secretIds, ownerId),
    )
    for (const row of loaded) rows.push(row)
  }
  const opened = await openValues(ctx, access, rows, names)
  return { secrets, values: presentValues(rows, opened, ownerId) }
}

type Block = { readonly environmentIds: readonly string[]; readonly secretIds: readonly string[] }

/** Blocks up to this size are loaded by one query, even if the edits need only a few of their values. */
const smallBlock = 256

/**
 * The values to load: every secret in every environment, by one query. If the edits need less than half of them, each
 * environment is a block of its own, because a batch can write different secrets in each of many environments.
 */
function listBlocks(edits: readonly Edit[], secrets: ReadonlyMap<string, SecretRecord>): Block[] {
  const blockOf = (some: readonly Edit[]): Block => ({
    environmentIds: [...new Set(some.map(({ environment }) => environment.id))],
    secretIds: [...new Set(some.flatMap(({ key }) => secrets.get(key)?.id ?? []))],
  })
  const whole = blockOf(edits)
  const values = whole.environmentIds.length * whole.secretIds.length
  if (values <= Math.max(smallBlock, 2 * edits.length)) return [whole]
  return [...Map.groupBy(edits, ({ environment }) => environment.id).values()].map(blockOf)
}

async function planRequest(request: CheckedRequest, present: Present): Promise<ProjectChange> {
  const { ctx, access, edits, options, ownerId, unseen } = request
  const plan = planEdits(ctx, access, edits, options, present, ownerId)
  const written = plan.planned.map(({ edit }) => edit)
  if (changesShared(plan, unseen)) {
    requireDeveloper(access)
    requireDeveloperOf(access, written)
  }
  if (written.some(mayRefer)) await checkCycles(ctx, access, plan.planned, ownerId)
  applyToPresent(present, plan)
  const results = ctx.isDryRun ? withoutIds(plan.results, unseen) : plan.results
  return { ...plan, results, ctx, revisions: options.revisions, message: options.message ?? '' }
}

/**
 * True if others see a change: of a shared value, of a note or type, or of the list of secrets. A secret that the caller
 * cannot see counts as new, so that a refusal does not reveal it.
 */
function changesShared({ planned, fresh, described }: WritePlan, unseen: ReadonlySet<string>): boolean {
  if (fresh.size + described.size > 0) return true
  return planned.some(({ edit, secret }) => !edit.isPersonal || unseen.has(secret.id) || isDescribedAnew(secret, edit))
}

/** Gives unseen secrets a random id in the results of a dry run: their real id would reveal that they exist. */
function withoutIds(results: WriteResult[], unseen: ReadonlySet<string>): WriteResult[] {
  const ids = new Map([...unseen].map((id) => [id, newId()]))
  return results.map((result) => ({ ...result, id: ids.get(result.id) ?? result.id }))
}

/** Shared values must be acyclic for everyone, personal ones for their owner. */
async function checkCycles(
  ctx: WriteContext,
  access: ProjectAccess,
  planned: readonly Planned[],
  ownerId: string,
): Promise<void> {
  const placesOf = (list: readonly Planned[]) => ({
    written: list.flatMap(({ edit: { environment, key, value } }) =>
      value === null ? [] : [{ environmentId: environment.id, key, value }],
    ),
    removed: list.flatMap(({ edit: { environment, key, value, isPersonal } }) =>
      value === null && !isPersonal ? [{ environmentId: environment.id, key }] : [],
    ),
  })
  const shared = placesOf(planned.filter(({ edit }) => !edit.isPersonal))
  await refuseCycles(ctx, access, shared.written, shared.removed, '')
  if (ownerId === '') return
  const all = placesOf(planned)
  await refuseCycles(ctx, access, all.written, all.removed, ownerId)
}

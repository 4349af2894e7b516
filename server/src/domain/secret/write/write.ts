/**
 * Every change of values goes through here. Edits are read against the stored values (`readDraft`), planned, and the
 * differences are applied.
 */
import type { WriteMode, WriteResult } from '@coffer/contract/secret'
import { newId } from '../../../crypto/id.ts'
import type { SecretRecord } from '../../../store/secret/secret.ts'
import type { EnvironmentCount } from '../../../store/secret/stored-value.ts'
import type { SealedValue } from '../../../store/secret/value.ts'
import { type ProjectAccess, reauthorise } from '../../access/access.ts'
import type { WriteContext } from '../../context.ts'
import { isId } from '../../id.ts'
import { personalOwner } from '../choose-environment.ts'
import { findUnseen } from '../find.ts'
import { maxRowsOf, openValues } from '../load.ts'
import { mayExist } from '../name.ts'
import { refuseCycles } from '../reference/cycle.ts'
import { refuseManyReferences } from '../reference/limit.ts'
import { mayRefer } from '../reference/reference.ts'
import { requireDeveloper, requireDeveloperOf } from '../right.ts'
import { createWriteAllowance, refuseTooMuch } from '../size.ts'
import { announceEverywhere } from './announce.ts'
import { applyChange, applyDescriptions, type ProjectChange } from './apply.ts'
import type { CompareContext } from './compare.ts'
import {
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
}

/** Options for a write that creates or overwrites, whatever is stored. */
export function upsert(ctx: WriteContext, access: ProjectAccess, message?: string) {
  return { mode: 'upsert', message, revisions: createRevisions(ctx, access) } as const
}

/** The edits of a request, checked, and the stored secrets and values that they touch. */
type Draft = {
  readonly access: ProjectAccess
  readonly edits: readonly Edit[]
  readonly options: WriteOptions
  readonly ownerId: string
  readonly unseen: ReadonlySet<string>
  readonly present: Present
  /** The counts of the environments before the changes. */
  readonly counts: ReadonlyMap<string, EnvironmentCount>
}

/** Writes the values of one request, or throws its refusal. */
export async function writeValues(
  ctx: CompareContext,
  access: ProjectAccess,
  edits: readonly Edit[],
  options: WriteOptions,
): Promise<WriteResult[]> {
  if (edits.length === 0) return []
  const draft = await readDraft(ctx, access, edits, options)
  const change = planDraft(ctx, draft)
  const written = change.planned.map(({ edit }) => edit)
  if (written.some(mayRefer)) await checkCycles(ctx, access, change.planned, draft.ownerId)
  applyChange(ctx, access, change, draft.counts)
  const hasDescriptions = await applyDescriptions(ctx, access, change)
  if (hasDescriptions || change.fresh.size > 0) await announceEverywhere(ctx, access)
  return ctx.isDryRun ? withoutIds(change.results, draft.unseen) : change.results
}

async function readDraft(
  ctx: CompareContext,
  access: ProjectAccess,
  given: readonly Edit[],
  options: WriteOptions,
): Promise<Draft> {
  const environmentIds = [...new Set(given.map(({ environment }) => environment.id))]
  const { workspace, environmentKeys } = access.snapshot
  const [counts, secrets] = await Promise.all([
    ctx.store.secretValues.requireNewestKeys(environmentIds, workspace.id, environmentKeys),
    findSecrets(ctx, access, given),
  ])
  const ids = given.flatMap(({ key }) => secrets.get(key)?.id ?? [])
  const unseen = await findUnseen(ctx, access, ids)
  const { edits, ownerId } = await checkEdits(ctx, access, given, secrets, unseen)
  const present = await loadPresent(ctx, access, edits, ownerId, secrets)
  return { access, edits, options, ownerId, unseen, present, counts }
}

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

async function checkEdits(
  ctx: CompareContext,
  access: ProjectAccess,
  given: readonly Edit[],
  secrets: ReadonlyMap<string, SecretRecord>,
  unseen: ReadonlySet<string>,
): Promise<Pick<Draft, 'edits' | 'ownerId'>> {
  const edits = given.map((edit) => {
    const secret = secrets.get(edit.key)
    const isUnseen = secret !== undefined && unseen.has(secret.id)
    // Callers who cannot see a secret may write a value under its name, but may not change its note or type.
    return isUnseen ? { ...edit, type: undefined, dataType: undefined, note: undefined } : edit
  })
  for (const edit of edits) checkEdit(edit)
  refuseTooMuch(ctx, edits)
  if (edits.some(mayRefer)) await refuseManyReferences(edits, ctx.longWork.giveWay)
  const ownerId = edits.some(({ isPersonal }) => isPersonal) ? personalOwner(ctx) : ''
  // A personal value must not outlive its owner's membership, which may have ended since the request was authorised.
  if (ownerId !== '') await reauthorise(ctx, access, 'secret:update')
  ctx.compared.push({
    environments: edits.map(({ environment }) => environment),
    keys: edits.map(({ key }) => key),
    secrets: edits.flatMap(({ key }) => secrets.get(key) ?? []),
  })
  return { edits, ownerId }
}

/** Loads and decrypts the stored values of these secrets. The workspace lock keeps them unchanged until the commit. */
async function loadPresent(
  ctx: WriteContext,
  access: ProjectAccess,
  edits: readonly Edit[],
  ownerId: string,
  secrets: Map<string, SecretRecord>,
): Promise<Present> {
  const { secretValues } = ctx.store
  const names = new Map([...secrets.values()].map(({ id, name }) => [id, name]))
  const allowance = createWriteAllowance(ctx)
  const rows: SealedValue[] = []
  for (const { environmentIds, secretIds } of listBlocks(edits, secrets)) {
    const loaded = await allowance.load(
      maxRowsOf(environmentIds.length * secretIds.length, ownerId),
      () => secretValues.measureOf(environmentIds, secretIds, ownerId),
      () => secretValues.listOf(environmentIds, secretIds, ownerId),
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

/** Compares the edits with what is present. The caller checks references for cycles. */
export function planDraft(
  ctx: WriteContext,
  { access, edits, options, ownerId, unseen, present }: Omit<Draft, 'counts'>,
): ProjectChange {
  const plan = planEdits(ctx, access, edits, options, present, ownerId)
  if (changesShared(plan, unseen)) {
    requireDeveloper(access)
    requireDeveloperOf(
      access,
      plan.planned.map(({ edit }) => edit),
    )
  }
  return { ...plan, revisions: options.revisions, message: options.message ?? '' }
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

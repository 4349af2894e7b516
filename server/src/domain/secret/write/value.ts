/** Writes single values. Concurrent requests in one workspace share a commit. */
import type { SecretPath, ValueChange, WriteResult } from '@coffer/contract/secret'
import { Failure } from '../../../failure.ts'
import { headRows } from '../../../store/audit/head.ts'
import { type Db, type Desk, type Job, newShelf } from '../../../store/engine/sql.ts'
import {
  type EnvironmentCount,
  environmentById,
  type StoredEnvironment,
  type StoredValue,
  valueById,
  valueByName,
} from '../../../store/secret/stored-value.ts'
import { forgetOldKey, hasKeys, type ValuePlace } from '../../../store/secret/value-seal.ts'
import { storeOver } from '../../../store/store.ts'
import { type ProjectAccess, requireProject } from '../../access/access.ts'
import type { Context, Outcome, WriteContext } from '../../context.ts'
import { isId } from '../../id.ts'
import { reachesProject } from '../../scope.ts'
import { confirmOver, enterTransaction, newOutcome, outcomeLink } from '../../transaction.ts'
import { requireReached } from '../choose-environment.ts'
import { findUnseen, requireSecret } from '../find.ts'
import { placeOf } from '../load.ts'
import { mayExist } from '../name.ts'
import { hasReferences } from '../reference/reference.ts'
import { requireWriter } from '../right.ts'
import { applyChange } from './apply.ts'
import { type Comparison, inSecretTransaction, recordingComparison, type Written } from './compare.ts'
import { requireMatch } from './match.ts'
import { type Current, checkEdit, type Edit, valueName } from './plan.ts'
import { planDraft, upsert, writeValues } from './write.ts'

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
      ? await commitValue(ctx, access, edit, message)
      : await inSecretTransaction(ctx, access, async (ctx) => {
          const secret = await requireSecret(ctx, access, path.key)
          await requireMatch(ctx, access, secret, ifMatch, environment)
          return writeValues(ctx, access, [{ ...edit, key: secret.name, secret }], upsert(ctx, access, message))
        })
  return { success: true, version: result?.version ?? 0 }
}

/** Whether this edit of an existing secret may share a commit: with two references, a cycle could close unseen. */
const mayShareWrite = ({ value, isPersonal }: Edit): boolean => !isPersonal && (value === null || !hasReferences(value))

function commitValue(
  ctx: Context,
  access: ProjectAccess,
  edit: Edit,
  message?: string,
): Promise<readonly WriteResult[]> {
  const { workspace } = access.snapshot
  const { key, environment } = edit
  if (!isId(key) && !mayExist(key)) throw new Failure('notFound')
  return recordingComparison(ctx, access, async (compared) => {
    const asked = {
      value: isId(key)
        ? { question: valueById, within: environment.id, key: key.toLowerCase() }
        : { question: valueByName, within: environment.id, key },
      environment: { question: environmentById, within: workspace.id, key: environment.id },
    }
    const job: Job<Found, Written<readonly WriteResult[]>, Outcome> = {
      bytes: edit.value?.length ?? 0,
      asks: [asked.value, asked.environment],
      async read(db, answers) {
        await confirmOver(ctx, db)
        const [stored] = answers.of(asked.value)
        const [count] = answers.of(asked.environment)
        return findValue(ctx, db, access, edit, compared, stored, count)
      },
      plan: (found, desk, db) => planValue(ctx, access, message, found, desk, db),
      link: outcomeLink(ctx),
    }
    const written = await ctx.engine.commit(workspace.id, job, { rows: headRows([workspace.id]) })
    ctx.run.hasCommitted = true
    return written
  })
}

type Found = {
  readonly edit: Edit
  readonly place: ValuePlace
  readonly stored: StoredValue
  readonly count: EnvironmentCount
}

/** What is stored where the value goes, and its keys in memory: then the plan needs no more questions. */
async function findValue(
  ctx: Context,
  db: Db,
  access: ProjectAccess,
  given: Edit,
  compared: Comparison[],
  stored: StoredValue | undefined,
  count: StoredEnvironment | undefined,
): Promise<Found> {
  if (!stored || !count || stored.projectId !== access.project.id) throw new Failure('notFound')
  if (!reachesProject(access.reach, access.project)) {
    const unseen = await findUnseen({ ...ctx, store: storeOver(db, ctx.keys) }, access, [stored.id])
    if (unseen.size > 0) throw new Failure('notFound')
  }
  const { environment } = given
  const edit = { ...given, key: stored.name, secret: stored }
  checkEdit(edit)
  compared.push({ environments: [environment], keys: [stored.name], secrets: [stored] })
  const place = placeOf(access, environment, stored.id)
  const { environmentKeys } = access.snapshot
  forgetOldKey(count, environmentKeys)
  if (!hasKeys(place, stored.sealed, environmentKeys)) {
    await storeOver(db, ctx.keys).secretValues.loadKeys(place, stored.sealed, environmentKeys)
  }
  return { edit, place, stored, count }
}

/** Values and counts of environments as the earlier plans of a commit leave them. */
const plannedValues = newShelf<Current>()
const plannedCounts = newShelf<EnvironmentCount>()

function planValue(
  outside: Context,
  access: ProjectAccess,
  message: string | undefined,
  { edit, place, stored, count }: Found,
  desk: Desk,
  db: Db,
): { result: Written<readonly WriteResult[]>; note: Outcome } {
  const outcome = newOutcome()
  const ctx = enterTransaction(outside, { db, locked: [] }, outcome)
  const environmentId = edit.environment.id
  const name = valueName(environmentId, stored.id, '')
  const current = desk.get(plannedValues, name) ?? openStored(ctx, access, place, stored)
  const known = desk.get(plannedCounts, environmentId) ?? count
  const change = planDraft(ctx, {
    access,
    edits: [edit],
    options: upsert(ctx, access, message),
    ownerId: '',
    unseen: new Set(),
    present: { secrets: new Map([[edit.key, stored]]), values: new Map(current && [[name, current]]) },
  })
  const counts = applyChange(ctx, access, change, new Map([[environmentId, known]]))
  for (const [id, after] of counts) desk.set(plannedCounts, id, after)
  for (const { version } of change.planned) {
    const text = edit.value ?? undefined
    desk.set(plannedValues, name, { secretId: stored.id, version, isThere: text !== undefined, text })
  }
  return { result: { result: change.results, isRecorded: change.planned.length > 0 }, note: outcome }
}

function openStored(
  { store }: WriteContext,
  { snapshot }: ProjectAccess,
  place: ValuePlace,
  { version, sealed, authors }: StoredValue,
): Current | undefined {
  if (version === null) return undefined
  const row = { version, authors: authors ?? '' }
  const text = sealed ? store.secretValues.openAtOnce(place, { ...row, sealed }, snapshot.environmentKeys) : undefined
  return { secretId: place.secretId, version, isThere: sealed !== null, text }
}

/**
 * Detects rows and fields that come back as they were read. Clients read a secret, let a person edit one row and send
 * all rows back: this must not undo or silently overwrite what others changed meanwhile.
 */
import type { SecretChange } from '@coffer/contract/secret'
import { Failure, invalid } from '../../../failure.ts'
import type { SecretRecord } from '../../../store/secret/secret.ts'
import type { SealedValue } from '../../../store/secret/value.ts'
import type { ProjectAccess } from '../../access/access.ts'
import type { SnapshotEnvironment } from '../../cache/workspace-snapshot.ts'
import { iso, parseTime, secondMs } from '../../time.ts'
import { personalOwner } from '../choose-environment.ts'
import { maxRowsOf, placeOf } from '../load.ts'
import { createOpeningPause, createWriteAllowance } from '../size.ts'
import type { CompareContext } from './compare.ts'

type SentRow = {
  readonly environment: SnapshotEnvironment
  readonly value: string
  readonly isPersonal?: boolean
  /** The version that the row was read with; a row without one is not guarded. */
  readonly version?: number
  /** Since when it had that version, where the client sends that back. */
  readonly updatedAt?: unknown
}

/** Drops rows that change nothing or only repeat what was read. Refuses the request if another row is stale. */
export async function withoutEchoes<Row extends SentRow>(
  ctx: CompareContext,
  access: ProjectAccess,
  secret: SecretRecord,
  rows: readonly Row[],
): Promise<Row[]> {
  const guarded = rows.filter(({ version }) => version !== undefined)
  if (guarded.length === 0) return [...rows]
  const ownerId = guarded.some(({ isPersonal }) => isPersonal) ? personalOwner(ctx) : ''
  const stored = await loadStored(ctx, secret, guarded, ownerId)
  const isPause = createOpeningPause()
  const kept = new Set(rows)
  const conflicts: string[] = []
  for (const row of guarded) {
    const { environment, value, isPersonal = false, version = 0 } = row
    const place = { ...placeOf(access, environment, secret.id), ownerId: isPersonal ? ownerId : '' }
    const current = stored.get(nameOf(place))
    const open = (sent: Pick<SealedValue, 'version' | 'sealed' | 'authors'> | undefined) =>
      sent?.sealed
        ? ctx.store.secretValues.open(place, { ...sent, sealed: sent.sealed }, access.snapshot.environmentKeys)
        : undefined
    if (version > (current?.version ?? 0)) {
      throw invalid('version', `${secret.name} has never had version ${version} in ${environment.name}.`)
    }
    if ((await open(current)) === value) kept.delete(row)
    else if (version < (current?.version ?? 0) || isOlder(row, secret, current)) {
      const sent = isPersonal ? undefined : await ctx.store.secretValues.findVersion(place, version)
      if ((await open(sent)) === value) kept.delete(row)
      else if (isPersonal) conflicts.push(`your own value in ${environment.name} at ${iso(current?.updatedAt ?? 0)}`)
      else {
        const newest = await ctx.store.secretValues.findVersion(place, current?.version ?? 0)
        const what = newest?.sealed ? 'changed' : 'deleted'
        conflicts.push(`${what} in ${environment.name} by ${newest?.createdBy} at ${iso(newest?.createdAt ?? 0)}`)
      }
    }
    if (isPause(value.length)) await ctx.longWork.giveWay()
  }
  if (conflicts.length > 0) {
    const told = conflicts.slice(0, 10).join(', ')
    throw new Failure(
      'conflict',
      `${secret.name} has changed since you read it: ${told}. Read it again and repeat your edit.`,
    )
  }
  return rows.filter((row) => kept.has(row))
}

/** A row from before the secret was made belongs to another one, which had its name: that one's versions mean nothing here. */
function isOlder({ updatedAt }: SentRow, { createdAt }: SecretRecord, current: SealedValue | undefined): boolean {
  if (typeof updatedAt !== 'string') return false
  const at = parseTime(updatedAt)
  const precisionMs = updatedAt.includes('.') ? 1 : secondMs
  // Clocks of two nodes differ: a row that is stored so was read so.
  return at !== current?.updatedAt && at + precisionMs <= createdAt
}

/** The values that these rows are about, also removed ones, by their places. */
async function loadStored(
  ctx: CompareContext,
  { id }: SecretRecord,
  rows: readonly SentRow[],
  ownerId: string,
): Promise<ReadonlyMap<string, SealedValue>> {
  const { secretValues } = ctx.store
  const environmentIds = [...new Set(rows.map(({ environment }) => environment.id))]
  const values = await createWriteAllowance(ctx).load(
    maxRowsOf(environmentIds.length, ownerId),
    () => secretValues.measureOf(environmentIds, [id], ownerId),
    () => secretValues.listOf(environmentIds, [id], ownerId),
  )
  return new Map(values.map((value) => [nameOf(value), value]))
}

const nameOf = ({ environmentId, ownerId }: { readonly environmentId: string; readonly ownerId: string }) =>
  `${environmentId} ${ownerId}`

type Fields = Pick<SecretRecord, 'name' | 'note' | 'type' | 'dataType'>

/** The secret's fields after the request. With `isEchoed`, a field sent with an earlier text stays as it is. */
export async function changedFields(
  { store }: CompareContext,
  secret: SecretRecord,
  sent: SecretChange,
  isEchoed: boolean,
): Promise<Fields> {
  const isNew = async (field: keyof Fields, text: string) =>
    text !== secret[field] && !(isEchoed && (await store.secrets.hasHad(secret, field, text)))
  const { name, note, type, dataType } = sent
  return {
    name: (await isNew('name', name)) ? name : secret.name,
    note: note !== undefined && (await isNew('note', note)) ? note : secret.note,
    type: type !== undefined && (await isNew('type', type)) ? type : secret.type,
    dataType: dataType !== undefined && (await isNew('dataType', dataType)) ? dataType : secret.dataType,
  }
}

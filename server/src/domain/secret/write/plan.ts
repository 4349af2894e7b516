/** Compares the edits of a request with the stored values: plans the change of each key, or refuses the request. */
import type { DataType, WriteMode, WriteResult } from '@coffer/contract/secret'
import { newId } from '../../../crypto/id.ts'
import { Failure, invalid } from '../../../failure.ts'
import type { SecretRecord } from '../../../store/secret/secret.ts'
import type { SealedValue } from '../../../store/secret/value.ts'
import type { ProjectAccess } from '../../access/access.ts'
import type { SnapshotEnvironment } from '../../cache/workspace-snapshot.ts'
import type { WriteContext } from '../../context.ts'
import { refuseId, refuseReserved } from '../name.ts'
import { authorsOf } from '../reference/author.ts'
import { isTooLarge } from '../size.ts'

/** The value that one key should have in one environment; null removes it. */
export type Edit = {
  readonly key: string
  /** Set if the secret has been looked up already. */
  readonly secret?: SecretRecord
  readonly environment: SnapshotEnvironment
  readonly value: string | null
  /** Authors of the original, if the value is copied from another version or environment. */
  readonly copiedFrom?: string
  readonly isPersonal?: boolean
  readonly ifVersion?: number | undefined
  readonly type?: string | undefined
  readonly dataType?: DataType | undefined
  readonly note?: string | undefined
}
/** A stored value. A removed value keeps its version number, so that a new one continues from there. */
export type Current = {
  readonly secretId: string
  readonly version: number
  readonly isThere: boolean
  readonly text: string | undefined
}
/** The stored secrets and values that the edits touch. */
export type Present = {
  readonly secrets: Map<string, SecretRecord>
  readonly values: Map<string, Current>
}

export type Planned = {
  readonly edit: Edit
  readonly secret: SecretRecord
  readonly ownerId: string
  readonly status: 'created' | 'updated' | 'deleted'
  readonly version: number
  readonly authors: string
}
export type WritePlan = {
  readonly results: WriteResult[]
  readonly planned: Planned[]
  /** Edits to a value that is equal already. They can confirm a guess, so the audit entry names them. */
  readonly unchanged: Edit[]
  /** Secrets that do not exist yet. */
  readonly fresh: Map<string, SecretRecord>
  /** Secrets whose value stays but whose note or type changes, by id: each is updated once for all environments. */
  readonly described: Map<string, SecretRecord>
}

export function planEdits(
  ctx: WriteContext,
  access: ProjectAccess,
  edits: readonly Edit[],
  { mode, revisions }: { readonly mode: WriteMode; readonly revisions: { readonly at: number } },
  present: Present,
  personalOwnerId: string,
): WritePlan {
  const { secrets: known, values } = present
  const plan: WritePlan = { results: [], planned: [], unchanged: [], fresh: new Map(), described: new Map() }
  const taken: string[] = []
  for (const edit of edits) {
    const secret = known.get(edit.key) ?? plan.fresh.get(edit.key) ?? newSecret(access, edit, revisions.at)
    const ownerId = edit.isPersonal ? personalOwnerId : ''
    const current = values.get(valueName(edit.environment.id, secret.id, ownerId))
    const exists = current?.isThere ?? false
    const version = current?.version ?? 0
    refuseStale(edit, current)
    const isPersonal = edit.isPersonal === true
    const result = {
      key: edit.key,
      environmentId: edit.environment.id,
      id: secret.id,
      ...(isPersonal && { isPersonal }),
    }
    const change = (status: Planned['status']) => {
      const authors = ownerId === '' ? authorsOf(ctx, access, edit) : ''
      plan.planned.push({ edit, secret, ownerId, status, version: version + 1, authors })
      plan.results.push({ ...result, status, version: version + 1 })
    }
    if (edit.value === null) {
      if (!exists) throw new Failure('notFound', `${describeAbsence(edit)}.`)
      change('deleted')
    } else if (exists && mode === 'create') taken.push(edit.key)
    else if (exists && mode === 'skip') plan.results.push({ ...result, status: 'skipped', version })
    else if (exists && current?.text === edit.value) {
      plan.results.push({ ...result, status: 'unchanged', version })
      plan.unchanged.push(edit)
      if (isDescribedAnew(secret, edit)) plan.described.set(secret.id, withFields(secret, edit))
    } else {
      if (!known.has(edit.key)) {
        refuseReserved('key', edit.key)
        // A later edit may describe a secret that an earlier one of the request creates.
        plan.fresh.set(edit.key, withFields(secret, edit))
      }
      change(exists ? 'updated' : 'created')
    }
  }
  if (taken.length > 0) throw new Failure('conflict', `These already exist: ${listKeys(taken)}.`)
  return plan
}

export function presentValues(
  rows: readonly SealedValue[],
  opened: readonly { environmentId: string; secretId: string; isPersonal: boolean; value: string }[],
  personalOwnerId: string,
): Map<string, Current> {
  const texts = new Map(
    opened.map((row) => [valueName(row.environmentId, row.secretId, row.isPersonal ? personalOwnerId : ''), row.value]),
  )
  return new Map(
    rows.map(({ environmentId, secretId, ownerId, version, sealed }) => {
      const name = valueName(environmentId, secretId, ownerId)
      return [name, { secretId, version, isThere: sealed !== null, text: texts.get(name) }]
    }),
  )
}

/** Map key of a secret's value in an environment: the shared one, or that of a person. */
export const valueName = (environmentId: string, secretId: string, ownerId: string): string =>
  `${environmentId} ${secretId} ${ownerId}`

export function withFields(secret: SecretRecord, { type, dataType, note }: Edit): SecretRecord {
  return { ...secret, type: type ?? secret.type, dataType: dataType ?? secret.dataType, note: note ?? secret.note }
}

export function isDescribedAnew(secret: SecretRecord, edit: Edit): boolean {
  const { type = secret.type, dataType = secret.dataType, note = secret.note } = edit
  return type !== secret.type || dataType !== secret.dataType || note !== secret.note
}

export function checkEdit({ key, value, environment, isPersonal }: Edit): void {
  refuseId('key', key)
  // Hidden personal values can still be deleted.
  if (isPersonal && value !== null && !environment.hasPersonalOverrides) {
    throw invalid('isPersonal', `personal values are switched off in ${environment.name}.`)
  }
  if (value === null) return
  if (isTooLarge(value)) throw invalid('value', `the value of ${key} is larger than 64 KiB.`)
  if (/^(\*{8,}|•{4,})$/.test(value))
    throw invalid('value', `the value of ${key} is only a display mask: send the value itself.`)
}

/** Version 0 matches an absent value. A removed value also matches the version of its removal. */
function refuseStale(edit: Edit, current: Current | undefined): void {
  const { ifVersion } = edit
  if (ifVersion === undefined || ifVersion === (current?.version ?? 0)) return
  if (ifVersion === 0 && !current?.isThere) return
  const now = current?.isThere ? `${edit.key} is at version ${current.version}` : describeAbsence(edit)
  throw new Failure('preconditionFailed', `${now} now: read it again.`)
}

/** Same message whether or not the secret exists: some callers must not learn that it does. */
const describeAbsence = ({ key, environment, isPersonal }: Edit) =>
  `${key} has no ${isPersonal ? 'personal ' : ''}value in ${environment.name}`

export function listKeys(keys: readonly string[]): string {
  const unique = [...new Set(keys)]
  return unique.length > 20 ? `${unique.slice(0, 20).join(', ')} and ${unique.length - 20} more` : unique.join(', ')
}

function newSecret(access: ProjectAccess, edit: Edit, now: number): SecretRecord {
  return {
    id: newId(),
    workspaceId: access.snapshot.workspace.id,
    projectId: access.project.id,
    name: edit.key,
    type: edit.type ?? 'runtime',
    dataType: edit.dataType ?? 'text',
    note: edit.note ?? '',
    createdAt: now,
    updatedAt: now,
    trashedAt: null,
  }
}

/** How the loaded rows of a selection are shown. */
import type { Secret, SecretQuery, SecretRow } from '@coffer/contract/secret'
import type { ReminderRow } from '../../../store/secret/reminder.ts'
import type { SecretRecord } from '../../../store/secret/secret.ts'
import { iso } from '../../time.ts'
import { type OpenValue, valueKey } from '../load.ts'
import type { Resolved } from '../reference/resolution.ts'
import type { Loaded } from './loaded.ts'
import { isWhole, type Selection } from './selection.ts'
import type { Answered } from './text.ts'

/** `resolved` is undefined if references stay as they are. */
export function showSelection(
  selection: Selection,
  { secrets, values, reminders, advice }: Loaded,
  resolved: ReadonlyMap<OpenValue, Resolved> | undefined,
): Answered {
  const { environments, query, key } = selection
  const order = new Map(environments.map(({ id }, index) => [id, index]))
  const rowsBySecret = Map.groupBy(values, (value) => value.secretId)
  const findReminder = createReminderIndex(reminders)
  return {
    secrets: isWhole(selection) ? secrets : secrets.filter(({ id }) => rowsBySecret.has(id)),
    describe(secret) {
      const rows = (rowsBySecret.get(secret.id) ?? []).sort(
        (a, b) =>
          (order.get(a.environmentId) ?? 0) - (order.get(b.environmentId) ?? 0) ||
          Number(a.isPersonal) - Number(b.isPersonal),
      )
      return toSecret(
        secret,
        rows.map((row) => toRow(row, query, resolved?.get(row), findReminder(row))),
      )
    },
    isList: key === undefined,
    advice,
  }
}

/** Looks reminders up by environment and secret. Personal values have none. */
export function createReminderIndex(reminders: readonly ReminderRow[]): (row: OpenValue) => ReminderRow | undefined {
  if (reminders.length === 0) return () => undefined
  const byPlace = new Map(reminders.map((reminder) => [valueKey(reminder), reminder]))
  return (row) => (row.isPersonal ? undefined : byPlace.get(valueKey(row)))
}

function toSecret(record: SecretRecord, values: SecretRow[]): Secret {
  const { id, name, note, type, dataType, createdAt, updatedAt } = record
  return { id, name, note, type, dataType, createdAt: iso(createdAt), updatedAt: iso(updatedAt), values }
}

function toRow(
  row: OpenValue,
  { view, resolve }: SecretQuery,
  resolved: Resolved | undefined,
  reminder: ReminderRow | undefined,
): SecretRow {
  return {
    environmentId: row.environmentId,
    ...(view !== 'keys' && view !== 'cells' && { value: resolved?.value ?? row.value }),
    isPersonal: row.isPersonal,
    // Resolved values carry no version: a client could write them back with it, and so overwrite the references.
    ...(resolve !== true && { version: row.version }),
    updatedAt: iso(row.updatedAt),
    ...(row.cell && { ...row.cell, references: [...row.cell.references] }),
    ...(resolved && resolved.unresolved.length > 0 && { unresolved: [...resolved.unresolved] }),
    ...(reminder && {
      reminder: { id: reminder.id, type: reminder.type, nextReminderDate: iso(reminder.nextAt) },
    }),
  }
}

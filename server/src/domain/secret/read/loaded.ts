/** Loads the rows of a selection: from the database, and decrypted. */
import { Failure } from '../../../failure.ts'
import type { ReminderRow } from '../../../store/secret/reminder.ts'
import type { SecretRecord } from '../../../store/secret/secret.ts'
import type { Context } from '../../context.ts'
import { toCells } from '../cell.ts'
import { findSecret } from '../find.ts'
import { loadProject, loadWithoutValues, maxRowsOf, type OpenValue, openValues } from '../load.ts'
import { createAllowance } from '../size.ts'
import type { Selection } from './selection.ts'

export type Loaded = {
  readonly secrets: readonly SecretRecord[]
  /** The names of all secrets of the project, sorted. */
  readonly allNames: () => readonly string[]
  readonly values: readonly OpenValue[]
  readonly reminders: readonly ReminderRow[]
  /** Error text for a response that is too large: how to ask for less. */
  readonly advice: string
}

export function loadSelection(ctx: Context, selection: Selection, ownerId: string): Promise<Loaded> {
  const { access, environments, query, key } = selection
  const { q: part, view } = query
  if (key !== undefined) return loadOne(ctx, selection, key, ownerId)
  return view === 'keys' || view === 'cells'
    ? loadWithoutValues(ctx, access, environments, ownerId, { part, hasCells: view === 'cells' })
    : loadProject(ctx, access, environments, ownerId, { part })
}

async function loadOne(
  ctx: Context,
  { access, environments, query }: Selection,
  key: string,
  ownerId: string,
): Promise<Loaded> {
  const secret = await findSecret(ctx, access, key)
  if (!secret || secret.trashedAt !== null) throw new Failure('notFound')
  const { secretValues, secretReminders } = ctx.store
  const ids = environments.map(({ id }) => id)
  const secretIds = [secret.id]
  const advice = 'name fewer environments'
  const allowance = createAllowance(ctx, 'environmentId', advice)
  const sealed = await allowance.load(
    maxRowsOf(ids.length, ownerId),
    () => secretValues.measureOf(ids, secretIds, ownerId),
    () => secretValues.listOf(ids, secretIds, ownerId),
  )
  const opened = await openValues(ctx, access, sealed, new Map([[secret.id, secret.name]]))
  // A secret does not exist for callers who see none of its values.
  if (opened.length === 0) throw new Failure('notFound')
  const values = query.view === 'cells' ? await toCells(opened, ctx.longWork.giveWay) : opened
  const reminders = ids.length === 0 ? [] : await secretReminders.listOf(ids, secret.id)
  return { secrets: [secret], allNames: () => [secret.name], values, reminders, advice }
}

/** Reminders to change a value, once or repeatedly. */
import type { Reminder, SecretPath } from '@coffer/contract/secret'
import type { NewReminder, ReminderQuery, ReminderRemoval } from '@coffer/contract/secret-reminder'
import { newId } from '../../crypto/id.ts'
import { Failure, invalid } from '../../failure.ts'
import { requireProject } from '../access/access.ts'
import type { Context } from '../context.ts'
import { iso } from '../time.ts'
import { inTransaction } from '../transaction.ts'
import { recordSecret } from './audit-record.ts'
import { requireNamed } from './choose-environment.ts'
import { requireSecret } from './find.ts'
import { requireDeveloper, requireWritable } from './right.ts'
import { announceSecrets } from './write/announce.ts'

export async function putReminder(
  ctx: Context,
  path: SecretPath,
  body: NewReminder,
): Promise<Reminder & { success: boolean }> {
  const access = await requireProject(ctx, path, 'secret:write')
  const environment = requireWritable(access, body.environmentId)
  if (body.type === 'recurring' && body.everyDays === undefined)
    throw invalid('everyDays', 'is required for a recurring reminder.')
  const nextAt = Date.parse(body.nextReminderDate)
  // The schema accepts times that Date.parse rejects, such as a leap second.
  if (Number.isNaN(nextAt)) throw invalid('nextReminderDate', 'must be an ISO 8601 date and time.')
  // Readers of the secret would get other years in an unexpected format, such as +010000-01-01.
  if (!/^\d{4}-/.test(iso(nextAt))) throw invalid('nextReminderDate', 'must be in the years 0 to 9999, in UTC.')
  return inTransaction(ctx, access.snapshot.workspace.id, async (ctx) => {
    const secret = await requireSecret(ctx, access, path.key)
    const everyDays = body.everyDays ?? null
    const workspaceId = access.snapshot.workspace.id
    // Checked again under the workspace lock: the environment may have just been deleted.
    if (!(await ctx.store.environments.find(environment.id, workspaceId))) throw new Failure('notFound')
    const row = {
      id: newId(),
      workspaceId,
      environmentId: environment.id,
      secretId: secret.id,
      type: body.type,
      nextAt,
      everyDays,
    }
    const id = await ctx.store.secretReminders.put(row)
    recordSecret(ctx, access, 'UPDATE', secret, { reminder: iso(nextAt) }, [environment.id])
    announceSecrets(ctx, access, [environment.id])
    return { success: true, id, type: body.type, nextReminderDate: iso(nextAt) }
  })
}

export async function deleteReminder(
  ctx: Context,
  path: SecretPath,
  query: ReminderQuery,
  body: ReminderRemoval,
): Promise<void> {
  const access = await requireProject(ctx, path, 'secret:write')
  const environment = requireNamed(access, query.environmentId, body.environmentId)
  requireDeveloper(access, environment)
  await inTransaction(ctx, access.snapshot.workspace.id, async (ctx) => {
    const secret = await requireSecret(ctx, access, path.key)
    if (!(await ctx.store.secretReminders.remove(environment.id, secret.id))) throw new Failure('notFound')
    recordSecret(ctx, access, 'UPDATE', secret, { reminder: null }, [environment.id])
    announceSecrets(ctx, access, [environment.id])
  })
}

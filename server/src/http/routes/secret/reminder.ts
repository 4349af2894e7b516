import { secretReminderEndpoints } from '@coffer/contract/secret-reminder'
import { deleteReminder, putReminder } from '../../../domain/secret/reminder.ts'
import { type Routes, succeed } from '../../route.ts'

export const secretReminderRoutes: Routes = (serve) => {
  serve(secretReminderEndpoints.putReminder, ({ ctx, params, body }) => putReminder(ctx, params, body))
  serve(secretReminderEndpoints.deleteReminder, ({ ctx, params, query, body }) =>
    succeed(deleteReminder(ctx, params, query, body)),
  )
}

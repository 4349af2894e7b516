/** Reminders on values. `secret.ts` defines how a reminder is shown with its value. */
import type { Endpoint } from './endpoint.ts'
import { closed, Success, words } from './field.ts'
import { type Static, Type } from './schema.ts'
import { EnvironmentKey, oneEnvironment, Reminder, SecretPath, secretPath } from './secret.ts'

export const NewReminder = Type.Object(
  {
    environmentId: EnvironmentKey,
    type: words('one_time', 'recurring'),
    nextReminderDate: Type.String({ format: 'date-time', maxLength: 40 }),
    everyDays: Type.Optional(Type.Integer({ minimum: 1, maximum: 3_650 })),
  },
  closed,
)
export type NewReminder = Static<typeof NewReminder>
export const ReminderQuery = Type.Object(oneEnvironment)
export type ReminderQuery = Static<typeof ReminderQuery>
/** The environment may also be given in the body. The other fields of `NewReminder` are accepted and ignored. */
export const ReminderRemoval = Type.Object(
  {
    environmentId: Type.Optional(EnvironmentKey),
    type: Type.Optional(Type.Unknown()),
    nextReminderDate: Type.Optional(Type.Unknown()),
    everyDays: Type.Optional(Type.Unknown()),
  },
  closed,
)
export type ReminderRemoval = Static<typeof ReminderRemoval>

export const secretReminderEndpoints = {
  putReminder: {
    method: 'PUT',
    path: `${secretPath}/reminder`,
    area: 'secret',
    summary: 'Set a reminder for a value, one-time or recurring',
    permission: 'secret:write',
    params: SecretPath,
    body: NewReminder,
    status: 200,
    response: Type.Object({ ...Success.properties, ...Reminder.properties }),
    errors: [403, 404],
  },
  deleteReminder: {
    method: 'DELETE',
    path: `${secretPath}/reminder`,
    area: 'secret',
    summary: 'End a reminder',
    permission: 'secret:write',
    params: SecretPath,
    query: ReminderQuery,
    body: ReminderRemoval,
    status: 200,
    response: Success,
    errors: [403, 404],
  },
} as const satisfies Record<string, Endpoint>

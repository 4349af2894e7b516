/** Secrets of a project. Queries hold no values: those are read by the functions, which keep nothing. */
import { ApiError, type Secret, type SecretBatch } from '@coffer/sdk'
import { queryOptions } from '@tanstack/react-query'
import type { CellValue, CellValues } from './cell-values.ts'
import { api } from './client.ts'
import { reportSessionEnd } from './session-end.ts'

/** Everything that a grid shows without a value. Each read is recorded, so it is not repeated on every focus. */
export const cellsQuery = (ws: string, prj: string) =>
  queryOptions({
    queryKey: ['cells', ws, prj],
    queryFn: () => api.secret.list({ ws, prj }, { view: 'cells' }),
    staleTime: 5_000,
    refetchOnWindowFocus: true,
  })

/** Who changed a value last, and when. Personal values keep no history. */
export const lastVersionQuery = (ws: string, prj: string, key: string, environmentId: string, version: number) =>
  queryOptions({
    queryKey: ['last-version', ws, prj, key, environmentId, version],
    queryFn: async () => (await api.secret.listVersions({ ws, prj, key }, { environmentId, limit: 1 }))[0] ?? null,
    staleTime: Number.POSITIVE_INFINITY,
  })

/** Direct calls bypass the query cache, and with it the check for an ended session. */
async function watched<Result>(call: Promise<Result>): Promise<Result> {
  try {
    return await call
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) reportSessionEnd()
    throw error
  }
}

function valuesOf({ values }: Secret, environmentId: string): CellValues {
  const found: { shared?: CellValue; personal?: CellValue } = {}
  for (const row of values) {
    if (row.environmentId !== environmentId || row.value === undefined) continue
    found[row.isPersonal ? 'personal' : 'shared'] = { text: row.value, version: row.version ?? 0 }
  }
  return found
}

/** Recorded in the audit log. */
export async function readCell(ws: string, prj: string, key: string, environmentId: string): Promise<CellValues> {
  return valuesOf(await watched(api.secret.read({ ws, prj, key }, { environmentId })), environmentId)
}

/** Values of a whole environment by secret id, recorded as one read. */
export async function readColumn(ws: string, prj: string, environmentId: string): Promise<Map<string, CellValues>> {
  const secrets = await watched(api.secret.list({ ws, prj }, { environmentId }))
  return new Map(secrets.map((secret) => [secret.id, valuesOf(secret, environmentId)]))
}

export const writeBatch = (ws: string, prj: string, batch: SecretBatch) =>
  watched(api.secret.writeBatch({ ws, prj }, batch))

type Described = { readonly note: string; readonly dataType: Secret['dataType'] }

/** The name belongs to the request: an old one would take back what somebody else has renamed meanwhile. */
export async function describeSecret(ws: string, prj: string, key: string, fields: Described): Promise<void> {
  const { name } = await watched(api.secret.read({ ws, prj, key }, { view: 'keys' }))
  await watched(api.secret.update({ ws, prj, key }, { name, ...fields, values: [] }))
}

/** Moves the secret with all of its shared values to the trash. */
export const trashSecret = (ws: string, prj: string, key: string) => watched(api.secret.delete({ ws, prj, key }, {}))

/** `day` is a date such as 2027-01-31. Reminders fall due at the start of that day, in UTC. */
export function setReminder(
  ws: string,
  prj: string,
  key: string,
  environmentId: string,
  day: string,
  everyDays?: number,
) {
  const repeat = everyDays === undefined ? ({ type: 'one_time' } as const) : ({ type: 'recurring', everyDays } as const)
  const body = { environmentId, nextReminderDate: `${day}T00:00:00.000Z`, ...repeat }
  return watched(api.secret.putReminder({ ws, prj, key }, body))
}

export const removeReminder = (ws: string, prj: string, key: string, environmentId: string) =>
  watched(api.secret.deleteReminder({ ws, prj, key }, { environmentId }, {}))

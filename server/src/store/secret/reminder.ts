import { anyOf, type Db, fragment, sql } from '../engine/sql.ts'

export type ReminderRow = {
  readonly id: string
  readonly workspaceId: string
  readonly environmentId: string
  readonly secretId: string
  readonly type: 'one_time' | 'recurring'
  readonly nextAt: number
  readonly everyDays: number | null
}

const columns = fragment(
  `id, workspace_id as "workspaceId", environment_id as "environmentId", secret_id as "secretId", type,
    next_at as "nextAt", every_days as "everyDays"`,
)

export function secretReminderStore(db: Db) {
  return {
    async list(environmentIds: readonly string[]): Promise<ReminderRow[]> {
      return db.all<ReminderRow>(sql`
        select ${columns} from secret_reminder where environment_id ${anyOf(environmentIds)}`)
    },

    async listOf(environmentIds: readonly string[], secretId: string): Promise<ReminderRow[]> {
      return db.all<ReminderRow>(sql`
        select ${columns} from secret_reminder
        where secret_id = ${secretId} and environment_id ${anyOf(environmentIds)}`)
    },

    async put(row: ReminderRow): Promise<string> {
      const stored = await db.one<{ id: string }>(sql`
        insert into secret_reminder (id, workspace_id, environment_id, secret_id, type, next_at, every_days)
        values (${row.id}, ${row.workspaceId}, ${row.environmentId}, ${row.secretId}, ${row.type}, ${row.nextAt},
          ${row.everyDays})
        on conflict (environment_id, secret_id) do update set
          type = excluded.type, next_at = excluded.next_at, every_days = excluded.every_days
        returning id`)
      return stored?.id ?? row.id
    },

    async remove(environmentId: string, secretId: string): Promise<boolean> {
      return (
        (await db.count(sql`
          delete from secret_reminder where environment_id = ${environmentId} and secret_id = ${secretId}`)) === 1
      )
    },
  }
}

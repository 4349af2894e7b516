/** Shares that do not end with the person behind them. */
import { type Reader, sql } from '../engine/sql.ts'

type StayingShare = {
  readonly id: string
  readonly label: string
  readonly projectId: string
  readonly expiresAt: number
}

export function stayingShareStore(db: Reader) {
  return {
    /** Open shares that were made with tokens of service accounts which this person had created. */
    async list(userId: string, workspaceId: string, nowMs: number): Promise<StayingShare[]> {
      return db.all<StayingShare>(sql`
        select id, label, project_id as "projectId", expires_at as "expiresAt" from share
        where workspace_id = ${workspaceId} and created_by = ${userId} and service_account_id is not null
          and state = 'active' and expires_at > ${nowMs}
        order by id`)
    },
  }
}

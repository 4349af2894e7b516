/** For `doctor`: tokens that did what only sessions and marked tokens may do since the mark exists. Reads the whole trail. */
import { type Db, sql } from '../engine/sql.ts'

type AdministeringToken = { readonly id: string; readonly workspaceId: string; readonly lastAt: number }

/** An UPDATE of a token is its transfer. */
export const listAdministeringTokens = (db: Db, sinceMs: number): Promise<AdministeringToken[]> =>
  db.all<AdministeringToken>(sql`
    select actor_id as id, chain_id as "workspaceId", max(at) as "lastAt" from audit_entry
    where at >= ${sinceMs} and actor_type = 'token' and outcome = 'success'
      and (entity_type in ('member', 'invite', 'service-account', 'oidc', 'policy', 'second-factor')
          and action in ('CREATE', 'UPDATE', 'DELETE', 'ROTATE')
        or entity_type = 'token' and action = 'UPDATE')
    group by chain_id, actor_id order by chain_id, actor_id`)

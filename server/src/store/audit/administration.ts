/** For `doctor`: tokens that did what only sessions and marked tokens may do since the mark exists. */
import { type Reader, sql } from '../engine/sql.ts'

type AdministeringToken = { readonly id: string; readonly workspaceId: string; readonly lastAt: number }
type Act = { readonly sequence: number; readonly at: number; readonly tokenId: string | null }

const pageSize = 1_000

/** Walks back through the trail of every workspace, in pages, until the entries are older than this. */
export async function* listAdministeringTokens(db: Reader, sinceMs: number): AsyncGenerator<AdministeringToken> {
  let workspaces: { id: string }[]
  let after = ''
  do {
    workspaces = await db.all<{ id: string }>(sql`
      select id from workspace where id > ${after} order by id limit ${pageSize}`)
    for (const { id } of workspaces) yield* await listOfWorkspace(db, id, sinceMs)
    after = workspaces.at(-1)?.id ?? after
  } while (workspaces.length === pageSize)
}

async function listOfWorkspace(db: Reader, workspaceId: string, sinceMs: number): Promise<AdministeringToken[]> {
  const lastAt = new Map<string, number>()
  let before = Number.MAX_SAFE_INTEGER
  let page: Act[]
  do {
    // An UPDATE of a token is its transfer.
    page = await db.all<Act>(sql`
      select sequence, at, case when actor_type = 'token' and outcome = 'success'
        and (entity_type in ('member', 'invite', 'service-account', 'oidc', 'policy', 'second-factor')
            and action in ('CREATE', 'UPDATE', 'DELETE', 'ROTATE')
          or entity_type = 'token' and action = 'UPDATE') then actor_id end as "tokenId"
      from audit_entry where chain_id = ${workspaceId} and sequence < ${before} order by sequence desc limit ${pageSize}`)
    for (const { tokenId, at } of page) {
      if (tokenId !== null && at >= sinceMs) lastAt.set(tokenId, Math.max(at, lastAt.get(tokenId) ?? 0))
    }
    before = page.at(-1)?.sequence ?? 0
  } while (page.length === pageSize && page.some(({ at }) => at >= sinceMs))
  return [...lastAt].map(([id, at]) => ({ id, workspaceId, lastAt: at }))
}

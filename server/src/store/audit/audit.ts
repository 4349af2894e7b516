/**
 * Storage of the audit trail: one hash chain per workspace, and one for everything outside workspaces. Each entry's
 * hash covers the hash before it; the newest hash is signed.
 */

import type { GiveWay } from '../../long-work.ts'
import { anyOf, type Db, fragment, sql } from '../engine/sql.ts'
import { type BatchRow, expandBatch, linksOfBatch } from './batch.ts'
import { type AuditLink, type AuditRow, linkOf } from './entry.ts'
import { headStore } from './head.ts'
import type { DetailsReader, KeyList } from './key-list.ts'
import { type AuditFilter, type EntryFilter, entryFilter, patternsFor, typesOf } from './search.ts'

const columns = fragment(`
  chain_id as "chainId", sequence, id, at, actor_type as "actorType", actor_id as "actorId", actor_name as "actorName",
  action, entity_type as "entityType", entity_id as "entityId", entity_name as "entityName", project_id as "projectId",
  environment_id as "environmentId", ip, user_agent as "userAgent", request_id as "requestId", outcome, details, hash`)

/** A range of a chain that is read at once. */
export type Stretch = { readonly after: number; readonly upTo: number }

/** Limits of one stretch: entries and bytes, but at least one row. SQLite reads it in one go, while others wait. */
const maxStretchLength = 500
const maxStretchBytes = 512 * 1024

const batchColumns = fragment(`
  chain_id as "chainId", first_sequence as "firstSequence", last_sequence as "lastSequence",
  previous_hash as "previousHash", entries, hash`)

type Timed = Pick<AuditRow, 'sequence' | 'at'>
type RowSize = { readonly firstSequence: number; readonly lastSequence: number; readonly bytes: number }

/** Ids, hashes and the index of one row, measured on SQLite. */
const rowBytes = 300

/** Minimum number of rows per narrowing query, even if fewer results are wanted. */
const minNarrowed = 100

/** SQL cannot see into lists stored elsewhere, so entries that refer to one always pass. */
const storedList = '%"lists":[%'

/**
 * Bytes of details that SQL searches; longer ones always pass. A repetitive text costs `like` as many steps as it has
 * characters times those of the pattern, and SQLite cannot give way meanwhile. The check stands before every `like` that
 * has text of the caller, and the only subquery after them: SQLite evaluates what follows a subquery first.
 */
const maxSearchedBytes = 16 * 1024

export function auditStore(db: Db) {
  /**
   * The batches of a stretch. The first one that ends at or after `upTo` is the last one: without this upper bound, the
   * index would be read to the end of the trail.
   */
  const listBatches = (chainId: string, { after, upTo }: Stretch): Promise<BatchRow[]> =>
    db.all<BatchRow>(sql`
      select ${batchColumns} from audit_batch where chain_id = ${chainId} and last_sequence > ${after} and first_sequence <= ${upTo}
        and last_sequence <= coalesce((
          select min(last_sequence) from audit_batch where chain_id = ${chainId} and last_sequence >= ${upTo}), ${upTo})
      order by last_sequence`)

  /** Sizes of the rows in a stretch, oldest first, without loading the rows. */
  const listSizes = (chainId: string, { after, upTo }: Stretch): Promise<RowSize[]> =>
    db.all<RowSize>(sql`
      select sequence as "firstSequence", sequence as "lastSequence", octet_length(details) as bytes
      from audit_entry where chain_id = ${chainId} and sequence > ${after} and sequence <= ${upTo}
      union all
      select first_sequence as "firstSequence", last_sequence as "lastSequence", octet_length(entries) as bytes
      from audit_batch where chain_id = ${chainId} and last_sequence > ${after} and first_sequence <= ${upTo}
        and last_sequence <= coalesce((
          select min(last_sequence) from audit_batch where chain_id = ${chainId} and last_sequence >= ${upTo}), ${upTo})
      order by 2`)

  /** Matching entries with a row of their own, newest first, from the candidates that SQL returns. */
  async function searchEntries(
    chainId: string,
    stretch: Stretch,
    filter: AuditFilter,
    isMeant: EntryFilter,
    limit: number,
    giveWay: GiveWay,
  ): Promise<AuditRow[]> {
    const { actor, action, project, from, to } = filter
    const entity = filter.entity?.text ?? null
    const environment = filter.environment?.id ?? null
    const { entityEnd, secretEnd, environmentId, environmentName, text } = patternsFor(filter)
    const most = Math.max(limit, minNarrowed)
    const found: AuditRow[] = []
    let { upTo } = stretch
    while (upTo > stretch.after && found.length < limit) {
      const rows = await db.all<AuditRow>(sql`
        select ${columns} from audit_entry
        where chain_id = ${chainId} and sequence > ${stretch.after} and sequence <= ${upTo}
          and (cast(${actor} as text) is null or actor_id = ${actor} or actor_name = ${actor})
          and (cast(${action} as text) is null or action = ${action})
          and (cast(${project} as text) is null or project_id = ${project})
          and (cast(${from} as bigint) is null or at >= ${from})
          and (cast(${to} as bigint) is null or at <= ${to})
          and (cast(${entity} as text) is null or entity_id = ${entity} or entity_name = ${entity}
            or octet_length(details) > ${maxSearchedBytes} or details like ${entityEnd} escape '\\'
            or details like ${storedList}
            or (entity_type <> 'secret' or details like '%"referenced"%') and details like ${secretEnd} escape '\\'
            or entity_type ${anyOf(typesOf(entity ?? ''))})
          and (cast(${environment} as text) is null or environment_id = ${environment}
            or octet_length(details) > ${maxSearchedBytes} or details like ${environmentId} escape '\\'
            or details like ${storedList}
            or (environment_id is null or details like '%"referenced"%')
              and details like ${environmentName} escape '\\')
          and (cast(${text} as text) is null or lower(entity_name) like ${text} escape '\\'
            or lower(actor_name) like ${text} escape '\\' or lower(entity_type) like ${text} escape '\\'
            or lower(action) like ${text} escape '\\' or octet_length(details) > ${maxSearchedBytes}
            or lower(details) like ${text} escape '\\' or details like ${storedList})
        order by sequence desc limit ${most}`)
      found.push(...(await listMeant(rows, isMeant, giveWay)))
      upTo = rows.length < most ? stretch.after : (rows.at(-1)?.sequence ?? 0) - 1
    }
    return found
  }

  return {
    ...headStore(db),

    /** The next chain by id, including chains of deleted workspaces. */
    async findChainAfter(chainId: string): Promise<string | undefined> {
      const row = await db.one<{ chainId: string | null }>(sql`
        select min(a.id) as "chainId" from (
          select min(chain_id) as id from audit_head where chain_id > ${chainId}
          union all select min(chain_id) as id from audit_entry where chain_id > ${chainId}
          union all select min(chain_id) as id from audit_batch where chain_id > ${chainId}
          union all select min(id) as id from workspace where id > ${chainId}) a`)
      return row?.chainId ?? undefined
    },

    insert(row: AuditRow): void {
      db.write(sql`
        insert into audit_entry (chain_id, sequence, id, at, actor_type, actor_id, actor_name, action, entity_type,
          entity_id, entity_name, project_id, environment_id, ip, user_agent, request_id, outcome, details, hash)
        values (${row.chainId}, ${row.sequence}, ${row.id}, ${row.at}, ${row.actorType}, ${row.actorId},
          ${row.actorName}, ${row.action}, ${row.entityType}, ${row.entityId}, ${row.entityName}, ${row.projectId},
          ${row.environmentId}, ${row.ip}, ${row.userAgent}, ${row.requestId}, ${row.outcome}, ${row.details},
          ${row.hash})`)
    },

    insertBatch(row: BatchRow): void {
      db.write(sql`
        insert into audit_batch (chain_id, first_sequence, last_sequence, previous_hash, entries, hash)
        values (${row.chainId}, ${row.firstSequence}, ${row.lastSequence}, ${row.previousHash}, ${row.entries},
          ${row.hash})`)
    },

    storeList(chainId: string, { digest, text }: KeyList, sequence: number): void {
      db.write(sql`
        insert into audit_key_list (chain_id, digest, keys, last_sequence)
        values (${chainId}, ${digest}, ${text}, ${sequence})
        on conflict (chain_id, digest) do update set last_sequence = ${sequence}`)
    },

    async findList(chainId: string, digest: string): Promise<string | undefined> {
      const row = await db.one<{ keys: string }>(sql`
        select keys from audit_key_list where chain_id = ${chainId} and digest = ${digest}`)
      return row?.keys
    },

    /** The time of the first entry at or after this position. Undefined if there is none, or its row is malformed. */
    async findTime(chainId: string, sequence: number): Promise<number | undefined> {
      const entry = await db.one<Timed>(sql`
        select sequence, at from audit_entry where chain_id = ${chainId} and sequence >= ${sequence}
        order by sequence limit 1`)
      const batch = await db.one<BatchRow>(sql`
        select ${batchColumns} from audit_batch where chain_id = ${chainId} and last_sequence >= ${sequence}
        order by last_sequence limit 1`)
      const timed: Timed[] = [...(batch ? expandBatch(batch) : []), ...(entry ? [entry] : [])]
      const here = timed.filter((row) => row.sequence >= sequence)
      return here.toSorted((a, b) => a.sequence - b.sequence)[0]?.at
    },

    /** The times of all entries in the rows of a stretch. */
    async listTimes(chainId: string, stretch: Stretch): Promise<number[]> {
      const rows = await db.all<Pick<AuditRow, 'at'>>(sql`
        select at from audit_entry
        where chain_id = ${chainId} and sequence > ${stretch.after} and sequence <= ${stretch.upTo}`)
      const batches = await listBatches(chainId, stretch)
      return [...rows, ...batches.flatMap(expandBatch)].map(({ at }) => at)
    },

    async hasAfter(chainId: string, sequence: number): Promise<boolean> {
      const row = await db.one(sql`
        select sequence from audit_entry where chain_id = ${chainId} and sequence > ${sequence}
        union all
        select last_sequence from audit_batch where chain_id = ${chainId} and last_sequence > ${sequence} limit 1`)
      return row !== undefined
    },

    /** The newest stretch that ends at `upTo`. */
    async stretchUpTo(chainId: string, upTo: number): Promise<Stretch> {
      const whole = { after: Math.max(0, upTo - maxStretchLength), upTo }
      const beyond = firstBeyond((await listSizes(chainId, whole)).reverse())
      return beyond ? { after: Math.min(beyond.lastSequence, upTo - 1), upTo } : whole
    },

    /** Bytes of an entry on disk, estimated from the newest rows up to this position. */
    async bytesPerEntry(chainId: string, upTo: number): Promise<number> {
      const sizes = await listSizes(chainId, { after: Math.max(0, upTo - maxStretchLength), upTo })
      const entries = sizes.reduce((sum, { firstSequence, lastSequence }) => sum + lastSequence - firstSequence + 1, 0)
      return sizes.reduce((sum, { bytes }) => sum + bytes + rowBytes, 0) / Math.max(1, entries)
    },

    /** The oldest stretch after `after`, ending at `end` at most. */
    async stretchAfter(chainId: string, after: number, end: number): Promise<Stretch> {
      const whole = { after, upTo: Math.min(after + maxStretchLength, end) }
      const beyond = firstBeyond(await listSizes(chainId, whole))
      return beyond ? { after, upTo: Math.max(beyond.firstSequence - 1, after + 1) } : whole
    },

    /**
     * The links of a stretch, oldest first. The last link may end beyond the stretch, and everything up to its end is
     * listed. A link that begins before the stretch and ends in it is listed too: a genuine chain has none.
     */
    async listLinks(chainId: string, stretch: Stretch): Promise<AuditLink[]> {
      const { after } = stretch
      const batches = await listBatches(chainId, stretch)
      const end = Math.max(stretch.upTo, batches.at(-1)?.lastSequence ?? 0)
      const rows = await db.all<AuditRow>(sql`
        select ${columns} from audit_entry
        where chain_id = ${chainId} and sequence > ${after} and sequence <= ${end}`)
      const links = [...rows.map(linkOf), ...batches.flatMap(linksOfBatch)]
      return links.filter((link) => endOf(link) > after).sort((a, b) => startOf(a) - startOf(b))
    },

    /** Matches in a stretch, newest first, `limit` at most. A chain is searched stretch by stretch, so that no query runs long. */
    async searchStretch(
      chainId: string,
      stretch: Stretch,
      filter: AuditFilter,
      readDetails: DetailsReader,
      limit: number,
      giveWay: GiveWay,
    ): Promise<AuditRow[]> {
      const isMeant = entryFilter(filter, readDetails)
      const found = await searchEntries(chainId, stretch, filter, isMeant, limit, giveWay)
      const isWithin = ({ sequence }: AuditRow) => sequence > stretch.after && sequence <= stretch.upTo
      for (const batch of (await listBatches(chainId, stretch)).reverse()) {
        await giveWay()
        found.push(...(await listMeant(expandBatch(batch).filter(isWithin), isMeant, giveWay)))
      }
      return found.sort((a, b) => b.sequence - a.sequence).slice(0, limit)
    },
  }
}

async function listMeant(rows: readonly AuditRow[], isMeant: EntryFilter, giveWay: GiveWay): Promise<AuditRow[]> {
  const meant: AuditRow[] = []
  for (const row of rows) {
    if (await isMeant(row)) meant.push(row)
    await giveWay()
  }
  return meant
}

const startOf = ({ entries }: AuditLink) => entries[0]?.sequence ?? 0
const endOf = ({ entries }: AuditLink) => entries.at(-1)?.sequence ?? 0

/** The first row, in the given order, that exceeds the size of a stretch. */
function firstBeyond(sizes: readonly RowSize[]): RowSize | undefined {
  let total = 0
  return sizes.find(({ bytes }, index) => {
    total += bytes
    return total > maxStretchBytes && index > 0
  })
}

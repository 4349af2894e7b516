/** Jobs of the transaction engine that write items, for tests of the SQL layer. */
import { Failure } from '../server/src/failure.ts'
import { anyOf, type Db, type Desk, type Job, type Link, type Reader, sql } from '../server/src/store/engine/sql.ts'
import { findItem, unused } from './sql-engine.ts'

/** What a link has done, in this order. */
type Trace = { readonly links: (readonly string[])[]; readonly told: string[] }
type ItemJob = Job<void, string, string>
type ItemOptions = {
  readonly trace?: Trace
  readonly link?: Link<string>
  readonly bytes?: number
  read?(db: Db): Promise<void>
  /** Runs after the item is written. */
  plan?(db: Db, desk: Desk): void
}

export const newTrace = (): Trace => ({ links: [], told: [] })

/** Records for which notes it was written, and what it was told of each commit. */
export const traceLink = ({ links, told }: Trace, write: (db: Db) => Promise<void> = async () => undefined) => ({
  write: async ({ db }: { readonly db: Db }, notes: readonly string[]) => {
    links.push(notes)
    await write(db)
    return {
      committed: () => void told.push(`committed ${notes.join(' ')}`),
      settled: () => void told.push(`settled ${notes.join(' ')}`),
    }
  },
  asFailure: (error: unknown) => error,
})

/** Writes an item; its result and its note are the id. */
export function itemJob(id: string, { trace = newTrace(), read, plan, ...others }: ItemOptions = {}): ItemJob {
  return {
    read: async (db) => read?.(db),
    plan: (_read, desk, db) => {
      db.write(sql`insert into item (id) values (${id})`)
      plan?.(db, desk)
      return { result: id, note: id }
    },
    link: traceLink(trace),
    ...others,
  }
}

/** Unused ids of items. */
export const several = (count: number) => Array.from({ length: count }, unused)

export const isKept = async (reader: Reader, id: string) => (await findItem(reader, id)) !== undefined

/** Returns the ids whose items are stored, in the order of the list. */
export async function keptOf(reader: Reader, ids: readonly string[]): Promise<string[]> {
  const rows = await reader.all<{ id: string }>(sql`select id from item where id ${anyOf(ids)}`)
  const kept = new Set(rows.map(({ id }) => id))
  return ids.filter((id) => kept.has(id))
}

export const refuse = () => {
  throw new Failure('forbidden')
}

/**
 * What the plans of one commit add, before it is sent. Inserts of the same kind become one statement. A plan that is
 * refused leaves nothing.
 */
import { type Db, type Desk, type Sql, type Writer, writeOnly } from './sql.ts'

type Insert = { readonly query: Sql; readonly key: string | undefined }
type Addition = { readonly query: Sql } | { readonly inserts: readonly Insert[] }

export type Draft = {
  readonly desk: Desk
  keep(): void
}

type Drafts = {
  /** Adds to the draft that was begun last. */
  readonly db: Db
  /** Ends the draft before: what it added counts only if it was kept. */
  begin(): Draft
  writeTo(db: Writer): void
}

export function createDrafts(): Drafts {
  const kept: Addition[] = []
  const known = new Map<string, unknown>()
  let own: Addition[] = []
  const db = writeOnly({
    write: (query) => void own.push({ query }),
    writeMany: (rows, insert, keyOf) => {
      const inserts = rows.map((row) => ({ query: insert(row), key: keyOf?.(row) }))
      if (inserts.length > 0) own.push({ inserts })
    },
  })

  return {
    db,
    begin() {
      own = []
      const learned = new Map<string, unknown>()
      return {
        desk: {
          get: (name) => (learned.has(name) ? learned.get(name) : known.get(name)),
          set: (name, value) => void learned.set(name, value),
        },
        keep() {
          kept.push(...own)
          for (const [name, value] of learned) known.set(name, value)
        },
      }
    },
    writeTo(db) {
      const isMerged = new Set<TemplateStringsArray>()
      for (const addition of kept) {
        if ('query' in addition) {
          db.write(addition.query)
          continue
        }
        const template = addition.inserts[0]?.query.strings
        if (!template || isMerged.has(template)) continue
        isMerged.add(template)
        db.writeMany(mergeInserts(kept, template), ({ query }) => query)
      }
    },
  }
}

/** All inserts from this template. Of several rows with one key, the last one stands. */
function mergeInserts(kept: readonly Addition[], template: TemplateStringsArray): Insert[] {
  const inserts = kept.flatMap((addition) =>
    'inserts' in addition && addition.inserts[0]?.query.strings === template ? addition.inserts : [],
  )
  return [...new Map(inserts.map((insert, index) => [insert.key ?? index, insert])).values()]
}

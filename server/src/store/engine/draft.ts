/**
 * What the plans of one commit add, before it is sent. Inserts of the same kind become one statement. A plan that is
 * refused leaves nothing.
 */
import { type Db, type Desk, type Sql, type Writer, writeOnly } from './sql.ts'

type Addition = { readonly query: Sql; readonly key: unknown; readonly isRow: boolean }

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
  /** Statements by their key, and rows by their template: those of the first plan come first. */
  const kept = new Map<unknown, Sql | Map<unknown, Sql>>()
  const known = new Map<string, unknown>()
  let own: Addition[] = []
  const db = writeOnly({
    write: (query, key) => void own.push({ query, key: key ?? query, isRow: false }),
    writeMany: (rows, insert, keyOf) => {
      for (const row of rows) {
        const query = insert(row)
        own.push({ query, key: keyOf?.(row) ?? query, isRow: true })
      }
    },
  })

  function keep({ query, key, isRow }: Addition): void {
    if (!isRow) {
      // The last statement with a key stands, and comes after everything that was added before it.
      kept.delete(key)
      kept.set(key, query)
      return
    }
    const rows = kept.get(query.strings)
    if (rows instanceof Map) rows.set(key, query)
    else kept.set(query.strings, new Map([[key, query]]))
  }

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
          own.forEach(keep)
          for (const [name, value] of learned) known.set(name, value)
        },
      }
    },
    writeTo(db) {
      for (const addition of kept.values()) {
        if (addition instanceof Map) db.writeMany([...addition.values()], (query) => query)
        else db.write(addition)
      }
    },
  }
}

/**
 * What the plans of one commit add, before it is sent. Inserts of the same kind become one statement. A plan that is
 * refused leaves nothing.
 */
import { type Db, type Desk, type Shelf, type Sql, type Writer, writeOnly } from './sql.ts'

type Learned = { readonly shelf: Shelf<unknown>; readonly id: string; readonly value: unknown }
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
  const known = new Map<Shelf<unknown>, Map<string, unknown>>()
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
      const learned: Learned[] = []
      return {
        desk: {
          // The cast is safe: the shelf decides the type of its values.
          get: <Value>(shelf: Shelf<Value>, id: string) => {
            const own = learned.findLast((one) => one.shelf === shelf && one.id === id)
            return (own ? own.value : known.get(shelf)?.get(id)) as Value | undefined
          },
          set: (shelf, id, value) => void learned.push({ shelf, id, value }),
        },
        keep() {
          own.forEach(keep)
          for (const { shelf, id, value } of learned) {
            const values = known.get(shelf) ?? new Map()
            known.set(shelf, values.set(id, value))
          }
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

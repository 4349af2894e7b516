/** Questions of jobs that share a commit: equal ones are asked once, and those for different keys together. */
import { isList, type Reader, type Sql } from './sql.ts'

type Picked = {
  readonly keys: Set<string>
  readonly rows: Promise<Map<string, unknown[]>>
  /** From then on, more keys need another query. */
  isSent: boolean
}

export function createJointReader(db: Reader): Reader {
  const answers = new Map<TemplateStringsArray, Map<string, Promise<unknown>>>()
  const groups = new Map<TemplateStringsArray, Map<string, Picked>>()

  function ask<Answer>(query: Sql, asking: () => Promise<Answer>): Promise<Answer> {
    const known = within(answers, query.strings)
    const name = JSON.stringify(query.values)
    const answer = known.get(name) ?? asking()
    known.set(name, answer)
    // The cast is safe: the template of a query decides the type of its rows.
    return answer as Promise<Answer>
  }

  /** Sent once everything that is asked at this moment is known. */
  function openGroup<Row>(query: (keys: readonly string[]) => Sql, keyOf: (row: Row) => string): Picked {
    const keys = new Set<string>()
    const rows = new Promise<void>((resolve) => process.nextTick(resolve)).then(async () => {
      group.isSent = true
      return Map.groupBy(await db.all<Row>(query([...keys])), keyOf)
    })
    const group: Picked = { keys, rows, isSent: false }
    return group
  }

  return {
    one: (query) => ask(query, () => db.one(query)),
    all: (query) => ask(query, () => db.all(query)),
    async pick<Row>(keys: readonly string[], query: (keys: readonly string[]) => Sql, keyOf: (row: Row) => string) {
      const own = query(keys)
      const known = within(groups, own.strings)
      const name = JSON.stringify(own.values.map((value) => (isList(value) && value.list === keys ? null : value)))
      const open = known.get(name)
      const group = open?.isSent === false ? open : openGroup(query, keyOf)
      known.set(name, group)
      for (const key of keys) group.keys.add(key)
      const rows = await group.rows
      // The cast is safe, as above.
      return [...new Set(keys)].flatMap((key) => (rows.get(key) ?? []) as Row[])
    },
  }
}

function within<Value>(known: Map<TemplateStringsArray, Map<string, Value>>, strings: TemplateStringsArray) {
  const found = known.get(strings) ?? new Map<string, Value>()
  known.set(strings, found)
  return found
}

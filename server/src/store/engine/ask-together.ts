/** The questions of the jobs of one commit: those of one scope are asked by one query, with the keys of all. */
import type { Answers, Ask, Reader } from './sql.ts'

type Group = { readonly ask: Ask<unknown>; readonly keys: Set<string> }

export async function askTogether(db: Reader, asks: readonly Ask<unknown>[]): Promise<Answers> {
  const groups = new Map<string, Group>()
  for (const ask of asks) {
    const group = groups.get(ask.scope) ?? { ask, keys: new Set() }
    group.keys.add(ask.key)
    groups.set(ask.scope, group)
  }
  const asked = [...groups].map(async ([scope, { ask, keys }]) => {
    const rows = await db.all<unknown>(ask.query([...keys]))
    return [scope, Map.groupBy(rows, ask.keyOf)] as const
  })
  const answers = new Map(await Promise.all(asked))
  return {
    // The cast is safe: the scope of an ask decides the type of its rows.
    of: <Row>({ scope, key }: Ask<Row>) => (answers.get(scope)?.get(key) ?? []) as readonly Row[],
  }
}

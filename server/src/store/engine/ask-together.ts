/** The questions of the jobs of one commit: equal ones are one query, with the keys of all. */
import type { Answers, Ask, Question, Reader } from './sql.ts'

/** The rows by key, once they are there. */
type Asked = { readonly keys: Set<string>; rows: ReadonlyMap<string, unknown[]> }

export async function askTogether(db: Reader, asks: readonly Ask<unknown>[]): Promise<Answers> {
  const known = new Map<Question<unknown>, Map<string, Asked>>()
  for (const { question, within, key } of asks) {
    const places = known.get(question)
    if (!places) known.set(question, new Map([[within, { keys: new Set([key]), rows: new Map() }]]))
    else if (places.get(within)?.keys.add(key) === undefined) {
      places.set(within, { keys: new Set([key]), rows: new Map() })
    }
  }
  await Promise.all(
    [...known].flatMap(([question, places]) =>
      [...places].map(async ([within, asked]) => {
        asked.rows = Map.groupBy(await db.all(question.query(within, [...asked.keys])), question.keyOf)
      }),
    ),
  )
  return {
    // The cast is safe: the question decides the type of its rows.
    of: <Row>({ question, within, key }: Ask<Row>) =>
      (known
        .get(question as Question<unknown>)
        ?.get(within)
        ?.rows.get(key) ?? []) as readonly Row[],
  }
}

/** How PostgreSQL gets statements, and plans those with lists. SQLite plans a statement once, when it is prepared. */
import { expect, test } from 'vitest'
import { createSqlDatabase, findItem, settle, unused } from '../../../../test/sql-engine.ts'
import { anyOf, sql } from './sql.ts'

test.each([1, 3])('a query with a list of %d ids is not planned at every call', async (count) => {
  const { engine, close } = await createSqlDatabase()
  try {
    const ids = Array.from({ length: 10_000 }, (_, index) => `planned-${index}`)
    const list = anyOf(ids.slice(0, count))
    const plans = await engine.transaction('plans', async ({ db }) => {
      db.writeMany(ids, (id) => sql`insert into item (id) values (${id})`)
      for (let call = 0; call < 8; call++)
        expect(await db.all(sql`select id from item where id ${list}`)).toHaveLength(count)
      return db.all(sql`
          select generic_plans as common, custom_plans as own from pg_prepared_statements
          where statement like 'select id from item where id%'`)
    })
    // PostgreSQL tries five plans for the given list before it compares them with one for any list.
    expect(plans).toEqual([{ common: 3, own: 5 }])
  } finally {
    await close()
  }
})

test('a statement that could not be sent keeps everything else from being committed', async () => {
  const { engine, close } = await createSqlDatabase()
  try {
    const [before, beside] = [unused(), unused()]
    const refused = engine.transaction('sending', async ({ db }) => {
      db.write(sql`insert into item (id) values (${before})`)
      // Not an insert of values, so its rows cannot be joined.
      db.writeMany([unused(), unused()], (id) => sql`insert into item (id) select ${id}`)
    })
    const next = engine.transaction('sending', async ({ db }) =>
      db.write(sql`insert into item (id) values (${beside})`),
    )
    const outcomes = await Promise.all([refused, next].map(settle))
    expect(outcomes.map(({ ok }) => ok)).toEqual([false, true])
    expect(await findItem(engine, before)).toBeUndefined()
    expect(await findItem(engine, beside)).toBeDefined()
  } finally {
    await close()
  }
})

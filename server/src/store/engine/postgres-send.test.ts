/** How PostgreSQL plans queries with lists. SQLite plans a statement once, when it is prepared. */
import { expect, test } from 'vitest'
import { createSqlDatabase } from '../../../../test/sql-engine.ts'
import { anyOf, sql } from './sql.ts'

test.each([1, 3])('a query with a list of %d ids is not planned at every call', async (count) => {
  const { engine, close } = await createSqlDatabase()
  try {
    const ids = Array.from({ length: 10_000 }, (_, index) => `planned-${index}`)
    const list = anyOf(ids.slice(0, count))
    const plans = await engine.transaction('plans', async ({ db }) => {
      await db.runMany(ids, (id) => sql`insert into item (id) values (${id})`)
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

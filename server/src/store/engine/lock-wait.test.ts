/** A migration beside somebody who holds a table for long. SQLite has one writer, whom readers never hold up. */
import { expect, test } from 'vitest'
import { createDatabase, engine as kind } from '../../../../test/harness.ts'
import { openRaw } from '../../../../test/raw-database.ts'
import { openEngine } from '../../../../test/store.ts'
import { until } from '../../../../test/wait.ts'

const waitingSteps = `select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like 'alter table team%'`

test('a step gives way while a backup reads its table, and is applied after that', async ({ onTestFinished }) => {
  const database = await createDatabase({ hasSchema: true })
  onTestFinished(() => database.drop())
  const engine = openEngine(database.settings)
  const [backup, other] = [await openRaw(database), await openRaw(database)]
  const applied = await engine.migratedSteps()
  await backup.query('begin')
  await backup.query('select count(*) from team')
  const step = engine.migrateStep(applied + 1, 'later', 'alter table team add column later text', 1)
  if (kind === 'postgres') {
    // Twice: after the first wait it tries again.
    for (let round = 0; round < 2; round++) {
      const isWaiting = async () => (await other.query(waitingSteps)).length > 0 || undefined
      await until(isWaiting, 120_000, 'the step waits for the table')
      // Waits behind the step until that gives way; the backup still holds the table.
      expect(await other.query('select count(*) as count from team')).toEqual([{ count: 0 }])
      expect(await engine.migratedSteps()).toBe(applied)
    }
  }
  await backup.query('commit')
  await step
  expect(await engine.migratedSteps()).toBe(applied + 1)
  expect(await other.query('select later from team')).toEqual([])
  await Promise.all([backup.close(), other.close(), engine.close()])
})

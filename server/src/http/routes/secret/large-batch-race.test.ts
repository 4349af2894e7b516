/** A batch of more values than one statement of PostgreSQL holds is stored whole, whatever kind of values it holds. */
import type { Secret } from '@coffer/contract/secret'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createPersonalPlaces } from '../../../../../test/personal-place.ts'
import type { RawDatabase } from '../../../../../test/raw-database.ts'

const { start, stop, newPlace, send } = createPersonalPlaces()
let raw: RawDatabase

beforeAll(async () => {
  ;({ raw } = await start())
})
afterAll(stop)

/** Three statements of an insert, and some rows more. */
const count = 3_500
const keys = Array.from({ length: count }, (_, index) => `KEY_${index}`)

async function countRows(environmentId: string): Promise<number> {
  const [row] = await raw.query('select count(*) as count from secret_value where environment_id = ?', [environmentId])
  return Number(row?.count)
}

test.each([
  ['personal', true],
  ['shared', false],
])('%s values are all stored, and the answer says so', async (_kind, isPersonal) => {
  const place = await newPlace()
  const operations = keys.map((key) => ({ op: 'set', key, value: `value of ${key}`, isPersonal }))
  // The names exist already, and a value of another request is committed beside this one.
  const names = keys.map((key) => ({ key, value: 'shared' }))
  for (const secrets of [names.slice(0, 2_000), names.slice(2_000)]) {
    const created = await send('POST', place.secret, { body: { environments: [place.staging], secrets } })
    expect(created.status, created.text).toBe(201)
  }
  const [answer, other] = await Promise.all([
    send('POST', `${place.secret}/batch`, { body: { environmentId: place.dev, operations } }),
    send('PUT', `${place.secret}/KEY_0/value`, { body: { environmentId: place.staging, value: 'beside' } }),
  ])
  expect([answer.status, other.status], answer.text).toEqual([200, 200])
  expect(await countRows(place.dev)).toBe(count)
  // No connection is left inside a transaction: what follows is stored.
  const later = await Promise.all(
    keys
      .slice(0, 40)
      .map((key) =>
        send('PUT', `${place.secret}/${key}/value`, { body: { environmentId: place.staging, value: `later ${key}` } }),
      ),
  )
  expect(later.map(({ status }) => status)).toEqual(later.map(() => 200))
  const { body: stored } = await send<Secret[]>('GET', `${place.secret}?environmentId=staging`)
  const values = new Map(stored.map(({ name, values: [row] }) => [name, row?.value]))
  expect(keys.slice(0, 40).filter((key) => values.get(key) !== `later ${key}`)).toEqual([])
})

/** A reminder is set and deleted for one value; invalid reminders are refused and change nothing. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createSecretPlaces } from '../../../../../test/secret-place.ts'

const { start, stop, newPlace, send, create, expectRefused, read } = createSecretPlaces()

beforeAll(async () => {
  await start()
})
afterAll(stop)

test.each([
  ['its environment', { environmentId: 'development' }, ''],
  [
    'the fields that it was created with',
    { environmentId: 'development', type: 'recurring', nextReminderDate: '2030-01-01T00:00:00Z', everyDays: 7 },
    '',
  ],
  ['its environment, the same as in the query', { environmentId: 'development' }, '?environmentId=development'],
])('a reminder is deleted by a body with %s', async (_what, body, query) => {
  const place = await newPlace()
  await create(place, { A: '1' })
  const path = `${place.secret}/A/reminder`
  const reminder = { environmentId: 'development', type: 'one_time', nextReminderDate: '2030-01-01T00:00:00Z' }
  await send('PUT', path, { body: reminder })
  expect(await expectRefused(place, ['DELETE', path, {}], 400)).toBe('environmentId: is required.')
  expect(await expectRefused(place, ['DELETE', path, { ...body, more: 1 }], 400)).toBe('more: is not a known field.')
  const elsewhere = `${path}?environmentId=staging`
  expect(await expectRefused(place, ['DELETE', elsewhere, body], 400)).toMatch(/^environmentId: /)
  expect((await send('DELETE', path + query, { body })).body).toEqual({ success: true })
  expect((await read(place, 'A')).values[0]).not.toHaveProperty('reminder')
})

test.each([
  ['a recurring reminder without everyDays', { type: 'recurring' }, 400, /^everyDays: /],
  ['an invalid date', { nextReminderDate: 'tomorrow' }, 400, /^nextReminderDate: /],
  [
    'a leap second, which a timestamp cannot hold',
    { nextReminderDate: '2026-12-31T23:59:60Z' },
    400,
    /^nextReminderDate: /,
  ],
  ['a year after 9999 in UTC', { nextReminderDate: '9999-12-31T23:59:59-01:00' }, 400, /^nextReminderDate: /],
  ['a year before 0 in UTC', { nextReminderDate: '0000-01-01T00:00:00+01:00' }, 400, /^nextReminderDate: /],
  ['an unknown environment', { environmentId: 'nowhere' }, 404, /^Not found/],
])('a reminder refuses %s', async (_what, part, status, message) => {
  const place = await newPlace()
  await create(place, { A: '1' })
  const body = { environmentId: place.dev, type: 'one_time', nextReminderDate: '2030-01-01T00:00:00Z', ...part }
  expect(await expectRefused(place, ['PUT', `${place.secret}/A/reminder`, body], status)).toMatch(message)
})

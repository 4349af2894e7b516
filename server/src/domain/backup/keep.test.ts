/** Which backups are kept: checked by examples, and by properties of any set of backups. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { times } from '../../../../test/tier.ts'
import { type KnownBackup, listExpired } from './keep.ts'

const day = 86_400_000
/** Later than all examples. */
const later = Number.MAX_SAFE_INTEGER
const usual = { daily: 7, weekly: 4, monthly: 12 }

function backup(text: string, isVerified = true): KnownBackup {
  return { name: text, at: Date.parse(text), isVerified }
}

function keptOf(backups: readonly KnownBackup[], rule = usual): string[] {
  const expired = new Set(listExpired(backups, rule, later))
  return backups.map(({ name }) => name).filter((name) => !expired.has(name))
}

test('a year of daily backups leaves 7 days, 4 weeks and 12 months', () => {
  const first = Date.parse('2026-01-01T03:00:00Z')
  const year = Array.from({ length: 365 }, (_, index) => backup(new Date(first + index * day).toISOString()))
  const days = keptOf(year).map((name) => name.slice(0, 10))
  expect(days).toEqual([
    ...['2026-01-31', '2026-02-28', '2026-03-31', '2026-04-30', '2026-05-31', '2026-06-30', '2026-07-31'],
    ...['2026-08-31', '2026-09-30', '2026-10-31', '2026-11-30'],
    // Sundays.
    ...['2026-12-13', '2026-12-20'],
    // The last seven days; the 27th is a Sunday too, and the 31st ends week, month and day.
    ...['2026-12-25', '2026-12-26', '2026-12-27', '2026-12-28', '2026-12-29', '2026-12-30', '2026-12-31'],
  ])
})

test('of several backups of a day the newest stays', () => {
  const backups = [backup('2026-03-01T00:00:00Z'), backup('2026-03-01T12:00:00Z'), backup('2026-03-01T23:59:59Z')]
  expect(keptOf(backups, { daily: 2, weekly: 0, monthly: 0 })).toEqual(['2026-03-01T23:59:59Z'])
})

test('the day ends at midnight UTC, also when the clocks of a country change', () => {
  // In Europe the clock goes from 02:00 to 03:00 on this day, which has 23 hours there.
  const backups = [backup('2026-03-28T23:30:00Z'), backup('2026-03-29T00:30:00Z'), backup('2026-03-29T23:30:00Z')]
  expect(keptOf(backups, { daily: 7, weekly: 0, monthly: 0 })).toEqual(['2026-03-28T23:30:00Z', '2026-03-29T23:30:00Z'])
})

test('nothing is removed while no backup is verified', () => {
  const backups = [backup('2020-01-01T00:00:00Z', false), backup('2026-01-01T00:00:00Z', false)]
  expect(listExpired(backups, usual, later)).toEqual([])
})

test('an unverified backup stays until a later one is verified', () => {
  const backups = [backup('2026-01-01T00:00:00Z'), backup('2026-01-02T00:00:00Z', false)]
  expect(listExpired(backups, usual, later)).toEqual([])
  expect(listExpired([...backups, backup('2026-01-03T00:00:00Z')], usual, later)).toEqual(['2026-01-02T00:00:00Z'])
})

test('backups of a clock that was ahead are not counted, so that those of now are kept; they wait for their time', () => {
  const [now, ahead] = [backup('2026-03-02T12:00:00Z'), backup('2026-05-01T00:00:00Z')]
  const backups = [backup('2026-03-01T12:00:00Z'), now, ahead]
  const rule = { daily: 1, weekly: 0, monthly: 0 }
  expect(listExpired(backups, rule, now.at)).toEqual(['2026-03-01T12:00:00Z'])
  expect(listExpired(backups, rule, ahead.at)).toEqual(['2026-03-01T12:00:00Z', now.name])
})

const someBackups = fc
  .array(fc.record({ at: fc.integer({ min: 0, max: 800 * day }), isVerified: fc.boolean() }), { maxLength: 120 })
  .map((list) => list.map((one, index): KnownBackup => ({ ...one, name: `backup-${index}` })))
const someRule = fc
  .record({ daily: fc.nat(9), weekly: fc.nat(9), monthly: fc.nat(15) })
  .filter(({ daily, weekly, monthly }) => daily + weekly + monthly > 0)

test('any backups: the newest verified one stays, one of each period stays, and no more than the sum', () => {
  fc.assert(
    fc.property(someBackups, someRule, (backups, rule) => {
      const kept = new Set(keptOf(backups, rule))
      const verified = backups.filter(({ isVerified }) => isVerified)
      const newest = Math.max(...verified.map(({ at }) => at))
      const keptVerified = verified.filter(({ name }) => kept.has(name))
      if (verified.length > 0) expect(keptVerified.some(({ at }) => at === newest)).toBe(true)
      for (const { name, at, isVerified } of backups)
        if (!isVerified && !(at < newest)) expect(kept.has(name)).toBe(true)
      expect(keptVerified.length).toBeLessThanOrEqual(Math.max(1, rule.daily + rule.weekly + rule.monthly))
      const daysOf = (list: readonly KnownBackup[]) =>
        new Set(list.map(({ at }) => new Date(at).toISOString().slice(0, 10)))
      const newestDays = [...daysOf(verified)].sort().slice(-rule.daily)
      if (rule.daily > 0) for (const one of newestDays) expect(daysOf(keptVerified)).toContain(one)
      const monthsOf = (list: readonly KnownBackup[]) =>
        new Set(list.map(({ at }) => new Date(at).toISOString().slice(0, 7)))
      const newestMonths = [...monthsOf(verified)].sort().slice(-rule.monthly)
      if (rule.monthly > 0) for (const one of newestMonths) expect(monthsOf(keptVerified)).toContain(one)
      // Removing once more removes nothing: what stays does not depend on when it was asked.
      expect(
        listExpired(
          backups.filter(({ name }) => kept.has(name)),
          rule,
          later,
        ),
      ).toEqual([])
    }),
    { numRuns: times(300, 5_000) },
  )
})

test('backup by backup, day after day, every kept one is still there when it is the one that is asked for', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.integer({ min: 1, max: 40 }), fc.boolean()), { maxLength: 200 }), (steps) => {
      let stored: KnownBackup[] = []
      let at = 0
      for (const [hours, isVerified] of steps) {
        at += hours * 3_600_000
        stored.push({ name: String(at).padStart(16, '0'), at, isVerified })
        const expired = new Set(listExpired(stored, usual, at))
        stored = stored.filter(({ name }) => !expired.has(name))
      }
      const verified = stored.filter(({ isVerified }) => isVerified)
      expect(verified.length).toBeLessThanOrEqual(23)
      if (steps.some(([, isVerified]) => isVerified)) expect(verified.length).toBeGreaterThan(0)
    }),
    { numRuns: times(100, 1_000) },
  )
})

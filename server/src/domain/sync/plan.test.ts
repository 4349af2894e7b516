import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { times } from '../../../../test/tier.ts'
import type { LedgerEntry } from '../../store/sync/ledger.ts'
import { isMassDelete, looksNeeded, type PlanInput, planSync, type Seen } from './plan.ts'

const names = ['A', 'B', 'C', 'D', 'E', 'F']
const macs = ['m1', 'm2', 'm3']
const name = fc.constantFrom(...names)
const mac = fc.constantFrom(...macs)

const ledgerEntry = fc.record({
  name,
  remoteId: fc.constantFrom(null, 'i1', 'i2'),
  valueMac: mac,
  mark: fc.option(fc.constantFrom('v1', 'v2'), { nil: null }),
  origin: fc.constantFrom('created' as const, 'adopted' as const),
  status: fc.constantFrom('new' as const, 'pending' as const, 'synced' as const),
  updatedAt: fc.constantFrom(1, 3),
})
const seen = fc.record(
  { name, id: fc.constantFrom('i1', 'i2'), mark: fc.constantFrom('v1', 'v2'), isOurs: fc.boolean(), valueMac: mac },
  { requiredKeys: ['name'] },
)
const byName = <Item extends { name: string }>(items: Item[]) => new Map(items.map((item) => [item.name, item]))

const input: fc.Arbitrary<PlanInput> = fc.record({
  desired: fc.array(fc.tuple(name, mac)).map((pairs) => new Map(pairs)),
  ledger: fc.uniqueArray(ledgerEntry, { selector: (entry) => entry.name }),
  remote: fc.option(
    fc.array(seen).map((items) => byName(items) as ReadonlyMap<string, Seen>),
    { nil: undefined },
  ),
  guard: fc.constantFrom('mark' as const, 'version' as const, 'id' as const, 'precondition' as const, 'none' as const),
  onExisting: fc.constantFrom('fail' as const, 'adopt' as const, 'skip' as const),
  repairs: fc.boolean(),
  isFirst: fc.boolean(),
  doubtfulBefore: fc.constant(2),
  takesBack: fc.constantFrom(true, false, undefined),
  others: fc.array(name).map((list) => new Map(list.map((one) => [one, 'another sync']))),
})

const check = (property: (given: PlanInput) => void) =>
  fc.assert(fc.property(input, property), { numRuns: times(200, 5_000) })

describe('for any desired entries, ledger and target', () => {
  test('only names in the ledger are updated or deleted, except those that a person allows to adopt', () => {
    check((given) => {
      const plan = planSync(given)
      const written = new Set(given.ledger.map((entry) => entry.name))
      for (const name of [...plan.update, ...plan.delete]) expect(written).toContain(name)
      for (const name of plan.adopt) {
        expect(given.onExisting === 'adopt' || given.remote?.get(name)?.isOurs === true).toBe(true)
        expect(given.others.has(name)).toBe(false)
      }
    })
  })

  test('an existing entry is never created again', () => {
    check((given) => {
      for (const name of planSync(given).create) expect(given.remote?.has(name) ?? false).toBe(false)
    })
  })

  test('an entry with a foreign mark is neither changed nor deleted', () => {
    check((given) => {
      const plan = planSync({ ...given, onExisting: 'fail', takesBack: undefined })
      for (const name of [...plan.create, ...plan.update, ...plan.delete, ...plan.adopt]) {
        expect(given.remote?.get(name)?.isOurs).not.toBe(false)
      }
    })
  })

  test('an entry that lost our mark by an edit is taken back only if allowed, and never counts as adopted', () => {
    check((given) => {
      if (given.takesBack === undefined) return
      const plan = planSync(given)
      for (const entry of given.ledger) {
        const there = given.remote?.get(entry.name)
        if (there?.isOurs !== false || there.valueMac === undefined || entry.status === 'new') continue
        expect(plan.adopt).not.toContain(entry.name)
        expect(plan.conflict.map(({ name }) => name)).not.toContain(entry.name)
        const isBegun = entry.status === 'pending' && entry.updatedAt >= given.doubtfulBefore
        const isPutBack = there.valueMac === entry.valueMac || isBegun
        if (!given.takesBack && !isPutBack) expect([...plan.update, ...plan.delete]).not.toContain(entry.name)
        const isForgotten = entry.origin === 'created' && !given.desired.has(entry.name)
        if (isForgotten && isPutBack && !given.isFirst) expect(plan.delete).toContain(entry.name)
      }
    })
  })

  test('without marks, a value that differs from the one we wrote is not overwritten', () => {
    check((given) => {
      const plan = planSync({ ...given, guard: 'version', repairs: false, onExisting: 'fail' })
      for (const name of plan.update) {
        const entry = given.ledger.find((candidate) => candidate.name === name)
        const there = given.remote?.get(name)
        const isComparable = entry?.status === 'synced' && there?.isOurs === undefined && there?.valueMac !== undefined
        if (isComparable) expect(there?.valueMac).toBe(entry?.valueMac)
      }
    })
  })

  test('names that were not listed count as unknown', () => {
    check((given) => {
      // Some entries of the ledger are still wanted, others are not.
      const known = { ...given, desired: new Map([...desiredOf(given)].filter(([name]) => given.desired.has(name))) }
      expect(planSync({ ...known, lookedFor: new Set() })).toEqual(planSync({ ...known, remote: undefined }))
    })
  })

  test('only entries that this sync created, no longer wants and nobody else changed are deleted', () => {
    check((given) => {
      const plan = planSync(given)
      if (given.isFirst) expect(plan.delete).toEqual([])
      for (const name of plan.delete) {
        const entry = given.ledger.find((candidate) => candidate.name === name)
        expect(entry?.origin).toBe('created')
        expect(given.desired.has(name)).toBe(false)
        const there = given.remote?.get(name)
        if (entry?.status === 'synced' && there?.valueMac !== undefined) expect(there.valueMac).toBe(entry.valueMac)
      }
    })
  })

  test('every name has exactly one outcome', () => {
    check((given) => {
      const plan = planSync(given)
      const outcomes = [
        ...plan.create,
        ...plan.update,
        ...plan.adopt,
        ...plan.delete,
        ...plan.unchanged,
        ...plan.conflict.map(({ name }) => name),
        ...plan.drifted,
        ...plan.release,
      ]
      expect(new Set(outcomes).size).toBe(outcomes.length)
      const known = new Set([...given.desired.keys(), ...given.ledger.map((entry) => entry.name)])
      expect(new Set(outcomes)).toEqual(known)
    })
  })

  test('an entry of the ledger that is missing, or reported as drifted, is named with what happened to it', () => {
    check((given) => {
      const { found, drifted } = planSync(given)
      for (const name of drifted) expect(found.get(name)).toBe(given.remote?.has(name) ? 'changed' : 'deleted')
      for (const { name, status } of given.ledger) {
        const isMissing = given.remote !== undefined && !given.remote.has(name) && status !== 'new'
        expect(found.get(name) === 'deleted').toBe(isMissing)
      }
      for (const name of found.keys()) expect(given.ledger.some((entry) => entry.name === name)).toBe(true)
    })
  })

  test('a plan that was carried out leaves nothing to do', () => {
    check((given) => {
      const remote = new Map(given.remote ?? [])
      const complete = { ...given, remote, isFirst: false }
      const after = carryOut(complete)
      const again = planSync({ ...complete, ...after })
      expect([again.create, again.update, again.adopt, again.delete]).toEqual([[], [], [], []])
      const third = carryOut({ ...complete, ...after })
      expect(third).toEqual(after)
    })
  })

  test('a crash before or after any call leads to the same result, whether or not the target returns values', () => {
    const moment = fc.record({ op: fc.nat(11), isCalled: fc.boolean() })
    let crashes = 0
    fc.assert(
      fc.property(
        input,
        fc.boolean(),
        fc.array(moment, { minLength: 1, maxLength: 3 }),
        (given, showsValues, moments) => {
          const remote = new Map([...(given.remote ?? [])].map(([name, seen]) => [name, shown(seen, showsValues)]))
          const start = { ...given, remote, isFirst: false }
          const settle = (from: PlanInput) => carryOut({ ...from, ...carryOut(from, { showsValues }) }, { showsValues })
          let crashed: PlanInput = start
          for (const { op, isCalled } of moments) {
            const { create, update, adopt, delete: removed } = planSync(crashed)
            const count = create.length + update.length + adopt.length + removed.length
            // The crash is at one of the calls, or at none of them.
            const crash = { op: op % (count + 1), isCalled }
            if (crash.op < count) crashes++
            crashed = { ...crashed, ...carryOut(crashed, { showsValues, crash }) }
          }
          expect(byLedgerName(settle(crashed))).toEqual(byLedgerName(settle(start)))
        },
      ),
      { numRuns: times(200, 5_000) },
    )
    expect(crashes).toBeGreaterThan(times(40, 1_000))
  })
})

/** Exactly the names of the ledger. */
const desiredOf = ({ ledger }: PlanInput) => new Map(ledger.map(({ name }, index) => [name, macs[index % 3] ?? '']))

const shown = ({ valueMac, ...rest }: Seen, showsValues: boolean): Seen =>
  showsValues && valueMac !== undefined ? { ...rest, valueMac } : rest

const byLedgerName = ({ ledger, remote }: Pick<PlanInput, 'ledger' | 'remote'>) => ({
  remote,
  ledger: ledger.toSorted((a, b) => a.name.localeCompare(b.name)),
})

type RunOptions = {
  readonly showsValues?: boolean
  /** Crashes at this call, before or after it is made: the ledger has its start, not its end. */
  readonly crash?: { readonly op: number; readonly isCalled: boolean }
}

/** Ledger and target after a plan was carried out, completely or up to the crash. */
function carryOut(
  given: PlanInput,
  { showsValues = true, crash }: RunOptions = {},
): Pick<PlanInput, 'ledger' | 'remote'> {
  const plan = planSync(given)
  const ledger = new Map<string, LedgerEntry>(given.ledger.map((entry) => [entry.name, entry]))
  const remote = new Map<string, Seen>(given.remote ?? [])
  for (const name of [...plan.release, ...plan.conflict.map(({ name }) => name)]) ledger.delete(name)
  const calls = [...plan.create, ...plan.update, ...plan.adopt, ...plan.delete]
  for (const [index, name] of calls.entries()) {
    const isDelete = plan.delete.includes(name)
    const valueMac = given.desired.get(name) ?? ''
    const there = remote.get(name)
    const isTakenOver = plan.adopt.includes(name) && there?.isOurs !== true
    const isMade = plan.create.includes(name)
    const origin = isTakenOver ? 'adopted' : isMade ? 'created' : (ledger.get(name)?.origin ?? 'created')
    const entry = { name, remoteId: null, valueMac, origin, updatedAt: 3 } as const
    const begun = isMade ? 'new' : 'pending'
    if (!isDelete) ledger.set(name, { ...entry, mark: null, status: begun })
    const isLast = index === crash?.op
    if (isLast && !crash?.isCalled) break
    // Some vendors mark only created entries, so that adopted ones stay unmarked.
    const isOurs = there?.isOurs
    if (isDelete) remote.delete(name)
    else remote.set(name, shown({ name, mark: 'v9', valueMac, ...(isOurs !== undefined && { isOurs }) }, showsValues))
    if (isLast) break
    if (isDelete) ledger.delete(name)
    else ledger.set(name, { ...entry, mark: 'v9', status: 'synced' })
  }
  return { ledger: [...ledger.values()], remote }
}

describe('a plan made without listing the target', () => {
  const nothing = {
    guard: 'mark',
    onExisting: 'fail',
    repairs: false,
    isFirst: false,
    doubtfulBefore: 2,
    takesBack: undefined,
    others: new Map<string, string>(),
  } as const
  const synced: LedgerEntry = {
    name: 'A',
    remoteId: null,
    valueMac: 'm1',
    mark: null,
    origin: 'created',
    status: 'synced',
    updatedAt: 3,
  }

  const ledgerOf = (entries: readonly LedgerEntry[]) => new Map(entries.map((entry) => [entry.name, entry]))

  test.each([
    ['mark', ['A']],
    ['version', ['A']],
    ['id', ['A']],
    ['precondition', []],
    ['none', []],
  ] as const)('that only updates needs to read only the updated entry: %s', (guard, looked) => {
    const entries = [synced, { ...synced, name: 'B' }]
    const desired = new Map([
      ['A', 'm2'],
      ['B', 'm1'],
    ])
    const plan = planSync({ ...nothing, guard, desired, ledger: entries, remote: undefined })
    expect(plan.update).toEqual(['A'])
    expect(looksNeeded(plan, ledgerOf(entries), guard)).toEqual(new Set(looked))
  })

  test('reads an entry whose update has an unknown outcome, even if the vendor checks preconditions', () => {
    const pending = { ...synced, status: 'pending' as const }
    const plan = planSync({ ...nothing, desired: new Map([['A', 'm1']]), ledger: [pending], remote: undefined })
    expect(looksNeeded(plan, ledgerOf([pending]), 'precondition')).toEqual(new Set(['A']))
  })

  test.each([
    [
      'a create',
      new Map([
        ['A', 'm1'],
        ['B', 'm1'],
      ]),
      [synced],
    ],
    ['a delete', new Map(), [synced]],
    ['a create with an unknown outcome', new Map([['A', 'm1']]), [{ ...synced, status: 'new' as const }]],
  ])('needs to list everything for %s', (_title, desired, ledger) => {
    const plan = planSync({ ...nothing, desired, ledger, remote: undefined })
    expect(looksNeeded(plan, ledgerOf(ledger), 'none')).toBe('all')
  })
})

describe('a mass delete', () => {
  const ledgerOf = (count: number): LedgerEntry[] =>
    Array.from({ length: count }, (_, index) => ({
      name: `N${index}`,
      remoteId: null,
      valueMac: 'm',
      mark: null,
      origin: 'created',
      status: 'synced',
      updatedAt: 3,
    }))
  const inputOf = (ledger: LedgerEntry[], kept: number): PlanInput => ({
    desired: new Map(ledger.slice(0, kept).map((entry) => [entry.name, 'm'])),
    ledger,
    remote: new Map(ledger.map((entry) => [entry.name, entry as Seen])),
    guard: 'mark',
    onExisting: 'fail',
    repairs: false,
    isFirst: false,
    doubtfulBefore: 2,
    takesBack: undefined,
    others: new Map(),
  })
  const planOf = (ledger: LedgerEntry[], kept: number) => planSync(inputOf(ledger, kept))

  test.each([
    [100, 70, 0, false],
    [100, 69, 0, true],
    [100, 69, 31, false],
    [100, 69, 30, true],
    [12, 2, 0, false],
    [12, 1, 0, true],
    [3, 0, 0, true],
    [3, 0, 3, false],
    [3, 3, 0, false],
  ])('of %i entries, with %i kept and %i confirmed: %s', (count, kept, allowed, expected) => {
    const ledger = ledgerOf(count)
    expect(isMassDelete(planOf(ledger, kept), byName(ledger), allowed)).toBe(expected)
  })

  test.each<[string, Map<string, Seen>, boolean]>([
    ['the only wanted entry was deleted at the target', new Map(), true],
    ['the only wanted entry was changed at the target', new Map([['N0', { name: 'N0', mark: 'other' }]]), false],
  ])('needs a person where nothing would be left: %s', (_title, wanted, expected) => {
    const ledger = ledgerOf(3).map((entry) => ({ ...entry, mark: 'm' }))
    const others = ledger.slice(1).map(({ name }): [string, Seen] => [name, { name, mark: 'm', isOurs: true }])
    const plan = planSync({ ...inputOf(ledger, 1), remote: new Map([...wanted, ...others]) })
    expect(plan).toMatchObject({ drifted: ['N0'], delete: ['N1', 'N2'] })
    expect(isMassDelete(plan, byName(ledger), 0)).toBe(expected)
  })
})

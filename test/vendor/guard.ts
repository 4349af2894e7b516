/** What every provider declares as its guard: an update does not overwrite what somebody else put in the place of our entry. */
import { expect, test } from 'vitest'
import { type Plan, planSync, type Seen } from '../../server/src/domain/sync/plan.ts'
import { isFault } from '../../server/src/providers/fault.ts'
import { guardOf, type Provider, type RemoteItem } from '../../server/src/providers/provider.ts'
import type { LedgerEntry } from '../../server/src/store/sync/ledger.ts'
import type { RunningFake } from './fake.ts'
import { applyAll, connectionTo, create, update } from './operation.ts'

/** The planner compares MACs; here the value stands for its own. */
const seenOf = ({ value, ...item }: RemoteItem): Seen => ({ ...item, ...(value !== undefined && { valueMac: value }) })

/** `prefix`: a name that the vendor takes, also with a number behind it. */
export function testGuard(provider: Provider, prefix: string, running: () => RunningFake): void {
  const names = Array.from({ length: 30 }, (_, index) => `${prefix}${index}`)
  const name = `${prefix}7`

  async function push(): Promise<LedgerEntry> {
    const ops = names.map((one) => create(one, 'one'))
    const results = await applyAll(provider, connectionTo(running()), ops)
    const made = results.find((result) => result.name === name)
    const { id = null, mark = null } = made && !('fault' in made) ? made : {}
    return { name, remoteId: id, valueMac: 'one', mark, origin: 'created', status: 'synced', updatedAt: 0 }
  }

  /** As the engine plans a run in which nothing but this entry has changed. */
  async function planOf(entry: LedgerEntry): Promise<Plan> {
    const { fake } = running()
    const guard = guardOf(provider, fake.target)
    const far = provider.connect(connectionTo(running()))
    // A login is part of the run, not of the look.
    await Array.fromAsync(far.list(new Set(names)))
    running().forget()
    const known = entry.remoteId === null ? { name } : { name, id: entry.remoteId }
    const items = guard === 'precondition' ? [] : await Array.fromAsync(far.find?.([known]) ?? far.list(new Set(names)))
    const remote = new Map(items.map((item) => [item.name, seenOf(item)]))
    const asked = {
      desired: new Map([[name, 'two']]),
      ledger: [entry],
      guard,
      onExisting: 'fail',
      repairs: false,
    } as const
    const takesBack = provider.takesBack?.(fake.options)
    const when = { takesBack, isFirst: false, doubtfulBefore: 0, others: new Map<string, string>() }
    return planSync({ ...asked, ...when, remote, lookedFor: new Set(guard === 'precondition' ? [] : [name]) })
  }

  test('an update of our entry is planned after one look at most', async () => {
    const { fake } = running()
    if (guardOf(provider, fake.target) === 'none') return expect(fake.calls.look).toBe(0)
    const entry = await push()
    expect((await planOf(entry)).update).toEqual([name])
    expect(running().requests.length).toBe(fake.calls.look)
  })

  test('an entry that somebody has deleted and made again is not overwritten by an update', async () => {
    const { fake } = running()
    const guard = guardOf(provider, fake.target)
    // The page of the provider says that it is.
    if (guard === 'none') return expect(fake.calls.look).toBe(0)
    const entry = await push()
    fake.tamper(name, undefined)
    fake.tamper(name, 'theirs')
    if (guard === 'precondition') {
      const [result] = await applyAll(provider, connectionTo(running()), [
        update(name, 'two', entry.remoteId ?? undefined),
      ])
      expect(result && 'fault' in result && isFault(result.fault, 'conflict')).toBe(true)
    } else {
      const plan = await planOf(entry)
      expect([plan.create, plan.update, plan.adopt]).toEqual([[], [], []])
      expect([...plan.conflict.map((one) => one.name), ...plan.drifted]).toEqual([name])
    }
    expect(fake.state().get(name)).toBe('theirs')
  })

  test('an entry that somebody has removed is made again', async () => {
    const { fake } = running()
    const guard = guardOf(provider, fake.target)
    if (guard === 'none' || guard === 'precondition') return expect(fake.calls.look).toBe(0)
    const entry = await push()
    fake.tamper(name, undefined)
    expect((await planOf(entry)).create).toEqual([name])
  })
}

/** Tests of a provider's guard: an update must not overwrite an entry that someone else put in place of ours. */
import { expect, test } from 'vitest'
import { planSync, type Seen, type SyncPlan } from '../../server/src/domain/sync/plan.ts'
import { isFault } from '../../server/src/providers/fault.ts'
import { guardOf, type Provider, type RemoteItem } from '../../server/src/providers/provider.ts'
import type { LedgerEntry } from '../../server/src/store/sync/ledger.ts'
import type { RunningFake } from './fake.ts'
import { applyAll, connectionTo, create, update } from './operation.ts'

/** The planner compares MACs; here each value is its own MAC. */
const seenOf = ({ value, ...item }: RemoteItem): Seen => ({ ...item, ...(value !== undefined && { valueMac: value }) })

/** `prefix`: a name that the vendor accepts, also followed by a number. */
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

  /** The engine's plan for a run in which only this entry changed. */
  async function planOf(entry: LedgerEntry): Promise<SyncPlan> {
    const { fake } = running()
    const guard = guardOf(provider, fake.target)
    const remoteTarget = provider.connect(connectionTo(running()))
    // Logs in first: the login does not count as a call of the check.
    await Array.fromAsync(remoteTarget.list(new Set(names)))
    running().forget()
    const known = entry.remoteId === null ? { name } : { name, id: entry.remoteId }
    const items =
      guard === 'precondition'
        ? []
        : await Array.fromAsync(remoteTarget.find?.([known]) ?? remoteTarget.list(new Set(names)))
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

  test('planning an update of our entry takes at most one call', async () => {
    const { fake } = running()
    if (guardOf(provider, fake.target) === 'none') return expect(fake.calls.look).toBe(0)
    const entry = await push()
    expect((await planOf(entry)).update).toEqual([name])
    expect(running().requests.length).toBe(fake.calls.look)
  })

  test('an update does not overwrite an entry that someone deleted and re-created', async () => {
    const { fake } = running()
    const guard = guardOf(provider, fake.target)
    // Without a guard the entry is overwritten, and the provider's docs say so.
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

  test('an entry that someone removed is created again', async () => {
    const { fake } = running()
    const guard = guardOf(provider, fake.target)
    if (guard === 'none' || guard === 'precondition') return expect(fake.calls.look).toBe(0)
    const entry = await push()
    fake.tamper(name, undefined)
    expect((await planOf(entry)).create).toEqual([name])
  })
}

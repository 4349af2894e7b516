/** Entries that existed before a sync, at every vendor: adopted once, then pushed like all others. */
import type { SyncPlan } from '@coffer/contract/sync'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { engine } from '../../../../../test/harness.ts'
import type { SecretProject } from '../../../../../test/secret-project.ts'
import {
  lastRun,
  pushDue,
  readSync,
  setUpSync,
  startVendorService,
  type VendorService,
} from '../../../../../test/sync.ts'
import { everyProvider } from '../../../../../test/vendor/every.ts'

/** The database engine makes no difference to a vendor. */
const seeing = everyProvider.filter(({ provider }) => provider.capabilities.read !== 'nothing')
const cases = engine === 'sqlite' ? seeing : seeing.filter(({ slug }) => /gitlab|vault|vercel/.test(slug))

let vendors: VendorService
let project: SecretProject
beforeAll(async () => {
  vendors = await startVendorService()
  project = vendors.project
})
afterAll(() => vendors.service.stop())

describe.each(cases)('$slug', (vendor) => {
  const { provider, mapping } = vendor

  test('an existing entry is adopted once, then updated only when its secret changes', async () => {
    const world = vendors.open(vendor)
    const { fake } = world
    const name = provider.normaliseName(`${mapping.prefix ?? ''}ALPHA`)
    fake.tamper(name, 'foreign!')
    await project.set('development', { ALPHA: 'one-one-one' })
    const id = await setUpSync(world, { ...mapping, onExisting: 'adopt' })
    await pushDue(world)
    expect(await lastRun(world, id)).toMatchObject({ items: [{ name, outcome: 'adopted' }] })
    const plan = await project.must<SyncPlan>('POST', `/sync/${id}/plan`)
    expect([plan.update, plan.unchanged]).toEqual([[], [name]])
    await project.set('development', { ALPHA: 'two-two-two' })
    await pushDue(world, 15_000)
    await project.must('POST', `/sync/${id}/run`)
    await pushDue(world)
    expect(await lastRun(world, id)).toMatchObject({ trigger: 'manual', counts: { updated: 0, unchanged: 1 } })
    expect([fake.state().get(name), (await readSync(world, id)).lastError]).toEqual(['two-two-two', null])
    await project.must('DELETE', `/sync/${id}`)
  })

  test('a pushed entry that someone replaced is adopted too', async () => {
    const world = vendors.open(vendor)
    const { fake } = world
    const name = provider.normaliseName(`${mapping.prefix ?? ''}ALPHA`)
    await project.set('development', { ALPHA: 'one-one-one' })
    const id = await setUpSync(world, { ...mapping, onExisting: 'adopt' })
    await pushDue(world)
    fake.tamper(name, undefined)
    fake.tamper(name, 'of another')
    await project.set('development', { ALPHA: 'two-two-two' })
    await project.must('POST', `/sync/${id}/run`)
    await pushDue(world)
    expect([fake.state().get(name), (await readSync(world, id)).lastError]).toEqual(['two-two-two', null])
    await project.must('DELETE', `/sync/${id}`)
  })
})

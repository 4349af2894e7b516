/** Adopted entries are never deleted, at any vendor, even if their key is deleted and re-created. */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { engine } from '../../../../../test/harness.ts'
import type { SecretProject } from '../../../../../test/secret-project.ts'
import { pushDue, readSync, setUpSync, startVendorService, type VendorService } from '../../../../../test/sync.ts'
import { everyProvider } from '../../../../../test/vendor/every.ts'

/** The database engine makes no difference to a vendor. */
const seeing = everyProvider.filter(({ provider }) => provider.capabilities.read !== 'nothing')
const cases = engine === 'sqlite' ? seeing : seeing.filter(({ slug }) => /kubernetes|vault|vercel/.test(slug))

let vendors: VendorService
let project: SecretProject
beforeAll(async () => {
  vendors = await startVendorService()
  project = vendors.project
})
afterAll(() => vendors.service.stop())
afterEach(async () => {
  for (const { id } of await project.must<{ id: string }[]>('GET', '/sync')) await project.must('DELETE', `/sync/${id}`)
})

test.each(cases)('$slug: an adopted entry stays each time its key is deleted', async (vendor) => {
  const { provider, mapping } = vendor
  const world = vendors.open(vendor)
  const { fake } = world
  const name = provider.normaliseName(`${mapping.prefix ?? ''}ALPHA`)
  fake.tamper(name, 'foreign!')
  await project.set('development', { ALPHA: 'one-one-one', OTHER: 'stays-here' })
  const id = await setUpSync(world, { ...mapping, onExisting: 'adopt' })
  await pushDue(world)
  expect(fake.state().get(name)).toBe('one-one-one')
  for (const value of ['two-two-two', 'three-three']) {
    await project.remove('development', 'ALPHA')
    await pushDue(world, 15_000)
    expect(fake.state().has(name)).toBe(true)
    await project.set('development', { ALPHA: value })
    await pushDue(world, 15_000)
    expect([fake.state().get(name), (await readSync(world, id)).lastError]).toEqual([value, null])
  }
  await project.must('DELETE', `/sync/${id}?remove=true`)
  await pushDue(world)
  expect(fake.state().get(name)).toBe('three-three')
})

/** What was there before a sync, at every vendor: taken over once, and from then on pushed like everything else. */
import type { SyncPlan } from '@coffer/contract/sync'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { engine, registerOwner, startService, type TestService, type TestUser } from '../../../test/harness.ts'
import { createSecretProject, type SecretProject } from '../../../test/secret-project.ts'
import { lastRun, pushDue, readSync, type SyncWorld, setUpSync } from '../../../test/sync.ts'
import { everyProvider } from '../../../test/vendor/every.ts'
import { directly } from '../../../test/vendor/fake.ts'
import type { Outbound } from '../outbound.ts'

/** The engine under the service makes no difference to a vendor. */
const seeing = everyProvider.filter(({ provider }) => provider.capabilities.read !== 'nothing')
const cases = engine === 'sqlite' ? seeing : seeing.filter(({ slug }) => /gitlab|vault|vercel/.test(slug))

let service: TestService
let owner: TestUser
let project: SecretProject
let door: Outbound
beforeAll(async () => {
  const outbound: Outbound = { request: (request) => door.request(request) }
  service = await startService({ COFFER_SYNC: 'off' }, { outbound, sleep: async () => undefined })
  owner = await registerOwner(service)
  project = await createSecretProject(service, owner.session)
})
afterAll(() => service.stop())

describe.each(cases)('$slug', ({ slug, provider, mapping, makeFake }) => {
  test('is taken over once, and then updated only when it changes', async () => {
    const fake = makeFake(() => service.app.services.now())
    door = directly(fake, () => undefined)
    const world: SyncWorld = { service, owner, project, fake, provider, slug, running: undefined as never }
    const name = provider.normaliseName(`${mapping.prefix ?? ''}ALPHA`)
    fake.tamper(name, 'foreign!')
    await project.set('development', { ALPHA: 'one-one-one' })
    // A cluster has a say of its own in whose a key is.
    const id = await setUpSync(world, { ...mapping, onExisting: 'adopt', onConflict: 'force' })
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

  test('is taken over also where somebody has replaced what was ours', async () => {
    const fake = makeFake(() => service.app.services.now())
    door = directly(fake, () => undefined)
    const world: SyncWorld = { service, owner, project, fake, provider, slug, running: undefined as never }
    const name = provider.normaliseName(`${mapping.prefix ?? ''}ALPHA`)
    await project.set('development', { ALPHA: 'one-one-one' })
    const id = await setUpSync(world, { ...mapping, onExisting: 'adopt', onConflict: 'force' })
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

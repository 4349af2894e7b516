/** Entries that somebody else has put in the place of ours, at every vendor: a change of the secret does not overwrite them. */
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
import { everyProvider, type ProviderCase } from '../../../../../test/vendor/every.ts'
import { guardOf } from '../../../providers/provider.ts'

const guardIn = ({ provider, makeFake }: ProviderCase) => guardOf(provider, makeFake(Date.now).target)

/** The engine under the service makes no difference to a vendor. */
const guarded = everyProvider.filter((entry) => guardIn(entry) !== 'none')
const cases = engine === 'sqlite' ? guarded : guarded.filter(({ slug }) => /aws|vault|bitbucket/.test(slug))

let vendors: VendorService
let project: SecretProject
beforeAll(async () => {
  vendors = await startVendorService()
  project = vendors.project
})
afterAll(() => vendors.service.stop())

test('the vendors that show nothing to compare are known', () => {
  const blind = everyProvider.filter((entry) => guardIn(entry) === 'none').map(({ slug }) => slug)
  expect(blind.sort()).toEqual(['circleci', 'cloudflare-pages', 'cloudflare-workers', 'webhook'])
})

describe.each(cases)('$slug', (vendor) => {
  const { provider, mapping } = vendor
  const nameOf = (key: string) => provider.normaliseName(`${mapping.prefix ?? ''}${key}`)

  /** Pushed once; then somebody is at work there, and then the secret changes. */
  async function change(work: (fake: ReturnType<VendorService['open']>['fake'], name: string) => void, more = {}) {
    const world = vendors.open(vendor)
    await project.set('development', { ALPHA: 'one-one-one', BETA: 'one-one-one' })
    const id = await setUpSync(world, { ...mapping, ...more })
    await pushDue(world)
    expect((await readSync(world, id)).lastError).toBeNull()
    work(world.fake, nameOf('ALPHA'))
    await project.set('development', { ALPHA: 'two-two-two' })
    await pushDue(world, 15_000)
    return { world, id, state: world.fake.state() }
  }

  test('an entry that was deleted and made again by somebody keeps its value, and the run says so', async () => {
    const { world, id, state } = await change((fake, name) => {
      fake.tamper(name, undefined)
      fake.tamper(name, 'theirs-theirs')
    })
    expect(state.get(nameOf('ALPHA'))).toBe('theirs-theirs')
    expect(state.get(nameOf('BETA'))).toBe('one-one-one')
    const run = await lastRun(world, id)
    expect(run.items).toMatchObject([
      { name: nameOf('ALPHA'), outcome: expect.stringMatching(/conflict|drifted|failed/) },
    ])
    expect([run.trigger, run.state === 'succeeded']).toEqual(['change', false])
    expect((await readSync(world, id)).lastError).toContain(nameOf('ALPHA'))
    expect(world.fake.violations).toEqual([])
    await project.must('DELETE', `/sync/${id}`)
  })

  test('an entry that was removed is made again', async () => {
    const { world, id, state } = await change((fake, name) => fake.tamper(name, undefined))
    expect(state.get(nameOf('ALPHA'))).toBe('two-two-two')
    expect(await lastRun(world, id)).toMatchObject({ trigger: 'change', state: 'succeeded' })
    await project.must('DELETE', `/sync/${id}`)
  })

  if (guardIn(vendor) === 'mark' && provider.slug !== 'kubernetes') {
    test('an entry with our mark is overwritten, also if somebody has changed its value', async () => {
      const { world, id, state } = await change((fake, name) => fake.tamper(name, 'by-hand-by-hand'))
      expect(state.get(nameOf('ALPHA'))).toBe('two-two-two')
      expect(await lastRun(world, id)).toMatchObject({ trigger: 'change', state: 'succeeded' })
      await project.must('DELETE', `/sync/${id}`)
    })
  }

  if (guardIn(vendor) === 'version') {
    test.each([
      ['left alone', {}, 'by-hand-by-hand'],
      ['put back by a sync that repairs', { drift: 'repair' }, 'two-two-two'],
      ['put back by a sync that may take over', { onExisting: 'adopt' }, 'two-two-two'],
    ])('a value that somebody has changed is %s', async (_title, more, value) => {
      const { id, state } = await change((fake, name) => fake.tamper(name, 'by-hand-by-hand'), more)
      expect(state.get(nameOf('ALPHA'))).toBe(value)
      await project.must('DELETE', `/sync/${id}`)
    })
  }
})

/** Entries that someone else replaced, at every vendor: a changed secret does not overwrite them. */
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

/** The database engine makes no difference to a vendor. */
const guarded = everyProvider.filter((entry) => guardIn(entry) !== 'none')
const cases = engine === 'sqlite' ? guarded : guarded.filter(({ slug }) => /aws|vault|bitbucket/.test(slug))

let vendors: VendorService
let project: SecretProject
beforeAll(async () => {
  vendors = await startVendorService()
  project = vendors.project
})
afterAll(() => vendors.service.stop())

test('only four vendors offer nothing to detect a replaced entry by', () => {
  const blind = everyProvider.filter((entry) => guardIn(entry) === 'none').map(({ slug }) => slug)
  expect(blind.sort()).toEqual(['circleci', 'cloudflare-pages', 'cloudflare-workers', 'webhook'])
})

describe.each(cases)('$slug', (vendor) => {
  const { provider, mapping } = vendor
  const nameOf = (key: string) => provider.normaliseName(`${mapping.prefix ?? ''}${key}`)

  /** Pushes once, lets `work` change the target, then changes the secret and pushes again. */
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

  test('an entry that someone deleted and re-created keeps its value, and the run reports it', async () => {
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

  test('an entry that someone deleted is created again', async () => {
    const { world, id, state } = await change((fake, name) => fake.tamper(name, undefined))
    expect(state.get(nameOf('ALPHA'))).toBe('two-two-two')
    expect(await lastRun(world, id)).toMatchObject({ trigger: 'change', state: 'succeeded' })
    await project.must('DELETE', `/sync/${id}`)
  })

  if (guardIn(vendor) === 'mark' && provider.slug !== 'kubernetes') {
    test('an entry with our mark is overwritten, even if someone changed its value', async () => {
      const { world, id, state } = await change((fake, name) => fake.tamper(name, 'by-hand-by-hand'))
      expect(state.get(nameOf('ALPHA'))).toBe('two-two-two')
      expect(await lastRun(world, id)).toMatchObject({ trigger: 'change', state: 'succeeded' })
      await project.must('DELETE', `/sync/${id}`)
    })
  }

  if (guardIn(vendor) === 'version') {
    test.each([
      ['left unchanged', {}, 'by-hand-by-hand'],
      ['reset with drift=repair', { drift: 'repair' }, 'two-two-two'],
      ['reset with onExisting=adopt', { onExisting: 'adopt' }, 'two-two-two'],
    ])('a value that someone changed is %s', async (_title, more, value) => {
      const { id, state } = await change((fake, name) => fake.tamper(name, 'by-hand-by-hand'), more)
      expect(state.get(nameOf('ALPHA'))).toBe(value)
      await project.must('DELETE', `/sync/${id}`)
    })
  }
})

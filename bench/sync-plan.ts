/** Plans a sync to a fake Vault on loopback that already holds all 1,000 secrets. */
import { setTimeout as sleep } from 'node:timers/promises'
import { fakeVault } from '../test/vendor/fake/vault-kv.ts'
import { startFake } from '../test/vendor/fake.ts'
import { openCase, type Plan } from './case.ts'
import { bearer, call, createProject, type Project, type World } from './seed.ts'

const planners = 4
const deadlineMs = 60_000
const flow = '/v1/sync/vault-kv/flow'

export const planSync: Plan = {
  name: 'plan a sync of 1,000',
  minSeconds: 3,
  async open(world) {
    const project = await createProject(world, 'synced', 1_000)
    const vault = await startFake(fakeVault(), { plain: true })
    try {
      const syncId = await setUp(world, project, { ...vault.fake.credential, address: vault.url }, vault.fake.target)
      const path = `${project.path}/sync/${syncId}/plan`
      await waitUntilPushed(world, path)
      const load = { path, method: 'POST', headers: bearer(world.seeded.session), connections: planners }
      return { ...(await openCase(world, this.name, load)), close: () => vault.close() }
    } catch (error) {
      await vault.close()
      throw error
    }
  },
}

type Values = Readonly<Record<string, string>>

async function setUp({ service, seeded }: World, project: Project, auth: Values, target: Values): Promise<string> {
  const post = <Wanted>(path: string, body: unknown) => call<Wanted>(service, 'POST', path, seeded.session, body)
  const { syncConfigId } = await post<{ syncConfigId: string }>('/v1/sync/vault-kv/start', { projectId: project.id })
  const answer = (step: string, values: Values) => post(flow, { syncConfigId, step, values })
  await answer('auth', auth)
  await answer('target', target)
  await answer('mapping', { environment: project.environmentId })
  type Review = { fields: { id: string; data: { defaultValue?: string } }[] }
  const review = await call<Review>(service, 'GET', `${flow}?syncConfigId=${syncConfigId}&step=review`, seeded.session)
  const confirm = review.fields.find(({ id }) => id === 'confirm')?.data.defaultValue ?? ''
  await answer('review', { confirm })
  return syncConfigId
}

/** The first push starts automatically after setup. */
async function waitUntilPushed({ service, seeded }: World, path: string): Promise<void> {
  const startedAt = performance.now()
  while (performance.now() - startedAt < deadlineMs) {
    const { unchanged } = await call<{ unchanged: string[] }>(service, 'POST', path, seeded.session)
    if (unchanged.length === 1_000) return
    await sleep(200)
  }
  throw new Error('the sync did not push its secrets in time')
}

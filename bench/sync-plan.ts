/** Plans a sync to a fake Vault on loopback that already holds all 1,000 secrets. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { FlowAnswers } from '@coffer/sdk'
import { fakeVault } from '../test/vendor/fake/vault-kv.ts'
import { startFake } from '../test/vendor/fake.ts'
import { openCase, type Plan } from './case.ts'
import { apiOf, bearer, createProject, type Project, type World } from './seed.ts'

const planners = 4
const deadlineMs = 60_000
const provider = { slug: 'vault-kv' }

export const planSync: Plan = {
  name: 'plan a sync of 1,000',
  minSeconds: 3,
  async open(world) {
    const project = await createProject(world, 'synced', 1_000)
    const vault = await startFake(fakeVault(), { plain: true })
    try {
      const syncId = await setUp(world, project, { ...vault.fake.credential, address: vault.url }, vault.fake.target)
      await waitUntilPushed(world, syncId)
      const path = `${project.path}/sync/${syncId}/plan`
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
  const { sync } = apiOf(service, seeded.session)
  const { syncConfigId } = await sync.start(provider, { projectId: project.id })
  const answer = (step: FlowAnswers['step'], values: Values) =>
    sync.submitFlowStep(provider, { syncConfigId, step, values })
  await answer('auth', auth)
  await answer('target', target)
  await answer('mapping', { environment: project.environmentId })
  const { fields } = await sync.readFlowStep(provider, { syncConfigId, step: 'review' })
  const confirm = fields.find(({ id }) => id === 'confirm')
  await answer('review', { confirm: (confirm?.type === 'input' && confirm.data.defaultValue) || '' })
  return syncConfigId
}

/** The first push starts automatically after setup. */
async function waitUntilPushed({ service, seeded }: World, id: string): Promise<void> {
  const startedAt = performance.now()
  while (performance.now() - startedAt < deadlineMs) {
    const { unchanged } = await apiOf(service, seeded.session).sync.plan({ ws: 'main', prj: 'synced', id })
    if (unchanged.length === 1_000) return
    await sleep(200)
  }
  throw new Error('the sync did not push its secrets in time')
}

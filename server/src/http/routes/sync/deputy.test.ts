/**
 * A credential serves only the person who entered it, for the target they chose: nobody else can redirect it, or a
 * sync.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { addUser, type TestUser } from '../../../../../test/harness.ts'
import {
  flowPath,
  pushDue,
  readStep,
  readSync,
  type SyncWorld,
  setUpSync,
  startSetup,
  startSyncWorld,
  submitStep,
  walk,
} from '../../../../../test/sync.ts'
import { fakeGitLab } from '../../../../../test/vendor/fake/gitlab-ci.ts'
import { gitlabCi } from '../../../providers/gitlab-ci.ts'

let world: SyncWorld & { stop(): Promise<void> }
let other: TestUser
beforeAll(async () => {
  const fake = fakeGitLab()
  world = await startSyncWorld(gitlabCi, Object.assign(fake, { hosts: [...fake.hosts, new URL(evil).host] }))
  const { service, owner } = world
  const workspace = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
  other = await addUser(service, 'other@example.com', { workspaceId: workspace.body.id, role: 'admin' })
})
afterAll(() => world.stop())

const asOther = () => ({ ...world, owner: other })
const development = () => world.project.idOf('development')
const evil = 'https://evil.example.test'

beforeEach(async () => {
  const { project, running, fake } = world
  running.injectFailure = undefined
  for (const name of fake.state().keys()) fake.tamper(name, undefined)
  for (const { id } of await project.must<{ id: string }[]>('GET', '/sync')) await project.must('DELETE', `/sync/${id}`)
  await project.set('development', { ALPHA: 'one' })
  running.forget()
})

const ask = (id: string, step: string, user: TestUser) =>
  world.service.call<{ message: string }>('GET', flowPath(world.slug, id, step), { token: user.session })

describe('a credential entered by another person', () => {
  test('lists no targets for me and accepts no other one until I enter my own', async () => {
    const id = await setUpSync(world)
    world.running.forget()
    const asked = await ask(id, 'target', other)
    expect([asked.status, asked.body.message]).toEqual([409, expect.stringMatching(/^step: auth comes before target/)])
    expect((await submitStep(asOther(), id, 'target', world.fake.target)).status).toBe(409)
    expect(world.running.requests).toEqual([])
    expect((await submitStep(asOther(), id, 'auth', world.fake.credential)).body.step).toBe('target')
    expect((await ask(id, 'target', other)).status).toBe(200)
  })

  test('keeps serving its target when someone else changes the mapping', async () => {
    const id = await setUpSync(world)
    await pushDue(world)
    await walk(asOther(), id, 'mapping', { environment: development(), prefix: 'X_' })
    await pushDue(world)
    expect(Object.fromEntries(world.fake.state())).toEqual({ X_ALPHA: 'one' })
  })

  test('cannot be used by me to finish their setup', async () => {
    const id = await startSetup(world)
    await submitStep(world, id, 'auth', world.fake.credential)
    await walkTarget(id)
    for (const step of ['target', 'mapping', 'review']) {
      expect((await ask(id, step, other)).status).toBe(409)
      const values = step === 'mapping' ? { environment: development() } : {}
      expect((await submitStep(asOther(), id, step, values)).status).toBe(409)
    }
    await walk(asOther(), id, 'auth', { environment: development() })
    expect(await readSync(world, id)).toMatchObject({ state: 'active' })
  })
})

describe('the filters for an environment that I cannot read', () => {
  let narrow: TestUser
  beforeAll(async () => {
    const { service, owner } = world
    const workspace = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
    narrow = await addUser(service, 'narrow@example.com', {
      workspaceId: workspace.body.id,
      role: 'admin',
      scope: { all: false, teams: [], projects: [], environments: [development()] },
    })
  })
  const production = () => world.project.idOf('production')
  const choose = (id: string) =>
    submitStep(world, id, 'mapping', { environment: production(), rename: 'HIDDEN_NAME=OTHER' })

  const expectHidden = async (id: string) => {
    const { status, text } = await ask(id, 'mapping', narrow)
    expect(status).toBe(200)
    expect(text).not.toContain('HIDDEN_NAME')
    expect(text).not.toContain(production())
    const review = await ask(id, 'review', narrow)
    expect([review.status, review.body.message]).toEqual([409, 'step: mapping comes before review.'])
    expect((await submitStep({ ...world, owner: narrow }, id, 'review', { confirm: 'x' })).status).toBe(409)
  }

  test('are hidden from me in a change that someone else started', async () => {
    const id = await setUpSync(world)
    expect((await choose(id)).status).toBe(200)
    await expectHidden(id)
    expect(JSON.stringify(await readStep(world, id, 'mapping'))).toContain('HIDDEN_NAME')
  })

  test('are hidden from me in a setup that I continue', async () => {
    const id = await startSetup(world)
    await submitStep(world, id, 'auth', world.fake.credential)
    await walkTarget(id)
    expect((await choose(id)).status).toBe(200)
    expect((await submitStep({ ...world, owner: narrow }, id, 'auth', world.fake.credential)).status).toBe(200)
    await expectHidden(id)
  })
})

async function walkTarget(id: string): Promise<void> {
  let step = 'target'
  while (step === 'target') step = (await submitStep(world, id, 'target', world.fake.target)).body.step
  expect(step).toBe('mapping')
}

describe('a server that imitates the vendor', () => {
  /** It imitates the vendor, including the account name. */
  const credentialThere = () => ({ ...world.fake.credential, baseUrl: evil })

  test('does not become the target through a new credential', async () => {
    const id = await setUpSync(world)
    await pushDue(world)
    world.running.injectFailure = () => ({ kind: 'answer', answer: { status: 401 } })
    await world.project.set('development', { ALPHA: 'for the real one' })
    await pushDue(world, 15_000)
    expect((await readSync(world, id)).state).toBe('needs_reauth')
    world.running.injectFailure = undefined
    const answer = await submitStep(asOther(), id, 'auth', credentialThere())
    expect([answer.status, answer.body.step]).toEqual([200, 'target'])
    world.running.forget()
    await pushDue(world, 3_600_000)
    expect(world.running.requests.filter(({ method }) => method !== 'GET')).toEqual([])
    world.service.clock.offsetMs = 0
  })

  test('cannot be swapped in between a review and its confirmation', async () => {
    const id = await startSetup(world)
    await submitStep(world, id, 'auth', world.fake.credential)
    await walkTarget(id)
    await submitStep(world, id, 'mapping', { environment: development() })
    const { fields } = await readStep(world, id, 'review')
    const word = fields.find((field) => field.id === 'confirm')
    const confirm = (word?.type === 'input' && word.data.defaultValue) || ''
    await submitStep(world, id, 'auth', credentialThere())
    const answer = await submitStep(world, id, 'review', { confirm })
    expect(answer.status).not.toBe(200)
    expect(await readSync(world, id)).toMatchObject({ state: 'draft' })
  })
})

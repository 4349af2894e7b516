/** The wizard of every provider, walked through by a client that knows nothing but the forms. */
import type { FlowField, FlowProgress } from '@coffer/contract/sync'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { registerOwner, startService, type TestService, type TestUser } from '../../../test/harness.ts'
import { createSecretProject, type SecretProject } from '../../../test/secret-project.ts'
import { flowPath, readStep, type SyncWorld, startSetup, submitStep } from '../../../test/sync.ts'
import { everyProvider, type ProviderCase } from '../../../test/vendor/every.ts'
import { directly } from '../../../test/vendor/fake.ts'
import type { Outbound } from '../outbound.ts'
import type { Values } from '../providers/provider.ts'

let service: TestService
let owner: TestUser
let project: SecretProject
/** One service for all: its way out leads to whichever vendor is being tested. */
let door: Outbound
beforeAll(async () => {
  const outbound: Outbound = { request: (request) => door.request(request) }
  service = await startService({ COFFER_SYNC: 'off' }, { outbound, sleep: async () => undefined })
  owner = await registerOwner(service)
  project = await createSecretProject(service, owner.session)
  await project.set('development', { ALPHA: 'one' })
})
afterAll(() => service.stop())

function worldOf({ provider, slug, makeFake }: ProviderCase): SyncWorld {
  const fake = makeFake(() => service.app.services.now())
  door = directly(fake, () => undefined)
  return { service, owner, project, fake, provider, slug, running: undefined as never }
}

/** What must be answered, and no more than that: by what the form fills in, or by what only the person knows. */
function requiredAnswers(fields: readonly FlowField[], known: Values): Record<string, string> {
  return Object.fromEntries(
    fields.flatMap((field) => {
      if (field.type !== 'input' && field.type !== 'select') return []
      // A Vault with namespaces is another one without.
      if (!field.data.isRequired && field.id !== 'namespace') return []
      const value = field.data.defaultValue ?? known[field.id]
      if (value === undefined) throw new Error(`${field.id} is required, and nobody could know it`)
      return [[field.id, value]]
    }),
  )
}

describe.each(everyProvider)('$slug', (entry) => {
  test('is set up by what its forms require, their defaults, and the step that each form names', async () => {
    const world = worldOf(entry)
    const { credential, target } = world.fake
    const own = { environment: project.idOf('development'), objectName: 'shop' }
    const known: Record<string, Values> = { auth: credential, target, mapping: own, review: {} }
    const id = await startSetup(world)
    const steps: string[] = []
    for (let step = 'auth'; step !== 'done'; ) {
      steps.push(step)
      expect(steps.length, steps.join()).toBeLessThan(12)
      const form = await readStep(world, id, step)
      const answers = requiredAnswers(form.fields, known[step] ?? {})
      const { status, text, body } = await service.call<FlowProgress>('POST', `/v1/sync/${world.slug}/flow`, {
        token: owner.session,
        body: { syncConfigId: id, step, values: answers },
      })
      expect(status, `${step}: ${text}`).toBe(200)
      expect(body.step).toBe(form.next.step)
      step = body.step
    }
    expect([...new Set(steps)]).toEqual(['auth', 'target', 'mapping', 'review'])
    await project.must('DELETE', `/sync/${id}`)
  })

  test.each([
    ['too many requests', { status: 429, headers: { 'retry-after': '30' } }, '30'],
    ['an outage', { status: 503 }, '5'],
  ] as const)('%s at the vendor’s: no fault of what was entered', async (_title, answer, retryAfter) => {
    const world = worldOf(entry)
    const id = await startSetup(world)
    door = directly(world.fake, () => ({ kind: 'answer', answer }))
    const refused = await submitStep(world, id, 'auth', world.fake.credential)
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, retryAfter])
    expect(refused.body.message).toMatch(new RegExp(`^${entry.provider.name.replace(/[/()]/g, '.')} answered `))
    const asked = await service.call('GET', flowPath(world.slug, id, 'target'), { token: owner.session })
    expect(asked.status).toBe(409)
    await project.must('DELETE', `/sync/${id}`)
  })
})

/** The wizard of every provider, completed by a client that knows only the forms. */
import type { FlowField, FlowProgress } from '@coffer/contract/sync'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  flowPath,
  readStep,
  startSetup,
  startVendorService,
  submitStep,
  type VendorService,
} from '../../../../../test/sync.ts'
import { everyProvider } from '../../../../../test/vendor/every.ts'
import type { Values } from '../../../providers/provider.ts'

let vendors: VendorService
beforeAll(async () => {
  vendors = await startVendorService()
  await vendors.project.set('development', { ALPHA: 'one' })
})
afterAll(() => vendors.service.stop())

/** Fills in only the required fields: with the default of the form, or with a value that only the person knows. */
function requiredAnswers(fields: readonly FlowField[], known: Values): Record<string, string> {
  return Object.fromEntries(
    fields.flatMap((field) => {
      if (field.type !== 'input' && field.type !== 'select') return []
      // The form does not require a namespace, but the fake Vault does.
      if (!field.data.isRequired && field.id !== 'namespace') return []
      const value = field.data.defaultValue ?? known[field.id]
      if (value === undefined) throw new Error(`${field.id} is required, but has no default and no known value`)
      return [[field.id, value]]
    }),
  )
}

/** Vendors whose login is another service than the target. */
const logins: Readonly<Record<string, string>> = {
  'aws-secrets-manager': 'AWS STS',
  'aws-ssm': 'AWS STS',
  'azure-key-vault': 'Microsoft Entra ID',
  'gcp-secret-manager': 'Google OAuth',
}

describe.each(everyProvider)('$slug', (entry) => {
  test('is set up with only the required fields, their defaults, and the next step that each form names', async () => {
    const world = vendors.open(entry)
    const { credential, target } = world.fake
    const own = { environment: vendors.project.idOf('development'), objectName: 'shop' }
    const known: Record<string, Values> = { auth: credential, target, mapping: own, review: {} }
    const id = await startSetup(world)
    const steps: string[] = []
    for (let step = 'auth'; step !== 'done'; ) {
      steps.push(step)
      expect(steps.length, steps.join()).toBeLessThan(12)
      const form = await readStep(world, id, step)
      const answers = requiredAnswers(form.fields, known[step] ?? {})
      const { status, text, body } = await vendors.service.call<FlowProgress>('POST', `/v1/sync/${world.slug}/flow`, {
        token: vendors.owner.session,
        body: { syncConfigId: id, step, values: answers },
      })
      expect(status, `${step}: ${text}`).toBe(200)
      expect(body.step).toBe(form.next.step)
      step = body.step
    }
    expect([...new Set(steps)]).toEqual(['auth', 'target', 'mapping', 'review'])
    await vendors.project.must('DELETE', `/sync/${id}`)
  })

  test.each([
    ['too many requests', { status: 429, headers: { 'retry-after': '30' } }, '30'],
    ['an outage', { status: 503 }, '5'],
  ] as const)('%s at the vendor is not reported as a wrong value', async (_title, answer, retryAfter) => {
    const world = vendors.open(entry)
    const id = await startSetup(world)
    vendors.routeTo(world.fake, () => ({ kind: 'answer', answer }))
    const refused = await submitStep(world, id, 'auth', world.fake.credential)
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, retryAfter])
    const name = logins[entry.slug] ?? entry.provider.name
    expect(refused.body.message).toMatch(new RegExp(`^${name.replace(/[/()]/g, '.')} answered `))
    const asked = await vendors.service.call('GET', flowPath(world.slug, id, 'target'), {
      token: vendors.owner.session,
    })
    expect(asked.status).toBe(409)
    await vendors.project.must('DELETE', `/sync/${id}`)
  })
})

// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the values here hold references.
import type { Secret } from '@coffer/contract/secret'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { registerOwner, startService, type TestService, type TestUser } from '../../../../../test/harness.ts'
import { createSecretProject, type SecretProject } from '../../../../../test/secret-project.ts'

let service: TestService
let owner: TestUser

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
})
afterAll(() => service.stop())

const referTo = (count: number) => Array.from({ length: count }, (_, index) => `\${T${index}}`).join('')

describe('the reference limit', () => {
  let project: SecretProject
  beforeAll(async () => {
    project = await createSecretProject(service, owner.session)
    await project.set('development', { BIG: 'plain' })
    await project.allowPersonal('development')
  })

  const environmentId = 'development'
  const ways: [string, (value: string) => [method: string, path: string, body: object]][] = [
    ['create', (value) => ['POST', '/secret', { environments: ['staging'], secrets: [{ key: 'BIG', value }] }]],
    ['update', (value) => ['PUT', '/secret/BIG', { name: 'BIG', values: [{ environmentId, value }] }]],
    ['single value', (value) => ['PUT', '/secret/BIG/value', { environmentId, value }]],
    ['personal value', (value) => ['PUT', '/secret/BIG/value', { environmentId, value, isPersonal: true }]],
    ['batch', (value) => ['POST', '/secret/batch', { environmentId, operations: [{ op: 'set', key: 'BIG', value }] }]],
    [
      'import',
      (value) => [
        'POST',
        '/secret/import',
        { environmentId: 'production', format: 'json', content: JSON.stringify({ BIG: value }) },
      ],
    ],
  ]
  test.each(ways)('%s: a value may reference 1,000 secrets, each any number of times, and no more', async (_, way) => {
    const refused = await project.ask(...way(referTo(1_001)))
    expect(refused.status).toBe(400)
    expect(refused.body.message).toBe('value: the value of BIG has more than 1,000 references: split it.')
    const accepted = await project.ask(...way(referTo(1_000).repeat(2)))
    expect([200, 201], accepted.text.slice(0, 200)).toContain(accepted.status)
  })

  test('values that repeat one reference a million times together are refused', async () => {
    const secrets = Array.from({ length: 64 }, (_, index) => ({ key: `SAME_${index}`, value: '${A}'.repeat(16_000) }))
    const answer = await project.ask('POST', '/secret', { environments: ['staging'], secrets })
    expect(answer.status).toBe(400)
    expect(answer.body.message).toMatch(/^value: these values hold more than 100,000 references, .+\.$/)
  })
})

describe('101 values with 1,000 references each', () => {
  let project: SecretProject
  const keys = Array.from({ length: 101 }, (_, index) => `V${index}`)
  const text = referTo(1_000)
  const referring = (some: readonly string[]) => Object.fromEntries(some.map((key) => [key, text]))

  beforeAll(async () => {
    project = await createSecretProject(service, owner.session)
    const targets = Array.from({ length: 1_000 }, (_, index) => [`T${index}`, 'x'])
    await project.set('development', Object.fromEntries(targets))
    await project.set('development', referring(keys.slice(0, 100)))
    await project.set('development', referring(keys.slice(100)))
  })

  test('are resolved except one, which onUnresolved keeps, empties or turns into an error', async () => {
    const list = async (query: string) => {
      const secrets = await project.must<Secret[]>('GET', `/secret?environmentId=development&resolve=true&q=V${query}`)
      const [resolved, left] = [new Set<unknown>(), new Set<unknown>()]
      for (const { values } of secrets) {
        const [row] = values
        if (row?.unresolved) left.add(row)
        else resolved.add(row)
      }
      expect([resolved.size, left.size]).toEqual([100, 1])
      expect(secrets.filter(({ values }) => values[0]?.value === 'x'.repeat(1_000))).toHaveLength(100)
      return [...left]
    }
    const unresolved = Array.from({ length: 1_000 }, (_, index) => `T${index}`)
    expect(await list('')).toMatchObject([{ value: text, unresolved }])
    expect(await list('&onUnresolved=empty')).toMatchObject([{ value: '', unresolved }])
    const path = '/secret?environmentId=development&resolve=true&onUnresolved=error'
    const refused = await project.ask('GET', path)
    expect(refused.status).toBe(409)
    expect(refused.body.message).toMatch(/^V\d+: refers to T0, .+, which cannot be resolved\.$/)
    expect((await project.ask('GET', path.replace('?', '?q=V1&'))).status).toBe(200)
    expect((await project.ask('GET', '/secret/V7?environmentId=development&resolve=true')).text).not.toContain('${')
  })

  test('are refused in one write or promotion, while 100 are accepted', async () => {
    const promote = (some: readonly string[]) =>
      project.ask('POST', `/environment/${project.idOf('staging')}/promote`, {
        from: 'development',
        keys: some,
        dryRun: true,
      })
    const write = (some: readonly string[]) =>
      project.ask('POST', '/secret', {
        environments: ['production'],
        secrets: some.map((key) => ({ key, value: text })),
        dryRun: true,
      })
    for (const way of [promote, write]) {
      const refused = await way(keys)
      expect(refused.status).toBe(400)
      expect(refused.body.message).toMatch(/^value: these values hold more than 100,000 references, .+\.$/)
      expect([200, 201]).toContain((await way(keys.slice(1))).status)
    }
  })

  test('cannot all be referenced by one value, and a cycle through them is detected', async () => {
    const all = keys.map((key) => `\${${key}}`)
    const put = (value: string) =>
      project.ask('PUT', '/secret/T0/value', {
        environmentId: 'development',
        value: value.replaceAll('V', 'development.V'),
      })
    const lead = (value: string) =>
      project.ask('POST', '/secret', { environments: ['development'], secrets: [{ key: 'ALL', value }], dryRun: true })
    const refused = await lead(all.join(''))
    expect(refused.status).toBe(400)
    expect(refused.body.message).toContain('or reference fewer')
    expect((await lead(all.slice(0, 50).join(''))).status).toBe(200)
    expect((await put(all.slice(0, 50).join(''))).body.message).toMatch(
      /^This would create a reference cycle: T0 → V\d+\.$/,
    )
  })
})

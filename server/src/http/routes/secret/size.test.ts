// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the values here hold references.
/** Requests for more than 64 MiB of values are refused before the values are loaded, and say what to do instead. */
import type { Secret } from '@coffer/contract/secret'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { engine, registerOwner, startService, type TestService, type TestUser } from '../../../../../test/harness.ts'
import { expectReadQueue } from '../../../../../test/read-queue.ts'
import { createSecretProject, type SecretProject, type Values } from '../../../../../test/secret-project.ts'

// Some tests move hundreds of MiB: the timeout must end only a hang, however slow the machine is.
vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 })

let service: TestService
let owner: TestUser

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
})
afterAll(() => service.stop())

const createMany = (from: number, to: number, value: string): Values =>
  Object.fromEntries(Array.from({ length: to - from }, (_, index) => [`KEY_${from + index}`, value]))

/** Skips the checks of the harness, which take longer than the response itself. */
async function fetchPlainly(project: SecretProject, path: string): Promise<{ status: number; text: string }> {
  const headers = { authorization: `Bearer ${owner.session}` }
  const response = await fetch(service.url + project.root + path, { headers })
  return { status: response.status, text: await response.text() }
}

describe('an environment with more than 64 MiB of values', () => {
  let project: SecretProject
  const count = 1_040
  const perRequest = 120
  const large = 'x'.repeat(64 * 1024)
  const revision = (number: number) => `/environment/${project.idOf('production')}/revision/${number}/restore`
  const promotion = () => `/environment/${project.idOf('staging')}/promote`
  const someKeys = Array.from({ length: 100 }, (_, index) => `KEY_${index}`)

  beforeAll(async () => {
    project = await createSecretProject(service, owner.session)
    const references = Array.from({ length: count }, (_, index) => `\${production.KEY_${index}}`)
    const [half, rest] = [references.slice(0, count / 2).join(''), references.slice(count / 2).join('')]
    await project.set('development', { ALL: '${HALF}${REST}', HALF: half, REST: rest })
    for (let from = 0; from < count; from += perRequest) {
      await project.set('production', createMany(from, Math.min(count, from + perRequest), large))
    }
  })

  test.each<[string, string, () => string, (() => object)?]>([
    ['a list', 'GET', () => '/secret'],
    ['a list of one environment', 'GET', () => '/secret?environmentId=production'],
    ['an export', 'GET', () => '/secret/export?environmentId=production&format=json'],
    ['a diff', 'GET', () => '/secret/diff?from=development&to=production'],
    ['a diff with values', 'GET', () => '/secret/diff?from=production@9&to=staging&values=true'],
    ['a promotion', 'POST', promotion, () => ({ from: 'production' })],
    ['a restore of a revision', 'POST', () => revision(0), () => ({ dryRun: true })],
    ['a resolved list', 'GET', () => '/secret?environmentId=development&resolve=true'],
    ['a resolved secret', 'GET', () => '/secret/ALL?environmentId=development&resolve=true'],
    ['a resolved export', 'GET', () => '/secret/export?environmentId=development&resolve=true'],
    [
      'a value that references all of them',
      'PUT',
      () => '/secret/ALL/value',
      () => ({ environmentId: 'staging', value: '${development.ALL}' }),
    ],
    [
      'an upsert of all values',
      'POST',
      () => '/secret',
      () => ({
        environments: ['production'],
        secrets: Object.keys(createMany(0, count, '')).map((key) => ({ key, value: 'small' })),
        mode: 'upsert',
      }),
    ],
  ])('refuses %s before it loads the values, and says what to do', async (_, method, path, body) => {
    const answer = await project.ask(method, path(), body?.())
    expect(answer.status, answer.text.slice(0, 200)).toBe(400)
    expect(answer.body.message).toMatch(
      /^\w+: these values add up to more than 64 MiB, too much for one request: .+\.$/,
    )
  })

  test('can still be read: by keys, in parts, one by one, by chosen keys, and without references', async () => {
    const keys = await project.must<Secret[]>('GET', '/secret?environmentId=production&view=keys')
    expect(keys.filter(({ values }) => values.length === 1)).toHaveLength(count)
    expect(keys.flatMap(({ values }) => values).every((row) => row.value === undefined && row.version === 1)).toBe(true)
    const part = await fetchPlainly(project, '/secret?environmentId=production&q=key_10')
    expect(part.status).toBe(200)
    expect(JSON.parse(part.text)).toHaveLength(51)
    const one = await project.must<Secret>('GET', '/secret/KEY_7?environmentId=production')
    expect(one.values[0]?.value).toBe(large)
    expect((await project.ask('GET', '/secret?environmentId=development')).status).toBe(200)
    await project.must('POST', promotion(), { from: 'production', keys: someKeys })
    const copied = await fetchPlainly(project, '/secret/export?environmentId=staging&format=json')
    expect(Object.keys(JSON.parse(copied.text))).toHaveLength(100)
    expect(await project.revisions('production')).toHaveLength(Math.ceil(count / perRequest))
  })

  test('is promoted in parts, and each part can be repeated', async () => {
    const keys = Array.from({ length: 600 }, (_, index) => `KEY_${200 + index}`)
    for (const status of ['created', 'unchanged']) {
      const body = { from: 'production', keys }
      const { results } = await project.must<{ results: { status: string }[] }>('POST', promotion(), body)
      expect(new Set(results.map((result) => result.status))).toEqual(new Set([status]))
    }
  })

  test('is promoted by one request at a time, so that a small write waits for one of them and not for all', async () => {
    const keys = Array.from({ length: 600 }, (_, index) => `KEY_${200 + index}`)
    let done = 0
    const promotions = Array.from({ length: 12 }, async () => {
      const { status } = await project.ask('POST', promotion(), { from: 'production', keys, dryRun: true })
      done++
      return status
    })
    await Promise.race(promotions)
    await project.set('development', { LITTLE: 'x' })
    expect(done).toBeLessThan(8)
    expect(new Set(await Promise.all(promotions))).toEqual(new Set([200]))
  })

  test.each([
    ['is read', 'q=key_1'],
    ['is listed by its keys', 'view=keys&q=key_1'],
  ])('%s by a few requests at a time, and requests beyond the queue get a 503 with Retry-After', async (_, query) => {
    await expectReadQueue(service, owner.session, `${project.root}/secret?environmentId=production&${query}`)
  })
})

// The engine makes no difference to escaping.
if (engine === 'sqlite') {
  describe('values that escaping makes six times as long', () => {
    let project: SecretProject
    const count = 176
    const perRequest = 20
    const control = '\u0001'.repeat(64 * 1024)

    beforeAll(async () => {
      project = await createSecretProject(service, owner.session)
      for (let from = 0; from < count; from += perRequest) {
        await project.set('production', createMany(from, Math.min(count, from + perRequest), control))
      }
    })

    test.each([
      '/secret',
      '/secret?environmentId=production&resolve=true',
      '/secret/export?environmentId=production&format=json',
      '/secret/export?environmentId=production&format=yaml',
      '/secret/export?environmentId=production&format=tfvars&resolve=true',
      '/secret/diff?from=staging&to=production&values=true',
    ])('are refused by GET %s', async (path) => {
      const { status, text } = await fetchPlainly(project, path)
      expect(status).toBe(400)
      expect(JSON.parse(text).message).toMatch(
        /^\w+: these values add up to more than 64 MiB, too much for one request: .+\.$/,
      )
    })

    test.each([
      ['dotenv', 11],
      ['shell', 11],
      ['csv', 11],
      ['docker', 11],
      ['k8s', 14],
    ])('are exported as %s, which does not escape them', async (format, mebibytes) => {
      const { status, text } = await fetchPlainly(project, `/secret/export?environmentId=production&format=${format}`)
      expect(status).toBe(200)
      expect(Math.floor(text.length / 2 ** 20)).toBe(mebibytes)
    })

    test('are compared by key, and listed in parts', async () => {
      const diff = await fetchPlainly(project, '/secret/diff?from=staging&to=production')
      expect(JSON.parse(diff.text).added).toHaveLength(count)
      const part = await fetchPlainly(project, '/secret?environmentId=production&q=key_1')
      expect(JSON.parse(part.text)).toHaveLength(87)
      expect(part.text).toBe(JSON.stringify(JSON.parse(part.text)))
    })
  })
}

describe('one write request', () => {
  let project: SecretProject
  const tooMuch = 'secrets: these values add up to more than 64 MiB, too much for one request: write fewer at once.'
  const environments = Array.from({ length: 9 }, (_, index) => `stage-${index}`)
  const secrets = Array.from({ length: 120 }, (_, index) => ({ key: `KEY_${index}`, value: 'x'.repeat(64 * 1024) }))

  beforeAll(async () => {
    project = await createSecretProject(service, owner.session)
    for (const name of environments) await project.must('POST', '/environment', { name })
  })

  test.each(['create', 'skip', 'upsert'])(
    'holds at most 64 MiB of values (%s), checked before anything is written',
    async (mode) => {
      for (const dryRun of [true, false]) {
        const { status, body } = await project.ask('POST', '/secret', { environments, secrets, mode, dryRun })
        expect({ status, ...body }).toEqual({ status: 400, message: tooMuch })
      }
      expect(await project.must('GET', '/secret?view=keys')).toEqual([])
    },
  )

  test('can be repeated', async () => {
    const fewer = environments.slice(0, 8)
    for (const status of ['created', 'unchanged']) {
      const body = { environments: fewer, secrets, mode: 'upsert' }
      const { results } = await project.must<{ results: { status: string }[] }>('POST', '/secret', body)
      expect(results).toHaveLength(960)
      expect(new Set(results.map((result) => result.status))).toEqual(new Set([status]))
    }
  })
})

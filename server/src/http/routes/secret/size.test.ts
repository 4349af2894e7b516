// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the values here hold references.
import type { Revision } from '@coffer/contract/history'
import type { Secret } from '@coffer/contract/secret'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import {
  type Answer,
  engine,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { until } from '../../../../../test/program.ts'
import { createSecretProject, type SecretProject, type Values } from '../../../../../test/secret-project.ts'
import { isDeep } from '../../../../../test/tier.ts'
import { parseEntries } from '../../../domain/secret/format/format.ts'

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

/** Counts the responses to other requests until this one is answered. */
async function countAnsweredDuring(asked: Promise<{ status: number }>): Promise<number> {
  let isDone = false
  const answer = asked.finally(() => {
    isDone = true
  })
  let answered = 0
  while (!isDone) {
    const { status } = await fetch(`${service.url}/healthz`)
    expect(status).toBe(200)
    answered++
  }
  expect((await answer).status).toBe(200)
  return answered
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
    const promotions = Array.from({ length: 6 }, async () => {
      const { status } = await project.ask('POST', promotion(), { from: 'production', keys, dryRun: true })
      done++
      return status
    })
    await Promise.race(promotions)
    await project.set('development', { LITTLE: 'x' })
    expect(done).toBeLessThan(4)
    expect(new Set(await Promise.all(promotions))).toEqual(new Set([200]))
  })

  test.each([
    ['is read', 'q=key_1'],
    ['is listed by its keys', 'view=keys&q=key_1'],
  ])('%s by a few requests at a time, and requests beyond the queue get a 503 with Retry-After', async (_, query) => {
    await expectQueue(project, `/secret?environmentId=production&${query}`)
  })
})

/** One request runs, 32 wait for it, and all others are refused with a 503. */
async function expectQueue(project: SecretProject, path: string): Promise<void> {
  const asked = 40
  const headers = { authorization: `Bearer ${owner.session}` }
  // No read can be recorded, and so none ends, before the lock is released.
  const { promise: isReleased, resolve: release } = Promise.withResolvers<void>()
  const { body: workspace } = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
  const holding = service.app.services.engine.transaction(workspace.id, () => isReleased)
  let responded = 0
  const answering = Array.from({ length: asked }, async () => {
    const answer = await fetch(service.url + project.root + path, { headers })
    responded++
    await answer.arrayBuffer()
    return answer
  })
  await until(() => responded > 0 || undefined, 60_000, 'a request is refused').finally(release)
  await holding
  const answers = await Promise.all(answering)
  const refused = answers.filter(({ status }) => status === 503)
  expect(refused.length).toBeGreaterThan(0)
  expect(refused.every((answer) => answer.headers.get('retry-after') === '1')).toBe(true)
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(asked - refused.length)
  expect((await fetchPlainly(project, path)).status).toBe(200)
}

describe('a large response', () => {
  let project: SecretProject
  const count = 480
  const [first, last] = ['KEY_0', `KEY_${count - 1}`] as const
  const list = '/secret?environmentId=development'
  const listed = (text: string): Values =>
    Object.fromEntries(JSON.parse(text).map(({ name, values }: Secret) => [name, values[0]?.value]))

  beforeAll(async () => {
    project = await createSecretProject(service, owner.session)
    for (let from = 0; from < count; from += 120) {
      await project.set('development', createMany(from, from + 120, `"${'ä'.repeat(30 * 1024)}"`))
    }
  })

  // The engine makes no difference to the serialization.
  if (engine === 'sqlite') {
    test('is the same JSON as a small one, with its length and ETag', async () => {
      const headers = { authorization: `Bearer ${owner.session}` }
      const url = service.url + project.root + list
      const answer = await fetch(url, { headers })
      const text = await answer.text()
      expect(text).toBe(JSON.stringify(JSON.parse(text)))
      expect(Object.keys(listed(text))).toHaveLength(count)
      expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8')
      expect(answer.headers.get('content-length')).toBe(String(Buffer.byteLength(text)))
      const etag = answer.headers.get('etag') ?? ''
      const head = await fetch(url, { method: 'HEAD', headers })
      expect([head.headers.get('content-length'), head.headers.get('etag')]).toEqual([
        answer.headers.get('content-length'),
        etag,
      ])
      expect((await fetch(url, { headers: { ...headers, 'if-none-match': etag } })).status).toBe(304)
    })

    test('holds the same values in every format', async () => {
      const expected = listed((await fetchPlainly(project, list)).text)
      // YAML of this size takes seconds to parse.
      const formats = ['json', 'csv', 'dotenv'] as const
      for (const format of isDeep ? (['yaml', ...formats] as const) : formats) {
        const file = await fetchPlainly(project, `/secret/export?environmentId=development&format=${format}`)
        const values = parseEntries(format, file.text).map(({ key, value }) => [key, value])
        expect(Object.fromEntries(values)).toEqual(expected)
      }
      const diff = await fetchPlainly(project, '/secret/diff?from=staging&to=development&values=true')
      const { added, removed, changed, same, values, ...others } = JSON.parse(diff.text)
      expect({ removed, changed, same, others }).toEqual({ removed: [], changed: [], same: [], others: {} })
      expect(added).toHaveLength(count)
      expect(values[last]).toEqual({ to: expected[last] })
    })
  }

  test('is built and sent while other requests are answered', async () => {
    for (const path of [list, '/secret/export?environmentId=development&format=json']) {
      expect(await countAnsweredDuring(fetchPlainly(project, path))).toBeGreaterThan(40)
    }
  })

  test('shows all or none of the values of a concurrent write', async () => {
    let isDone = false
    const writing = (async () => {
      for (let value = 0; !isDone; value++)
        await project.set('development', { [first]: `${value}`, [last]: `${value}` })
    })()
    for (let read = 0; read < 5; read++) {
      const values = listed((await fetchPlainly(project, list)).text)
      expect(values[first]).toBe(values[last])
    }
    isDone = true
    await writing
  })
})

// The engine makes no difference to the order of recording.
if (engine === 'sqlite') {
  describe('large responses that wait for the audit trail', () => {
    let project: SecretProject
    beforeAll(async () => {
      project = await createSecretProject(service, owner.session)
      for (const from of [0, 75]) {
        await project.set('development', createMany(from, from + 75, 'x'.repeat(64 * 1024)))
      }
    })

    test.each(['/secret?environmentId=development', '/secret/export?environmentId=development'])(
      'are built one at a time per workspace: GET %s',
      async (path) => {
        const { engine, reads } = service.app.services
        const { body } = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
        const { promise: isReleased, resolve: release } = Promise.withResolvers<void>()
        const recording = vi.spyOn(reads, 'record')
        const holding = engine.transaction(body.id, () => isReleased)
        const asked = Array.from({ length: 6 }, () => fetchPlainly(project, path))
        try {
          await until(() => recording.mock.calls.length > 0 || undefined, 60_000, 'one waits to be recorded')
          for (let more = 0; more < 300; more++) await fetch(`${service.url}/healthz`)
          expect(recording).toHaveBeenCalledTimes(1)
        } finally {
          release()
          await holding
          recording.mockRestore()
        }
        expect(new Set((await Promise.all(asked)).map(({ status }) => status))).toEqual(new Set([200]))
      },
    )
  })
}

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
      '/secret/export?environmentId=production&format=dotenv',
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

describe('very many small values', () => {
  let project: SecretProject
  const perRequest = 7_000

  beforeAll(async () => {
    project = await createSecretProject(service, owner.session)
    for (const from of [0, 1, 2]) {
      await project.set('development', createMany(from * perRequest, (from + 1) * perRequest, 'small'))
    }
  })

  test.each([
    '/secret',
    '/secret/export?format=json&environmentId=development',
    '/secret/diff?from=development@3&to=development',
  ])('are decrypted for GET %s while other requests are answered', async (path) => {
    expect(await countAnsweredDuring(fetchPlainly(project, path))).toBeGreaterThan(15)
  })

  test.each(['', '&view=keys'])('are read by a few requests at a time: GET /secret?…%s', async (view) => {
    const smaller = await createSecretProject(service, owner.session)
    await smaller.set('development', createMany(0, 2_501, 'small'))
    await expectQueue(smaller, `/secret?environmentId=development${view}`)
  })

  test('shorten the pages of revisions, and every revision is on one of them', async () => {
    const seen: Revision[] = []
    for (let cursor: string | null = ''; cursor !== null; ) {
      const path: string = `/environment/${project.idOf('development')}/revision?limit=200${cursor && `&cursor=${cursor}`}`
      const page: Answer<Revision[]> = await project.ask<Revision[]>('GET', path)
      expect(page.body.length).toBeLessThan(3)
      seen.push(...page.body)
      cursor = page.headers.get('x-next-cursor')
    }
    expect(seen.map(({ revision, changes }) => [revision, changes.length])).toEqual([
      [3, perRequest],
      [2, perRequest],
      [1, perRequest],
    ])
  })
})

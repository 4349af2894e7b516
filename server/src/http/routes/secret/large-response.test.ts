/** Large responses are complete and consistent, and are built while other requests are answered. */
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
import { expectReadQueue } from '../../../../../test/read-queue.ts'
import { createSecretProject, type SecretProject, type Values } from '../../../../../test/secret-project.ts'
import { isDeep } from '../../../../../test/tier.ts'
import { until } from '../../../../../test/wait.ts'
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
        const { engine } = service.app.services
        const { body } = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
        const { promise: isReleased, resolve: release } = Promise.withResolvers<void>()
        const recording = vi.spyOn(engine, 'commit')
        const holding = engine.transaction(body.id, () => isReleased)
        const asked = Array.from({ length: 6 }, () => fetchPlainly(project, path))
        try {
          await until(() => recording.mock.calls.length > 0 || undefined, 120_000, 'one waits to be recorded')
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
    await expectReadQueue(service, owner.session, `${smaller.root}/secret?environmentId=development${view}`)
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

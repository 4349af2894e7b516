/** Responses without values are compressed if the client accepts it; responses with values never are. */
import { type IncomingHttpHeaders, request } from 'node:http'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { type EndpointName, endpoints } from '@coffer/contract/api'
import type { Endpoint } from '@coffer/contract/endpoint'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { describeChanges, readContent, restoreContent } from '../../../../test/content.ts'
import {
  addUser,
  createToken,
  offline,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import { requestsTo, requestTable } from '../../../../test/request-table.ts'
import { createSecretProject, type SecretProject } from '../../../../test/secret-project.ts'
import { isDeep, times } from '../../../../test/tier.ts'
import { createWorld, type World } from '../../../../test/world.ts'
import { chooseEncoding } from './compress.ts'

let service: TestService
let owner: TestUser
let world: World
let project: SecretProject
const canary = 'canary-of-the-compressor'

beforeAll(async () => {
  service = await startService({}, offline)
  owner = await registerOwner(service)
  const { body } = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
  const heir = await addUser(service, 'heir@example.com', { workspaceId: body.id, role: 'admin' })
  world = await createWorld(service, owner, heir.memberId ?? '')
  // Every response about secrets is long enough to be worth compressing, and holds the canary where it holds values.
  const secrets = Array.from({ length: 40 }, (_, at) => ({
    key: `LONG_${at}`,
    value: `${canary} ${'x'.repeat(200)} ${at}`,
    note: 'a note that repeats itself, a note that repeats itself',
  }))
  const environments = [world.environments.right, world.environments.sibling]
  const written = { environments, secrets: [...secrets, { key: 'SHARED', value: canary.repeat(100) }], mode: 'upsert' }
  const path = `/v1/workspace/main/project/${world.projects.right}/secret`
  const alone = { environments: [world.environments.right], secrets: [{ key: 'ALONE', value: canary.repeat(100) }] }
  for (const body of [written, alone]) {
    expect((await service.call('POST', path, { token: owner.session, body })).status).toBe(201)
  }
  project = await createSecretProject(service, owner.session)
  await project.set('development', Object.fromEntries(secrets.map(({ key, value }) => [key, value])))
})
afterAll(() => service.stop())

type Raw = { status: number; headers: IncomingHttpHeaders; bytes: Buffer; text: string }

/** Sends a request and decodes the response by its Content-Encoding. */
function send(path: string, headers: Record<string, string> = {}, method = 'GET', body?: unknown): Promise<Raw> {
  const sent = body === undefined ? undefined : JSON.stringify(body)
  const all = {
    authorization: `Bearer ${owner.session}`,
    'accept-encoding': 'gzip, br',
    ...(sent !== undefined && {
      'content-type': 'application/json',
      'content-length': String(Buffer.byteLength(sent)),
    }),
    ...headers,
  }
  return new Promise((resolve, reject) => {
    const asked = request(service.url + path, { method, headers: all }, (response) => {
      const parts: Buffer[] = []
      response.on('data', (part: Buffer) => parts.push(part))
      response.on('error', reject)
      response.on('end', () => {
        const bytes = Buffer.concat(parts)
        const { statusCode: status = 0, headers: received } = response
        resolve({ status, headers: received, bytes, text: decode(received['content-encoding'], bytes) })
      })
    })
    asked.on('error', reject)
    asked.end(sent)
  })
}

function decode(encoding: string | undefined, bytes: Buffer): string {
  if (bytes.length === 0) return ''
  if (encoding === 'gzip') return gunzipSync(bytes).toString()
  if (encoding === 'br') return brotliDecompressSync(bytes).toString()
  expect(encoding).toBeUndefined()
  return bytes.toString()
}

const endpointNames = Object.keys(endpoints).filter((name): name is EndpointName => name in endpoints)

describe('every endpoint of the contract', () => {
  test('that may be compressed is one of these', () => {
    const marked = endpointNames.flatMap((name) => {
      const { withoutValues }: Endpoint = endpoints[name]
      return withoutValues ? [[name, withoutValues]] : []
    })
    expect(Object.fromEntries(marked)).toEqual({
      listSecrets: ['keys', 'cells'],
      readSecret: ['keys', 'cells'],
      searchSecrets: true,
      explainAccess: true,
      listAccess: true,
      listAudit: true,
    })
  })

  test('with a value in its answer is answered plainly, whatever the client accepts', async () => {
    const table = requestTable(world, { own: world.heirId, others: world.heirId })
    const compressed = new Set<string>()
    const withValues = new Set<string>()
    const { services } = service.app
    const before = await readContent(services)
    let asked = 0
    for (const name of endpointNames) {
      const endpoint: Endpoint = endpoints[name]
      for (const ask of requestsTo(table, name)) {
        for (const accepted of isDeep ? ['gzip', 'br', 'gzip, deflate, br, zstd', '*'] : ['gzip', '*']) {
          if (endpoint.method !== 'GET' && accepted !== '*') continue
          const answer = await send(ask.path, { 'accept-encoding': accepted }, endpoint.method, ask.body)
          asked++
          // Every request finds the world as it was.
          const after = endpoint.method === 'GET' ? before : await readContent(services)
          if (describeChanges(before, after).length > 0) await restoreContent(services, before, after)
          const isCompressed = answer.headers['content-encoding'] !== undefined
          if (answer.text.includes(canary)) {
            withValues.add(name)
            expect(isCompressed, `${name}, ${ask.what}: a compressed value`).toBe(false)
            expect(answer.headers.vary).toBeUndefined()
          }
          if (!isCompressed) continue
          compressed.add(name)
          const mayBe = endpoint.withoutValues === true || /[?&]view=(keys|cells)\b/.test(ask.path)
          expect(mayBe, `${name}, ${ask.what}: compressed`).toBe(true)
        }
      }
    }
    expect(asked).toBeGreaterThan(200)
    expect([...compressed].sort()).toEqual(['listAccess', 'listAudit', 'listSecrets', 'searchSecrets'])
    const expected = ['listSecrets', 'readSecret', 'exportSecrets', 'diffSecrets']
    expect([...withValues]).toEqual(expect.arrayContaining(expected))
  })

  test('scoped reads, versions and shares are answered plainly', async () => {
    const { right } = world.environments
    const { token } = await createToken(service, owner.session, { scope: { environments: [right] } })
    const root = `/v1/workspace/main/project/${world.projects.right}`
    const { body: share } = await service.call<{ token: string }>('POST', `${root}/secret-share`, {
      token: owner.session,
      body: { content: canary.repeat(100), expiresIn: 300 },
    })
    for (const { text, headers } of [
      await send('/v1/secrets', { authorization: `Bearer ${token}` }),
      await send(`${root}/secret/ALONE/version/1?environmentId=${right}`),
      await send(`/v1/share/${share.token}/view`, {}, 'POST', {}),
    ]) {
      expect(text).toContain(canary)
      expect([headers['content-encoding'], headers.vary]).toEqual([undefined, undefined])
    }
  })
})

describe('an answer without values', () => {
  const paths = () => [
    `${project.root}/secret?view=keys`,
    `${project.root}/secret?view=cells`,
    '/v1/workspace/main/audit',
    '/v1/workspace/main/audit?format=ndjson',
    '/v1/workspace/main/secret',
    '/openapi.json',
    '/docs/static/swagger-ui.css',
    '/docs/static/swagger-ui-bundle.js',
  ]

  test.each(['gzip', 'br'])('is the same in %s as without it, shorter, and marked with Vary', async (encoding) => {
    for (const path of paths()) {
      const plain = await send(path, { 'accept-encoding': 'identity' })
      const packed = await send(path, { 'accept-encoding': encoding })
      expect(packed.headers['content-encoding'], path).toBe(encoding)
      expect(plain.headers['content-encoding'], path).toBeUndefined()
      for (const { headers } of [plain, packed]) expect(headers.vary, path).toBe('Accept-Encoding')
      expect(packed.bytes.length, path).toBeLessThan(plain.bytes.length / 2)
      expect(packed.headers['content-type']).toBe(plain.headers['content-type'])
      if (!path.includes('ndjson')) expect(packed.headers['content-length']).toBe(String(packed.bytes.length))
      // A request to the audit trail may follow an entry of the one before.
      if (!path.includes('/audit')) expect(packed.text, path).toBe(plain.text)
      else expect(packed.text.length).toBeGreaterThan(1_000)
    }
  })

  test('is plain if it is short, if it is an image, and if the client does not ask for more', async () => {
    const short = await send(`${project.root}/secret?view=keys&q=nothing`)
    expect([short.headers['content-encoding'], short.headers.vary]).toEqual([undefined, 'Accept-Encoding'])
    expect((await send('/docs/static/favicon-32x32.png')).headers['content-encoding']).toBeUndefined()
    for (const accepted of ['', 'identity', 'zstd', 'gzip;q=0, br;q=0', 'identity, gzip;q=0.5', 'gzip;q=nonsense']) {
      const { headers } = await send(`${project.root}/secret?view=keys`, { 'accept-encoding': accepted })
      expect(headers['content-encoding'], accepted).toBeUndefined()
    }
  })

  test('an error is plain', async () => {
    const { status, headers, text } = await send(`${project.root}/secret?view=cells&environmentId=nowhere`)
    expect([status, headers['content-encoding'], Object.keys(JSON.parse(text))]).toEqual([404, undefined, ['message']])
  })

  test.each(['gzip', 'br'])('HEAD has the headers of GET in %s, but for the length, and no body', async (encoding) => {
    const accept = { 'accept-encoding': encoding }
    for (const path of paths()) {
      const [whole, head] = [await send(path, accept), await send(path, accept, 'HEAD')]
      expect(head.bytes).toHaveLength(0)
      expect(head.status).toBe(whole.status)
      for (const name of ['content-encoding', 'content-type', 'vary', 'etag']) {
        expect(head.headers[name], `${path} ${name}`).toBe(whole.headers[name])
      }
      expect(head.headers['content-length']).toBeUndefined()
    }
  })
})

describe('ETags', () => {
  const path = () => `${project.root}/secret?view=keys`

  test('differ between encodings, and each of them gives 304 as long as nothing changes', async () => {
    const tags: string[] = []
    for (const encoding of ['identity', 'gzip', 'br']) {
      const accept = { 'accept-encoding': encoding }
      const { headers } = await send(path(), accept)
      const etag = headers.etag ?? ''
      expect(etag).toMatch(/^"[\w-]+(\.gzip|\.br)?"$/)
      tags.push(etag)
      const again = await send(path(), { ...accept, 'if-none-match': etag })
      expect([again.status, again.headers.etag, again.headers.vary]).toEqual([304, etag, 'Accept-Encoding'])
      expect([again.bytes.length, again.headers['content-encoding']]).toEqual([0, undefined])
      const listed = await send(path(), { ...accept, 'if-none-match': `"other", W/${etag}` })
      expect(listed.status).toBe(304)
      // A client that changes its mind about the encoding still has the same content.
      expect((await send(path(), { 'accept-encoding': 'gzip', 'if-none-match': etag })).status).toBe(304)
    }
    expect(new Set(tags).size).toBe(3)
    await project.set('development', { CHANGED: canary })
    for (const etag of tags) expect((await send(path(), { 'if-none-match': etag })).status).toBe(200)
  })

  test('of answers with values have no encoding', async () => {
    const { headers } = await send(`${project.root}/secret`)
    expect(headers.etag).toMatch(/^"[\w-]+"$/)
  })
})

test('a large list is compressed within the budgets, and a crowd of requests gets plain answers instead of waiting', async () => {
  const large = await createSecretProject(service, owner.session)
  const secrets = Array.from({ length: times(600, 2_400) }, (_, at) => ({
    key: `KEY_${at}`,
    value: canary,
    note: `${at} `.repeat(100),
  }))
  await large.must('POST', '/secret', { environments: ['development'], secrets })
  const path = `${large.root}/secret?view=cells`
  const alone = await send(path)
  expect(alone.headers['content-encoding']).toBe('br')
  expect(JSON.parse(alone.text)).toHaveLength(secrets.length)
  expect(alone.text).not.toContain(canary)
  const crowd = await Promise.all(Array.from({ length: 12 }, () => send(path)))
  expect(new Set(crowd.map(({ text }) => text))).toEqual(new Set([alone.text]))
  const packed = crowd.filter(({ headers }) => headers['content-encoding'] !== undefined)
  expect(packed.length).toBeGreaterThan(0)
  for (const { headers } of crowd) expect(headers.vary).toBe('Accept-Encoding')
  // Nothing stays occupied afterwards.
  expect((await send(path)).headers['content-encoding']).toBe('br')
})

test('a reader that hangs up in the middle of a compressed stream frees its compressor', async () => {
  const path = '/v1/workspace/main/audit?format=ndjson'
  const hangUp = () =>
    new Promise<void>((resolve, reject) => {
      const headers = { authorization: `Bearer ${owner.session}`, 'accept-encoding': 'gzip' }
      const asked = request(service.url + path, { headers }, (response) => {
        response.once('close', () => resolve())
        response.on('error', () => undefined)
        response.destroy()
      })
      asked.on('error', reject)
      asked.end()
    })
  for (let reader = 0; reader < 10; reader++) await hangUp()
  await expect.poll(async () => (await send(path)).headers['content-encoding']).toBe('br')
})

test.each<[string | undefined, string | undefined]>([
  [undefined, undefined],
  ['', undefined],
  ['gzip', 'gzip'],
  ['br', 'br'],
  ['x-gzip', 'gzip'],
  ['GZIP', 'gzip'],
  ['gzip, br', 'br'],
  ['gzip, deflate, br, zstd', 'br'],
  ['gzip;q=1.0, br;q=0.5', 'gzip'],
  ['br;q=0', undefined],
  ['*', 'br'],
  ['*;q=0', undefined],
  ['br;q=0, *', 'gzip'],
  ['identity', undefined],
  ['identity;q=0.5, gzip;q=0.4', undefined],
  ['identity;q=0, gzip', 'gzip'],
  ['gzip ; q=0.1', 'gzip'],
  ['gzip;q=2', undefined],
  ['gzip;q=-1', undefined],
  [';;;,,,', undefined],
  ['deflate', undefined],
])('Accept-Encoding %j chooses %j', (header, expected) => {
  expect(chooseEncoding(header)).toBe(expected)
})

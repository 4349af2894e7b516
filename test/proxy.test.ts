/** Three nodes of the built package on PostgreSQL and Redis, behind a real nginx and a real HAProxy with the files of deploy/proxy. */
import { readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import { request } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { buildPackage } from '../server/build.ts'
import { setup as buildPages } from './built-dashboard.ts'
import { makeCertificate } from './certificate.ts'
import { requirePrograms } from './debian-package.ts'
import { freePort, type Postgres, startPostgres } from './postgres.ts'
import { type Listening, listening, type Program, startCommand, startNode } from './program.ts'
import { startRedis, type TestRedis } from './redis.ts'
import { until } from './wait.ts'

await requirePrograms('redis-server', 'nginx', 'haproxy')

const { certificate, key } = makeCertificate()
const setupCode = 'chosen-by-the-operator'
let folder: string
let postgres: Postgres
let redis: TestRedis
const nodes: Listening[] = []
let port: number
const secrets = '/v1/workspace/main/project/shop/secret'
let environmentId: string
/** Settings and program of the nodes, to start one again. */
let start: (port?: number) => Promise<Listening>
let session: string

type Answer = { readonly status: number; readonly body: string; readonly headers: IncomingHttpHeaders }
type Options = { readonly body?: unknown; readonly headers?: Readonly<Record<string, string>> }

function ask(method: string, path: string, { body, headers }: Options = {}): Promise<Answer> {
  const authorization = session ? { authorization: `Bearer ${session}` } : {}
  const text = body === undefined ? undefined : JSON.stringify(body)
  // By itself Node gives none to a DELETE.
  const length = text === undefined ? {} : { 'content-length': Buffer.byteLength(text) }
  const options = {
    method,
    ca: certificate,
    headers: { 'content-type': 'application/json', ...length, ...authorization, ...headers },
  }
  return new Promise((resolve, reject) => {
    const sent = request(`https://localhost:${port}${path}`, options, async (response) => {
      const chunks = await response.toArray()
      resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString(), headers: response.headers })
    })
    sent.once('error', reject).end(text)
  })
}

/** The file of the repository, with the places of this test. */
async function writeProxyConfig(file: string, ports: readonly number[]): Promise<string> {
  const text = readFileSync(join(import.meta.dirname, '../deploy/proxy', file), 'utf8')
  const own = text
    .replace(/coffer-(\d):8080/g, (_, number) => `127.0.0.1:${ports[number - 1]}`)
    .replaceAll('/tmp/', `${folder}/tmp/`)
    .replace('/dev/stdout', join(folder, 'access.log'))
    .replaceAll('/run/secrets/', `${folder}/`)
    .replace('listen 8443 ', `listen 127.0.0.1:${port} `)
    .replace('bind :8443 ', `bind 127.0.0.1:${port} `)
    .replace('log stdout format raw local0 info', '')
    .replace('127.0.0.1:8081', `127.0.0.1:${await freePort()}`)
  const path = join(folder, file)
  await writeFile(path, own)
  return path
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'coffer-proxy-'))
  await mkdir(join(folder, 'tmp'))
  await writeFile(join(folder, 'tls.crt'), certificate)
  await writeFile(join(folder, 'tls.key'), key)
  postgres = await startPostgres()
  redis = await startRedis()
  const settings = {
    COFFER_DATABASE_URL: postgres.url,
    COFFER_REDIS_URL: redis.url,
    COFFER_DATA_DIR: folder,
    COFFER_DRAIN_SECONDS: '2',
    COFFER_RATE_LIMIT: '0',
    COFFER_PUBLIC_URL: 'https://localhost:8443',
    COFFER_TRUSTED_PROXIES: '127.0.0.1/32',
    COFFER_SETUP_CODE: setupCode,
  }
  await buildPages()
  await buildPackage(join(folder, 'server'))
  await symlink(join(import.meta.dirname, '../node_modules'), join(folder, 'node_modules'))
  const program = join(folder, 'server/coffer-server.js')
  start = (nodePort = 0) => listening(startNode([program], { ...settings, COFFER_PORT: String(nodePort) }))
  for (const _ of [1, 2, 3]) nodes.push(await start())
  const body = { email: 'owner@example.com', name: 'Owner', password: 'correct horse battery staple', setupCode }
  const made = await fetch(`${nodes[0]?.url}/v1/auth/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  expect(made.status).toBe(201)
  session = Object(await made.json()).accessToken
  const [team] = await direct<{ id: string }[]>('GET', '/v1/workspace/main/team')
  await direct('POST', '/v1/workspace/main/project', { name: 'Shop', slug: 'shop', teamId: team?.id })
  const [environment] = await direct<{ id: string }[]>('GET', '/v1/workspace/main/project/shop/environment')
  environmentId = environment?.id ?? ''
})
afterAll(async () => {
  await Promise.all(nodes.map((node) => node.destroy()))
  await redis.kill()
  await postgres.stop()
  await rm(folder, { recursive: true })
})

/** Past the proxy. */
async function direct<Body>(method: string, path: string, body?: unknown): Promise<Body> {
  const headers = {
    authorization: `Bearer ${session}`,
    ...(body !== undefined && { 'content-type': 'application/json' }),
  }
  const response = await fetch(`${nodes[0]?.url}${path}`, {
    method,
    headers,
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  expect(response.ok).toBe(true)
  // Safe: the callers name what the contract promises.
  return (await response.json()) as Body
}

async function startProxy(
  file: string,
  argumentsFor: (path: string) => readonly string[],
  ports: readonly number[] = nodes.map((node) => node.port),
): Promise<Program> {
  const path = await writeProxyConfig(file, ports)
  const proxy = startCommand(file === 'nginx.conf' ? 'nginx' : 'haproxy', argumentsFor(path))
  const isUp = () => {
    if (proxy.hasEnded()) throw new Error(`the proxy ended: ${proxy.err()}`)
    return ask('GET', '/readyz').then(
      ({ status }) => status === 200 || undefined,
      () => undefined,
    )
  }
  await until(isUp, 120_000, 'the proxy answers')
  return proxy
}

/** Repeats a call until it is stopped, and counts the answers by status. */
function repeat(call: () => Promise<Answer>) {
  const answers: Answer[] = []
  let isOver = false
  const done = (async () => {
    while (!isOver) answers.push(await call())
  })()
  return {
    answers,
    more: (count: number) => {
      const goal = answers.length + count
      return until(() => answers.length >= goal || undefined, 120_000, 'more answers')
    },
    stop: async () => {
      isOver = true
      await done
    },
  }
}

const statusesOf = (answers: readonly Answer[]) => [...new Set(answers.map(({ status }) => status))]

const proxies: readonly [string, (path: string) => readonly string[]][] = [
  ['nginx.conf', (path) => ['-c', path, '-g', 'daemon off;']],
  ['haproxy.cfg', (path) => ['-db', '-f', path]],
]

/** A node that reads requests whole. It answers reads, and `onWrite` decides about the rest. */
async function startFake(onWrite: 'dies' | 'answers') {
  const written: string[] = []
  const server = createServer(async (incoming, response) => {
    const body = Buffer.concat(await incoming.toArray())
    if (incoming.method !== 'GET') written.push(`${incoming.method} ${body.length}`)
    if (incoming.method === 'GET' || onWrite === 'answers') response.end('{}')
    else incoming.socket.destroy()
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  // Safe: it listens on a port.
  const { port } = server.address() as AddressInfo
  onTestFinished(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  return { port, written }
}

const writes = ['POST', 'PUT', 'PATCH', 'DELETE'].flatMap((method) => [
  { method, bytes: 0 },
  { method, bytes: 90 },
  { method, bytes: 300_000 },
])

describe.each(proxies)('behind %s', (file, argumentsFor) => {
  const send = ({ method, bytes }: (typeof writes)[number]) =>
    ask(method, '/v1/x', bytes === 0 ? {} : { body: 'x'.repeat(bytes - 2) })

  async function open(ports: readonly number[]): Promise<void> {
    port = await freePort()
    const proxy = await startProxy(file, argumentsFor, ports)
    onTestFinished(async () => {
      proxy.kill('SIGTERM')
      await proxy.ended
    })
  }

  test('a write whose answer is lost reaches one node only', async () => {
    const fakes = await Promise.all([1, 2, 3].map(() => startFake('dies')))
    await open(fakes.map((fake) => fake.port))
    for (const write of writes) {
      // HAProxy hangs up instead of answering, where its own connection to the node was not new.
      const answer = await send(write).catch(() => undefined)
      expect({ ...write, word: answer?.headers['x-coffer-unprocessed'] }).toEqual({ ...write, word: undefined })
    }
    const arrived = fakes.flatMap(({ written }) => written)
    expect(arrived.toSorted()).toEqual(writes.map(({ method, bytes }) => `${method} ${bytes}`).toSorted())
  })

  test('a write that two nodes do not take reaches the third one whole', async () => {
    const fake = await startFake('answers')
    await open([await freePort(), await freePort(), fake.port])
    for (const write of [...writes, ...writes, ...writes]) {
      expect({ ...write, status: (await send(write)).status }).toEqual({ ...write, status: 200 })
      expect(fake.written.pop()).toBe(`${write.method} ${write.bytes}`)
    }
    expect(fake.written).toEqual([])
  })
})

describe.each(proxies)('behind %s', (file, argumentsFor) => {
  let proxy: Program
  beforeAll(async () => {
    port = await freePort()
    proxy = await startProxy(file, argumentsFor)
  })
  afterAll(async () => {
    proxy.kill('SIGTERM')
    await proxy.ended
  })

  test('the address of a client is the one that the proxy saw, whatever the client claims', async () => {
    const forged = { 'x-forwarded-for': '203.0.113.7', 'x-real-ip': '203.0.113.7' }
    const body = { name: `Seen by ${file}` }
    expect((await ask('POST', '/v1/workspace/main/team', { body, headers: forged })).status).toBe(201)
    const trail = await ask('GET', '/v1/workspace/main/audit?action=CREATE')
    expect(trail.status, trail.body).toBe(200)
    expect(trail.body).toContain('"ip":"127.0.0.1"')
    expect(trail.body).not.toContain('203.0.113.7')
  })

  test('a restart of the nodes, one after the other, fails no write and no read', async () => {
    const reads = repeat(() => ask('GET', '/v1/workspace/main/team'))
    // Sets a value, changes it, and deletes it, which needs no body: never twice, never not at all.
    const writers = Array.from({ length: 4 }, (_, writer) => {
      const key = `WRITTEN_${writer}_${file.replace('.', '_')}`
      const steps = [
        () => ask('POST', secrets, { body: { environments: [environmentId], secrets: [{ key, value: 'first' }] } }),
        () => ask('PUT', `${secrets}/${key}/value`, { body: { environmentId, value: 'second' } }),
        () => ask('DELETE', `${secrets}/${key}?environmentId=${environmentId}`),
      ]
      let step = 0
      return repeat(() => steps[step++ % 3]?.() ?? Promise.reject(new Error('no step')))
    })
    for (const [index, node] of nodes.entries()) {
      await Promise.all([reads, ...writers].map(({ more }) => more(20)))
      expect(await node.stop()).toMatchObject({ code: 0 })
      await Promise.all([reads, ...writers].map(({ more }) => more(20)))
      nodes[index] = await start(node.port)
    }
    await Promise.all([reads, ...writers].map(({ stop }) => stop()))
    expect(statusesOf(reads.answers)).toEqual([200])
    const written = writers.flatMap(({ answers }) => answers)
    expect(written.filter(({ status }) => status !== 200 && status !== 201)).toEqual([])
  })

  test('readers do not notice the crash of a node', async () => {
    const reads = repeat(() => ask('GET', '/v1/workspace/main/team'))
    await reads.more(30)
    const [node] = nodes
    await node?.destroy()
    await reads.more(30)
    await reads.stop()
    nodes[0] = await start(node?.port)
    expect(statusesOf(reads.answers)).toEqual([200])
  })

  test('without PostgreSQL clients get the JSON of Coffer, and after it everything at once', async () => {
    await postgres.pause()
    const body = { name: `Away ${file}` }
    const answers = [
      await ask('GET', '/v1/workspace/main/team'),
      await ask('POST', '/v1/workspace/main/team', { body }),
      await ask('DELETE', '/v1/workspace/main/team/0198c0de-0000-7000-8000-000000000000'),
    ]
    await postgres.start()
    for (const { status, body: text, headers } of answers) {
      expect(status, text).toBe(503)
      expect(headers['retry-after']).toMatch(/^\d+$/)
      expect(headers['x-request-id']).toBeDefined()
      expect(JSON.parse(text)).toEqual({ message: expect.stringContaining('storage') })
    }
    const back = await until(
      () => ask('POST', '/v1/workspace/main/team', { body }).then((one) => (one.status === 503 ? undefined : one)),
      120_000,
      'the service is back',
    )
    expect(back.status, back.body).toBe(201)
  })

  test('without any node clients get JSON that says when to come back', async () => {
    const ports = nodes.map((node) => node.port)
    await Promise.all(nodes.map((node) => node.destroy()))
    // A write on a connection that has just died is not repeated, and HAProxy hangs up.
    const isNoticed = async () => (await ask('GET', '/readyz').catch(() => undefined))?.status === 503 || undefined
    await until(isNoticed, 30_000, 'the proxy knows that the nodes are gone')
    const asked = [
      ask('GET', '/readyz'),
      ask('POST', '/v1/workspace/main/team', { body: { name: 'No' } }),
      ask('DELETE', '/v1/me/session'),
    ]
    for (const { status, body: text, headers } of await Promise.all(asked)) {
      expect(status, text).toBe(503)
      expect(headers['retry-after']).toBe('2')
      expect(JSON.parse(text)).toEqual({ message: expect.stringContaining('try again') })
    }
    nodes.splice(0, nodes.length, ...(await Promise.all(ports.map(start))))
  })
})

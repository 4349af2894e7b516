/** Three nodes of the built package on PostgreSQL and Redis, behind a real nginx with the configuration of deploy/proxy. */
import { readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { buildPackage } from '../server/build.ts'
import { setup as buildPages } from './built-dashboard.ts'
import { makeCertificate } from './certificate.ts'
import { requirePrograms } from './debian-package.ts'
import { freePort, type Postgres, startPostgres } from './postgres.ts'
import { type Listening, listening, type Program, startCommand, startNode } from './program.ts'
import { startRedis, type TestRedis } from './redis.ts'
import { until } from './wait.ts'

await requirePrograms('redis-server', 'nginx')

const { certificate, key } = makeCertificate()
const setupCode = 'chosen-by-the-operator'
let folder: string
let postgres: Postgres
let redis: TestRedis
const nodes: Listening[] = []
let proxy: Program | undefined
let port: number
let session: string

type Answer = { readonly status: number; readonly body: string }
type Options = { readonly body?: unknown; readonly headers?: Readonly<Record<string, string>> }

function ask(method: string, path: string, { body, headers }: Options = {}): Promise<Answer> {
  const authorization = session ? { authorization: `Bearer ${session}` } : {}
  const options = {
    method,
    ca: certificate,
    headers: { 'content-type': 'application/json', ...authorization, ...headers },
  }
  return new Promise((resolve, reject) => {
    const sent = request(`https://localhost:${port}${path}`, options, async (response) => {
      const chunks = await response.toArray()
      resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString() })
    })
    sent.once('error', reject).end(body === undefined ? undefined : JSON.stringify(body))
  })
}

/** The file of the repository, with the places of this test. */
async function writeProxyConfig(ports: readonly number[]): Promise<string> {
  const text = readFileSync(join(import.meta.dirname, '../deploy/proxy/nginx.conf'), 'utf8')
  const own = text
    .replace(/coffer-(\d):8080/g, (_, number) => `127.0.0.1:${ports[number - 1]}`)
    .replaceAll('/tmp/', `${folder}/tmp/`)
    .replace('/dev/stdout', join(folder, 'access.log'))
    .replaceAll('/run/secrets/', `${folder}/`)
    .replace('listen 8443 ', `listen 127.0.0.1:${port} `)
    .replace('127.0.0.1:8081', `127.0.0.1:${await freePort()}`)
  const path = join(folder, 'nginx.conf')
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
  port = await freePort()
  const settings = {
    COFFER_DATABASE_URL: postgres.url,
    COFFER_REDIS_URL: redis.url,
    COFFER_DATA_DIR: folder,
    COFFER_PORT: '0',
    COFFER_RATE_LIMIT: '0',
    COFFER_PUBLIC_URL: `https://localhost:${port}`,
    COFFER_TRUSTED_PROXIES: '127.0.0.1/32',
    COFFER_SETUP_CODE: setupCode,
  }
  await buildPages()
  await buildPackage(join(folder, 'server'))
  await symlink(join(import.meta.dirname, '../node_modules'), join(folder, 'node_modules'))
  const start = join(folder, 'server/coffer-server.js')
  for (const _ of [1, 2, 3]) nodes.push(await listening(startNode([start], settings)))
  const path = await writeProxyConfig(nodes.map((node) => node.port))
  const started = startCommand('nginx', ['-c', path, '-g', 'daemon off;'])
  proxy = started
  const isUp = () => {
    if (started.hasEnded()) throw new Error(`nginx ended: ${started.err()}`)
    return ask('GET', '/readyz').then(
      ({ status }) => status === 200 || undefined,
      () => undefined,
    )
  }
  await until(isUp, 120_000, 'the proxy answers')
  const body = { email: 'owner@example.com', name: 'Owner', password: 'correct horse battery staple', setupCode }
  const made = await ask('POST', '/v1/auth/register', { body })
  expect(made.status, made.body).toBe(201)
  session = JSON.parse(made.body).accessToken
})
afterAll(async () => {
  proxy?.kill('SIGTERM')
  await proxy?.ended
  await Promise.all(nodes.map((node) => node.destroy()))
  await redis.kill()
  await postgres.stop()
  await rm(folder, { recursive: true })
})

test('the address of a client is the one that the proxy saw, whatever the client claims', async () => {
  const forged = { 'x-forwarded-for': '203.0.113.7', 'x-real-ip': '203.0.113.7' }
  expect((await ask('POST', '/v1/workspace/main/team', { body: { name: 'Seen' }, headers: forged })).status).toBe(201)
  const trail = await ask('GET', '/v1/workspace/main/audit?action=CREATE')
  expect(trail.status, trail.body).toBe(200)
  expect(trail.body).toContain('"ip":"127.0.0.1"')
  expect(trail.body).not.toContain('203.0.113.7')
})

test('readers notice neither the stop of one nor the crash of another', async () => {
  const read = () => ask('GET', '/v1/workspace/main/team')
  const statuses: number[] = []
  let isReading = true
  const reading = (async () => {
    while (isReading) statuses.push((await read()).status)
  })()
  const readMore = async (count: number) => {
    const goal = statuses.length + count
    await until(() => statuses.length >= goal || undefined, 120_000, 'more reads')
  }
  await readMore(30)
  expect(await nodes[0]?.stop()).toMatchObject({ code: 0 })
  await readMore(30)
  await nodes[1]?.destroy()
  await readMore(30)
  isReading = false
  await reading
  expect(new Set(statuses)).toEqual(new Set([200]))
})

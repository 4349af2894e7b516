/** `npm run bench:beside`: how long /healthz takes beside 16 large requests of one person at once, on SQLite. */
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { printRow } from './cost-table.ts'
import { readNumber, readOrEnd } from './options.ts'
import { startService } from './process.ts'
import { makeFolder } from './scratch.ts'
import { apiOf, bearer, makeMany, seed } from './seed.ts'

const atOnce = 16
const probeMs = 5

const help = `npm run bench:beside -- [options]

Measures the milliseconds of /healthz beside 16 large requests of each kind at once, on SQLite.

  --only NAME     only kinds whose name contains NAME, such as "export"
  --secrets N     secrets of the large project (2400: from 2500 on, such requests wait for each other)
  --help          print this text
`
const { only, secrets } = readOrEnd(help, (args) => {
  const { values } = parseArgs({
    args,
    options: {
      only: { type: 'string', default: '' },
      secrets: { type: 'string', default: '2400' },
      help: { type: 'boolean', default: false },
    },
  })
  return { ...values, secrets: readNumber('--secrets', values.secrets, 1) }
})

type Asked = { readonly path: string; readonly body?: unknown; readonly credential?: string | undefined }

const service = await startService(makeFolder())
try {
  const { session } = await seed(service)
  const tokens = await seedLarge()
  const agent = new Agent({ keepAlive: true, maxSockets: 2 * atOnce })

  function ask({ path, body, credential = session }: Asked): Promise<number> {
    const { promise, resolve, reject } = Promise.withResolvers<number>()
    const headers = {
      ...bearer(credential),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    }
    const sent = request(`${service.url}${path}`, { agent, method: body === undefined ? 'GET' : 'POST', headers })
    sent.once('error', reject).once('response', (response) => {
      response.once('end', () => resolve(response.statusCode ?? 0)).once('error', reject)
      response.resume()
    })
    sent.end(body === undefined ? undefined : JSON.stringify(body))
    return promise
  }

  async function measure(name: string, asked: (index: number) => Asked): Promise<void> {
    const startedAt = performance.now()
    const large = { areOver: false, ms: 0, statuses: new Set<number>() }
    const all = tokens.map(async (_, index) => large.statuses.add(await ask(asked(index))))
    const ended = Promise.all(all).then(() => {
      large.areOver = true
      large.ms = performance.now() - startedAt
    })
    const taken: number[] = []
    while (!large.areOver) {
      const from = performance.now()
      await ask({ path: '/healthz' })
      taken.push(performance.now() - from)
      await sleep(probeMs)
    }
    await ended
    taken.sort((a, b) => a - b)
    const at = (share: number) => (taken[Math.min(taken.length - 1, Math.floor(share * taken.length))] ?? 0).toFixed(1)
    printRow(name, at(0.5), at(0.99), at(1), large.ms.toFixed(0), [...large.statuses].join())
  }

  printRow('ms of /healthz beside 16 at once', 'p50', 'p99', 'max', 'all 16', 'status')
  const project = '/v1/workspace/main/project/large'
  const list = `${project}/secret`
  const here = 'environmentId=development'
  const development = `${project}/environment/${await idOf('development')}`
  const production = `${project}/environment/${await idOf('production')}`
  const changed = {
    environments: ['development'],
    mode: 'upsert',
    dryRun: true,
    secrets: manyValues(secrets, 'changed'),
  }
  const file = manyValues(secrets, 'changed')
    .map(({ key, value }) => `${key}=${value}`)
    .join('\n')
  const kinds: Record<string, (index: number) => Asked> = {
    'list of values': (index) => ({ path: `${list}?${here}`, credential: tokens[index] }),
    'list of all environments': (index) => ({ path: list, credential: tokens[index] }),
    'list, resolved': (index) => ({ path: `${list}?${here}&resolve=true`, credential: tokens[index] }),
    'list of names': (index) => ({ path: `${list}?view=keys`, credential: tokens[index] }),
    'list of cells': (index) => ({ path: `${list}?view=cells`, credential: tokens[index] }),
    'list by search': (index) => ({ path: `${list}?q=${'KEY_'.slice(index % 4)}`, credential: tokens[index] }),
    'export, resolved': () => ({ path: `${list}/export?${here}&resolve=true` }),
    'export as YAML': () => ({ path: `${list}/export?${here}&resolve=true&format=yaml` }),
    'search of the workspace': () => ({ path: '/v1/workspace/main/secret?q=absent' }),
    'search, found': () => ({ path: '/v1/workspace/main/secret?q=key&limit=100' }),
    versions: () => ({ path: `${list}/KEY_0/version?${here}&limit=100` }),
    revisions: () => ({ path: `${development}/revision?limit=100` }),
    'difference of environments': () => ({ path: `${list}/diff?from=development&to=production&values=true` }),
    'difference of revisions': () => ({ path: `${list}/diff?from=development@1&to=development&values=true` }),
    trash: () => ({ path: `${list}/trash` }),
    projects: () => ({ path: '/v1/workspace/main/project' }),
    'audit trail': () => ({ path: '/v1/workspace/main/audit?limit=100' }),
    'audit trail, searched': () => ({ path: '/v1/workspace/main/audit?limit=100&q=absent' }),
    'audit trail, streamed': () => ({ path: '/v1/workspace/main/audit?format=ndjson' }),
    'chain of the trail': () => ({ path: '/v1/workspace/main/audit/verify' }),
    'who has access': () => ({ path: '/v1/workspace/main/access?limit=100' }),
    explain: () => ({ path: '/v1/workspace/main/explain?actor=bench%40example.com&action=secret:read' }),
    'write, dry run': () => ({ path: list, body: changed }),
    'import, dry run': () => ({
      path: `${list}/import`,
      body: { environmentId: 'development', format: 'dotenv', content: file, mode: 'upsert', dryRun: true },
    }),
    'promotion, dry run': () => ({
      path: `${production}/promote`,
      body: { from: 'development', dryRun: true },
    }),
    'restore, dry run': () => ({ path: `${development}/revision/1/restore`, body: { dryRun: true } }),
  }
  for (const [name, asked] of Object.entries(kinds)) {
    if (name.includes(only)) await measure(name, asked)
  }
  agent.destroy()

  async function idOf(wanted: string): Promise<string> {
    const { environments } = await apiOf(service, session).project.read({ ws: 'main', prj: 'large' })
    return environments.find(({ name }) => name === wanted)?.id ?? ''
  }

  /** One credential for each request, so that none is answered from the cache of another. */
  async function seedLarge(): Promise<string[]> {
    const api = apiOf(service, session)
    const [team] = await api.team.list({ ws: 'main' })
    await api.project.create({ ws: 'main' }, { name: 'large', slug: 'large', teamId: team?.id ?? '' })
    const write = (environments: string[], text: string) =>
      api.secret.create(
        { ws: 'main', prj: 'large' },
        { environments, mode: 'upsert', secrets: manyValues(secrets, text) },
      )
    for (const environment of ['development', 'staging', 'production']) await write([environment], environment)
    for (let round = 0; round < 8; round++) await write(['development'], `round ${round}`)
    return makeMany(atOnce, async (index) => {
      const wanted = { name: `reader ${index}`, permission: 'read', scope: { all: true }, expiresIn: '24h' } as const
      return (await api.token.create({ ws: 'main' }, wanted)).token
    })
  }
} finally {
  await service.stop()
}

/** Every other value refers to the one before. */
function manyValues(count: number, text: string) {
  return Array.from({ length: count }, (_, index) => ({
    key: `KEY_${index}`,
    value: index % 2 === 1 ? `https://\${KEY_${index - 1}}/${text}` : `${text} ${index} ${'x'.repeat(48)}`,
  }))
}

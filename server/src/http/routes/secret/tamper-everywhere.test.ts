/** No value written through any route appears as plaintext in the database, its files, the log or another response. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { exportFormats } from '@coffer/contract/secret-file'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  type Answer,
  addUser,
  createProject,
  createToken,
  engine,
  registerOwner,
  startService,
  type TestProject,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { type Cell, openRaw, type RawDatabase, type RawRow } from '../../../../../test/raw-database.ts'
import { databaseFile } from '../../../open-store.ts'

let service: TestService
let raw: RawDatabase
let owner: TestUser
let mallory: TestUser
let stranger: TestUser
let open: TestProject
let closed: TestProject
let strange: TestProject
const environment = (project: TestProject, index: number) => project.environments[index]?.id ?? ''
/** Every value that was ever written. */
const written = new Set<string>()

async function send(user: TestUser, method: string, path: string, body?: unknown): Promise<Answer> {
  const answer = await service.call(method, `/v1/workspace/${path}`, { token: user.session, body })
  expect(answer.status, `${method} ${path} ${answer.text}`).toBeLessThan(300)
  return answer
}

/** All values have the same length: a swap must not be detected by its size. */
function newValue(): string {
  const value = `value-${String(written.size + 1).padStart(4, '0')}-only`
  written.add(value)
  return value
}

const homeOf = (project: TestProject) => (project === strange ? 'strange' : 'main')

async function create(user: TestUser, project: TestProject, index: number, ...keys: string[]): Promise<void> {
  const secrets = keys.map((key) => ({ key, value: newValue() }))
  const body = { environments: [environment(project, index)], secrets }
  await send(user, 'POST', `${homeOf(project)}/project/${project.id}/secret`, body)
}

async function put(user: TestUser, project: TestProject, index: number, key: string, more = {}): Promise<void> {
  const body = { environmentId: environment(project, index), value: newValue(), ...more }
  await send(user, 'PUT', `${homeOf(project)}/project/${project.id}/secret/${key}/value`, body)
}

beforeAll(async () => {
  service = await startService()
  raw = await openRaw(service)
  owner = await registerOwner(service)
  const { id: workspaceId } = await one("select id from workspace where slug = 'main'")
  mallory = await addUser(service, 'mallory@example.com', { workspaceId: String(workspaceId), role: 'developer' })
  stranger = await addUser(service, 'stranger@example.com')
  const body = { name: 'Strange', slug: 'strange' }
  await service.call('POST', '/v1/workspace', { token: stranger.session, body })
  open = await createProject(service, owner.session, 'open')
  closed = await createProject(service, owner.session, 'closed')
  strange = await createProject(service, stranger.session, 'open', { workspace: 'strange' })
  await send(owner, 'PUT', `main/project/open/environment/${environment(open, 0)}`, { hasPersonalOverrides: true })
  await create(owner, open, 0, 'ONE', 'TWO')
  await create(owner, open, 1, 'ONE', 'TWO')
  await create(owner, closed, 0, 'ONE')
  await create(stranger, strange, 0, 'ONE')
  await put(owner, open, 0, 'ONE')
  await put(stranger, strange, 0, 'ONE')
  for (const user of [owner, mallory]) await put(user, open, 0, 'ONE', { isPersonal: true })
  await send(owner, 'POST', 'main/project/open/secret', {
    environments: [environment(open, 0)],
    secrets: [{ key: 'REFERENCE', value: `\${${open.environments[1]?.name}.ONE}` }],
  })
})
afterAll(async () => {
  await raw.close()
  await service.stop()
})

/** These tests are about the database, not about the caches. */
function invalidateAll(): void {
  service.app.services.snapshots.clear()
  service.app.services.credentials.clear()
}

async function one(text: string, values: readonly Cell[] = []): Promise<RawRow> {
  const [row, ...rest] = await raw.query(text, values)
  if (!row || rest.length > 0) throw new Error(`${text} gives ${rest.length + (row ? 1 : 0)} rows`)
  return row
}

describe('values written through every route:', () => {
  const canaries = new Map<string, string>()
  /** Responses that must not hold a value: to writes, refusals, and lists of versions and revisions. */
  const responses: { readonly what: string; readonly text: string }[] = []
  let made = 0
  const canary = (way: string) => {
    const value = `cnry${++made}Zq${way.replaceAll(/\W/g, '')}7xKw${made}pLm`
    canaries.set(way, value)
    return value
  }
  const at = '/v1/workspace/main/project/canary'
  let first = ''
  let second = ''

  async function request(status: number, method: string, path: string, body?: unknown, token = owner.session) {
    const answer = await service.call(method, at + path, { token, body })
    expect(answer.status, `${method} ${path} ${answer.text}`).toBe(status)
    responses.push({ what: `${method} ${path}`, text: `${[...answer.headers].join()}${answer.text}` })
    return answer
  }

  beforeAll(async () => {
    invalidateAll()
    const project = await createProject(service, owner.session, 'canary')
    first = environment(project, 0)
    second = environment(project, 1)
    await request(200, 'PUT', `/environment/${first}`, { hasPersonalOverrides: true })
    const secret = (key: string, value: string) => ({ key, value, note: 'a note' })
    const create = (way: string, more = {}) => ({
      environments: [first],
      secrets: [secret('CREATED', canary(way))],
      ...more,
    })
    await request(201, 'POST', '/secret', create('create'))
    await request(409, 'POST', '/secret', create('conflict'))
    await request(200, 'POST', '/secret', create('dry run', { dryRun: true, mode: 'upsert' }))
    await request(201, 'POST', '/secret', create('skip', { mode: 'skip' }))
    await request(201, 'POST', '/secret', create('upsert', { mode: 'upsert' }))
    await request(400, 'POST', '/secret', create('unknown field', { colour: 'red' }))
    await request(404, 'POST', '/secret', create('unknown environment', { environments: ['nowhere'] }))
    await request(400, 'POST', '/secret', `{"environments": ["${first}"], "secrets": [{"value": "${canary('broken')}"`)
    const tooLong = canary('too long') + 'x'.repeat(65 * 1024)
    await request(400, 'POST', '/secret', { environments: [first], secrets: [secret('LONG', tooLong)] })
    const wide = canary('too wide') + '\u20ac'.repeat(30 * 1024)
    await request(400, 'POST', '/secret', { environments: [first], secrets: [secret('WIDE', wide)] })
    const row = (way: string, more = {}) => ({ environmentId: first, value: canary(way), ...more })
    await request(200, 'PUT', '/secret/CREATED', { name: 'CREATED', values: [row('update')], message: 'why' })
    await request(200, 'PUT', '/secret/CREATED/value', row('value'))
    await request(200, 'PUT', '/secret/CREATED/value', row('personal', { isPersonal: true }))
    await request(200, 'PUT', '/secret/CREATED', {
      name: 'CREATED',
      values: [row('update of a personal one', { isPersonal: true })],
    })
    await request(412, 'PUT', '/secret/CREATED/value', row('stale', { ifVersion: 1 }))
    await request(404, 'PUT', '/secret/ABSENT/value', row('absent'))
    const { token } = await createToken(service, owner.session, { permission: 'read' })
    await request(403, 'PUT', '/secret/CREATED/value', row('read-only'), token)
    await request(401, 'PUT', '/secret/CREATED/value', row('nobody'), 'nobody')
    const set = (way: string, key = 'BATCH') => ({ op: 'set', key, value: canary(way) })
    const batch = (operations: object[], more = {}) => ({ environmentId: first, operations, ...more })
    await request(200, 'POST', '/secret/batch', batch([set('batch'), set('batch, another', 'OTHER')]))
    await request(200, 'POST', '/secret/batch', batch([set('batch, dry')], { dryRun: true }))
    await request(404, 'POST', '/secret/batch', batch([set('batch, undone'), { op: 'delete', key: 'ABSENT' }]))
    const file = (format: string, content: string, more = {}) => ({ environmentId: first, format, content, ...more })
    await request(200, 'POST', '/secret/import', file('dotenv', `DOTENV="${canary('dotenv')}"`))
    await request(200, 'POST', '/secret/import', file('json', JSON.stringify({ JSON: canary('json') })))
    await request(200, 'POST', '/secret/import', file('yaml', `YAML: "${canary('yaml')}"`))
    await request(200, 'POST', '/secret/import', file('csv', `key,value\nCSV,${canary('csv')}\n`))
    await request(200, 'POST', '/secret/import', file('dotenv', `DRY=${canary('import, dry')}`, { dryRun: true }))
    await request(400, 'POST', '/secret/import', file('dotenv', `GOOD=1\n${canary('dotenv without a key')}\n`))
    await request(400, 'POST', '/secret/import', file('dotenv', `OPEN="${canary('dotenv left open')}`))
    await request(400, 'POST', '/secret/import', file('json', `{"KEY": "${canary('json left open')}`))
    await request(400, 'POST', '/secret/import', file('json', `{"KEY": ["${canary('json list')}"]}`))
    await request(400, 'POST', '/secret/import', file('yaml', `KEY: ["${canary('yaml left open')}`))
    await request(400, 'POST', '/secret/import', file('csv', `key,value\nKEY,"${canary('csv left open')}`))
    await request(400, 'POST', '/secret/import', file('csv', `key,value\nBAD KEY,${canary('csv with a bad key')}\n`))
    await request(201, 'POST', '/secret', {
      environments: [first],
      secrets: [secret('REFERRING', `${canary('around a reference')} \${CREATED} \${ABSENT}`)],
    })
    await request(409, 'POST', '/secret', {
      environments: [first],
      secrets: [secret('CIRCLE', `${canary('around a circle')} \${CIRCLE}`)],
    })
    await request(200, 'POST', `/environment/${second}/promote`, { from: first })
    await request(200, 'POST', `/environment/${second}/promote`, { from: first, dryRun: true })
    await request(200, 'PUT', '/secret/OTHER', { name: 'RENAMED', values: [row('rename')] })
    await request(200, 'POST', '/secret/CREATED/version/1/restore', { environmentId: first })
    await request(200, 'POST', `/environment/${first}/revision/2/restore`, {})
    await request(201, 'POST', '/secret', { environments: [first], secrets: [secret('TRASHED', canary('trash'))] })
    await request(200, 'DELETE', '/secret/TRASHED')
    await request(200, 'GET', '/secret/trash')
    await request(200, 'POST', '/secret/TRASHED/restore')
    await request(201, 'POST', '/secret', { environments: [first], secrets: [secret('PURGED', canary('purge'))] })
    await request(200, 'DELETE', '/secret/PURGED?purge=true')
    await readEverything()
    await request(409, 'GET', `/secret?environmentId=${second}&resolve=true&onUnresolved=error`)
    await request(200, 'GET', `/secret?view=keys`)
    await request(200, 'GET', `/secret/diff?from=${first}@1&to=${first}`)
    for (const id of [first, second]) await request(200, 'GET', `/environment/${id}/revision?limit=100`)
    await request(200, 'GET', `/secret/CREATED/version?environmentId=${first}`)
  })

  /** A read could leave plaintext behind, too. */
  async function readEverything(): Promise<void> {
    const paths = [
      '/secret',
      '/secret?resolve=true',
      '/secret/CREATED',
      `/secret/CREATED/version/1?environmentId=${first}`,
      `/secret/diff?from=${second}&to=${first}@1&values=true`,
      ...exportFormats
        .filter((format) => format !== 'json')
        .map((format) => `/secret/export?environmentId=${first}&resolve=true&format=${format}`),
    ]
    for (const path of paths) {
      for (const _again of [1, 2]) {
        const { status, text } = await service.call('GET', at + path, { token: owner.session })
        expect(status, `${path} ${text}`).toBe(200)
      }
    }
  }

  function spellings(value: string): string[] {
    const bytes = Buffer.from(value)
    const inBase64 = [0, 1, 2].flatMap((offset) => {
      const padded = Buffer.concat([Buffer.alloc(offset), bytes])
      // Skips the characters that share bits with a neighbouring byte.
      const text = padded.subarray(0, padded.length - (padded.length % 3)).toString('base64')
      const own = text.slice(offset === 0 ? 0 : 4)
      return [own, own.replaceAll('+', '-').replaceAll('/', '_')]
    })
    const hex = bytes.toString('hex')
    const wide = Buffer.from(value, 'utf16le').toString('latin1')
    return [value, hex, hex.toUpperCase(), [...value].reverse().join(''), wide, ...inBase64]
  }

  const find = (haystack: Buffer) =>
    [...canaries].filter(([, value]) => spellings(value).some((text) => haystack.includes(text, 0, 'latin1')))

  async function dump(only: (table: string) => boolean = () => true): Promise<Buffer> {
    const pieces: (string | Buffer)[] = []
    for (const table of (await raw.tables()).filter(only)) {
      for (const row of await raw.query(`select * from ${table}`)) {
        for (const cell of Object.values(row)) pieces.push(cell instanceof Uint8Array ? Buffer.from(cell) : `${cell}\n`)
      }
    }
    return Buffer.concat(pieces.map((piece) => Buffer.from(piece)))
  }

  test('there are many of them, and the accepted ones are stored', async () => {
    expect(canaries.size).toBeGreaterThan(35)
    const { text } = await service.call('GET', `${at}/secret`, { token: owner.session })
    for (const way of ['upsert', 'update of a personal one', 'trash']) expect(text).toContain(canaries.get(way))
    const { text: promoted } = await service.call('GET', `${at}/secret?environmentId=${second}`, {
      token: owner.session,
    })
    for (const way of ['batch', 'dotenv', 'json', 'yaml', 'csv', 'value', 'around a reference']) {
      expect(promoted).toContain(canaries.get(way))
    }
  })

  test('no table holds one, in any encoding', async () => {
    const content = await dump()
    expect(content.length).toBeGreaterThan(10_000)
    expect(find(content)).toEqual([])
  })

  test('no file in the data folder holds one: the database and its WAL, or only the master key on PostgreSQL', async () => {
    const files = readdirSync(service.dataDir)
    if (engine === 'sqlite') expect(files).toEqual(expect.arrayContaining([databaseFile, `${databaseFile}-wal`]))
    else expect(files).toEqual(['master.key'])
    for (const file of files) expect(find(readFileSync(join(service.dataDir, file))), file).toEqual([])
  })

  test('the log holds none, at debug level', () => {
    expect(service.logs.length).toBeGreaterThan(80)
    expect(find(Buffer.from(service.logs.join('')))).toEqual([])
  })

  test('no response to a write, no refusal and no list of versions or revisions holds one', () => {
    expect(responses.length).toBeGreaterThan(50)
    const leaks = responses.flatMap(({ what, text }) => find(Buffer.from(text)).map(([way]) => `${what}: ${way}`))
    expect(leaks).toEqual([])
  })

  test('the audit trail records every read and write without a value', async () => {
    const token = owner.session
    const path = '/v1/workspace/main/audit?format=ndjson&project=canary'
    const { text } = await service.call('GET', path, { token })
    for (const word of ['CREATED', 'RENAMED', 'TRASHED', 'VIEW', 'export', 'personal']) expect(text).toContain(word)
    expect(find(Buffer.from(text))).toEqual([])
    expect(find(await dump((table) => table.startsWith('audit')))).toEqual([])
  })

  test('the audit trail filtered by the id of a secret shows its reads', async () => {
    const { body } = await service.call<{ id: string }>('GET', `${at}/secret/CREATED`, { token: owner.session })
    const path = `/v1/workspace/main/audit?entity=${body.id}&action=VIEW`
    const { body: entries } = await service.call('GET', path, { token: owner.session })
    expect(entries).toContainEqual(
      expect.objectContaining({
        entity: { type: 'secret', id: body.id, name: 'CREATED' },
        after: { keys: ['CREATED'], environments: expect.any(Array), environmentIds: expect.any(Array) },
      }),
    )
  })

  test('the search of these tests finds a planted value in every encoding', async () => {
    const value = canary('planted')
    await request(200, 'PUT', '/secret/CREATED', { name: 'CREATED', values: [], note: `not secret: ${value}` })
    expect(find(await dump())).toEqual([['planted', value]])
    for (const text of spellings(value)) expect(find(Buffer.from(`before ${text} after`, 'latin1'))).toHaveLength(1)
    for (const padding of ['', 'x', 'xx']) {
      const encoded = Buffer.from(`${padding}${value}yz`).toString('base64')
      expect(find(Buffer.from(encoded))).toHaveLength(1)
    }
  })
})

/**
 * Values in a tampered database: every changed row is an error, never wrong data and never the value of another person,
 * project or workspace.
 */
import { exportFormats } from '@coffer/contract/secret-file'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  type Answer,
  addUser,
  createProject,
  createToken,
  exchange,
  openService,
  registerOwner,
  startService,
  type TestProject,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { type Cell, openRaw, type RawDatabase, type RawRow } from '../../../../../test/raw-database.ts'

let service: TestService
let raw: RawDatabase
let owner: TestUser
let mallory: TestUser
let stranger: TestUser
let open: TestProject
let closed: TestProject
let strange: TestProject
let scopedToken: string
const environment = (project: TestProject, index: number) => project.environments[index]?.id ?? ''
/** Every value that was ever written. */
const written = new Set<string>()

const integrity = 'Stored data failed its integrity check. Ask the operator to run the doctor command.'

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
  const scope = { all: false, teams: [], projects: [], environments: [environment(open, 1)] }
  scopedToken = (await createToken(service, owner.session, { scope })).token
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

const bytesOf = (cell: Cell | undefined): Buffer => {
  if (!(cell instanceof Uint8Array)) throw new Error('not bytes')
  return Buffer.from(cell)
}

function flip(cell: Cell | undefined, at: number, mask: number): Buffer {
  const bytes = bytesOf(cell)
  bytes.writeUInt8(bytes.readUInt8(at) ^ mask, at)
  return bytes
}

const keys = {
  secret_value: ['environment_id', 'secret_id', 'owner_id'],
  secret_version: ['environment_id', 'secret_id', 'version'],
  environment_key: ['environment_id', 'version'],
  workspace_key: ['workspace_id', 'version'],
} as const
type Table = keyof typeof keys

/** Updates the row that has the same primary key. */
function change(table: Table, row: RawRow, columns: RawRow): Promise<RawRow[]> {
  const assignments = Object.keys(columns).map((column) => `${column} = ?`)
  const conditions = keys[table].map((column) => `${column} = ?`).join(' and ')
  return raw.query(`update ${table} set ${assignments} where ${conditions}`, [
    ...Object.values(columns),
    ...keys[table].map((column) => row[column] ?? null),
  ])
}

const sealedRows = (table: 'secret_value' | 'secret_version') =>
  raw.query(
    `select v.*, s.name as key, s.project_id from ${table} v join secret s on s.id = v.secret_id
     where v.sealed is not null order by ${keys[table].map((column) => `v.${column}`)}`,
  )

/** Reads the row over HTTP as a user who may: a current value, or one version of it. */
function read(row: RawRow): Promise<Answer> {
  const user = [mallory, stranger].find(({ id }) => id === row.owner_id) ?? owner
  const [reader, home] = row.project_id === strange.id ? [stranger, 'strange'] : [user, 'main']
  const version = row.revision === undefined ? '' : `/version/${row.version}`
  const secret = `/v1/workspace/${home}/project/${row.project_id}/secret/${row.key ?? row.name}`
  return service.call('GET', `${secret}${version}?environmentId=${row.environment_id}`, { token: reader.session })
}

const valuesIn = ({ text, headers }: Answer) =>
  [...written].filter((value) => `${text}${[...headers].join()}`.includes(value))

function expectIntegrity(answer: Answer, what: string): void {
  expect(answer.status, `${what}: ${answer.text}`).toBe(500)
  expect(answer.body, what).toEqual({ message: integrity })
  expect(valuesIn(answer), what).toEqual([])
}

type Probe = readonly [method: 'GET' | 'POST' | 'PUT' | 'DELETE', path: string, body?: unknown]

/** Every request that decrypts the shared value of ONE in the first environment. */
const openers = (): Probe[] => {
  const at = '/v1/workspace/main/project/open'
  const [first, second] = [environment(open, 0), environment(open, 1)]
  return [
    ['GET', `${at}/secret`],
    ['GET', `${at}/secret?resolve=true`],
    ['GET', `${at}/secret?view=keys`],
    ['GET', `${at}/secret?environmentId=${first}&q=one`],
    ['GET', `${at}/secret/ONE`],
    ...exportFormats
      .filter((format) => format !== 'json')
      .map((format): Probe => ['GET', `${at}/secret/export?environmentId=${first}&format=${format}`]),
    ['GET', `${at}/secret/diff?from=${first}&to=${second}`],
    ['GET', `${at}/secret/diff?from=${second}&to=${first}&values=true`],
    ['PUT', `${at}/secret/ONE/value`, { environmentId: first, value: 'another' }],
    ['PUT', `${at}/secret/ONE`, { name: 'ONE', values: [{ environmentId: first, value: 'another' }] }],
    ['POST', `${at}/secret/batch`, { environmentId: first, operations: [{ op: 'set', key: 'ONE', value: 'another' }] }],
    [
      'POST',
      `${at}/secret`,
      { environments: [first], secrets: [{ key: 'ONE', value: 'another' }], mode: 'upsert', dryRun: true },
    ],
    ['POST', `${at}/environment/${second}/promote`, { from: first }],
    ['POST', `${at}/environment/${first}/promote`, { from: second, dryRun: true }],
  ]
}

/** Every request that decrypts the first version of ONE in the first environment. */
const pastOpeners = (): Probe[] => {
  const at = '/v1/workspace/main/project/open'
  const [first, second] = [environment(open, 0), environment(open, 1)]
  return [
    ['GET', `${at}/secret/ONE/version/1?environmentId=${first}`],
    ['POST', `${at}/secret/ONE/version/1/restore`, { environmentId: first }],
    ['POST', `${at}/environment/${first}/revision/1/restore`, {}],
    ['POST', `${at}/environment/${first}/revision/1/restore`, { dryRun: true }],
    ['GET', `${at}/secret/diff?from=${first}@1&to=${second}`],
    ['GET', `${at}/secret/diff?from=${first}&to=${first}@1&values=true`],
  ]
}

async function expectAllRefused(probes: readonly Probe[], what: string): Promise<void> {
  for (const [method, path, body] of probes) {
    invalidateAll()
    const answer = await service.call(method, path, { token: owner.session, body })
    expectIntegrity(answer, `${what}: ${method} ${path}`)
  }
}

const tables = ['secret_value', 'secret_version', 'secret', 'environment', 'project']

/** Does the work on tampered tables, then restores them. */
async function tampering(more: readonly string[], work: () => Promise<void>): Promise<void> {
  await raw.restoring([...tables, ...more], work)
  invalidateAll()
}

const target = async (table: 'secret_value' | 'secret_version', version: number): Promise<RawRow> => {
  const rows = await sealedRows(table)
  const found = rows.find(
    (row) =>
      row.key === 'ONE' &&
      row.environment_id === environment(open, 0) &&
      (row.owner_id ?? '') === '' &&
      row.version === version,
  )
  if (!found) throw new Error('there is no such row')
  return found
}

test('untampered values are read as they were written', async () => {
  const rows = [...(await sealedRows('secret_value')), ...(await sealedRows('secret_version'))]
  expect(rows.length).toBeGreaterThan(15)
  const seen = new Set<string>()
  for (const row of rows) {
    const answer = await read(row)
    expect(answer.status, answer.text).toBe(200)
    for (const value of valuesIn(answer)) seen.add(value)
  }
  expect([...seen].sort()).toEqual([...written].sort())
})

describe('a tampered value is an error:', () => {
  test('a flipped bit in any byte of a current value', async () => {
    const row = await target('secret_value', 2)
    await tampering([], async () => {
      for (let at = 0; at < bytesOf(row.sealed).length; at++) {
        for (const mask of [0x01, 0x80]) {
          await change('secret_value', row, { sealed: flip(row.sealed, at, mask) })
          invalidateAll()
          expectIntegrity(await read(row), `byte ${at}`)
        }
      }
    })
    expect((await read(row)).status).toBe(200)
  })

  test('a flipped bit in any byte of a version', async () => {
    const row = await target('secret_version', 1)
    await tampering([], async () => {
      for (let at = 0; at < bytesOf(row.sealed).length; at++) {
        for (const mask of [0x01, 0x80]) {
          await change('secret_version', row, { sealed: flip(row.sealed, at, mask) })
          expectIntegrity(await read(row), `byte ${at}`)
        }
      }
    })
    expect((await read(row)).status).toBe(200)
  })

  test('a flipped bit in any byte of a personal value, and only for its owner', async () => {
    const row = (await sealedRows('secret_value')).find(({ owner_id }) => owner_id === mallory.id)
    if (!row) throw new Error('there is no personal value')
    await tampering([], async () => {
      for (let at = 0; at < bytesOf(row.sealed).length; at++) {
        await change('secret_value', row, { sealed: flip(row.sealed, at, 0x10) })
        invalidateAll()
        expectIntegrity(await read(row), `byte ${at}`)
      }
      expect((await read({ ...row, owner_id: owner.id })).status).toBe(200)
    })
  })

  test('in every request that decrypts a current value, and nothing overwrites it', async () => {
    const row = await target('secret_value', 2)
    await tampering([], async () => {
      await change('secret_value', row, { sealed: flip(row.sealed, 30, 0x10) })
      const before = [await sealedRows('secret_value'), await sealedRows('secret_version')]
      await expectAllRefused(openers(), 'changed')
      expect([await sealedRows('secret_value'), await sealedRows('secret_version')]).toEqual(before)
    })
  })

  test('in every request that decrypts a version, and nothing is written', async () => {
    const row = await target('secret_version', 1)
    await tampering([], async () => {
      await change('secret_version', row, { sealed: flip(row.sealed, 30, 0x10) })
      const before = [await sealedRows('secret_value'), await sealedRows('secret_version')]
      await expectAllRefused(pastOpeners(), 'changed')
      expect([await sealedRows('secret_value'), await sealedRows('secret_version')]).toEqual(before)
    })
  })

  test('behind a reference, and in the list of a credential for one environment', async () => {
    const row = (await sealedRows('secret_value')).find(
      ({ key, environment_id }) => key === 'ONE' && environment_id === environment(open, 1),
    )
    if (!row) throw new Error('there is no such value')
    const path = `/v1/workspace/main/project/open/secret/REFERENCE?resolve=true&onUnresolved=`
    const look = async () => [
      await service.call('GET', `${path}keep`, { token: owner.session }),
      await service.call('GET', `${path}empty`, { token: owner.session }),
      await service.call('GET', '/v1/secrets', { token: scopedToken }),
      await service.call('GET', '/v1/secrets', { token: await exchange(service, scopedToken) }),
    ]
    for (const answer of await look()) expect(valuesIn(answer).length, answer.text).toBeGreaterThan(0)
    await tampering([], async () => {
      await change('secret_value', row, { sealed: flip(row.sealed, 30, 0x10) })
      invalidateAll()
      for (const answer of await look()) expectIntegrity(answer, 'reference')
    })
  })

  test.each<[string, (sealed: Buffer) => Buffer]>([
    ['no bytes', () => Buffer.alloc(0)],
    ['one byte', (sealed) => sealed.subarray(0, 1)],
    ['the header only', (sealed) => sealed.subarray(0, 5)],
    ['all but the last byte', (sealed) => sealed.subarray(0, -1)],
    ['one extra byte', (sealed) => Buffer.concat([sealed, Buffer.alloc(1)])],
    ['no authentication tag', (sealed) => sealed.subarray(0, -16)],
    ['zeros', (sealed) => Buffer.alloc(sealed.length)],
    ['plaintext', () => Buffer.from('a text that was never sealed, long enough to be a record')],
  ])('%s instead of the ciphertext', async (_what, made) => {
    for (const table of ['secret_value', 'secret_version'] as const) {
      const row = await target(table, 2)
      await tampering([], async () => {
        await change(table, row, { sealed: made(bytesOf(row.sealed)) })
        invalidateAll()
        expectIntegrity(await read(row), table)
      })
    }
  })
})

describe('a ciphertext is an error in another place:', () => {
  const placeOf = (row: RawRow) => [row.environment_id, row.secret_id, row.owner_id ?? ''].join()

  test.each(['secret_value', 'secret_version'] as const)(
    'moved from another secret, environment, version, person, project or workspace, in %s',
    async (table) => {
      const sources = [...(await sealedRows('secret_value')), ...(await sealedRows('secret_version'))]
      const kinds = new Set<string>()
      for (const row of await sealedRows(table)) {
        await tampering([], async () => {
          for (const source of sources) {
            const isSamePlace = placeOf(source) === placeOf(row)
            if (isSamePlace && source.version === row.version) continue
            for (const column of ['secret_id', 'environment_id', 'project_id', 'workspace_id', 'owner_id', 'version']) {
              if ((source[column] ?? '') !== (row[column] ?? '')) kinds.add(column)
            }
            await change(table, row, { sealed: source.sealed ?? null })
            invalidateAll()
            expectIntegrity(await read(row), `${placeOf(source)} in ${placeOf(row)}`)
            // Also together with its version, except for an older row of the same value, which is valid.
            if (table === 'secret_version' || isSamePlace) continue
            await change(table, row, { sealed: source.sealed ?? null, version: source.version ?? null })
            invalidateAll()
            expectIntegrity(await read(row), `${placeOf(source)} with its version in ${placeOf(row)}`)
            await change(table, row, { sealed: row.sealed ?? null, version: row.version ?? null })
          }
        })
      }
      expect(kinds.size).toBe(6)
    },
  )

  test.each([0, 1, 3, -1, 1_999_999_999])('stored as version %i', async (version) => {
    const row = await target('secret_value', 2)
    await tampering([], async () => {
      await change('secret_value', row, { version })
      invalidateAll()
      expectIntegrity(await read(row), 'current')
    })
    const past = await target('secret_version', 2)
    await tampering([], async () => {
      await raw.query('delete from secret_version where environment_id = ? and secret_id = ? and version = ?', [
        past.environment_id ?? null,
        past.secret_id ?? null,
        version,
      ])
      await change('secret_version', past, { version })
      invalidateAll()
      expect((await read(past)).status).toBe(404)
      if (version > 0) expectIntegrity(await read({ ...past, version }), 'version')
    })
  })

  /** Moves the row to the key of another one and reads it there. */
  async function expectMoved(from: RawRow, to: RawRow, columns: readonly string[]): Promise<void> {
    await tampering([], async () => {
      await raw.query('delete from secret_value where environment_id = ? and secret_id = ? and owner_id = ?', [
        to.environment_id ?? null,
        to.secret_id ?? null,
        to.owner_id ?? null,
      ])
      await change('secret_value', from, Object.fromEntries(columns.map((column) => [column, to[column] ?? null])))
      invalidateAll()
      expectIntegrity(await read(to), `${placeOf(from)} moved to ${placeOf(to)}`)
    })
  }

  test('every row moved to the key of every other row', async () => {
    const rows = await sealedRows('secret_value')
    const columns = ['environment_id', 'secret_id', 'owner_id', 'workspace_id']
    for (const from of rows) {
      for (const to of rows) if (from !== to) await expectMoved(from, to, columns)
    }
  })

  test('a personal value turned into the shared one, or into that of another person', async () => {
    const shared = await target('secret_value', 2)
    for (const ownerId of ['', owner.id]) {
      await tampering([], async () => {
        await raw.query('delete from secret_value where secret_id = ? and owner_id <> ? and environment_id = ?', [
          shared.secret_id ?? null,
          mallory.id,
          environment(open, 0),
        ])
        await raw.query('update secret_value set owner_id = ? where owner_id = ?', [ownerId, mallory.id])
        invalidateAll()
        expectIntegrity(await read({ ...shared, owner_id: owner.id }), `now of ${ownerId}`)
      })
    }
  })

  test('the shared value turned into a personal one', async () => {
    const shared = await target('secret_value', 2)
    await tampering([], async () => {
      await raw.query('delete from secret_value where owner_id <> ?', [''])
      await change('secret_value', shared, { owner_id: owner.id })
      invalidateAll()
      expectIntegrity(await read(shared), 'owned')
    })
  })

  test('a secret moved to another project or workspace with all its values', async () => {
    const { secret_id: id } = await target('secret_value', 2)
    for (const [project, user] of [
      [closed, owner],
      [strange, stranger],
    ] as const) {
      await tampering([], async () => {
        const { workspace_id } = await one('select workspace_id from project where id = ?', [project.id])
        const moved = [project.id, workspace_id ?? null]
        await raw.query("update secret set project_id = ?, workspace_id = ?, name = 'MOVED' where id = ?", [
          ...moved,
          id ?? null,
        ])
        const values = [environment(project, 0), workspace_id ?? null, id ?? null, environment(open, 0)]
        for (const table of ['secret_value', 'secret_version']) {
          const set = `update ${table} set environment_id = ?, workspace_id = ?`
          await raw.query(`${set} where secret_id = ? and environment_id = ?`, values)
        }
        invalidateAll()
        const at = `/v1/workspace/${homeOf(project)}/project/${project.id}/secret`
        for (const path of ['', '/MOVED', `/MOVED/version/1?environmentId=${environment(project, 0)}`]) {
          expectIntegrity(await service.call('GET', at + path, { token: user.session }), path)
        }
      })
    }
  })

  test('an environment moved to another project with all its values', async () => {
    const { secret_id: id } = await target('secret_value', 2)
    await tampering([], async () => {
      await raw.query('delete from environment where project_id = ?', [closed.id])
      await raw.query('update environment set project_id = ? where id = ?', [closed.id, environment(open, 0)])
      await raw.query("update secret set project_id = ?, name = 'MOVED' where id = ?", [closed.id, id ?? null])
      invalidateAll()
      const at = '/v1/workspace/main/project/closed/secret'
      for (const path of ['/MOVED', `/MOVED/version/1?environmentId=${environment(open, 0)}`]) {
        expectIntegrity(await service.call('GET', at + path, { token: owner.session }), path)
      }
    })
  })

  test('an environment moved to another project, behind a reference', async () => {
    const path = '/v1/workspace/main/project/open/secret/REFERENCE?resolve=true'
    await tampering([], async () => {
      // The moved environment takes the name that the reference uses; the secrets stay where they were.
      const [taken, moved] = [environment(open, 1), environment(closed, 0)]
      const { name, folded_name } = await one('select name, folded_name from environment where id = ?', [taken])
      await raw.query("update environment set name = 'Old', folded_name = 'old' where id = ?", [taken])
      await raw.query('update environment set project_id = ?, name = ?, folded_name = ? where id = ?', [
        open.id,
        name ?? null,
        folded_name ?? null,
        moved,
      ])
      invalidateAll()
      expectIntegrity(await service.call('GET', path, { token: owner.session }), 'reference')
    })
  })
})

describe('tampered keys decrypt nothing:', () => {
  const keyTables = ['environment_key', 'workspace_key']
  const keyRow = () => one('select * from environment_key where environment_id = ?', [environment(open, 0)])
  const workspaceKeyRow = async () => {
    const { workspace_id } = await keyRow()
    return one('select * from workspace_key where workspace_id = ?', [workspace_id ?? null])
  }
  const expectUnreadable = async (what: string) => {
    invalidateAll()
    for (const row of [await target('secret_value', 2), await target('secret_version', 1)]) {
      expectIntegrity(await read(row), what)
    }
  }
  /** Nothing may be encrypted with a planted key. */
  const expectNoWrite = async (what: string) => {
    invalidateAll()
    const secrets = [{ key: 'FRESH', value: 'fresh' }]
    const body = { environments: [environment(open, 0)], secrets }
    const answer = await service.call('POST', '/v1/workspace/main/project/open/secret', { token: owner.session, body })
    expectIntegrity(answer, what)
    expect(await raw.query("select * from secret where name = 'FRESH'")).toEqual([])
  }

  test('a flipped bit in any byte of the environment key', async () => {
    const row = await keyRow()
    await tampering(keyTables, async () => {
      for (let at = 0; at < bytesOf(row.wrapped).length; at++) {
        await change('environment_key', row, { wrapped: flip(row.wrapped, at, 0x80) })
        await expectUnreadable(`byte ${at}`)
      }
      await expectNoWrite('flipped')
    })
  })

  test('a flipped bit in any byte of the workspace key', async () => {
    const row = await workspaceKeyRow()
    await tampering(keyTables, async () => {
      for (let at = 0; at < bytesOf(row.wrapped).length; at++) {
        await change('workspace_key', row, { wrapped: flip(row.wrapped, at, 0x80) })
        await expectUnreadable(`byte ${at}`)
      }
      await expectNoWrite('flipped')
    })
  })

  test('the key of any other environment', async () => {
    const row = await keyRow()
    const others = await raw.query('select * from environment_key where environment_id <> ?', [environment(open, 0)])
    expect(others.length).toBeGreaterThan(5)
    await tampering(keyTables, async () => {
      for (const other of others) {
        await change('environment_key', row, { wrapped: other.wrapped ?? null })
        await expectUnreadable('another')
        await expectNoWrite('another')
      }
    })
  })

  test('the key of another workspace', async () => {
    const row = await workspaceKeyRow()
    const other = await one('select * from workspace_key where workspace_id <> ?', [row.workspace_id ?? null])
    await tampering(keyTables, async () => {
      await change('workspace_key', row, { wrapped: other.wrapped ?? null })
      await expectUnreadable('another')
      await expectNoWrite('another')
    })
  })

  test.each<[string, Table, RawRow]>([
    ['another version of the environment key', 'environment_key', { version: 2 }],
    ['another version of its workspace key', 'environment_key', { workspace_key_version: 2 }],
    ['another workspace', 'environment_key', { workspace_id: 'strange' }],
    ['another version of the workspace key', 'workspace_key', { version: 2 }],
    ['an unknown root key', 'workspace_key', { root_id: '01890000-0000-7000-8000-000000000000' }],
  ])('%s', async (what, table, columns) => {
    const row = table === 'environment_key' ? await keyRow() : await workspaceKeyRow()
    await tampering(keyTables, async () => {
      await change(table, row, columns)
      await expectUnreadable(what)
      await expectNoWrite(what)
    })
  })

  test('no keys at all', async () => {
    for (const table of keyTables) {
      await tampering(keyTables, async () => {
        await raw.query(`delete from ${table}`)
        await expectUnreadable(table)
        await expectNoWrite(table)
      })
    }
  })

  test('a planted newer key is never used', async () => {
    const row = await keyRow()
    const columns = Object.keys(row)
    await tampering(keyTables, async () => {
      await raw.query(
        `insert into environment_key (${columns}) values (${columns.map(() => '?')})`,
        Object.values({ ...row, version: 2 }),
      )
      await expectNoWrite('newer')
      expect((await read(await target('secret_value', 2))).status).toBe(200)
    })
  })

  test('restored keys decrypt everything again', async () => {
    for (const row of [...(await sealedRows('secret_value')), ...(await sealedRows('secret_version'))]) {
      expect((await read(row)).status).toBe(200)
    }
  })
})

describe('a cached value', () => {
  test('hides no tampering: the row is an error after the next write and after a restart', async () => {
    const row = await target('secret_value', 2)
    const other = await one(
      'select sealed, version from secret_value where secret_id = ? and environment_id = ? and owner_id = ?',
      [row.secret_id ?? null, environment(open, 1), ''],
    )
    const before = await read(row)
    expect(before.status).toBe(200)
    await tampering(['audit_entry', 'audit_head', 'audit_batch'], async () => {
      await change('secret_value', row, { sealed: other.sealed ?? null, version: other.version ?? null })
      const remembered = await read(row)
      if (remembered.status === 200) expect(remembered.text).toBe(before.text)
      else expectIntegrity(remembered, 'remembered')
      const etag = before.headers.get('etag') ?? ''
      const path = `/v1/workspace/main/project/open/secret/ONE?environmentId=${environment(open, 0)}`
      const matching = { token: owner.session, headers: { 'if-none-match': etag } }
      expect([304, 500]).toContain((await service.call('GET', path, matching)).status)

      const body = { environmentId: environment(open, 0), value: 'bumped' }
      await send(owner, 'PUT', 'main/project/open/secret/TWO/value', body)
      expectIntegrity(await read(row), 'after a write')
      expectIntegrity(await service.call('GET', path, matching), 'after a write, with its ETag')

      const restarted = await openService(service.settings, service.dataDir)
      try {
        expectIntegrity(await restarted.call('GET', path, { token: owner.session }), 'restarted')
        expectIntegrity(await restarted.call('GET', path, matching), 'restarted, with its ETag')
      } finally {
        await restarted.stop()
      }
    })
  })
})

/** Secrets of several people, projects and workspaces, and direct access to their rows: the tests tamper with them. */
import { expect } from 'vitest'
import {
  type Answer,
  addUser,
  createProject,
  createToken,
  registerOwner,
  startService,
  type TestProject,
  type TestService,
  type TestUser,
} from './harness.ts'
import { type Cell, openRaw, type RawDatabase, type RawRow } from './raw-database.ts'

const integrity = 'Stored data failed its integrity check. Ask the operator to run the doctor command.'

const keys = {
  secret_value: ['environment_id', 'secret_id', 'owner_id'],
  secret_version: ['environment_id', 'secret_id', 'version'],
  environment_key: ['environment_id', 'version'],
  workspace_key: ['workspace_id', 'version'],
} as const
export type Table = keyof typeof keys

const tables = ['secret_value', 'secret_version', 'secret', 'environment', 'project']

export const environmentOf = (project: TestProject, index: number) => project.environments[index]?.id ?? ''

/** `start` writes the secrets; the functions work from then on. */
export function createSecretTamper() {
  let service: TestService
  let raw: RawDatabase
  let owner: TestUser
  let mallory: TestUser
  let stranger: TestUser
  let open: TestProject
  let closed: TestProject
  let strange: TestProject
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
    const body = { environments: [environmentOf(project, index)], secrets }
    await send(user, 'POST', `${homeOf(project)}/project/${project.id}/secret`, body)
  }

  async function put(user: TestUser, project: TestProject, index: number, key: string, more = {}): Promise<void> {
    const body = { environmentId: environmentOf(project, index), value: newValue(), ...more }
    await send(user, 'PUT', `${homeOf(project)}/project/${project.id}/secret/${key}/value`, body)
  }

  async function start() {
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
    await send(owner, 'PUT', `main/project/open/environment/${environmentOf(open, 0)}`, { hasPersonalOverrides: true })
    await create(owner, open, 0, 'ONE', 'TWO')
    await create(owner, open, 1, 'ONE', 'TWO')
    await create(owner, closed, 0, 'ONE')
    await create(stranger, strange, 0, 'ONE')
    await put(owner, open, 0, 'ONE')
    await put(stranger, strange, 0, 'ONE')
    for (const user of [owner, mallory]) await put(user, open, 0, 'ONE', { isPersonal: true })
    await send(owner, 'POST', 'main/project/open/secret', {
      environments: [environmentOf(open, 0)],
      secrets: [{ key: 'REFERENCE', value: `\${${open.environments[1]?.name}.ONE}` }],
    })
    const scope = { all: false, teams: [], projects: [], environments: [environmentOf(open, 1)] }
    const scopedToken = (await createToken(service, owner.session, { scope })).token
    return { service, raw, owner, mallory, stranger, open, closed, strange, scopedToken }
  }

  async function stop(): Promise<void> {
    await raw.close()
    await service.stop()
  }

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
        row.environment_id === environmentOf(open, 0) &&
        (row.owner_id ?? '') === '' &&
        row.version === version,
    )
    if (!found) throw new Error('there is no such row')
    return found
  }

  return {
    start,
    stop,
    send,
    homeOf,
    written,
    invalidateAll,
    one,
    change,
    sealedRows,
    read,
    valuesIn,
    expectIntegrity,
    tampering,
    target,
  }
}

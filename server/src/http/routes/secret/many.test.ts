/** Other requests wait for a transaction, so a change of many secrets must not need more statements than one of a few. */
import type { AuditEntry, AuditVerdict } from '@coffer/contract/audit'
import type { Secret } from '@coffer/contract/secret'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { registerOwner, startService, type TestService, type TestUser } from '../../../../../test/harness.ts'
import { createSecretProject, type SecretProject } from '../../../../../test/secret-project.ts'
import type { Db, Engine } from '../../../store/engine/sql.ts'

let service: TestService
let owner: TestUser
let workspaceId: string

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  workspaceId = (await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })).body.id
})
afterAll(() => service.stop())

/** Counts the statements in transactions of the workspace during the work; those of background jobs have other locks. */
async function countStatements(work: () => Promise<unknown>): Promise<number> {
  const { engine } = service.app.services
  const { transaction: run } = engine
  let count = 0
  const counted = <Asked extends unknown[], Result>(ask: (...asked: Asked) => Result) => {
    return (...asked: Asked) => {
      count++
      return ask(...asked)
    }
  }
  const countedDb = (db: Db): Db => ({
    one: counted(db.one) as Db['one'],
    all: counted(db.all) as Db['all'],
    count: counted(db.count),
    write: counted(db.write),
    writeMany: counted(db.writeMany) as Db['writeMany'],
  })
  const counting: Engine['transaction'] = (lock, work, options) =>
    lock === workspaceId
      ? run(lock, (transaction) => work({ ...transaction, db: countedDb(transaction.db) }), options)
      : run(lock, work, options)
  Reflect.set(engine, 'transaction', counting)
  await work().finally(() => Reflect.set(engine, 'transaction', run))
  expect(count).toBeGreaterThan(3)
  return count
}

/** Allowance for statements that a larger request needs more of, such as another portion of rows. */
const allowance = 10

const keysOf = (count: number) => Array.from({ length: count }, (_, index) => `K${index}`)

async function createProjectOf(count: number): Promise<SecretProject> {
  const project = await createSecretProject(service, owner.session)
  await project.set('development', Object.fromEntries(keysOf(count).map((key) => [key, 'one'])))
  return project
}

const write = (project: SecretProject, count: number, value: string, note: string) =>
  project.must('POST', '/secret', {
    environments: ['development'],
    mode: 'upsert',
    secrets: keysOf(count).map((key) => ({ key, value, note })),
  })

const notesOf = async (project: SecretProject) =>
  new Set((await project.must<Secret[]>('GET', '/secret')).map(({ note }) => note))

test.each([
  ['unchanged values', 'one'],
  ['new values', 'two'],
])('new notes with %s take about as many statements for 200 secrets as for 3', async (_what, value) => {
  const statementsOf = async (count: number) => {
    const project = await createProjectOf(count)
    const statements = await countStatements(() => write(project, count, value, 'told'))
    expect(await notesOf(project)).toEqual(new Set(['told']))
    return statements
  }
  expect(await statementsOf(200)).toBeLessThan((await statementsOf(3)) + allowance)
})

test('the audit trail has one entry for each secret with a new note', async () => {
  const project = await createProjectOf(5)
  await write(project, 5, 'one', 'told')
  const path = '/v1/workspace/main/audit'
  const { body } = await service.call<AuditEntry[]>('GET', `${path}?limit=5`, { token: owner.session })
  expect(body.map(({ action, entity }) => `${action} ${entity.type} ${entity.name}`).sort()).toEqual(
    keysOf(5).map((key) => `UPDATE secret ${key}`),
  )
  const verdict = await service.call<AuditVerdict>('GET', `${path}/verify`, { token: owner.session })
  expect(verdict.body).toMatchObject({ ok: true })
})

test('restoring a revision takes 30 secrets out of the trash with about as many statements as 3', async () => {
  const statementsOf = async (count: number) => {
    const project = await createProjectOf(count)
    for (const key of keysOf(count)) await project.must('DELETE', `/secret/${key}`)
    const path = `/environment/${project.idOf('development')}/revision/1/restore`
    const statements = await countStatements(() => project.must('POST', path, {}))
    expect(Object.keys(await project.state('development'))).toHaveLength(count)
    expect(await project.must('GET', '/secret/trash')).toEqual([])
    return statements
  }
  expect(await statementsOf(30)).toBeLessThan((await statementsOf(3)) + allowance)
})

test('a batch renames 200 secrets with about as many statements as 3', async () => {
  const statementsOf = async (count: number) => {
    const project = await createProjectOf(count)
    const operations = keysOf(count).map((key) => ({ op: 'rename', key, to: `NEW_${key}` }))
    const body = { environmentId: 'development', operations }
    const statements = await countStatements(() => project.must('POST', '/secret/batch', body))
    expect(Object.keys(await project.state('development')).sort()).toEqual(operations.map(({ to }) => to).sort())
    return statements
  }
  expect(await statementsOf(200)).toBeLessThan((await statementsOf(3)) + allowance)
})

test('a batch that shifts all names by one gives each secret the name of the next', async () => {
  const count = 20
  const project = await createSecretProject(service, owner.session)
  await project.set('development', Object.fromEntries(keysOf(count).map((key) => [key, `value of ${key}`])))
  const moved = keysOf(count).map((key, index) => ({ op: 'rename', key, to: `K${index + 1}` }))
  const operations = [...moved.reverse(), { op: 'rename', key: `K${count}`, to: 'K0' }]
  await project.must('POST', '/secret/batch', { environmentId: 'development', operations })
  expect(await project.state('development')).toEqual(
    Object.fromEntries(keysOf(count).map((key, index) => [key, `value of K${(index + count - 1) % count}`])),
  )
  const [newest] = await project.revisions('development')
  expect(newest?.changes).toHaveLength(count)
})

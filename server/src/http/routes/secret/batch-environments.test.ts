/** Batches over several environments and personal values: one transaction, one revision of each environment. */
import type { AuditEntry } from '@coffer/contract/audit'
import type { BatchResults, Secret } from '@coffer/contract/secret'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { describeChanges, readContent } from '../../../../../test/content.ts'
import {
  addUser,
  createToken,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { createSecretProject, type SecretProject } from '../../../../../test/secret-project.ts'
import type { Db, Engine } from '../../../store/engine/sql.ts'

let service: TestService
let owner: TestUser
let project: SecretProject
let projects = 0

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
})
afterAll(() => service.stop())

/** A project of its own for each test, with personal values in development. */
async function begin(): Promise<void> {
  project = await createSecretProject(service, owner.session)
  projects += 1
  await project.allowPersonal('development')
}

type Operation = Record<string, unknown>
const set = (key: string, value: string, more: Operation = {}) => ({ op: 'set', key, value, ...more })
const remove = (key: string, more: Operation = {}) => ({ op: 'delete', key, ...more })
const rename = (key: string, to: string, more: Operation = {}) => ({ op: 'rename', key, to, ...more })
const ref = (name: string) => `\${${name}}`
const inEnvironment = (environmentId: string) => ({ environmentId })

const batch = (operations: Operation[], more: Operation = {}, token = owner.session) =>
  project.ask<BatchResults & { message: string }>('POST', '/secret/batch', { operations, ...more }, token)

async function mustBatch(operations: Operation[], more: Operation = {}, token?: string): Promise<BatchResults> {
  const answer = await batch(operations, more, token)
  expect(answer.status, answer.text).toBe(200)
  return answer.body
}

const revisionIn = async (environment: string) => (await project.revisions(environment))[0]?.revision ?? 0
const personalOf = async (token: string, key: string) =>
  (await project.must<Secret>('GET', `/secret/${key}`, undefined, token)).values.find(({ isPersonal }) => isPersonal)

async function expectUntouched(work: () => Promise<unknown>): Promise<void> {
  const before = await readContent(service.app.services)
  await work()
  const changes = describeChanges(before, await readContent(service.app.services))
  // A refused batch is recorded as a comparison, and nothing else.
  expect(changes.filter((line) => !/^audit/.test(line))).toEqual([])
}

describe('several environments', () => {
  test('are written together, with one revision of each, which the answer names', async () => {
    await begin()
    await project.set('development', { OLD: '1' })
    await project.set('staging', { OLD: '1', GONE: '1' })
    const operations = [
      set('NEW', 'd'),
      set('OTHER', 'd'),
      set('NEW', 's', inEnvironment('staging')),
      remove('GONE', inEnvironment(project.idOf('staging'))),
      set('NEW', 'p', inEnvironment(project.idOf('production'))),
    ]
    const { results, revision, revisions } = await mustBatch(operations, {
      environmentId: 'development',
      message: 'all',
    })
    expect(results.map(({ key, environmentId, status }) => [key, environmentId, status])).toEqual([
      ['NEW', project.idOf('development'), 'created'],
      ['OTHER', project.idOf('development'), 'created'],
      ['NEW', project.idOf('staging'), 'created'],
      ['GONE', project.idOf('staging'), 'deleted'],
      ['NEW', project.idOf('production'), 'created'],
    ])
    expect(new Set(results.filter(({ key }) => key === 'NEW').map(({ id }) => id)).size).toBe(1)
    expect(revision).toBe(2)
    expect(revisions).toEqual([
      { environmentId: project.idOf('development'), revision: 2 },
      { environmentId: project.idOf('staging'), revision: 2 },
      { environmentId: project.idOf('production'), revision: 1 },
    ])
    for (const [name, state] of [
      ['development', { OLD: '1', NEW: 'd', OTHER: 'd' }],
      ['staging', { OLD: '1', NEW: 's' }],
      ['production', { NEW: 'p' }],
    ] as const) {
      expect(await project.state(name)).toEqual(state)
      const [newest] = await project.revisions(name)
      expect(newest).toMatchObject({ message: 'all' })
      expect(await revisionIn(name)).toBe(revisions.find((one) => one.environmentId === project.idOf(name))?.revision)
    }
  })

  test('need no environment of the batch if every operation names its own', async () => {
    await begin()
    const { revision, revisions } = await mustBatch([
      set('A', '1', inEnvironment('staging')),
      set('A', '2', inEnvironment('production')),
    ])
    expect(revision).toBe(1)
    expect(revisions.map(({ environmentId }) => environmentId)).toEqual(['staging', 'production'].map(project.idOf))
    const missing = await batch([set('A', '1', inEnvironment('staging')), set('B', '1')])
    expect(missing).toMatchObject({ status: 400, body: { message: 'environmentId: is required.' } })
  })

  test('a note may come with any of the values of a new secret', async () => {
    await begin()
    const inStaging = (more: Operation) => ({ ...inEnvironment('staging'), ...more })
    await mustBatch(
      [
        set('FIRST', '1', { note: 'first' }),
        set('FIRST', '1', inStaging({})),
        set('LAST', '1'),
        set('LAST', '1', inStaging({ note: 'last' })),
      ],
      { environmentId: 'development' },
    )
    const secrets = await project.must<Secret[]>('GET', '/secret')
    expect(secrets.map(({ name, note }) => [name, note])).toEqual([
      ['FIRST', 'first'],
      ['LAST', 'last'],
    ])
  })

  test('get a revision only where something changed, and the answer then names the one that stands', async () => {
    await begin()
    await project.set('development', { A: '1' })
    await project.set('staging', { A: '1' })
    const { revisions } = await mustBatch([set('A', '1'), set('A', '2', inEnvironment('staging'))], {
      environmentId: 'development',
    })
    expect(revisions.map(({ revision }) => revision)).toEqual([1, 2])
    expect([await revisionIn('development'), await revisionIn('staging')]).toEqual([1, 2])
  })

  test('a rename is a revision of every environment with a value, and is in the answer', async () => {
    await begin()
    await project.set('development', { A: '1' })
    await project.set('staging', { A: '1' })
    const { results, revisions } = await mustBatch([
      rename('A', 'B', inEnvironment('production')),
      set('B', '2', inEnvironment('staging')),
    ])
    expect(results[0]).toMatchObject({ key: 'B', status: 'renamed', environmentId: project.idOf('production') })
    expect(Object.fromEntries(revisions.map(({ environmentId, revision }) => [environmentId, revision]))).toEqual({
      [project.idOf('production')]: 0,
      [project.idOf('staging')]: 2,
      [project.idOf('development')]: 2,
    })
    expect(await project.state('staging')).toEqual({ B: '2' })
    expect(await project.revisions('staging')).toHaveLength(2)
  })

  test('a dry run answers the revisions that stand, and changes none', async () => {
    await begin()
    await project.set('staging', { A: '1' })
    const operations = [set('A', '2', inEnvironment('staging')), set('A', '2')]
    await expectUntouched(async () => {
      const { revisions } = await mustBatch(operations, { environmentId: 'development', dryRun: true })
      expect(revisions.map(({ revision }) => revision)).toEqual([0, 1])
    })
  })

  test.each<[string, () => Operation[], number, RegExp]>([
    ['an unknown environment', () => [set('B', '1'), set('A', '2', inEnvironment('nowhere'))], 404, /./],
    [
      'a stale version in the second environment',
      () => [set('B', '1'), set('A', '2', { ...inEnvironment('staging'), ifVersion: 7 })],
      412,
      /^A is at version 1/,
    ],
    [
      'nothing to delete in the second environment',
      () => [set('B', '1'), remove('NONE', inEnvironment('production'))],
      404,
      /^NONE has no value in production/,
    ],
    [
      'the same value twice',
      () => [set('A', '1'), set('A', '2', inEnvironment('Development'))],
      400,
      /^key: given more than once: A\.$/,
    ],
    [
      'a write to a renamed secret under its old name',
      () => [rename('A', 'B'), set('A', '2', inEnvironment('staging'))],
      400,
      /^key: given more than once: A\.$/,
    ],
    [
      'a cycle of references across environments',
      () => [set('A', ref('staging.A')), set('A', ref('development.A'), inEnvironment('staging'))],
      409,
      /./,
    ],
    [
      'a mask in the second environment',
      () => [set('B', '1'), set('A', '********', inEnvironment('staging'))],
      400,
      /^value: /,
    ],
    ['a field that is not known', () => [set('B', '1', { colour: 'red' })], 400, /colour: is not a known field/],
    ['a personal rename', () => [rename('A', 'B', { isPersonal: true })], 400, /isPersonal: is not a known field/],
  ])('%s refuses all of it', async (_what, make, status, message) => {
    await begin()
    await project.set('staging', { A: '1' })
    await expectUntouched(async () => {
      const answer = await batch(make(), { environmentId: 'development' })
      expect(answer.status, answer.text).toBe(status)
      expect(answer.body.message).toMatch(message)
    })
  })

  test('one that a credential does not reach refuses all of it, like one that does not exist', async () => {
    await begin()
    await project.set('production', { A: '1' })
    const scope = { environments: [project.idOf('development'), project.idOf('staging')] }
    const { token } = await createToken(service, owner.session, { scope })
    await mustBatch([set('B', '1'), set('B', '2', inEnvironment('staging'))], { environmentId: 'development' }, token)
    await expectUntouched(async () => {
      const operations = (name: string) => [set('C', '1'), set('A', '2', inEnvironment(name))]
      const refused = await batch(operations('production'), { environmentId: 'development' }, token)
      const absent = await batch(operations('nowhere'), { environmentId: 'development' }, token)
      expect([refused.status, refused.text]).toEqual([404, absent.text])
    })
  })
})

describe('personal values', () => {
  test('are set and deleted beside shared ones, belong to their owner, and make no revision', async () => {
    await begin()
    await project.set('development', { A: 'shared' })
    const own = { isPersonal: true }
    const { results, revision } = await mustBatch([set('A', 'own', own), set('A', 'new')], {
      environmentId: 'development',
    })
    expect(results.map(({ status, isPersonal }) => [status, isPersonal])).toEqual([
      ['created', true],
      ['updated', undefined],
    ])
    expect(revision).toBe(2)
    expect(await personalOf(owner.session, 'A')).toMatchObject({ value: 'own', version: 1 })
    expect(
      (await mustBatch([set('A', 'own 2', { ...own, ifVersion: 1 })], { environmentId: 'development' })).revision,
    ).toBe(2)
    expect((await batch([set('A', 'own 3', { ...own, ifVersion: 1 })], { environmentId: 'development' })).status).toBe(
      412,
    )
    await mustBatch([remove('A', own)], { environmentId: 'development' })
    expect(await personalOf(owner.session, 'A')).toBeUndefined()
    expect(await project.state('development')).toEqual({ A: 'new' })
  })

  test('of a member are allowed where shared values, names and notes are not', async () => {
    await begin()
    await project.set('development', { A: 'shared' })
    const member = await addUser(service, `member-${projects}@example.com`, {
      workspaceId: await mainId(),
      role: 'member',
    })
    const own = { isPersonal: true }
    const as = (...operations: Operation[]) => batch(operations, { environmentId: 'development' }, member.session)
    expect((await as(set('A', 'mine', own))).status).toBe(200)
    expect(await personalOf(member.session, 'A')).toMatchObject({ value: 'mine' })
    expect(await personalOf(owner.session, 'A')).toBeUndefined()
    await expectUntouched(async () => {
      for (const refused of [
        [set('A', 'theirs')],
        [set('A', 'mine again', own), set('A', 'theirs')],
        [set('A', 'mine again', { ...own, note: 'changed' })],
        [set('A', 'mine', { ...own, note: 'changed' })],
        [set('FRESH', 'mine', own)],
        [remove('A')],
        [rename('A', 'B')],
      ]) {
        const answer = await as(...refused)
        expect([answer.status, answer.body.message]).toEqual([403, 'This needs the role developer.'])
      }
    })
    expect((await as(remove('A', own))).status).toBe(200)
  })

  test('a member cannot tell a name that is out of reach from one that is free', async () => {
    await begin()
    await project.set('production', { HIDDEN: '1' })
    const scope = { all: false, teams: [], projects: [], environments: [project.idOf('development')] }
    const member = await addUser(service, `part-${projects}@example.com`, {
      workspaceId: await mainId(),
      role: 'member',
      scope,
    })
    const answers = await Promise.all(
      ['HIDDEN', 'FREE'].map((key) =>
        batch([set(key, 'x', { isPersonal: true })], { environmentId: 'development' }, member.session),
      ),
    )
    expect(answers.map(({ status, text }) => [status, text])).toEqual(
      Array(2).fill([403, '{"message":"This needs the role developer."}']),
    )
  })

  test('are refused where they are switched off, and for tokens', async () => {
    await begin()
    await project.set('staging', { A: '1' })
    const operations = [set('A', 'own', { isPersonal: true, environmentId: 'staging' })]
    expect(await batch(operations)).toMatchObject({
      status: 400,
      body: { message: 'isPersonal: personal values are switched off in staging.' },
    })
    const { token } = await createToken(service, owner.session)
    expect((await batch(operations, {}, token)).status).toBe(403)
  })
})

test('the audit trail has one entry for all of it, with keys and environments, and no value', async () => {
  await begin()
  const operations = [set('A', 'canary-one'), set('A', 'canary-two', inEnvironment('staging'))]
  await mustBatch(operations, { environmentId: 'development' })
  const path = `/v1/workspace/main/audit?project=${project.slug}&action=CREATE&limit=5`
  const { body, text } = await service.call<AuditEntry[]>('GET', path, { token: owner.session })
  const changes = body.flatMap(
    ({ after }) => (after?.changes as { key: string; environment: string }[] | undefined) ?? [],
  )
  expect(changes.map(({ key, environment }) => `${key} ${environment}`)).toEqual(['A development', 'A staging'])
  expect(text).not.toContain('canary')
})

test('the entry of a batch also names values that it found equal: they can confirm a guess', async () => {
  await begin()
  await project.set('development', { PIN: 'canary-pin', NOTED: 'canary-noted' })
  await project.set('staging', { PIN: 'canary-pin' })
  const guess = set('PIN', 'canary-pin', inEnvironment('staging'))
  const newest = async () => {
    const path = `/v1/workspace/main/audit?project=${project.slug}&limit=1`
    const { body, text } = await service.call<AuditEntry[]>('GET', path, { token: owner.session })
    expect(text).not.toContain('canary')
    return body[0]
  }
  const unchanged = [{ key: 'PIN', environment: 'staging' }]
  await mustBatch([set('DISTRACTION', '1'), guess], { environmentId: 'development' })
  const after = { changes: [{ key: 'DISTRACTION', environment: 'development' }], unchanged }
  expect(await newest()).toMatchObject({ action: 'CREATE', after })
  const path = `/v1/workspace/main/audit?project=${project.slug}&environment=${project.idOf('staging')}&limit=1`
  const inStaging = await service.call<AuditEntry[]>('GET', path, { token: owner.session })
  expect(inStaging.body[0]).toMatchObject({ action: 'CREATE', after })
  await mustBatch([set('NOTED', 'canary-noted', { note: 'new' }), guess], { environmentId: 'development' })
  const both = [{ key: 'NOTED', environment: 'development' }, ...unchanged]
  expect(await newest()).toMatchObject({ action: 'UPDATE', entity: { name: 'NOTED' }, after: { unchanged: both } })
})

describe('many environments', () => {
  const names = (count: number) => Array.from({ length: count }, (_, at) => `place ${at}`)

  /** Counts the rows that queries in transactions return during the work. */
  async function countRows(work: () => Promise<unknown>): Promise<number> {
    const { engine } = service.app.services
    const { transaction: run } = engine
    let count = 0
    const counting: Engine['transaction'] = (lock, within) =>
      run(lock, (transaction) => {
        const all: Db['all'] = async (query) => {
          const rows = await transaction.db.all<never>(query)
          count += rows.length
          return rows
        }
        return within({ ...transaction, db: { ...transaction.db, all } })
      })
    Reflect.set(engine, 'transaction', counting)
    await work().finally(() => Reflect.set(engine, 'transaction', run))
    return count
  }

  test('only the values that the batch writes are loaded, not every secret in every environment', async () => {
    await begin()
    const environments = names(30)
    for (const name of environments) await project.must('POST', '/environment', { name })
    const keys = environments.map((_, at) => `KEY_${at}`)
    await project.must('POST', '/secret', { environments, secrets: keys.map((key) => ({ key, value: key })) })
    const operations = keys.map((key, at) => set(key, 'new', inEnvironment(environments[at] ?? '')))
    const rows = await countRows(() => mustBatch(operations))
    expect(rows).toBeLessThan(10 * operations.length)
    expect(await project.state('place 3')).toMatchObject({ KEY_2: 'KEY_2', KEY_3: 'new', KEY_4: 'KEY_4' })
  })

  test('a batch names 100 at most, like other writes', async () => {
    await begin()
    const environments = names(101)
    for (const name of environments) await project.must('POST', '/environment', { name })
    const operations = environments.map((name) => set('A', '1', inEnvironment(name)))
    await expectUntouched(async () => {
      const refused = await batch(operations)
      expect(refused).toMatchObject({ status: 400, body: { message: expect.stringMatching(/^operations: .*100/) } })
    })
    expect((await mustBatch(operations.slice(1))).revisions).toHaveLength(100)
  })
})

test('of many concurrent batches over the same environments each is whole', async () => {
  await begin()
  const write = (at: number) =>
    mustBatch([set('A', `${at}`), set('A', `${at}`, inEnvironment('staging'))], { environmentId: 'development' })
  const done = await Promise.all(Array.from({ length: 12 }, (_, at) => write(at)))
  for (const name of ['development', 'staging']) {
    const numbers = done.map(
      ({ revisions }) => revisions.find((one) => one.environmentId === project.idOf(name))?.revision,
    )
    expect(numbers.toSorted((a = 0, b = 0) => a - b)).toEqual(Array.from({ length: 12 }, (_, at) => at + 1))
  }
  expect(await project.state('development')).toEqual(await project.state('staging'))
})

async function mainId(): Promise<string> {
  const { body } = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
  return body.id
}

/** Writes of every kind at once, on every node: what is counted in advance, and shared by requests, must stay true. */
import type { AuditVerdict } from '@coffer/contract/audit'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  createDatabase,
  type Database,
  engine,
  openService,
  registerOwner,
  type TestService,
} from '../../../../../test/harness.ts'
import { openRaw } from '../../../../../test/raw-database.ts'
import { createSecretProject, type SecretProject } from '../../../../../test/secret-project.ts'
import { times } from '../../../../../test/tier.ts'

let database: Database
/** Two nodes on PostgreSQL, one on SQLite. */
let nodes: TestService[]
let project: SecretProject
let session: string

beforeAll(async () => {
  database = await createDatabase({ hasSchema: true })
  const count = engine === 'postgres' ? 2 : 1
  nodes = []
  for (let node = 0; node < count; node++) nodes.push(await openService(database.settings, database.dataDir))
  session = (await registerOwner(firstNode())).session
  project = await createSecretProject(firstNode(), session)
})
afterAll(async () => {
  for (const node of nodes) await node.stop()
  await database.drop()
})

function firstNode(): TestService {
  const [first] = nodes
  if (!first) throw new Error('there is a first node')
  return first
}

const key = fc.constantFrom('A', 'B', 'C', 'D')
const environmentId = fc.constantFrom('development', 'production')
const value = fc.constantFrom('0', '1', '2')
const ifVersion = fc.option(fc.nat({ max: 30 }), { nil: undefined, freq: 3 })

type Write = readonly [method: string, path: string, body?: object]
const write: fc.Arbitrary<Write> = fc.oneof(
  {
    weight: 20,
    arbitrary: fc
      .record({ key, environmentId, value, ifVersion })
      .map(({ key, ...body }): Write => ['PUT', `/secret/${key}/value`, body]),
  },
  fc
    .record({ key, environmentId, other: key })
    .map(
      ({ key, environmentId, other }): Write => [
        'PUT',
        `/secret/${key}/value`,
        { environmentId, value: `\${${other}}` },
      ],
    ),
  fc.record({ key, environmentId, value, dryRun: fc.boolean() }).map(
    ({ key, environmentId, value, dryRun }): Write => [
      'POST',
      '/secret/batch',
      {
        environmentId,
        dryRun,
        operations: [
          { op: 'set', key, value },
          { op: 'set', key: `${key}_TOO`, value },
        ],
      },
    ],
  ),
  fc
    .record({ key, environmentId })
    .map(({ key, environmentId }): Write => ['DELETE', `/secret/${key}?environmentId=${environmentId}`]),
  fc.record({ key, name: key }).map(({ key, name }): Write => ['PUT', `/secret/${key}`, { name, values: [] }]),
  key.map((key): Write => ['DELETE', `/secret/${key}`]),
  key.map((key): Write => ['POST', `/secret/${key}/restore`]),
)

test('random writes leave true counts, revisions and versions without gaps, and a sound trail', async () => {
  const raw = await openRaw(firstNode())
  const requireTrue = async () => {
    const environments = await raw.query(`
      select e.total_secrets as total, e.revision,
        (select count(*) from secret_value v
          where v.environment_id = e.id and v.owner_id = '' and v.sealed is not null) as values_stored,
        (select count(distinct c.revision) from (
          select revision, environment_id from secret_version
          union all select revision, environment_id from secret_rename) c where c.environment_id = e.id) as revisions
      from environment e`)
    for (const { total, revision, values_stored, revisions } of environments)
      expect([total, revision].map(Number)).toEqual([values_stored, revisions].map(Number))
    const values = await raw.query(`
      select v.version, (select count(*) from secret_version c
        where c.environment_id = v.environment_id and c.secret_id = v.secret_id) as versions
      from secret_value v where v.owner_id = ''`)
    for (const { version, versions } of values) expect(Number(version)).toBe(Number(versions))
  }
  const start = { A: '0', B: '0', C: '0', D: '0' }
  for (const environment of ['development', 'production']) await project.set(environment, start)
  await fc.assert(
    fc.asyncProperty(fc.array(write, { minLength: 30, maxLength: 60 }), async (writes) => {
      const answers = await Promise.all(
        writes.map(([method, path, body], at) =>
          (nodes[at % nodes.length] ?? firstNode()).call(method, project.root + path, {
            token: session,
            ...(body && { body }),
          }),
        ),
      )
      for (const { status, text } of answers) expect([200, 404, 409, 412], text).toContain(status)
      await requireTrue()
    }),
    { numRuns: times(8, 100), endOnFailure: true },
  )
  await raw.close()
  const path = '/v1/workspace/main/audit/verify'
  const verdict = await firstNode().call<AuditVerdict>('GET', path, { token: session })
  expect(verdict.body).toMatchObject({ ok: true })
})

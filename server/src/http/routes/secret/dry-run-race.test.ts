/** Dry runs write and roll back. They leave nothing behind but their audit entries, also next to real writes. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { registerOwner, startService, type TestService } from '../../../../../test/harness.ts'
import { openRaw, type RawDatabase } from '../../../../../test/raw-database.ts'
import { createSecretProject, type SecretProject } from '../../../../../test/secret-project.ts'

let service: TestService
let raw: RawDatabase
let project: SecretProject
let session: string

beforeAll(async () => {
  service = await startService()
  raw = await openRaw(service)
  session = (await registerOwner(service)).session
  project = await createSecretProject(service, session)
  await project.set('development', { A: '1', B: '1', LOST: '1' })
  await project.set('development', { A: '2' })
  await project.set('staging', { A: 'other' })
  await project.must('DELETE', '/secret/LOST')
})
afterAll(async () => {
  await raw.close()
  await service.stop()
})

/** Every row of every table, except for the audit trail, the times of last use, and the beats of nodes. */
async function listRows(): Promise<string[]> {
  const tables = (await raw.tables()).filter((table) => !/^(audit_|session$|node$|sqlite_)/.test(table))
  const rows: string[] = []
  for (const table of tables) {
    for (const row of await raw.query(`select * from ${table}`)) rows.push(`${table} ${JSON.stringify(row)}`)
  }
  return rows.sort()
}

const dryRuns = (): [path: string, body: Record<string, unknown>][] => {
  const development = `/environment/${project.idOf('development')}`
  const staging = `/environment/${project.idOf('staging')}`
  return [
    ['/secret', { environments: ['development', 'staging'], secrets: [{ key: 'NEW', value: '1', note: 'new' }] }],
    [
      '/secret/batch',
      {
        environmentId: 'development',
        operations: [
          { op: 'rename', key: 'A', to: 'RENAMED' },
          { op: 'set', key: 'B', value: '3', note: 'changed' },
          { op: 'set', key: 'NEW', value: '1' },
        ],
      },
    ],
    ['/secret/import', { environmentId: 'staging', format: 'dotenv', content: 'A=9\nNEW=9', mode: 'upsert' }],
    [`${staging}/promote`, { from: 'development' }],
    [`${development}/revision/1/restore`, {}],
  ]
}

test('dry runs of every kind leave every table as it was', async () => {
  const before = await listRows()
  for (const [path, body] of dryRuns()) {
    const answer = await project.ask<{ results: unknown[] }>('POST', path, { ...body, dryRun: true })
    expect([answer.status, answer.body.results?.length], `${path}: ${answer.text}`).toEqual([200, expect.any(Number)])
    expect(answer.body.results.length, path).toBeGreaterThan(0)
    expect(await listRows(), path).toEqual(before)
  }
})

test('dry runs that share commits with real writes take nothing of them, and add nothing', async () => {
  const revision = (await project.revisions('development'))[0]?.revision ?? 0
  const rounds = 10
  const asked = Array.from({ length: rounds }, (_, index) => [
    project.ask('PUT', '/secret/B/value', { environmentId: 'development', value: `written ${index}` }),
    ...dryRuns().map(([path, body]) => project.ask('POST', path, { ...body, dryRun: true })),
  ])
  for (const answer of await Promise.all(asked.flat())) expect(answer.status, answer.text).toBe(200)
  const revisions = await project.revisions('development')
  expect(revisions.map((one) => one.revision).slice(0, rounds)).toEqual(
    Array.from({ length: rounds }, (_, index) => revision + rounds - index),
  )
  const state = await project.state('development')
  expect(Object.keys(state)).toEqual(['A', 'B'])
  expect([state.A, state.B?.slice(0, 7)]).toEqual(['2', 'written'])
  expect(await project.state('staging')).toEqual({ A: 'other' })
  const verdict = await service.call('GET', '/v1/workspace/main/audit/verify', { token: session })
  expect(verdict.body).toMatchObject({ ok: true })
})

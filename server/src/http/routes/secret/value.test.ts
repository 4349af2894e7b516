/** Concurrent writes of single values share a transaction, and each has the result that it would have alone. */
import type { AuditEntry, AuditVerdict } from '@coffer/contract/audit'
import type { SecretVersion } from '@coffer/contract/history'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createToken, registerOwner, startService, type TestService } from '../../../../../test/harness.ts'
import { openRaw } from '../../../../../test/raw-database.ts'
import { createSecretProject, type SecretProject } from '../../../../../test/secret-project.ts'

let service: TestService
let session: string
let tokens: { token: string; name: string }[]
beforeAll(async () => {
  service = await startService()
  session = (await registerOwner(service)).session
  tokens = await Promise.all(
    ['one', 'two', 'three'].map(async (name) => ({
      name,
      token: (await createToken(service, session, { name })).token,
    })),
  )
})
afterAll(() => service.stop())

type Written = { readonly status: number; readonly version: number; readonly message: string }

async function write(
  project: SecretProject,
  key: string,
  body: Record<string, unknown>,
  token = session,
): Promise<Written> {
  const answer = await project.ask<Written>('PUT', `/secret/${key}/value`, body, token)
  return { status: answer.status, version: answer.body.version, message: answer.body.message }
}

async function listEntries(project: SecretProject, environment: string): Promise<AuditEntry[]> {
  const query = `limit=200&project=${project.slug}&environment=${environment}&action=UPDATE`
  const { body } = await service.call<AuditEntry[]>('GET', `/v1/workspace/main/audit?${query}`, { token: session })
  return body
}

async function expectSoundTrail(): Promise<void> {
  const { body } = await service.call<AuditVerdict>('GET', '/v1/workspace/main/audit/verify', { token: session })
  expect(body).toMatchObject({ ok: true })
}

test('each concurrent write has its own version, revision, message and audit entry, in one order', async () => {
  const project = await createSecretProject(service, session)
  await project.set('development', { A: 'first', B: 'first' })
  const count = 60
  const wanted = Array.from({ length: count }, (_, index) => ({
    key: index % 3 === 0 ? 'B' : 'A',
    value: `value ${index}`,
    message: `message ${index}`,
    by: tokens[index % tokens.length] ?? { token: session, name: '' },
  }))
  const written = await Promise.all(
    wanted.map(({ key, value, message, by }) =>
      write(project, key, { environmentId: 'development', value, message }, by.token),
    ),
  )
  expect(written.map(({ status }) => status)).toEqual(wanted.map(() => 200))

  for (const key of ['A', 'B']) {
    const versions = await project.must<SecretVersion[]>(
      'GET',
      `/secret/${key}/version?environmentId=development&limit=200`,
    )
    const mine = wanted.flatMap((wish, index) =>
      wish.key === key ? [{ ...wish, version: written[index]?.version }] : [],
    )
    expect(versions.map(({ version }) => version)).toEqual(versions.map((_, index) => mine.length + 1 - index))
    for (const { version, message, by, value } of mine) {
      const kept = versions.find((one) => one.version === version)
      expect(kept).toMatchObject({ message, createdBy: by.name })
      const opened = await project.must('GET', `/secret/${key}/version/${version}?environmentId=development`)
      expect(opened).toMatchObject({ value })
    }
    const state = await project.state('development')
    expect(state[key]).toBe(mine.find(({ version }) => version === mine.length + 1)?.value)
  }
  const revisions = await project.revisions('development')
  expect(revisions.map(({ revision }) => revision)).toEqual(
    Array.from({ length: count + 1 }, (_, at) => count + 1 - at),
  )
  expect(new Set(revisions.map(({ message }) => message)).size).toBe(count + 1)

  const entries = await listEntries(project, project.idOf('development'))
  expect(entries).toHaveLength(count)
  expect(new Set(entries.map(({ id }) => id)).size).toBe(count)
  for (const [index, { key, message, by }] of wanted.entries()) {
    const entry = entries.find(({ after }) => after?.message === message)
    const change = { key, environment: 'development', status: 'updated', version: written[index]?.version }
    expect(entry).toMatchObject({
      entity: { name: key },
      actor: { name: by.name },
      after: { message, changes: [change] },
    })
  }
  await expectSoundTrail()
})

test('one of many writes with the same ifVersion succeeds, and a refused write does not affect the others', async () => {
  const project = await createSecretProject(service, session)
  await project.set('development', { A: 'first', B: 'first' })
  const at = { environmentId: 'development' }
  const [racing, others, absent, masked, equal] = await Promise.all([
    Promise.all(
      Array.from({ length: 20 }, (_, index) => write(project, 'A', { ...at, value: `racer ${index}`, ifVersion: 1 })),
    ),
    Promise.all(Array.from({ length: 20 }, (_, index) => write(project, 'B', { ...at, value: `value ${index}` }))),
    Promise.all(Array.from({ length: 5 }, () => write(project, 'NONE', { ...at, value: 'a value' }))),
    Promise.all(Array.from({ length: 5 }, () => write(project, 'B', { ...at, value: '********' }))),
    write(project, 'A', { ...at, value: 'first', ifVersion: 7 }),
  ])
  expect(racing.map(({ status }) => status).sort()).toEqual([200, ...new Array(19).fill(412)])
  expect(racing.filter(({ status }) => status === 200)).toMatchObject([{ version: 2 }])
  for (const { status, message } of racing) {
    if (status === 412) expect(message).toBe('A is at version 2 now: read it again.')
  }
  expect(others.map(({ version }) => version).sort((a, b) => a - b)).toEqual(others.map((_, index) => index + 2))
  expect(absent.map(({ status }) => status)).toEqual(absent.map(() => 404))
  expect(masked.map(({ status }) => status)).toEqual(masked.map(() => 400))
  expect(equal.status).toBe(412)
  const [newest] = await project.revisions('development', '?limit=1')
  expect(newest).toMatchObject({ revision: 22 })
  expect(await listEntries(project, project.idOf('development'))).toHaveLength(21)
  await expectSoundTrail()
})

test('an equal value is no change, even right after a concurrent write of it', async () => {
  const project = await createSecretProject(service, session)
  await project.set('development', { A: 'first' })
  const wish = { environmentId: 'development', value: 'second' }
  const written = await Promise.all(Array.from({ length: 20 }, () => write(project, 'A', wish)))
  expect(written).toEqual(written.map(() => ({ status: 200, version: 2, message: undefined })))
  expect(await project.revisions('development')).toHaveLength(2)
  expect(await listEntries(project, project.idOf('development'))).toHaveLength(1)
})

test('of concurrent writes that would close a reference cycle together, one is refused', async () => {
  const project = await createSecretProject(service, session)
  const rings = Array.from({ length: 12 }, (_, ring) =>
    Array.from({ length: 2 + (ring % 3) }, (_, at) => `R${ring}_${at}`),
  )
  await project.set('development', Object.fromEntries(rings.flat().map((key) => [key, 'plain'])))
  const written = await Promise.all(
    rings.map((ring) =>
      Promise.all(
        ring.map((key, at) => {
          const next = ring[(at + 1) % ring.length] ?? ''
          return write(project, key, { environmentId: 'development', value: `\${${next}}` })
        }),
      ),
    ),
  )
  for (const [index, answers] of written.entries()) {
    const statuses = answers.map(({ status }) => status).sort()
    expect(statuses, `ring ${index}`).toEqual([...new Array(statuses.length - 1).fill(200), 409])
  }
  await expectSoundTrail()
})

test('writes by name, by id and with references all reach the same secret', async () => {
  const project = await createSecretProject(service, session)
  await project.set('development', { A: 'first', B: 'b' })
  const secret = await project.must<{ id: string }>('GET', '/secret/A?environmentId=development')
  const written = await Promise.all(
    Array.from({ length: 30 }, (_, index) => {
      const value = index % 3 === 0 ? `\${B} ${index}` : `plain ${index}`
      const keys = ['A', secret.id, secret.id.toUpperCase()]
      return write(project, keys[index % 2 === 0 ? 0 : 1 + (index % 3 === 0 ? 1 : 0)] ?? '', {
        environmentId: 'development',
        value,
      })
    }),
  )
  const versions = written.map(({ version }) => version).sort((a, b) => a - b)
  expect(versions).toEqual(written.map((_, index) => index + 2))
  await expectSoundTrail()
})

test('a write to a tampered value fails alone', async () => {
  const project = await createSecretProject(service, session)
  await project.set('development', { A: 'first', B: 'first' })
  const raw = await openRaw(service)
  const [row] = await raw.query(
    `select v.secret_id, v.sealed from secret_value v join secret s on s.id = v.secret_id
     where s.project_id = ? and s.name = 'A'`,
    [project.id],
  )
  const broken = Buffer.from(row?.sealed as Uint8Array)
  broken.writeUInt8(broken.readUInt8(20) ^ 1, 20)
  await raw.query('update secret_value set sealed = ? where secret_id = ?', [broken, row?.secret_id ?? ''])
  await raw.close()
  const written = await Promise.all(
    Array.from({ length: 30 }, (_, index) =>
      write(project, index % 5 === 0 ? 'A' : 'B', { environmentId: 'development', value: `value ${index}` }),
    ),
  )
  expect(written.map(({ status }) => status)).toEqual(written.map((_, index) => (index % 5 === 0 ? 500 : 200)))
  const versions = written.flatMap(({ status, version }) => (status === 200 ? [version] : []))
  expect(versions.sort((a, b) => a - b)).toEqual(versions.map((_, index) => index + 2))
  const [newest] = await project.revisions('development', '?limit=1')
  expect(newest).toMatchObject({ revision: versions.length + 1 })
  await expectSoundTrail()
})

test('a removed value keeps its version, and the name of a trashed secret belongs to the new one', async () => {
  const project = await createSecretProject(service, session)
  await project.set('development', { REMOVED: 'first', TRASHED: 'first', KEPT: 'first' })
  const at = { environmentId: 'development' }
  expect(await write(project, 'TRASHED', { ...at, value: 'second' })).toMatchObject({ version: 2 })
  await project.remove('development', 'REMOVED')
  await project.must('DELETE', '/secret/TRASHED')
  await project.set('development', { TRASHED: 'anew' })
  const written = await Promise.all(
    ['REMOVED', 'TRASHED', 'KEPT', 'NONE'].map((key) => write(project, key, { ...at, value: 'last' })),
  )
  expect(written.map(({ status, version }) => version ?? status)).toEqual([3, 2, 2, 404])
  expect(await project.state('development')).toEqual({ REMOVED: 'last', TRASHED: 'last', KEPT: 'last' })
  await expectSoundTrail()
})

test('concurrent writes to several projects and environments do not mix', async () => {
  const projects = [await createSecretProject(service, session), await createSecretProject(service, session)]
  for (const project of projects) {
    for (const environment of ['development', 'staging']) await project.set(environment, { A: 'first' })
  }
  await Promise.all(
    projects.flatMap((project) =>
      ['development', 'staging'].flatMap((environment) =>
        Array.from({ length: 12 }, (_, index) =>
          write(project, 'A', { environmentId: environment, value: `${project.slug} ${environment} ${index}` }),
        ),
      ),
    ),
  )
  for (const project of projects) {
    for (const environment of ['development', 'staging']) {
      expect((await project.state(environment)).A).toMatch(`${project.slug} ${environment} `)
      const revisions = await project.revisions(environment)
      expect(revisions.map(({ revision }) => revision)).toEqual(Array.from({ length: 13 }, (_, index) => 13 - index))
    }
  }
  await expectSoundTrail()
})

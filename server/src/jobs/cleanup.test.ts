/**
 * Deleting places with very many values: they are gone at once for everyone, and removed in steps, also across
 * restarts.
 */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import type { AuditVerdict } from '@coffer/contract/audit'
import type { SignedIn } from '@coffer/contract/auth'
import type { Secret, TrashedSecret } from '@coffer/contract/secret'
import type { Token } from '@coffer/contract/token'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  createToken,
  engine,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../test/harness.ts'
import { type Program, startNode } from '../../../test/program.ts'
import { openRaw, type RawDatabase } from '../../../test/raw-database.ts'
import { createSecretProject, type SecretProject } from '../../../test/secret-project.ts'
import { times } from '../../../test/tier.ts'
import { until } from '../../../test/wait.ts'
import { dayMs } from '../domain/time.ts'
import { inQuietTransaction } from '../domain/transaction.ts'
import { cleanUp } from './cleanup.ts'

const tables = ['secret_version', 'secret_value', 'secret_rename']

let service: TestService
let owner: TestUser
let raw: RawDatabase
let doomed: SecretProject
let kept: SecretProject
beforeEach(async () => {
  service = await startService()
  owner = await registerOwner(service)
  raw = await openRaw(service)
  doomed = await createSecretProject(service, owner.session)
  kept = await createSecretProject(service, owner.session)
  for (const project of [doomed, kept]) {
    await project.set('development', { A: 'one', B: 'two', C: 'three' })
    await project.set('staging', { A: 'four' })
    await project.rename('C', 'RENAMED')
  }
})
afterEach(async () => {
  await raw.close()
  await service.stop()
})

/** Adds versions to every secret, with numbers beyond those that tests reach. */
async function multiplyVersions(environmentId: string, more: number): Promise<void> {
  const numbers =
    engine === 'sqlite'
      ? `with recursive n(n) as (select 1 union all select n + 1 from n where n < ${more})`
      : `with n as (select generate_series(1, ${more}) as n)`
  await raw.query(
    `insert into secret_version (environment_id, secret_id, version, workspace_id, revision, name, action, sealed,
       created_at, created_by, message)
     ${numbers}
     select v.environment_id, v.secret_id, 1000000 + n.n, v.workspace_id, v.revision, v.name, 'updated', v.sealed, v.created_at,
       v.created_by, '' from secret_version v, n where v.environment_id = ?`,
    [environmentId],
  )
}

async function count(table: string, environmentId?: string): Promise<number> {
  const where = environmentId === undefined ? '' : 'where environment_id = ?'
  const values = environmentId === undefined ? [] : [environmentId]
  const [row] = await raw.query(`select count(*) as count from ${table} ${where}`, values)
  return Number(row?.count)
}

const countsOf = (environmentId?: string) => Promise.all(tables.map((table) => count(table, environmentId)))
const clean = () => cleanUp(service.app.services)
const keptState = async () => [
  await kept.state('development'),
  await kept.state('staging'),
  await kept.revisions('development'),
]

describe('deleting', () => {
  const deletions: [what: string, path: () => string, environments: string[]][] = [
    ['an environment', () => `${doomed.root}/environment/${doomed.idOf('development')}`, ['development']],
    ['a project', () => doomed.root, ['development', 'staging']],
  ]

  test.each(deletions)(
    '%s is complete at once, and its values are gone after the next cleanup',
    async (_what, path, names) => {
      const ids = names.map((name) => doomed.idOf(name))
      const before = await keptState()
      await multiplyVersions(doomed.idOf('development'), 400)
      const answer = await service.call('DELETE', path(), { token: owner.session })
      expect(answer.status, answer.text).toBe(200)
      for (const id of ids) {
        // Without the key nobody can open the values; they only take space.
        expect(await count('environment_key', id)).toBe(0)
        expect(await count('secret_value', id)).toBeGreaterThan(0)
        const { status } = await service.call('GET', `${doomed.root}/secret?environmentId=${id}`, {
          token: owner.session,
        })
        expect(status).toBe(404)
      }
      await clean()
      for (const id of ids) expect(await countsOf(id)).toEqual([0, 0, 0])
      expect(await count('leftover')).toBe(0)
      expect(await keptState()).toEqual(before)
      const verdict = await service.call<AuditVerdict>('GET', '/v1/workspace/main/audit/verify', {
        token: owner.session,
      })
      expect(verdict.body).toMatchObject({ ok: true })
    },
  )

  test('an environment frees its name: the next one of that name starts empty', async () => {
    const path = `${doomed.root}/environment`
    expect(
      (await service.call('DELETE', `${path}/${doomed.idOf('development')}`, { token: owner.session })).status,
    ).toBe(200)
    const body = { name: 'development' }
    expect((await service.call('POST', path, { token: owner.session, body })).status).toBe(201)
    expect(await doomed.state('development')).toEqual({})
    await doomed.set('development', { A: 'anew' })
    await clean()
    expect(await doomed.state('development')).toEqual({ A: 'anew' })
    const secrets = await doomed.must<Secret[]>('GET', '/secret?environmentId=development')
    expect(secrets.find(({ name }) => name === 'A')?.values).toMatchObject([{ version: 1 }])
  })

  test('a workspace leaves none of its values and changes no other workspace', async () => {
    const before = await keptState()
    const { body } = await service.call<{ id: string }>('POST', '/v1/workspace', {
      token: owner.session,
      body: { name: 'Other', slug: 'other' },
    })
    const teams = await service.call<{ id: string }[]>('GET', '/v1/workspace/other/team', { token: owner.session })
    const place = { name: 'Api', slug: 'api', teamId: teams.body[0]?.id }
    await service.call('POST', '/v1/workspace/other/project', { token: owner.session, body: place })
    const secrets = { environments: ['development'], secrets: [{ key: 'A', value: 'one' }] }
    await service.call('POST', '/v1/workspace/other/project/api/secret', { token: owner.session, body: secrets })
    expect(
      (await service.call('DELETE', '/v1/workspace/other', { token: owner.session, body: { password } })).status,
    ).toBe(200)
    expect(
      (await service.call('GET', '/v1/workspace/other', { token: owner.session, body: { password } })).status,
    ).toBe(404)
    await clean()
    for (const table of tables) {
      expect(await raw.query(`select secret_id from ${table} where workspace_id = ?`, [body.id])).toEqual([])
    }
    expect(await keptState()).toEqual(before)
  })

  test('a project is followed by steps of a bounded size', async () => {
    const id = doomed.idOf('development')
    await multiplyVersions(id, 200)
    await service.call('DELETE', doomed.root, { token: owner.session })
    const { services } = service.app
    const all = async () => (await countsOf()).reduce((sum, each) => sum + each)
    let left = await all()
    while (await inQuietTransaction(services, 'cleanup', (store) => store.purgeQueue.removeSome(50))) {
      const now = await all()
      expect(left - now).toBeLessThanOrEqual(50)
      left = now
    }
    expect(await countsOf(id)).toEqual([0, 0, 0])
  })

  test('a project does not delay a stop: the next cleanup removes the rest', async () => {
    const id = doomed.idOf('development')
    await multiplyVersions(id, 1_000)
    await service.call('DELETE', doomed.root, { token: owner.session })
    const { services } = service.app
    const stopping = new AbortController()
    const cleaning = cleanUp(services, stopping.signal)
    await inQuietTransaction(services, 'cleanup', async () => stopping.abort())
    await cleaning
    expect(await count('secret_version', id)).toBeGreaterThan(0)
    await clean()
    expect(await countsOf(id)).toEqual([0, 0, 0])
  })

  test('a project is completed by the next process if the cleanup is killed', {
    timeout: 600_000,
  }, async () => {
    const id = doomed.idOf('development')
    await multiplyVersions(id, 5_000)
    const before = await keptState()
    await service.call('DELETE', doomed.root, { token: owner.session })
    const sizes = [await count('secret_version', id)]
    for (let kill = 0; kill < times(1, 3); kill++) {
      const cleaning = startCleaning()
      const has = (text: string) => cleaning.out().includes(text)
      await until(() => has('cleaning') || cleaning.hasEnded() || undefined, 120_000, 'the cleanup runs')
      const start = sizes.at(-1) ?? 0
      await until(async () => (await count('secret_version', id)) < start || undefined, 120_000, 'a step is done')
      cleaning.kill('SIGKILL')
      await cleaning.ended
      sizes.push(await count('secret_version', id))
    }
    expect(sizes.at(-1)).toBeGreaterThan(0)
    await clean()
    expect(await countsOf(id)).toEqual([0, 0, 0])
    expect(await count('leftover')).toBe(0)
    expect(await keptState()).toEqual(before)
  })

  test('an environment during writes leaves none of them behind: each is refused, or deleted with it', async () => {
    const environmentId = doomed.idOf('development')
    const write = (index: number) =>
      index % 2 === 0
        ? doomed.ask('PUT', '/secret/A/value', { environmentId, value: `value ${index}` })
        : doomed.ask('POST', '/secret', {
            environments: [environmentId],
            secrets: [{ key: `NEW_${index}`, value: 'x' }],
          })
    const writes = Array.from({ length: 60 }, (_, index) => write(index))
    const deletion = service.call('DELETE', `${doomed.root}/environment/${environmentId}`, { token: owner.session })
    const late = Array.from({ length: 60 }, (_, index) => write(100 + index))
    expect((await deletion).status).toBe(200)
    const statuses = (await Promise.all([...writes, ...late])).map(({ status }) => status)
    expect(new Set(statuses).difference(new Set([200, 201, 404]))).toEqual(new Set())
    expect(statuses).toContain(404)
    await clean()
    expect(await countsOf(environmentId)).toEqual([0, 0, 0])
    const { body } = await service.call<AuditVerdict>('GET', '/v1/workspace/main/audit/verify', {
      token: owner.session,
    })
    expect(body).toMatchObject({ ok: true })
  })

  /** A process that only cleans up. */
  function startCleaning(): Program {
    const at = (name: string) => JSON.stringify(pathToFileURL(join(import.meta.dirname, '..', name)).href)
    const script = `
      import { createServices } from ${at('app.ts')}
      import { readConfig } from ${at('config.ts')}
      import { createLog } from ${at('log.ts')}
      import { cleanUp } from ${at('jobs/cleanup.ts')}
      const services = await createServices(readConfig(${JSON.stringify(service.settings)}), createLog('silent'))
      console.log('cleaning')
      await cleanUp(services)`
    return startNode(['--input-type=module-typescript', '--eval', script])
  }
})

/** No session lasts that long, so the owner signs in again. */
async function signInAfter(ms: number): Promise<string> {
  service.clock.offsetMs = ms
  const body = { email: owner.email, password }
  return (await service.call<SignedIn>('POST', '/v1/auth/login', { body })).body.accessToken
}

test('a command-line token leaves the list thirty days after it ended, and no other token does', async () => {
  const tokens = '/v1/workspace/main/tokens'
  const typesAfter = async (ms: number) => {
    const token = await signInAfter(ms)
    await clean()
    return (await service.call<Token[]>('GET', tokens, { token })).body.map(({ type }) => type)
  }
  const body = { environmentId: doomed.idOf('development') }
  const ended = 30 * dayMs + 8 * 60 * 60 * 1_000
  const make = (token: string) => service.call('POST', `${tokens}/cli`, { token, body })
  expect((await make(owner.session)).status).toBe(201)
  expect((await make(await signInAfter(120_000))).status).toBe(201)
  await createToken(service, owner.session, { expiresIn: '24h' })
  expect(await typesAfter(ended - 60_000)).toEqual(['static', 'cli', 'cli'])
  expect(await typesAfter(ended + 60_000)).toEqual(['static', 'cli'])
  expect(await typesAfter(ended + 180_000)).toEqual(['static'])
})

describe('the trash', () => {
  test('removes a secret with all its versions after thirty days, and it cannot be restored meanwhile', async () => {
    const id = doomed.idOf('development')
    await multiplyVersions(id, 300)
    const [secret] = await raw.query(`select id from secret where name = 'A' and project_id = ?`, [doomed.id])
    const versionsOf = async () =>
      (await raw.query('select 1 as one from secret_version where secret_id = ?', [secret?.id ?? ''])).length
    await doomed.must('DELETE', '/secret/A')
    const before = await signInAfter(30 * dayMs - 60_000)
    await clean()
    expect(await versionsOf()).toBeGreaterThan(300)
    expect((await doomed.ask<TrashedSecret[]>('GET', '/secret/trash', undefined, before)).body).toHaveLength(1)
    const token = await signInAfter(30 * dayMs + 60_000)
    expect((await doomed.ask('GET', '/secret/trash', undefined, token)).body).toEqual([])
    expect((await doomed.ask('POST', '/secret/A/restore', undefined, token)).status).toBe(404)
    await clean()
    expect(await versionsOf()).toBe(0)
    expect(await raw.query('select secret_id from secret_value where secret_id = ?', [secret?.id ?? ''])).toEqual([])
    expect(await raw.query('select id from secret where id = ?', [secret?.id ?? ''])).toEqual([])
    expect((await doomed.ask<Secret[]>('GET', '/secret', undefined, token)).body.map(({ name }) => name)).toEqual([
      'B',
      'RENAMED',
    ])
  })

  const removeExpired = () =>
    inQuietTransaction(service.app.services, 'cleanup', (store) =>
      store.secrets.removeTrashedBefore(Date.now() + 1_000, 200),
    )
  const findTrashed = async () => {
    await doomed.must('DELETE', '/secret/A')
    const [row] = await raw.query('select workspace_id from project where id = ?', [doomed.id])
    const [secret] = await service.app.services.store.secrets.listTrash(doomed.id, String(row?.workspace_id))
    if (!secret) throw new Error('the trash is empty')
    return secret
  }

  test('keeps a secret that is restored at the moment of its removal, with its versions', async () => {
    const secret = await findTrashed()
    let removing: Promise<boolean> | undefined
    await inQuietTransaction(service.app.services, 'restore', async (store) => {
      await store.secrets.update({ ...secret, trashedAt: null })
      removing = removeExpired()
      // PostgreSQL transactions overlap; on SQLite the removal runs after this one.
      await Promise.race([removing, sleep(300)])
    })
    expect(await removing).toBe(false)
    expect(await raw.query('select id from secret where id = ?', [secret.id])).toHaveLength(1)
    expect(await raw.query('select version from secret_version where secret_id = ?', [secret.id])).not.toEqual([])
  })

  test('does not restore a secret that was removed meanwhile', async () => {
    const secret = await findTrashed()
    expect(await removeExpired()).toBe(true)
    const restored = { ...secret, trashedAt: null }
    for (const method of ['update', 'updateMany'] as const) {
      const restoring = inQuietTransaction(service.app.services, 'restore', ({ secrets }) =>
        method === 'update' ? secrets.update(restored) : secrets.updateMany([restored]),
      )
      await expect(restoring, method).rejects.toMatchObject({ code: 'notFound' })
    }
    expect(await raw.query('select id from secret where id = ?', [secret.id])).toEqual([])
  })

  test('loses every version of a purged secret at once', async () => {
    await multiplyVersions(doomed.idOf('development'), 50)
    const [secret] = await raw.query(`select id from secret where name = 'RENAMED' and project_id = ?`, [doomed.id])
    await doomed.must('DELETE', '/secret/RENAMED?purge=true')
    for (const table of tables) {
      expect(await raw.query(`select secret_id from ${table} where secret_id = ?`, [secret?.id ?? ''])).toEqual([])
    }
    expect(await doomed.state('development')).toEqual({ A: 'one', B: 'two' })
  })
})

/** Two nodes behind PgBouncer in transaction mode, where each transaction may get another connection. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { AuditVerdict } from '@coffer/contract/audit'
import type { Team } from '@coffer/contract/team'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { requirePrograms } from '../../../test/debian-package.ts'
import { createProject, openService, registerOwner, type TestService } from '../../../test/harness.ts'
import { startPgbouncer } from '../../../test/pgbouncer.ts'
import { type Postgres, startPostgres } from '../../../test/postgres.ts'
import { connectPostgres } from '../../../test/postgres-client.ts'
import { until } from '../../../test/wait.ts'

const main = '/v1/workspace/main'

describe('behind PgBouncer in transaction mode', () => {
  let server: Postgres
  let pooler: Awaited<ReturnType<typeof startPgbouncer>>
  let dataDir: string

  beforeAll(async () => {
    await requirePrograms('pgbouncer')
    server = await startPostgres()
    pooler = await startPgbouncer(server.port)
    dataDir = await mkdtemp(join(tmpdir(), 'coffer-test-'))
  })
  afterAll(async () => {
    await pooler.stop()
    await server.stop()
    await rm(dataDir, { recursive: true, force: true })
  })

  async function createDatabase(name: string, timeouts: readonly string[] = []): Promise<string> {
    const client = await connectPostgres(server.url)
    await client.query(`create database ${name}`)
    for (const timeout of timeouts) await client.query(`alter database ${name} set ${timeout}`)
    await client.end()
    return pooler.urlOf(name)
  }
  const open = (url: string) =>
    openService({ COFFER_DATA_DIR: dataDir, COFFER_DATABASE_URL: url, COFFER_EXCHANGE_RATE_LIMIT: '0' }, dataDir)

  test('a node that does not know of it does not start, and says what to add', async () => {
    const url = await createDatabase('unnamed')
    await expect(open(url)).rejects.toThrow('it is a PgBouncer: add pgbouncer=true to the parameters')
  })

  test.each([
    ['no timeout', 'statement_timeout', []],
    ['too long a timeout', 'statement_timeout', [`statement_timeout = '31s'`]],
    ['no timeout of transactions', 'idle_in_transaction_session_timeout', [`statement_timeout = '30s'`]],
  ])('a node does not start with %s, and says how to set it', async (title, name, timeouts) => {
    const url = await createDatabase(title.replaceAll(' ', '_'), timeouts)
    await expect(open(`${url}?pgbouncer=true`)).rejects.toThrow(`${name} must be set for the role`)
  })

  test('two nodes write and read more at once than it has connections, and survive its restart', {
    timeout: 600_000,
  }, async () => {
    const timeouts = [`statement_timeout = '30s'`, `idle_in_transaction_session_timeout = '10s'`]
    const url = `${await createDatabase('pooled', timeouts)}?pgbouncer=true`
    const here = await open(url)
    const there = await open(url)
    const acknowledged: string[] = []
    const refused = new Set<number>()
    let isOver = false
    try {
      const owner = await registerOwner(here)
      const { environments } = await createProject(here, owner.session, 'api')
      const created = await here.call('POST', `${main}/project/api/secret`, {
        token: owner.session,
        body: { environments: [environments[0]?.id], secrets: [{ key: 'ONE', value: 'first' }] },
      })
      expect(created.status).toBe(201)
      let count = 0
      const addTeam = async (node: TestService) => {
        const name = `team ${++count}`
        const { status } = await node.call('POST', `${main}/team`, { token: owner.session, body: { name } })
        if (status === 201) acknowledged.push(name)
        else refused.add(status)
      }
      const writeValue = async (node: TestService) => {
        const body = { environmentId: environments[0]?.id, value: `value ${++count}` }
        const path = `${main}/project/api/secret/ONE/value`
        const { status } = await node.call('PUT', path, { token: owner.session, body })
        if (status !== 200) refused.add(status)
      }
      await Promise.all(Array.from({ length: 40 }, (_, index) => addTeam(index % 2 ? here : there)))
      await Promise.all(Array.from({ length: 40 }, (_, index) => writeValue(index % 2 ? here : there)))
      expect([acknowledged.length, [...refused]]).toEqual([40, []])

      const load = Promise.all(
        [here, there, here, there].map(async (node, index) => {
          while (!isOver) await (index < 2 ? addTeam(node) : writeValue(node))
        }),
      )
      await pooler.end('SIGKILL')
      await until(() => refused.has(503) || undefined, 120_000, 'requests are refused')
      await pooler.start()
      const since = acknowledged.length
      await until(() => acknowledged.length > since + 5 || undefined, 120_000, 'writes succeed again')
      isOver = true
      await load
      expect([...refused]).toEqual([503])

      const listed = await there.call<Team[]>('GET', `${main}/team`, { token: owner.session })
      const names = new Set(listed.body.map(({ name }) => name))
      expect(acknowledged.filter((name) => !names.has(name))).toEqual([])
      const verdict = await here.call<AuditVerdict>('GET', `${main}/audit/verify`, { token: owner.session })
      expect(verdict.body).toMatchObject({ ok: true })
    } finally {
      isOver = true
      await here.stop()
      await there.stop()
    }
  })
})

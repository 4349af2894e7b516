/** A store that is unavailable or full, and recovers. */
import { execFile } from 'node:child_process'
import { mkdtemp, rm, unlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { AuditVerdict } from '@coffer/contract/audit'
import type { Team } from '@coffer/contract/team'
import { describe, expect, test } from 'vitest'
import {
  createToken,
  exchange,
  engine as kind,
  openService,
  registerOwner,
  type TestService,
} from '../../../test/harness.ts'
import { startPostgres } from '../../../test/postgres.ts'
import { times } from '../../../test/tier.ts'
import { until } from '../../../test/wait.ts'

const main = '/v1/workspace/main'

describe('a database server that crashes and restarts', () => {
  test('causes only 503 responses while it is down, and loses no acknowledged write', {
    timeout: 600_000,
  }, async () => {
    if (kind === 'sqlite') {
      // SQLite has no server; see the full disk below.
      expect(process.env.COFFER_TEST_ENGINE).toBe('sqlite')
      return
    }
    const server = await startPostgres()
    const dataDir = await mkdtemp(join(tmpdir(), 'coffer-test-'))
    const settings = { COFFER_DATA_DIR: dataDir, COFFER_DATABASE_URL: server.url, COFFER_EXCHANGE_RATE_LIMIT: '0' }
    const service = await openService(settings, dataDir)
    const acknowledged: string[] = []
    const answers: { status: number; askedAt: number; answeredAt: number; what: string }[] = []
    let isOver = false
    try {
      const owner = await registerOwner(service)
      const { token } = await createToken(service, owner.session)
      const jwt = await exchange(service, token)
      let count = 0
      const works: [what: string, work: () => Promise<number>][] = [
        [
          'write',
          async () => {
            const name = `team ${++count}`
            const { status } = await service.call('POST', `${main}/team`, { token: owner.session, body: { name } })
            if (status === 201) acknowledged.push(name)
            return status
          },
        ],
        ['session', async () => (await service.call('GET', `${main}/team`, { token: owner.session })).status],
        ['token', async () => (await service.call('GET', `${main}/team`, { token })).status],
        ['JWT', async () => (await service.call('GET', `${main}/team`, { token: jwt })).status],
        ['exchange', async () => (await service.call('POST', '/v1/auth/exchange', { token })).status],
        ['tokens', async () => (await service.call('GET', `${main}/tokens`, { token })).status],
        ['audit', async () => (await service.call('GET', `${main}/audit`, { token })).status],
        ['verify', async () => (await service.call('GET', `${main}/audit/verify`, { token })).status],
      ]
      const load = Promise.all(
        [...works, ...works, ...works].map(async ([what, work]) => {
          while (!isOver) {
            const askedAt = performance.now()
            const status = await work()
            answers.push({ status, askedAt, answeredAt: performance.now(), what })
            await new Promise((resolve) => setTimeout(resolve, 2))
          }
        }),
      )
      const away: { from: number; to: number }[] = []
      for (let round = 0; round < times(1, 3); round++) {
        const before = acknowledged.length
        await until(() => acknowledged.length > before + 10 || undefined, 120_000, 'writes are acknowledged')
        const from = performance.now()
        await server.crash()
        const failed = () => answers.some(({ status, askedAt }) => status === 503 && askedAt > from)
        await until(() => failed() || undefined, 120_000, 'requests are refused')
        await server.start()
        const since = acknowledged.length
        await until(() => acknowledged.length > since || undefined, 120_000, 'writes succeed again')
        away.push({ from, to: performance.now() + 1_000 })
      }
      isOver = true
      await load

      const bad = answers.filter(({ status }) => status !== 200 && status !== 201)
      expect(new Set(bad.map(({ status, what }) => `${what} ${status}`))).toEqual(
        new Set(bad.filter(({ status }) => status === 503).map(({ what }) => `${what} 503`)),
      )
      const stray = bad.filter(
        ({ askedAt, answeredAt }) => !away.some(({ from, to }) => answeredAt >= from && askedAt <= to),
      )
      expect(stray).toEqual([])

      const listed = await service.call<Team[]>('GET', `${main}/team`, { token: owner.session })
      const names = new Set(listed.body.map(({ name }) => name))
      expect(acknowledged.filter((name) => !names.has(name))).toEqual([])
      const verdict = await service.call<AuditVerdict>('GET', `${main}/audit/verify`, { token: owner.session })
      expect(verdict.body).toMatchObject({ ok: true })
      // The pool leaked no connection: it serves more concurrent requests than it has connections.
      const all = await Promise.all(
        Array.from({ length: 60 }, (_, index) =>
          service.call('POST', `${main}/team`, { token: owner.session, body: { name: `after ${index}` } }),
        ),
      )
      expect(new Set(all.map(({ status }) => status))).toEqual(new Set([201]))
      expect(service.logs.filter((line) => line.includes('a request failed'))).toEqual([])
    } finally {
      isOver = true
      await service.stop()
      await server.stop()
      await rm(dataDir, { recursive: true, force: true })
    }
  })
})

describe('a full disk', () => {
  const run = promisify(execFile)

  test('refuses writes with 503, serves reads, and accepts writes again when there is space', async () => {
    if (kind === 'postgres') {
      expect(process.env.COFFER_TEST_ENGINE).toBe('postgres')
      return
    }
    const dataDir = await mkdtemp(join(tmpdir(), 'coffer-full-'))
    await run('mount', ['-t', 'tmpfs', '-o', 'size=5m,mode=700', 'coffer-full', dataDir])
    const ballast = join(dataDir, 'ballast')
    let service: TestService | undefined
    try {
      await writeFile(ballast, Buffer.alloc(1_000_000))
      service = await openService({ COFFER_DATA_DIR: dataDir, COFFER_EXCHANGE_RATE_LIMIT: '0' }, dataDir)
      const node = service
      const owner = await registerOwner(node)
      const { token } = await createToken(node, owner.session)
      const jwt = await exchange(node, token)
      const acknowledged: string[] = []
      let count = 0
      const write = async () => {
        const name = `team ${++count}`
        const { status } = await node.call('POST', `${main}/team`, { token: owner.session, body: { name } })
        if (status === 201) acknowledged.push(name)
        return status
      }
      const statuses = new Set<number>()
      let refused = 0
      while (refused < 40) {
        for (const status of await Promise.all(Array.from({ length: 10 }, write))) {
          statuses.add(status)
          if (status === 503) refused++
        }
        expect(count).toBeLessThan(20_000)
      }
      expect([...statuses].sort()).toEqual([201, 503])

      const readTeams = () => node.call<Team[]>('GET', `${main}/team`, { token: owner.session })
      const listed = await readTeams()
      expect(listed.status).toBe(200)
      expect(
        listed.body
          .map(({ name }) => name)
          .filter((name) => name.startsWith('team'))
          .sort(),
      ).toEqual([...acknowledged].sort())
      for (const credential of [token, jwt]) {
        expect((await node.call('GET', `${main}/team`, { token: credential })).status).toBe(200)
      }
      // An exchange is audited before the JWT is issued: without space for the entry there is no JWT.
      let exchanged = 1
      const isRefused = async () => {
        const { status } = await node.call('POST', '/v1/auth/exchange', { token })
        if (status === 200) exchanged++
        return status === 503 || undefined
      }
      await until(isRefused, 120_000, 'there is no space for the entry')

      await unlink(ballast)
      await until(async () => (await write()) === 201 || undefined, 120_000, 'writes are accepted again')
      for (let again = 0; again < 20; again++) expect(await write()).toBe(201)
      const after = await readTeams()
      expect(
        after.body
          .map(({ name }) => name)
          .filter((name) => name.startsWith('team'))
          .sort(),
      ).toEqual([...acknowledged].sort())
      const verdict = await node.call<AuditVerdict>('GET', `${main}/audit/verify`, { token: owner.session })
      expect(verdict.body).toMatchObject({ ok: true })
      const path = `${main}/audit?action=EXCHANGE&limit=200`
      const recorded = await node.call<unknown[]>('GET', path, { token: owner.session })
      expect(Math.min(exchanged, 200)).toBe(recorded.body.length)
      await node.stop()
      service = await openService(node.settings, dataDir)
      const restarted = await service.call<Team[]>('GET', `${main}/team`, { token: owner.session })
      expect(restarted.body).toHaveLength(after.body.length)
    } finally {
      await service?.stop()
      await run('umount', [dataDir])
      await rm(dataDir, { recursive: true, force: true })
    }
  })
})

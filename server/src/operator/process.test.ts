/** The program as an operator runs it: first start, clean and forced stops, metrics on their own port. */
import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { Agent } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import type { Team } from '@coffer/contract/team'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { caller } from '../../../test/caller.ts'
import { createDatabase, type Database, engine, openService, registerOwner } from '../../../test/harness.ts'
import { freePort } from '../../../test/postgres.ts'
import { type Serving, serve } from '../../../test/process.ts'
import { listening, messagesOf, startGroup, startNpm } from '../../../test/program.ts'
import { tamper } from '../../../test/store.ts'
import { isDeep } from '../../../test/tier.ts'
import { until } from '../../../test/wait.ts'
import { codeOf } from '../error-code.ts'
import { sql } from '../store/engine/sql.ts'

const teams = '/v1/workspace/main/team'

async function modeOf(path: string): Promise<string> {
  return ((await stat(path)).mode & 0o777).toString(8)
}

describe('the first start', () => {
  let database: Database
  beforeEach(async () => {
    database = await createDatabase()
  })
  afterEach(() => database.drop())

  test('creates its folder, key and database readable by nobody else, and says what to do next', async () => {
    const dataDir = join(database.dataDir, 'made', 'by', 'coffer')
    const port = await freePort()
    // A variable of the command line in the same shell does not disturb the service.
    const client = { COFFER_URL: 'https://coffer.example.com' }
    const own = { COFFER_DATA_DIR: dataDir, COFFER_PORT: String(port), COFFER_SETUP_CODE: '' }
    const settings = { ...database.settings, ...client, ...own }
    const service = await serve(settings)
    expect(await modeOf(dataDir)).toBe('700')
    expect(await modeOf(join(dataDir, 'master.key'))).toBe('600')
    expect(Buffer.from(await readFile(join(dataDir, 'master.key'), 'utf8'), 'base64')).toHaveLength(32)
    if (engine === 'sqlite') {
      for (const file of ['coffer.db', 'coffer.db-wal', 'coffer.db-shm']) {
        expect(await modeOf(join(dataDir, file)), file).toBe('600')
      }
    }
    const said = service.messages().join('\n')
    expect(said).toContain(`\nor in another terminal:\n  npx coffer login http://localhost:${port}\n`)
    expect(said).toContain(`Coffer is ready. Data: ${engine === 'sqlite' ? dataDir : 'PostgreSQL'}.\n`)
    expect(await modeOf(join(dataDir, 'setup-code'))).toBe('600')
    const setupCode = (await readFile(join(dataDir, 'setup-code'), 'utf8')).trim()
    const link = `http://localhost:${port}/setup#code=${setupCode}`
    expect(said).toContain(`Create the first account in the browser:\n  ${link}\n`)
    expect(said).toMatch(new RegExp(`^Setup code: ${setupCode}$`, 'm'))
    expect(service.program.err()).toBe('')

    const { session } = await registerOwner(service, undefined, setupCode)
    expect(await readdir(dataDir)).not.toContain('setup-code')
    const team = await service.call<Team>('POST', teams, { token: session, body: { name: 'Kept' } })
    const key = await readFile(join(dataDir, 'master.key'), 'utf8')
    expect(await service.stop()).toMatchObject({ code: 0, err: '' })

    const again = await serve(settings)
    const listed = await again.call<Team[]>('GET', teams, { token: session })
    expect(listed.body.map(({ id }) => id)).toContain(team.body.id)
    expect(again.messages().join('\n')).toContain(`Coffer is ready at http://localhost:${port}. Data: `)
    expect(again.messages().join('\n')).not.toMatch(/first account|setup/)
    expect(await readFile(join(dataDir, 'master.key'), 'utf8')).toBe(key)
    expect((await again.stop()).code).toBe(0)
  })

  test('by two processes at once gives both the same keys, and each logs the port that the system chose', async () => {
    const both = await Promise.all([serve(database.settings), serve(database.settings)])
    const [one, other] = both
    const { session } = await registerOwner(one)
    expect((await other.call('GET', '/v1/me', { token: session })).status).toBe(200)
    for (const service of both) {
      const said = service.messages().join('\n')
      expect(said).toContain(`:${service.port}`)
      expect(said).not.toContain('localhost:0')
      expect((await service.stop()).code).toBe(0)
    }
  })
})

describe('a stop', () => {
  let database: Database
  let token: string
  beforeAll(async () => {
    database = await createDatabase({ hasSchema: true })
    const service = await openService(database.settings, database.dataDir)
    token = (await registerOwner(service)).session
    await service.stop()
  })
  afterAll(() => database.drop())

  /** The names of the remaining teams. */
  async function listTeams(): Promise<string[]> {
    const service = await openService(database.settings, database.dataDir)
    const { body } = await service.call<Team[]>('GET', teams, { token })
    await service.stop()
    return body.map(({ name }) => name)
  }

  type Outcome = { readonly status: number | 'refused' | 'cut off'; readonly answeredAt: number }

  /** Sends one request after another until stopped, and collects their outcomes. */
  function startLoad(service: Serving, prefix: string, workers: number) {
    let isOver = false
    let made = 0
    const outcomes: Outcome[] = []
    const acknowledged: string[] = []
    const work = async (worker: number) => {
      while (!isOver) {
        const name = `${prefix} ${worker} ${++made}`
        const writes = worker % 2 === 0
        try {
          // `fetch` keeps idle connections between two requests: these must not be cut off either.
          const response = await fetch(service.url + teams, {
            method: writes ? 'POST' : 'GET',
            headers: { authorization: `Bearer ${token}`, ...(writes ? { 'content-type': 'application/json' } : {}) },
            ...(writes ? { body: JSON.stringify({ name }) } : {}),
          })
          await response.text()
          outcomes.push({ status: response.status, answeredAt: performance.now() })
          if (response.status === 201) acknowledged.push(name)
        } catch (error) {
          const isRefused = error instanceof Error && codeOf(error.cause) === 'ECONNREFUSED'
          outcomes.push({ status: isRefused ? 'refused' : 'cut off', answeredAt: performance.now() })
          if (isRefused) return
        }
      }
    }
    const done = Promise.all(Array.from({ length: workers }, (_, index) => work(index)))
    return {
      outcomes,
      acknowledged,
      stop: async () => {
        isOver = true
        await done
      },
    }
  }

  test.each(isDeep ? (['SIGTERM', 'SIGINT'] as const) : (['SIGTERM'] as const))(
    'by %s under load answers every request, and ends within 10 seconds',
    async (signal) => {
      const service = await serve(database.settings)
      const load = startLoad(service, signal, 16)
      await until(() => load.acknowledged.length > 100 || undefined, 120_000, 'the load runs')
      const askedAt = performance.now()
      service.program.kill(signal)
      const ended = await service.program.ended
      await load.stop()
      // A stop that takes longer exits with 1.
      expect(ended).toMatchObject({ code: 0, signal: null, err: '' })
      expect(messagesOf(ended.out).slice(-2)).toEqual([`stopping on ${signal}`, 'stopped'])
      const statuses = new Set(load.outcomes.map(({ status }) => status))
      expect([...statuses].filter((status) => ![200, 201, 409, 503, 'refused'].includes(status))).toEqual([])
      for (const { status, answeredAt } of load.outcomes)
        if (status === 503) expect(answeredAt).toBeGreaterThan(askedAt)
      const left = new Set(await listTeams())
      expect(load.acknowledged.filter((name) => !left.has(name))).toEqual([])
    },
  )

  const repeated = ['repeated signals, as a process group with npm gets them,', ['SIGTERM', 'SIGINT']] as const
  test.each(isDeep ? ([['SIGTERM', []], repeated] as const) : [repeated])(
    'by %s waits for a request whose body is still being sent',
    async (_what, again) => {
      const service = await serve(database.settings)
      const socket = connect(service.port, '127.0.0.1').on('error', () => undefined)
      const name = `Slow ${again.length}`
      const body = JSON.stringify({ name })
      let answer = ''
      socket.setEncoding('utf8').on('data', (text: string) => {
        answer += text
      })
      const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
      socket.write(
        `POST ${teams} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body.slice(0, 5)}`,
      )
      // The response to this second request shows that the first one has arrived.
      await service.call('GET', teams, { token })
      service.program.kill('SIGTERM')
      await until(
        () => service.messages().includes('stopping on SIGTERM') || undefined,
        120_000,
        'the service is stopping',
      )
      for (const signal of again) service.program.kill(signal)
      socket.write(body.slice(5))
      await closed
      expect(answer).toMatch(/^HTTP\/1\.1 201 /)
      expect(await service.program.ended).toMatchObject({ code: 0, signal: null })
      expect(await listTeams()).toContain(name)
    },
  )

  // Connections are cut before the store is closed, so the engine makes no difference.
  if (engine === 'sqlite') {
    test('by SIGTERM ends within 10 seconds although a client never finishes its request', async () => {
      const service = await serve(database.settings)
      const socket = connect(service.port, '127.0.0.1')
      socket.on('error', () => undefined)
      socket.write(
        `POST ${teams} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{`,
      )
      const idle = connect(service.port, '127.0.0.1')
      idle.on('error', () => undefined)
      await service.call('GET', teams, { token })
      service.program.kill('SIGTERM')
      // A stop that takes longer exits with 1.
      expect(await service.program.ended).toMatchObject({ code: 0 })
      socket.destroy()
      idle.destroy()
    })
  }

  // npm does not depend on the store.
  if (engine === 'sqlite') {
    test.each(isDeep ? ['start', 'run coffer-server', 'run dev'] : ['start'])(
      'by SIGTERM to "npm %s" ends the service and frees its port',
      async (words) => {
        const npm = startNpm(words.split(' '), { ...database.settings, COFFER_PORT: '0' })
        try {
          const { url } = await listening(npm)
          // An idle connection would be kept open for a while.
          const ask = caller(url, new Agent())
          expect((await ask('GET', '/healthz')).status).toBe(200)
          npm.kill('SIGTERM')
          // A process left behind would keep stdout open, and npm would not end.
          await until(() => npm.hasEnded() || undefined, 120_000, 'npm has ended')
          await expect(ask('GET', '/healthz')).rejects.toThrow('ECONNREFUSED')
          expect(messagesOf(npm.out())).toContain('stopped')
        } finally {
          npm.endGroup()
        }
      },
    )

    test('by a signal to the shell of npm while the dashboard is built leaves no service behind', async () => {
      // Runs in the build: ends the shell, as npm does, and waits until it is gone.
      const hook = join(database.dataDir, 'hook.mjs')
      await writeFile(
        hook,
        `const isGone = () => { try { return !process.kill(shell, 0) } catch { return true } }
        const shell = Number(process.env.SHELL_OF_NPM)
        if (process.argv[1]?.endsWith('build.ts')) for (process.kill(shell); !isGone(); );`,
      )
      const script = `SHELL_OF_NPM=$$ NODE_OPTIONS="--import $0" "$1" server/launch.js --dashboard; :`
      const settings = { ...database.settings, COFFER_PORT: '0' }
      const shell = startGroup('sh', ['-c', script, hook, process.execPath], settings)
      try {
        await until(() => shell.hasEnded() || undefined, 120_000, 'all processes of the script have ended')
      } finally {
        shell.endGroup()
      }
    })
  }
})

// Such a body never reaches the store.
if (engine === 'sqlite' && isDeep) {
  test('a body in chunks of one byte takes little more memory than its bytes', async () => {
    const database = await createDatabase({ hasSchema: true })
    const service = await serve(database.settings)
    // Without a credential, a body of this size is refused.
    const { session } = await registerOwner(service)
    const residentMb = async () =>
      Number(/VmRSS:\s+(\d+)/.exec(await readFile(`/proc/${service.program.child.pid}/status`, 'utf8'))?.[1]) / 1024
    const before = await residentMb()
    const socket = connect(service.port, '127.0.0.1')
    const answered = new Promise<string>((resolve) => socket.once('data', (bytes) => resolve(bytes.toString())))
    const headers = ['host: x', `authorization: Bearer ${session}`, 'content-type: application/json']
    socket.write([`POST ${teams} HTTP/1.1`, ...headers, 'transfer-encoding: chunked', '', ''].join('\r\n'))
    // A million chunks took more than 200 MB when each was kept.
    for (let part = 0; part < 100; part++) {
      const isRead = new Promise<void>((resolve) => void socket.write('1\r\n \r\n'.repeat(10_000), () => resolve()))
      await isRead
    }
    expect((await residentMb()) - before).toBeLessThan(100)
    socket.write('0\r\n\r\n')
    expect(await answered).toMatch(/^HTTP\/1\.1 400 /)
    socket.destroy()
    await service.stop()
    await database.drop()
  })
}

test('an idle connection to the metrics port does not delay a stop', async () => {
  const database = await createDatabase({ hasSchema: true })
  const port = await freePort()
  const service = await serve({ ...database.settings, COFFER_METRICS_PORT: String(port) })
  const silent = connect(port, '127.0.0.1').on('error', () => undefined)
  expect((await fetch(`http://127.0.0.1:${port}/metrics`)).status).toBe(200)
  // Waiting for it would make the process exit with 1.
  expect(await service.stop()).toMatchObject({ code: 0 })
  silent.destroy()
  await database.drop()
})

test('metrics on their own port are available while the store fails, except those read from it', async () => {
  const database = await createDatabase({ hasSchema: true })
  const port = await freePort()
  const service = await serve({ ...database.settings, COFFER_METRICS_PORT: String(port) })
  const ask = (path: string) => fetch(`http://127.0.0.1:${port}${path}`)
  expect(await (await ask('/metrics')).text()).toContain('coffer_sync_lag_seconds')
  expect((await ask('/other')).status).toBe(404)
  await tamper(database.settings, (db) => db.count(sql`alter table sync rename column changed_at to hidden_at`))
  const without = await ask('/metrics')
  expect(without.status).toBe(200)
  const text = await without.text()
  expect(text).toContain('coffer_sync_calls_total')
  expect(text).not.toContain('coffer_sync_lag_seconds')
  await tamper(database.settings, (db) => db.count(sql`alter table sync rename column hidden_at to changed_at`))
  expect(await (await ask('/metrics')).text()).toContain('coffer_sync_lag_seconds')
  expect((await service.call('GET', '/healthz')).status).toBe(200)
  await service.stop()
  await database.drop()
})

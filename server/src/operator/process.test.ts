/** The program as an operator meets it: first start, refusals, orderly and disorderly ends, the doctor. */
import { randomBytes } from 'node:crypto'
import { chmod, readdir, readFile, rename, rm, stat, unlink, writeFile } from 'node:fs/promises'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { TLSSocket } from 'node:tls'
import type { SignedIn } from '@coffer/contract/auth'
import type { Team } from '@coffer/contract/team'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createDatabase, type Database, engine, password } from '../../../test/harness.ts'
import { freePort } from '../../../test/postgres.ts'
import { type Serving, serve } from '../../../test/process.ts'
import {
  listening,
  messagesOf,
  runProgram,
  type Settings,
  startNpm,
  startProgram,
  until,
} from '../../../test/program.ts'
import { describeSchema, openEngine } from '../../../test/store.ts'
import { settings as allSettings } from '../config.ts'
import { testCertificate, testPrivateKey } from '../outbound-test-certificate.ts'
import { migrate, steps } from '../store/migrate.ts'
import { openPostgres } from '../store/postgres.ts'
import { type Db, type Engine, type Sql, sql } from '../store/sql.ts'
import { openSqlite } from '../store/sqlite.ts'

const teams = '/v1/workspace/main/team'
const registration = (email = 'owner@example.com', more: object = {}) => ({
  body: { email, name: 'Owner', password, ...more },
})

async function registerOwner(service: Serving): Promise<string> {
  const { status, body, text } = await service.call<SignedIn>('POST', '/v1/auth/register', registration())
  expect(status, text).toBe(201)
  return body.accessToken
}

async function modeOf(path: string): Promise<string> {
  return ((await stat(path)).mode & 0o777).toString(8)
}

/** Opens the store behind the program's back. */
async function tamper<Result>({ settings, dataDir }: Database, work: (db: Db) => Promise<Result>): Promise<Result> {
  const url = settings.COFFER_DATABASE_URL
  const store: Engine = url === undefined ? openSqlite(join(dataDir, 'coffer.db')) : openPostgres(url)
  try {
    return await store.transaction('tamper', ({ db }) => work(db))
  } finally {
    await store.close()
  }
}

describe('the command line', () => {
  test('--help lists every command and every setting, and needs no settings to do so', async () => {
    for (const args of [['--help'], ['help'], ['keys', '--help']]) {
      const { code, out, err } = await runProgram(args, { COFFER_PORT: 'nonsense' })
      expect({ code, err }).toEqual({ code: 0, err: '' })
      for (const command of ['serve', 'keys status', 'keys rotate-root', 'keys rotate-workspace <ws>', 'doctor']) {
        expect(out).toContain(`  ${command} `)
      }
      for (const { name, meaning } of allSettings) expect(out).toContain(`${name.padEnd(28)} ${meaning}`)
    }
  })

  test('--version is one line', async () => {
    expect(await runProgram(['--version'])).toMatchObject({
      code: 0,
      err: '',
      out: expect.stringMatching(/^\d+\.\d+\.\d+\n$/),
    })
  })

  test.each(['frobnicate', 'keys', 'keys rotate-workspace', 'serve now', 'doctor twice'])(
    'an unknown command ends with 2 and says where to look: %s',
    async (words) => {
      const { code, out, err } = await runProgram(words.split(' '))
      expect({ code, out, err }).toEqual({ code: 2, out: '', err: `"${words}" is not a command. --help lists them.\n` })
    },
  )
})

describe('the first start', () => {
  let database: Database
  beforeAll(async () => {
    database = await createDatabase()
  })
  afterAll(() => database.drop())

  test('makes its folder, its key and its database for nobody else to read, and says what to do next', async () => {
    const dataDir = join(database.dataDir, 'made', 'by', 'coffer')
    const port = await freePort()
    const settings = { ...database.settings, COFFER_DATA_DIR: dataDir, COFFER_PORT: String(port) }
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
    expect(said).toContain(
      `Coffer is ready at http://localhost:${port} (API reference: http://localhost:${port}/docs).`,
    )
    expect(said).toContain('Make the first account:')
    expect(said).toContain(`curl http://localhost:${port}/v1/auth/register`)
    expect(said).not.toContain('etup code')
    expect(service.program.err()).toBe('')

    const session = await registerOwner(service)
    const team = await service.call<Team>('POST', teams, { token: session, body: { name: 'Kept' } })
    const key = await readFile(join(dataDir, 'master.key'), 'utf8')
    expect(await service.stop()).toMatchObject({ code: 0, err: '' })

    const again = await serve(settings)
    const listed = await again.call<Team[]>('GET', teams, { token: session })
    expect(listed.body.map(({ id }) => id)).toContain(team.body.id)
    expect(again.messages().join('\n')).not.toContain('first account')
    expect(await readFile(join(dataDir, 'master.key'), 'utf8')).toBe(key)
    expect((await again.stop()).code).toBe(0)
  })

  test('on a port that the system chooses says which one it is', async () => {
    const own = await createDatabase()
    const service = await serve({ ...own.settings, COFFER_PORT: '0' })
    const said = service.messages().join('\n')
    await service.stop()
    await own.drop()
    expect(said).toContain(`:${service.port}`)
    expect(said).not.toContain('localhost:0')
  })

  test('by two processes at once gives both of them the same keys', async () => {
    const own = await createDatabase()
    const both = await Promise.all([serve(own.settings), serve(own.settings)])
    const [one, other] = both
    const session = await registerOwner(one)
    expect((await other.call('GET', '/v1/me', { token: session })).status).toBe(200)
    for (const service of both) expect((await service.stop()).code).toBe(0)
    await own.drop()
  })
})

describe('a start that is refused', () => {
  let database: Database
  let key: string
  let keyFile: string
  beforeAll(async () => {
    database = await createDatabase()
    const service = await serve(database.settings)
    await registerOwner(service)
    await service.stop()
    keyFile = join(database.dataDir, 'master.key')
    key = await readFile(keyFile, 'utf8')
  })
  beforeEach(async () => {
    await rm(keyFile, { force: true })
    await writeFile(keyFile, key, { mode: 0o600 })
  })
  afterAll(() => database.drop())

  /** Ends with 1 and one sentence on stderr, without having listened. */
  async function expectRefusal(settings: Settings, sentence: string | RegExp, withinMs = 8_000): Promise<void> {
    const port = settings.COFFER_PORT ?? String(await freePort())
    const startedAt = performance.now()
    const program = startProgram([], { ...database.settings, COFFER_PORT: port, ...settings })
    const timer = setTimeout(() => program.kill('SIGKILL'), 30_000)
    const { code, out, err } = await program.ended
    clearTimeout(timer)
    expect({ code, out }, err).toEqual({ code: 1, out: '' })
    expect(err.endsWith('\n') && err.trimEnd().split('\n').length === 1, err).toBe(true)
    if (typeof sentence === 'string') expect(err).toBe(`Coffer cannot start. ${sentence}\n`)
    else expect(err).toMatch(sentence)
    expect(err).not.toContain(key.trim())
    expect(performance.now() - startedAt).toBeLessThan(withinMs)
  }

  const putBack = 'put back the key that this database was made with, since no other one opens it.'
  const notItsKey = 'The master key does not match this database: start with the key that it was made with.'

  test('with another master key in the file', async () => {
    await writeFile(keyFile, randomBytes(32).toString('base64'))
    await expectRefusal({}, notItsKey)
  })

  test('with another master key in the environment', async () => {
    await expectRefusal({ COFFER_MASTER_KEY: randomBytes(32).toString('hex') }, notItsKey)
  })

  test.each([
    ['short', randomBytes(31).toString('base64')],
    ['empty', ''],
    ['not base64 or hex', 'hunter2 hunter2 hunter2 hunter2 hunter2 hun'],
  ])('with a master key that is %s', async (_what, value) => {
    await writeFile(keyFile, value)
    const wrong = `must be 32 bytes in base64 or hex; ${putBack}`
    await expectRefusal({}, `The master key from the file ${keyFile} ${wrong}`)
    await expectRefusal({ COFFER_MASTER_KEY_COMMAND: `cat ${keyFile}` }, `The master key from the command ${wrong}`)
    if (value === '') return
    await expectRefusal({ COFFER_MASTER_KEY: value }, `The master key from COFFER_MASTER_KEY ${wrong}`)
  })

  test('with a master key of zeros', async () => {
    await writeFile(keyFile, Buffer.alloc(32).toString('base64'))
    await expectRefusal({}, /^Coffer cannot start\. The master key from the file \S+ is one byte repeated/)
    await expectRefusal(
      { COFFER_MASTER_KEY: '0'.repeat(64) },
      /The master key from COFFER_MASTER_KEY is one byte repeated/,
    )
  })

  test.each(['644', '640', '604', '660', '601'])('with a master key that others can reach: mode %s', async (mode) => {
    await chmod(keyFile, Number.parseInt(mode, 8))
    await expectRefusal({}, `The master key file ${keyFile} is open to other users; run "chmod 600" on it.`)
  })

  test('without the master key, although the database has keys, and makes no new one', async () => {
    await unlink(keyFile)
    await expectRefusal(
      {},
      `The master key file ${keyFile} is missing; put it back, since the database already has keys that a new master key could not open.`,
    )
    await expect(stat(keyFile)).rejects.toThrow('ENOENT')
  })

  test.each([
    [{ COFFER_PROT: '8080' }, 'COFFER_PROT is not a setting that Coffer knows: see --help for the list.'],
    [{ COFFER_PORT: '80800' }, 'COFFER_PORT must be a port number from 0 to 65535.'],
    [{ COFFER_PORT: 'http' }, 'COFFER_PORT must be a port number from 0 to 65535.'],
    [{ COFFER_SIGNUP: 'maybe' }, 'COFFER_SIGNUP must be one of: invite, open.'],
    [
      { COFFER_HOST: '0.0.0.0', COFFER_PORT: '0' },
      'COFFER_PUBLIC_URL is needed where COFFER_PORT is 0 and COFFER_HOST is not loopback.',
    ],
    [
      { COFFER_RATE_LIMIT: '-1' },
      'COFFER_RATE_LIMIT must be a whole number up to 999999999; 0 switches the limit off.',
    ],
    [{ COFFER_CONFIG: '/nowhere/coffer.env' }, 'COFFER_CONFIG: the file /nowhere/coffer.env cannot be read.'],
    [
      { COFFER_DATABASE_URL: 'mysql://root:hunter2@127.0.0.1/x' },
      'COFFER_DATABASE_URL must be a URL that starts with postgres:// or postgresql://.',
    ],
  ] satisfies [Settings, string][])('with a wrong setting: %o', async (settings: Settings, sentence: string) => {
    await expectRefusal(settings, sentence)
  })

  test('with a wrong setting in the file of settings', async () => {
    const file = join(database.dataDir, 'coffer.env')
    await writeFile(file, 'COFFER_PORT=8080\nCOFFER_HOTS=127.0.0.1\n')
    await expectRefusal(
      { COFFER_CONFIG: file },
      'COFFER_HOTS is not a setting that Coffer knows: see --help for the list.',
    )
  })

  test.each([
    ['and no other', 'COFFER_PORT', {}],
    ['while metrics have one of their own', 'COFFER_PORT', { COFFER_METRICS_PORT: 'free' }],
    ['that of metrics', 'COFFER_METRICS_PORT', { COFFER_PORT: 'free' }],
  ])('on a port that is taken, %s', async (_what, name, more: Settings) => {
    const taken = createServer()
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve))
    const address = taken.address()
    const port = typeof address === 'object' && address ? address.port : 0
    const settings: Record<string, string> = { [name]: String(port) }
    for (const other of Object.keys(more)) settings[other] = String(await freePort())
    try {
      await expectRefusal(settings, `The port ${port} is taken: choose another with ${name}.`, 5_000)
    } finally {
      await new Promise((resolve) => taken.close(resolve))
    }
  })

  test('on an address that is not one of this machine', async () => {
    await expectRefusal({ COFFER_HOST: '203.0.113.5' }, 'COFFER_HOST: 203.0.113.5 is not an address of this machine.')
    await expectRefusal(
      { COFFER_HOST: 'coffer.invalid' },
      /^Coffer cannot start\. COFFER_HOST: the name coffer\.invalid has no address \((ENOTFOUND|EAI_AGAIN)\)\.$/m,
    )
  })

  const cannotBeUsed = (reason: string) => `The database cannot be used: ${reason}.`

  test('on a database server that is not there', async () => {
    const url = `postgres://coffer:hunter2@127.0.0.1:${await freePort()}/coffer`
    await expectRefusal(
      { COFFER_DATABASE_URL: url },
      cannotBeUsed('nothing listens at that address and port; check COFFER_DATABASE_URL (ECONNREFUSED)'),
    )
    // A name server may be away as well.
    await expectRefusal(
      { COFFER_DATABASE_URL: 'postgres://coffer:hunter2@coffer.invalid/coffer' },
      /^Coffer cannot start\. The database cannot be used: its host name [^;]+; check COFFER_DATABASE_URL.* \((ENOTFOUND|EAI_AGAIN)\)\.$/m,
    )
  })

  test('on a database server whose certificate nobody vouches for, or without TLS although it is asked for', async () => {
    const sockets: Socket[] = []
    const server = createServer((socket) => {
      sockets.push(socket.on('error', () => undefined))
      socket.once('data', () => {
        socket.write(hasTls ? 'S' : 'N')
        if (!hasTls) return
        new TLSSocket(socket, { isServer: true, key: testPrivateKey, cert: testCertificate }).on(
          'error',
          () => undefined,
        )
      })
    })
    let hasTls = true
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const address = server.address()
    const base = `postgres://coffer:hunter2@127.0.0.1:${typeof address === 'object' && address ? address.port : 0}/x`
    try {
      const notTrusted = cannotBeUsed(
        'its certificate is not trusted: name its authority in COFFER_DATABASE_URL, ?sslmode=verify-full&sslrootcert=/path/of/ca.pem (DEPTH_ZERO_SELF_SIGNED_CERT)',
      )
      await expectRefusal({ COFFER_DATABASE_URL: `${base}?sslmode=require` }, notTrusted)
      await expectRefusal({ COFFER_DATABASE_URL: `${base}?sslmode=verify-full` }, notTrusted)
      await expectRefusal(
        { COFFER_DATABASE_URL: `${base}?sslmode=verify-full&sslrootcert=/nowhere/ca.pem` },
        cannotBeUsed('a file that COFFER_DATABASE_URL names is not there (ENOENT)'),
      )
      hasTls = false
      await expectRefusal(
        { COFFER_DATABASE_URL: `${base}?sslmode=verify-full` },
        cannotBeUsed(
          'the server offers no TLS: switch it on there, or leave sslmode out of COFFER_DATABASE_URL where the network is trusted',
        ),
      )
    } finally {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    }
  }, 60_000)

  test('on a database server that refuses', async () => {
    const given = database.settings.COFFER_DATABASE_URL
    if (given === undefined) {
      expect(engine).toBe('sqlite')
      return
    }
    const refused = async (change: (url: URL) => void, reason: string) => {
      const url = new URL(given)
      change(url)
      await expectRefusal({ COFFER_DATABASE_URL: url.href }, cannotBeUsed(reason))
    }
    const wrong = 'the user or the password is wrong or missing; check COFFER_DATABASE_URL (28P01)'
    await refused((url) => Object.assign(url, { password: 'hunter2' }), wrong)
    await refused((url) => Object.assign(url, { username: 'nobody' }), wrong)
    await refused((url) => Object.assign(url, { password: '' }), wrong)
    await refused(
      (url) => Object.assign(url, { pathname: '/nowhere' }),
      'the server has no database of that name; check COFFER_DATABASE_URL, or make it (3D000)',
    )

    const empty = await createDatabase()
    const own = String(empty.settings.COFFER_DATABASE_URL)
    const { pathname } = new URL(own)
    const role = `guest${pathname.slice(1)}`
    const asOwner = new pg.Client(own)
    await asOwner.connect()
    await asOwner.query(`create role ${role} login password 'guest'`)
    await refused(
      (url) => Object.assign(url, { username: role, password: 'guest', pathname }),
      'its user lacks a permission: make them the owner of the database, or grant them "create" on the schema public (42501)',
    )
    await asOwner.query(`drop role ${role}`)
    await asOwner.end()
    await empty.drop()
  }, 60_000)

  test('in a folder that cannot be written', async () => {
    const file = join(database.dataDir, 'a-file')
    await writeFile(file, '')
    const settings =
      engine === 'sqlite' ? { COFFER_DATA_DIR: join(file, 'data') } : { COFFER_MASTER_KEY_FILE: join(file, 'key') }
    await expectRefusal(settings, /^Coffer cannot start\. .*\(E\w+\)/)
  })

  test('by a damaged store when it already listens', async () => {
    await tamper(database, (db) => db.run(sql`alter table account rename to elsewhere`))
    const program = startProgram([], { ...database.settings, COFFER_PORT: '0' })
    const timer = setTimeout(() => program.kill('SIGKILL'), 8_000)
    const { code, out, err } = await program.ended
    clearTimeout(timer)
    await tamper(database, (db) => db.run(sql`alter table elsewhere rename to account`))
    expect({ code, out }, err).toEqual({ code: 1, out: '' })
    expect(err).toMatch(/^Coffer stopped unexpectedly \((Error ERR_SQLITE_ERROR 1|error 42P01)\)\.\n/)
  })

  test('on the schema of a newer version', async () => {
    await tamper(database, (db) =>
      db.run(sql`insert into schema_step (step, name, applied_at) values (9999, 'future', 1)`),
    )
    await expectRefusal({}, /^Coffer cannot start\. The database was migrated by a newer version of Coffer \(step 9999/)
    await tamper(database, (db) => db.run(sql`delete from schema_step where step = 9999`))
    const service = await serve(database.settings)
    expect((await service.stop()).code).toBe(0)
  })
})

describe('the end', () => {
  let database: Database
  beforeEach(async () => {
    database = await createDatabase()
  })
  afterEach(() => database.drop())

  type Outcome = { readonly status: number | 'refused' | 'cut off'; readonly sentAt: number }

  /** One request after another until told to stop; how each of them ended. */
  function startLoad(service: Serving, token: string, workers: number) {
    let isOver = false
    let made = 0
    const outcomes: Outcome[] = []
    const acknowledged: string[] = []
    const work = async (worker: number) => {
      while (!isOver) {
        const sentAt = performance.now()
        const name = `team ${worker} ${++made}`
        const writes = worker % 2 === 0
        try {
          const response = await fetch(service.url + teams, {
            method: writes ? 'POST' : 'GET',
            headers: { authorization: `Bearer ${token}`, ...(writes ? { 'content-type': 'application/json' } : {}) },
            ...(writes ? { body: JSON.stringify({ name }) } : {}),
          })
          await response.text()
          outcomes.push({ status: response.status, sentAt })
          if (response.status === 201) acknowledged.push(name)
        } catch (error) {
          const cause = error instanceof Error ? error.cause : undefined
          const code = cause instanceof Error && 'code' in cause ? cause.code : undefined
          outcomes.push({ status: code === 'ECONNREFUSED' ? 'refused' : 'cut off', sentAt })
          if (code === 'ECONNREFUSED') return
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

  test('by SIGTERM under load answers every request, and comes within 10 seconds', async () => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      const service = await serve(database.settings)
      const login = await service.call<SignedIn>('POST', '/v1/auth/register', registration())
      const token =
        login.status === 201
          ? login.body.accessToken
          : (await service.call<SignedIn>('POST', '/v1/auth/login', { body: { email: 'owner@example.com', password } }))
              .body.accessToken
      const load = startLoad(service, token, 16)
      await until(() => load.acknowledged.length > 100 || undefined, 20_000, 'the load runs')
      const askedAt = performance.now()
      service.program.kill(signal)
      const ended = await service.program.ended
      const tookMs = performance.now() - askedAt
      await load.stop()
      expect(ended).toMatchObject({ code: 0, signal: null, err: '' })
      expect(tookMs).toBeLessThan(10_000)
      expect(messagesOf(ended.out).slice(-2)).toEqual([`stopping on ${signal}`, 'stopped'])
      const statuses = new Set(load.outcomes.map(({ status }) => status))
      expect([...statuses].filter((status) => ![200, 201, 409, 503, 'refused'].includes(status))).toEqual([])
      for (const { status, sentAt } of load.outcomes)
        if (status === 503) expect(sentAt).toBeGreaterThan(askedAt - 1_000)

      const again = await serve(database.settings)
      const listed = await again.call<Team[]>('GET', teams, { token })
      const names = new Set(listed.body.map(({ name }) => name))
      expect(load.acknowledged.filter((name) => !names.has(name))).toEqual([])
      for (const name of load.acknowledged) {
        const id = listed.body.find((team) => team.name === name)?.id
        expect(id).toBeDefined()
      }
      await removeTeams(again, token, listed.body)
      await again.stop()
    }
  }, 120_000)

  test.each(['start', 'run coffer-server', 'run dev'])(
    'of "npm %s" by SIGTERM is the end of the service, and nobody holds its port',
    async (words) => {
      const npm = startNpm(words.split(' '), { ...database.settings, COFFER_PORT: '0' })
      try {
        const { url } = await listening(npm)
        expect((await fetch(`${url}/healthz`)).status).toBe(200)
        npm.kill('SIGTERM')
        // Whoever is left behind still holds what it prints to: the end would not come.
        await until(() => npm.hasEnded() || undefined, 15_000, 'it has ended')
        await expect(fetch(`${url}/healthz`)).rejects.toThrow('fetch failed')
        expect(messagesOf(npm.out())).toContain('stopped')
      } finally {
        npm.endGroup()
      }
    },
  )

  async function removeTeams(service: Serving, token: string, list: Team[]): Promise<void> {
    const own = list.filter(({ name }) => name.startsWith('team '))
    await Promise.all(own.map(({ id }) => service.call('DELETE', `${teams}/${id}`, { token })))
  }

  test('by SIGTERM waits for a request whose body is still on its way', async () => {
    const service = await serve(database.settings)
    const token = await registerOwner(service)
    const socket = connect(service.port, '127.0.0.1')
    const body = JSON.stringify({ name: 'Slow' })
    let answer = ''
    socket.setEncoding('utf8').on('data', (text: string) => {
      answer += text
    })
    const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
    socket.write(
      `POST ${teams} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body.slice(0, 5)}`,
    )
    // A second request on another connection is answered after the first was begun.
    await service.call('GET', teams, { token })
    service.program.kill('SIGTERM')
    await until(() => service.messages().includes('stopping on SIGTERM') || undefined, 5_000, 'it is stopping')
    socket.write(body.slice(5))
    await closed
    expect(answer).toMatch(/^HTTP\/1\.1 201 /)
    expect((await service.program.ended).code).toBe(0)
    const again = await serve(database.settings)
    const listed = await again.call<Team[]>('GET', teams, { token })
    expect(listed.body.map(({ name }) => name)).toContain('Slow')
    await again.stop()
  })

  test('by SIGTERM comes within 10 seconds although a client never finishes its request', async () => {
    const service = await serve(database.settings)
    const token = await registerOwner(service)
    const socket = connect(service.port, '127.0.0.1')
    socket.on('error', () => undefined)
    socket.write(
      `POST ${teams} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{`,
    )
    const idle = connect(service.port, '127.0.0.1')
    idle.on('error', () => undefined)
    await service.call('GET', teams, { token })
    const askedAt = performance.now()
    service.program.kill('SIGTERM')
    expect(await service.program.ended).toMatchObject({ code: 0 })
    expect(performance.now() - askedAt).toBeLessThan(11_000)
    socket.destroy()
    idle.destroy()
  }, 30_000)
})

test('a body in chunks of one byte takes little more memory than its bytes', async () => {
  const database = await createDatabase()
  const service = await serve(database.settings)
  // Whoever needs no credential may not send so much.
  const session = await registerOwner(service)
  const residentMb = async () =>
    Number(/VmRSS:\s+(\d+)/.exec(await readFile(`/proc/${service.program.child.pid}/status`, 'utf8'))?.[1]) / 1024
  const before = await residentMb()
  const socket = connect(service.port, '127.0.0.1')
  const answered = new Promise<string>((resolve) => socket.once('data', (bytes) => resolve(bytes.toString())))
  const headers = ['host: x', `authorization: Bearer ${session}`, 'content-type: application/json']
  socket.write([`POST ${teams} HTTP/1.1`, ...headers, 'transfer-encoding: chunked', '', ''].join('\r\n'))
  // A million of them took more than 200 MB when each was kept.
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
}, 60_000)

test('metrics on a port of their own are there while the store fails, but for what is in it', async () => {
  const database = await createDatabase()
  const port = await freePort()
  const service = await serve({ ...database.settings, COFFER_METRICS_PORT: String(port) })
  const ask = (path: string) => fetch(`http://127.0.0.1:${port}${path}`)
  expect(await (await ask('/metrics')).text()).toContain('coffer_sync_lag_seconds')
  expect((await ask('/other')).status).toBe(404)
  await tamper(database, (db) => db.run(sql`alter table sync rename column changed_at to hidden_at`))
  const without = await ask('/metrics')
  expect(without.status).toBe(200)
  const text = await without.text()
  expect(text).toContain('coffer_sync_calls_total')
  expect(text).not.toContain('coffer_sync_lag_seconds')
  await tamper(database, (db) => db.run(sql`alter table sync rename column hidden_at to changed_at`))
  expect(await (await ask('/metrics')).text()).toContain('coffer_sync_lag_seconds')
  expect((await service.call('GET', '/healthz')).status).toBe(200)
  await service.stop()
  await database.drop()
})

describe('the first account', () => {
  let database: Database
  beforeEach(async () => {
    database = await createDatabase()
  })
  afterEach(() => database.drop())

  const everywhere = { COFFER_HOST: '0.0.0.0', COFFER_PUBLIC_URL: 'https://coffer.example.com' }
  const codeIn = (messages: string[]) =>
    messages.flatMap((message) => /^Setup code for it: (\S+)$/.exec(message)?.[1] ?? [])

  test('of a service that others can reach needs the code that its start has logged once', async () => {
    const service = await serve({ ...database.settings, ...everywhere })
    const codes = codeIn(service.messages())
    expect(codes).toHaveLength(1)
    const [setupCode = ''] = codes
    expect(setupCode).toMatch(/^[\w-]{16,}$/)
    expect(service.program.out().split(setupCode)).toHaveLength(2)
    const message = 'setupCode: the first account needs the code that the service logged at its start.'
    for (const more of [
      {},
      { setupCode: 'wrong' },
      { setupCode: `${setupCode}x` },
      { setupCode: setupCode.slice(1) },
    ]) {
      const refused = await service.call('POST', '/v1/auth/register', registration(undefined, more))
      expect(refused).toMatchObject({ status: 403, body: { message } })
    }
    const made = await service.call('POST', '/v1/auth/register', registration(undefined, { setupCode }))
    expect(made.status).toBe(201)
    const second = await service.call('POST', '/v1/auth/register', registration('second@example.com', { setupCode }))
    expect(second.status).toBe(403)
    await service.stop()

    const again = await serve({ ...database.settings, ...everywhere })
    expect(codeIn(again.messages())).toEqual([])
    await again.stop()
  })

  test('of a service on localhost, which is 127.0.0.1, needs none', async () => {
    const service = await serve({ ...database.settings, COFFER_HOST: 'localhost' })
    expect(codeIn(service.messages())).toEqual([])
    expect((await service.call('POST', '/v1/auth/register', registration())).status).toBe(201)
    await service.stop()
  })

  test('needs the code that the operator has chosen, where there is one', async () => {
    const settings = { ...database.settings, ...everywhere, COFFER_SETUP_CODE: 'chosen-by-hand' }
    const service = await serve(settings)
    expect(service.program.out()).not.toContain('chosen-by-hand')
    expect(codeIn(service.messages())).toEqual([])
    expect(service.messages()).toContain('Setup code for it: the one in COFFER_SETUP_CODE')
    expect((await service.call('POST', '/v1/auth/register', registration())).status).toBe(403)
    const made = await service.call(
      'POST',
      '/v1/auth/register',
      registration(undefined, { setupCode: 'chosen-by-hand' }),
    )
    expect(made.status).toBe(201)
    await service.stop()
  })

  test('is the only one without an invite', async () => {
    const service = await serve(database.settings)
    await registerOwner(service)
    expect(await service.call('POST', '/v1/auth/register', registration('second@example.com'))).toMatchObject({
      status: 403,
      body: { message: 'Registration is closed: ask an admin of your workspace for an invite.' },
    })
    await service.stop()
  })

  test('is not the only one where sign-up is open', async () => {
    const service = await serve({ ...database.settings, COFFER_SIGNUP: 'open' })
    await registerOwner(service)
    const second = await service.call<SignedIn>('POST', '/v1/auth/register', registration('second@example.com'))
    expect(second.status).toBe(201)
    const workspaces = await service.call('GET', '/v1/workspace', { token: second.body.accessToken })
    expect(workspaces.body).toEqual([])
    await service.stop()
  })

  test('is one also where 20 ask for it at the same moment', async () => {
    const service = await serve(database.settings)
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        service.call('POST', '/v1/auth/register', registration(`person-${index}@example.com`)),
      ),
    )
    expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array.from({ length: 19 }, () => 403)])
    await service.stop()
    const count = await tamper(database, (db) => db.one(sql`select count(*) as count from account`))
    expect(count).toEqual({ count: 1 })
  })
})

describe('the commands of the operator', () => {
  let database: Database
  beforeEach(async () => {
    database = await createDatabase()
  })
  afterEach(() => database.drop())

  const commands = [
    'doctor',
    'keys status',
    'keys rotate-root',
    'keys rotate-workspace main',
    'keys rotate-environment main api development',
  ].map((words) => [words] as const)

  /** On the one stream or the other, and always with 1. */
  async function refusalOf(words: string, settings: Settings): Promise<string> {
    const { code, out, err } = await runProgram(words.split(' '), settings)
    expect(code, out + err).toBe(1)
    return out + err
  }

  const nowhere = (dataDir: string) =>
    engine === 'sqlite'
      ? `There is no store in ${dataDir}: check COFFER_DATA_DIR.\n`
      : 'There is no store in the database of COFFER_DATABASE_URL: check that it is the right one.\n'

  test.each(commands)('make no store where there is none: %s', async (words) => {
    const dataDir = join(database.dataDir, 'mistyped')
    expect(await refusalOf(words, { ...database.settings, COFFER_DATA_DIR: dataDir })).toContain(nowhere(dataDir))
    expect(await readdir(database.dataDir)).toEqual([])
    if (engine === 'sqlite') {
      // A file that holds nothing yet stays so.
      await writeFile(join(database.dataDir, 'coffer.db'), '')
      expect(await refusalOf(words, database.settings)).toContain(nowhere(database.dataDir))
      expect(await readdir(database.dataDir)).toEqual(['coffer.db'])
      expect((await stat(join(database.dataDir, 'coffer.db'))).size).toBe(0)
      return
    }
    const tables = await tamper(database, (db) =>
      db.all(sql`select table_name from information_schema.tables where table_schema = 'public'`),
    )
    expect(tables).toEqual([])
  })

  test.each(commands)('leave an older schema to the service: %s', async (words) => {
    const store = openEngine(database.settings)
    const older = steps.slice(0, -3)
    for (const [index, { name, statement }] of older.entries()) await store.migrateStep(index + 1, name, statement, 1)
    const before = await describeSchema(store)
    const said = await refusalOf(words, database.settings)
    expect(said).toContain(
      `The store is at step ${older.length} of ${steps.length}: the next start of the service brings it up to date.\n`,
    )
    expect(await describeSchema(store)).toEqual(before)
    await store.close()
    expect(await readdir(database.dataDir)).toEqual(engine === 'sqlite' ? ['coffer.db'] : [])
  })

  test('make no keys where the service has made none yet', async () => {
    const store = openEngine(database.settings)
    await migrate(store, 1)
    for (const [words] of commands) {
      expect(await refusalOf(words, database.settings)).toContain(nowhere(database.dataDir))
    }
    expect(await store.one(sql`select count(*) as count from root_key`)).toEqual({ count: 0 })
    await store.close()
  })

  test('refuse the schema of a newer version', async () => {
    const store = openEngine(database.settings)
    await migrate(store, 1)
    await store.migrateStep(9_999, 'from the future', 'create table from_the_future (id text primary key)', 1)
    await store.close()
    for (const [words] of commands) {
      expect(await refusalOf(words, database.settings)).toContain(
        'The database was migrated by a newer version of Coffer (step 9999',
      )
    }
  })

  test('say what they cannot do without a word about a start', async () => {
    const service = await serve(database.settings)
    await registerOwner(service)
    await service.stop()
    const run = (words: string) => runProgram(words.split(' '), database.settings)
    expect(await run('keys rotate-workspace nope')).toMatchObject({ code: 1, err: 'There is no workspace "nope".\n' })
    expect(await runProgram(['keys', 'status'], { ...database.settings, COFFER_PORT: 'x' })).toMatchObject({
      code: 1,
      err: 'COFFER_PORT must be a port number from 0 to 65535.\n',
    })
  })

  test('that only look change no byte of the file', async () => {
    const service = await serve(database.settings)
    await registerOwner(service)
    await service.stop()
    const file = join(database.dataDir, 'coffer.db')
    const bytes = engine === 'sqlite' ? await readFile(file) : undefined
    const files = await readdir(database.dataDir)
    for (const words of ['doctor', 'keys status']) {
      expect(await runProgram(words.split(' '), database.settings)).toMatchObject({ code: 0, err: '' })
    }
    expect(await readdir(database.dataDir)).toEqual(files)
    if (bytes) expect(bytes.equals(await readFile(file))).toBe(true)
  })

  test('that only look do so on a file that was restored with another journal', async () => {
    if (engine === 'postgres') {
      expect(database.settings.COFFER_DATABASE_URL).toBeDefined()
      return
    }
    const service = await serve(database.settings)
    await registerOwner(service)
    await service.stop()
    const file = join(database.dataDir, 'coffer.db')
    const restored = join(database.dataDir, 'restored.db')
    const source = new DatabaseSync(file)
    source.exec(`vacuum into '${restored}'`)
    source.close()
    await rename(restored, file)
    const bytes = await readFile(file)
    for (const words of ['doctor', 'keys status']) {
      expect(await runProgram(words.split(' '), database.settings)).toMatchObject({ code: 0, err: '' })
    }
    expect(bytes.equals(await readFile(file))).toBe(true)
  })
})

describe('the doctor', () => {
  let database: Database
  let token: string
  beforeEach(async () => {
    database = await createDatabase()
    const service = await serve(database.settings)
    token = await registerOwner(service)
    await service.call('POST', '/v1/auth/login', { body: { email: 'owner@example.com', password } })
    await service.call('POST', teams, { token, body: { name: 'Backend' } })
    await service.stop()
  })
  afterEach(() => database.drop())

  const doctor = () => runProgram(['doctor'], database.settings)

  test('ends with 0 where all is well, and names what it has looked at', async () => {
    const { code, out, err } = await doctor()
    expect({ code, err }).toEqual({ code: 0, err: '' })
    const lines = out.trimEnd().split('\n')
    for (const line of lines) expect(line).toMatch(/^ {2}ok {5}/)
    for (const name of [
      'settings',
      'store',
      'database files',
      'keys',
      'rows that grant rights',
      'audit trail',
      'clock',
      'disk',
    ]) {
      expect(out).toContain(`ok     ${name}`)
    }
  })

  test('may look while the service runs', async () => {
    const service = await serve(database.settings)
    expect((await doctor()).code).toBe(0)
    await service.stop()
  })

  const tampered: [what: string, change: Sql, found: string][] = [
    ['a membership', sql`update member set role = 'member'`, '1 memberships'],
    ['an account', sql`update account set email = 'intruder@example.com'`, '1 accounts'],
    ['a session', sql`update session set expires_at = expires_at + 1`, '2 sessions'],
  ]
  test.each(tampered)('finds %s that was changed behind our back', async (_what, change, found) => {
    await tamper(database, (db) => db.run(change))
    const { code, out } = await doctor()
    expect(code).toBe(1)
    expect(out).toContain(`  wrong  rows that grant rights: changed outside of Coffer: ${found}.`)
    expect(out).toContain('restore them from a backup or remove them')
    expect(out.match(/wrong/g)).toHaveLength(1)
  })

  const breaks: [what: string, change: Sql, found: RegExp][] = [
    [
      'an entry that was changed',
      sql`update audit_entry set actor_name = 'x' where sequence = 2 and chain_id like '0000%'`,
      /broken at entry 2: This entry is not what was written/,
    ],
    [
      'an entry that was removed',
      sql`delete from audit_entry where sequence = 1 and chain_id like '0000%'`,
      /broken at entry 1: Entries are missing/,
    ],
    [
      'a trail that was cut short',
      sql`update audit_head set sequence = 1 where chain_id like '0000%'`,
      /broken at entry 1: The signature of the head is wrong/,
    ],
  ]
  test.each(breaks)('finds %s in the audit trail of the system', async (_what, change, found) => {
    expect(await tamper(database, (db) => db.run(change))).toBe(1)
    const { code, out } = await doctor()
    expect(code).toBe(1)
    expect(out).toMatch(/ {2}wrong {2}audit trail of the system: /)
    expect(out).toMatch(found)
  })

  const trails = 'audit trails of workspaces'
  const workspaceBreaks: [what: string, change: Sql, found: string][] = [
    [
      'an entry that was changed',
      sql`update audit_entry set actor_name = 'x' where sequence = 2 and chain_id not like '0000%'`,
      'broken at entry 2: This entry is not what was written.',
    ],
    [
      'an entry that was removed',
      sql`delete from audit_entry where sequence = 1 and chain_id not like '0000%'`,
      'broken at entry 1: Entries are missing.',
    ],
    [
      'a head that was removed',
      sql`delete from audit_head where chain_id not like '0000%'`,
      'broken at entry 1: Entries are missing.',
    ],
  ]
  test.each(workspaceBreaks)('finds %s in the audit trail of a workspace', async (_what, change, found) => {
    expect((await doctor()).out).toMatch(/ {2}ok {5}audit trails of workspaces: 1 trails, \d+ entries, /)
    expect(await tamper(database, (db) => db.run(change))).toBe(1)
    const { code, out } = await doctor()
    expect(code).toBe(1)
    expect(out).toContain(`  wrong  ${trails}: "main" is ${found} Compare with a backup.\n`)
    expect(out.match(/wrong/g)).toHaveLength(1)
  })

  test('walks the trails of workspaces that are gone, too, and names each that is broken', async () => {
    const service = await serve(database.settings)
    const { body: gone } = await service.call<{ id: string }>('POST', '/v1/workspace', {
      token,
      body: { name: 'Gone', slug: 'gone' },
    })
    expect((await service.call('DELETE', '/v1/workspace/gone', { token })).status).toBeLessThan(300)
    await service.stop()
    expect((await doctor()).out).toContain(`  ok     ${trails}: 2 trails, `)
    await tamper(database, (db) => db.run(sql`update audit_entry set ip = 'x' where chain_id = ${gone.id}`))
    const alone = await doctor()
    expect(alone.code).toBe(1)
    expect(alone.out).toContain(`  wrong  ${trails}: "${gone.id}" (deleted) is broken at entry 1: `)
    await tamper(database, (db) =>
      db.run(sql`delete from audit_entry where sequence = 1 and chain_id not like '0000%'`),
    )
    const { out } = await doctor()
    expect(out).toContain(`"${gone.id}" (deleted) is broken at entry 1: Entries are missing.`)
    expect(out).toContain('"main" is broken at entry 1: Entries are missing.')
  })

  test('finds a master key that is not the one, and a setting that is wrong', async () => {
    await writeFile(join(database.dataDir, 'master.key'), randomBytes(32).toString('base64'))
    const wrongKey = await doctor()
    expect(wrongKey).toMatchObject({ code: 1, err: '' })
    expect(wrongKey.out).toContain('  wrong  store and keys: The master key does not match this database')
    const wrongSetting = await runProgram(['doctor'], { ...database.settings, COFFER_PORT: 'x' })
    expect(wrongSetting).toMatchObject({ code: 1, err: '' })
    expect(wrongSetting.out).toBe('  wrong  settings: COFFER_PORT must be a port number from 0 to 65535.\n')
  })

  test('finds a bit that has turned in the file, where it hides a row', async () => {
    if (engine === 'postgres') {
      expect((await doctor()).out).toContain('  ok     database files: PostgreSQL checks every page that it reads\n')
      return
    }
    const file = join(database.dataDir, 'coffer.db')
    const bytes = await readFile(file)
    // In the index of slugs, and not in the row itself.
    const index = bytes.indexOf(Buffer.from('main'))
    expect(index).toBeGreaterThan(0)
    bytes.writeUInt8(bytes.readUInt8(index) ^ 1, index)
    await writeFile(file, bytes)
    const { code, out } = await doctor()
    expect(code).toBe(1)
    expect(out).toContain(
      '  wrong  database files: the file is damaged, and what it answers may lack something: restore it from a backup.\n',
    )
  })

  test('finds changes that come from the future', async () => {
    await tamper(database, (db) =>
      db.run(sql`insert into change (subject, subject_id, at) values ('user', 'x', ${Date.now() + 3_600_000})`),
    )
    const { code, out } = await doctor()
    expect(code).toBe(1)
    expect(out).toMatch(/ {2}wrong {2}clock: the store holds changes 3\d\d\d s in the future/)
  })

  test('keys status shows every key and what still needs it, and never the key itself', async () => {
    const { code, out, err } = await runProgram(['keys', 'status'], database.settings)
    expect({ code, err }).toEqual({ code: 0, err: '' })
    const [master, root, signing, ...rest] = out.trimEnd().split('\n')
    expect(master).toBe('Master key: from file, opens 1 root key(s).')
    expect(root).toMatch(
      /^Root key [0-9a-f-]{36} active {2}check [0-9a-f]{16} made \S+Z: 1 workspace keys, 2 signing keys, 4 row MACs, 2 token and session hashes$/,
    )
    expect(signing).toMatch(/^Signing keys: jwt [0-9a-f-]{36}, audit [0-9a-f-]{36}\.$/)
    expect(rest).toEqual([])
    const key = await readFile(join(database.dataDir, 'master.key'), 'utf8')
    expect(out).not.toContain(key.trim())
  })
})

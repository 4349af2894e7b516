/** Refused startups: each exits with one sentence. Most run in this process, one or two of each kind in a separate one. */
import { randomBytes } from 'node:crypto'
import { chmod, readFile, rm, stat, unlink, writeFile } from 'node:fs/promises'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { TLSSocket } from 'node:tls'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { runHere } from '../../../test/command.ts'
import { createDatabase, type Database, engine, openService, registerOwner } from '../../../test/harness.ts'
import { testCertificate, testPrivateKey } from '../../../test/outbound-certificate.ts'
import { freePort } from '../../../test/postgres.ts'
import type { Settings } from '../../../test/program.ts'
import { startProgram } from '../../../test/start-server.ts'
import { tamper } from '../../../test/store.ts'
import { sql } from '../store/engine/sql.ts'

describe('startup is refused', () => {
  let database: Database
  let key: string
  let keyFile: string
  beforeAll(async () => {
    database = await createDatabase({ hasSchema: true })
    const service = await openService(database.settings, database.dataDir)
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

  /** Runs a separate process; one that keeps running is killed and has no exit code. */
  const runApart: typeof runHere = async (args, settings) => {
    const program = startProgram(args, settings)
    const timer = setTimeout(() => program.kill('SIGKILL'), 120_000)
    const ended = await program.ended
    clearTimeout(timer)
    return ended
  }

  /** Exits with 1 and one sentence on stderr, without having listened. */
  async function expectRefusal(settings: Settings, sentence: string | RegExp, { run = runHere } = {}): Promise<void> {
    const port = settings.COFFER_PORT ?? String(await freePort())
    const { code, out, err } = await run([], { ...database.settings, COFFER_PORT: port, ...settings })
    expect({ code, out }, err).toEqual({ code: 1, out: '' })
    expect(err.endsWith('\n') && err.trimEnd().split('\n').length === 1, err).toBe(true)
    if (typeof sentence === 'string') expect(err).toBe(`Coffer cannot start. ${sentence}\n`)
    else expect(err).toMatch(sentence)
    expect(err).not.toContain(key.trim())
  }

  const putBack = 'restore the key that this database was created with, since no other key can open it.'
  const notItsKey =
    'The master key does not match this database: start with the key that it was created with, or that it was moved to since.'
  const cannotBeUsed = (reason: string) => `The database cannot be used: ${reason}.`

  test('with another master key in the file', async () => {
    await writeFile(keyFile, randomBytes(32).toString('base64'))
    await expectRefusal({}, notItsKey, { run: runApart })
  })

  test('with another master key in the environment', async () => {
    await expectRefusal({ COFFER_MASTER_KEY: randomBytes(32).toString('hex') }, notItsKey)
  })

  test('without the master key although the database has keys, and no new key is created', async () => {
    await unlink(keyFile)
    await expectRefusal(
      {},
      `The master key file ${keyFile} is missing; restore it, since no other key opens what is stored.`,
    )
    await expect(stat(keyFile)).rejects.toThrow('ENOENT')
  })

  // Like the test above, these only ask the database whether it has keys.
  if (engine === 'sqlite') {
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
      await expectRefusal({}, /^Coffer cannot start\. The master key from the file \S+ is a single repeated byte/)
      await expectRefusal(
        { COFFER_MASTER_KEY: '0'.repeat(64) },
        /The master key from COFFER_MASTER_KEY is a single repeated byte/,
      )
    })

    test.each(['644', '640', '604', '660', '601'])(
      'with a master key file that others can access: mode %s',
      async (mode) => {
        await chmod(keyFile, Number.parseInt(mode, 8))
        await expectRefusal({}, `The master key file ${keyFile} is open to other users; run "chmod 600" on it.`)
      },
    )
  }

  // Settings are read before a store is opened.
  if (engine === 'sqlite') {
    test.each([
      [
        { COFFER_PROT: '8080' },
        'COFFER_PROT is not a known setting (did you mean COFFER_PORT?): see --help for the list.',
      ],
      [
        { COFFER_DATA: 'x' },
        'COFFER_DATA is not a known setting (did you mean COFFER_DATA_DIR?): see --help for the list.',
      ],
      [{ COFFER_COLOUR: 'red' }, 'COFFER_COLOUR is not a known setting: see --help for the list.'],
      [{ COFFER_PORT: '80800' }, 'COFFER_PORT must be a port number from 0 to 65535.'],
      [{ COFFER_PORT: 'http' }, 'COFFER_PORT must be a port number from 0 to 65535.'],
      [{ COFFER_SIGNUP: 'maybe' }, 'COFFER_SIGNUP must be one of: invite, open.'],
      [
        { COFFER_HOST: '0.0.0.0', COFFER_PORT: '0' },
        'COFFER_PUBLIC_URL is required when COFFER_PORT is 0 and COFFER_HOST is not loopback.',
      ],
      [
        { COFFER_RATE_LIMIT: '-1' },
        'COFFER_RATE_LIMIT must be a whole number up to 999999999; 0 switches the limit off.',
      ],
      [
        { COFFER_CONFIG: '/nowhere/coffer.env' },
        'COFFER_CONFIG: the file /nowhere/coffer.env cannot be read (ENOENT).',
      ],
      [
        { COFFER_DATABASE_URL: 'mysql://root:hunter2@127.0.0.1/x' },
        'COFFER_DATABASE_URL must be a URL that starts with postgres:// or postgresql://.',
      ],
    ] satisfies [Settings, string][])('with a wrong setting: %o', async (settings: Settings, sentence: string) => {
      await expectRefusal(settings, sentence)
    })

    test('with a wrong setting in the settings file', async () => {
      const file = join(database.dataDir, 'coffer.env')
      await writeFile(file, 'COFFER_PORT=8080\nCOFFER_HOTS=127.0.0.1\n')
      const sentence = 'COFFER_HOTS is not a known setting (did you mean COFFER_HOST?): see --help for the list.'
      await expectRefusal({ COFFER_CONFIG: file }, sentence, { run: runApart })
    })
  }

  test.each([
    ['the only one', 'COFFER_PORT', {}, runApart],
    ['beside a free one for metrics', 'COFFER_PORT', { COFFER_METRICS_PORT: 'free' }, runHere],
    ['the one for metrics', 'COFFER_METRICS_PORT', { COFFER_PORT: 'free' }, runHere],
  ])('on a port in use: %s', async (_what, name, more: Settings, run) => {
    const taken = createServer()
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve))
    const address = taken.address()
    const port = typeof address === 'object' && address ? address.port : 0
    const settings: Record<string, string> = { [name]: String(port) }
    for (const other of Object.keys(more)) settings[other] = String(await freePort())
    try {
      const sentence = `Port ${port} is already in use: choose another with ${name}.`
      await expectRefusal(settings, sentence, { run })
    } finally {
      await new Promise((resolve) => taken.close(resolve))
    }
  })

  // The tests of ports show that the store is closed again.
  if (engine === 'sqlite') {
    test('on an address that this machine does not have', async () => {
      await expectRefusal(
        { COFFER_HOST: '203.0.113.5', COFFER_PLAIN_HTTP: 'on' },
        'COFFER_HOST: 203.0.113.5 is not an address of this machine.',
      )
      await expectRefusal(
        { COFFER_HOST: 'coffer.invalid', COFFER_PLAIN_HTTP: 'on' },
        /^Coffer cannot start\. COFFER_HOST: the host name coffer\.invalid does not resolve \((ENOTFOUND|EAI_AGAIN)\)\.$/m,
      )
    })
  }

  // PostgreSQL servers that are missing or fake, so the engine of the test makes no difference.
  if (engine === 'sqlite') {
    test('with an unreachable or malformed database URL', async () => {
      const url = `postgres://coffer:hunter2@127.0.0.1:${await freePort()}/coffer`
      await expectRefusal(
        { COFFER_DATABASE_URL: url },
        cannotBeUsed('nothing listens at that address and port; check COFFER_DATABASE_URL (ECONNREFUSED)'),
      )
      await expectRefusal(
        { COFFER_DATABASE_URL: 'postgres://coffer:hunter%ff@127.0.0.1/coffer' },
        cannotBeUsed('a special character in COFFER_DATABASE_URL is not percent-encoded'),
      )
      // In a separate process, since the driver would end this one without a message.
      await expectRefusal(
        { COFFER_DATABASE_URL: `${url}?port=none` },
        cannotBeUsed('its port is not a number up to 65535; check COFFER_DATABASE_URL'),
        { run: runApart },
      )
      for (const parameter of ['ssl_mode=verify-full', 'sslMode=require', 'tls=true']) {
        await expectRefusal(
          { COFFER_DATABASE_URL: `${url}?application_name=x&${parameter}` },
          cannotBeUsed('a parameter of COFFER_DATABASE_URL is not one for TLS: use sslmode and sslrootcert'),
        )
      }
      // The name server may be unreachable too. In a separate process, since this one resolves no names.
      await expectRefusal(
        { COFFER_DATABASE_URL: 'postgres://coffer:hunter2@coffer.invalid/coffer' },
        /^Coffer cannot start\. The database cannot be used: its host name [^;]+; check COFFER_DATABASE_URL.* \((ENOTFOUND|EAI_AGAIN)\)\.$/m,
        { run: runApart },
      )
    })

    test('with an untrusted certificate of the database server, or without TLS although sslmode requires it', async () => {
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
        await expectRefusal({ COFFER_DATABASE_URL: `${base}?sslmode=require` }, notTrusted, { run: runApart })
        await expectRefusal({ COFFER_DATABASE_URL: `${base}?sslmode=verify-full` }, notTrusted)
        await expectRefusal(
          { COFFER_DATABASE_URL: `${base}?sslmode=verify-full&sslrootcert=/nowhere/ca.pem` },
          cannotBeUsed('a file that COFFER_DATABASE_URL names does not exist (ENOENT)'),
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
    })
  }

  if (engine === 'postgres') {
    test('if the database server denies access', async () => {
      const refused = async (change: Partial<URL>, reason: string, run = runHere) => {
        const url = Object.assign(new URL(String(database.settings.COFFER_DATABASE_URL)), change)
        await expectRefusal({ COFFER_DATABASE_URL: url.href }, cannotBeUsed(reason), { run })
      }
      const wrong = 'the user or the password is wrong or missing; check COFFER_DATABASE_URL (28P01)'
      await refused({ password: 'hunter2' }, wrong)
      await refused({ username: 'nobody' }, wrong)
      // In a separate process, so that no environment variable supplies a password.
      await refused({ password: '' }, wrong, runApart)
      await refused(
        { pathname: '/nowhere' },
        'the server has no database of that name; check COFFER_DATABASE_URL, or create it (3D000)',
      )

      const empty = await createDatabase()
      const own = String(empty.settings.COFFER_DATABASE_URL)
      const { pathname } = new URL(own)
      const role = `guest${pathname.slice(1)}`
      const asOwner = new pg.Client(own)
      await asOwner.connect()
      await asOwner.query(`create role ${role} login password 'guest'`)
      await refused(
        { username: role, password: 'guest', pathname },
        'its user lacks a permission: make them the owner of the database, or grant them "create" on the schema public (42501)',
      )
      await asOwner.query(`drop role ${role}`)
      await asOwner.end()
      await empty.drop()
    })
  }

  test('in a folder that is not writable', async () => {
    const file = join(database.dataDir, 'a-file')
    await writeFile(file, '')
    const settings =
      engine === 'sqlite' ? { COFFER_DATA_DIR: join(file, 'data') } : { COFFER_MASTER_KEY_FILE: join(file, 'key') }
    await expectRefusal(settings, /^Coffer cannot start\. .*\(E\w+\)/)
  })

  test('with a damaged store, even if the service already listens', async () => {
    await tamper(database.settings, (db) => db.count(sql`alter table account rename to elsewhere`))
    const { code, out, err } = await runApart([], { ...database.settings, COFFER_PORT: '0' })
    await tamper(database.settings, (db) => db.count(sql`alter table elsewhere rename to account`))
    expect({ code, out }, err).toEqual({ code: 1, out: '' })
    expect(err).toMatch(/^Coffer stopped unexpectedly \((Error ERR_SQLITE_ERROR 1|error 42P01)\)\.\n/)
  })

  test('on the schema of a newer version', async () => {
    await tamper(database.settings, (db) =>
      db.count(sql`insert into schema_step (step, name, applied_at) values (9999, 'future', 1)`),
    )
    await expectRefusal({}, /^Coffer cannot start\. The database was migrated by a newer version of Coffer \(step 9999/)
    await tamper(database.settings, (db) => db.count(sql`delete from schema_step where step = 9999`))
    const service = await openService(database.settings, database.dataDir)
    expect((await service.call('GET', '/readyz')).status).toBe(200)
    await service.stop()
  })
})

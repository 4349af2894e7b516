/**
 * The contents of an ended share are erased everywhere, and the service never has the key of an end-to-end share. The
 * tests search the database and its files, the log, and all traffic.
 */
import { createHash, randomBytes } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { seal, unlock } from '@coffer/sdk/share-envelope'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { caller } from '../../../../../test/caller.ts'
import { engine, registerOwner, startService, type TestService } from '../../../../../test/harness.ts'
import { openRaw, type RawDatabase } from '../../../../../test/raw-database.ts'
import { createShareProject, expectGone, newClaim, readers, type ShareProject } from '../../../../../test/share.ts'
import { spellings } from '../../../../../test/spelling.ts'
import { codeOf } from '../../../error-code.ts'
import { endShares } from '../../../jobs/share.ts'
import { databaseFile } from '../../../open-store.ts'

let service: TestService
let raw: RawDatabase
let project: ShareProject
let session: string
let startedAt: number

beforeAll(async () => {
  startedAt = Date.now()
  service = await startService()
  raw = await openRaw(service)
  session = (await registerOwner(service)).session
  project = await createShareProject(service, session)
})
afterAll(async () => {
  await raw.close()
  await service.stop()
})

const holds = (haystack: Buffer, secret: Buffer) =>
  spellings(secret)
    .filter(({ bytes }) => haystack.includes(bytes))
    .map(({ name }) => name)

/** Every cell of every table, as a dump would show it. */
async function dumpTables(): Promise<Buffer> {
  const cells: Buffer[] = []
  for (const table of await raw.tables()) {
    for (const row of await raw.query(`select * from ${table}`)) {
      for (const cell of Object.values(row)) {
        cells.push(cell instanceof Uint8Array ? Buffer.from(cell) : Buffer.from(`${String(cell)}\n`))
      }
    }
  }
  return Buffer.concat(cells)
}

/** The database files after a checkpoint, with a backup for SQLite. */
async function readFiles(): Promise<Buffer> {
  if (engine === 'postgres') {
    await raw.query('checkpoint')
    const [row] = await raw.query("select setting from pg_settings where name = 'data_directory'")
    const [name] = await raw.query('select oid from pg_database where datname = current_database()')
    const folder = String(row?.setting)
    // All databases share the WAL: segments last written before this test hold nothing of it.
    const log = readFolder(join(folder, 'pg_wal'), startedAt - 2_000)
    return Buffer.concat([readFolder(join(folder, 'base', String(name?.oid))), log])
  }
  await raw.query('pragma wal_checkpoint(truncate)')
  const backup = join(service.dataDir, `backup-${randomBytes(4).toString('hex')}.db`)
  await raw.query('vacuum into ?', [backup])
  const files = ['', '-wal', '-shm'].map((suffix) => join(service.dataDir, databaseFile + suffix))
  return Buffer.concat([...files, backup].filter(existsSync).map((file) => readFileSync(file)))
}

function readFolder(folder: string, writtenAfter = 0): Buffer {
  for (;;) {
    try {
      return readListed(folder, writtenAfter)
    } catch (error) {
      // PostgreSQL may remove or rename a listed file at any moment.
      if (codeOf(error) !== 'ENOENT') throw error
    }
  }
}

function readListed(folder: string, writtenAfter: number): Buffer {
  const files = readdirSync(folder).map((name) => join(folder, name))
  const isWanted = (file: string) => {
    const found = statSync(file)
    return found.isFile() && found.mtimeMs > writtenAfter
  }
  return Buffer.concat(files.filter(isWanted).map((file) => readFileSync(file)))
}

const canary = () => `canary-${randomBytes(12).toString('hex')}`

async function sealedOf(id: string): Promise<Buffer | undefined> {
  const [row] = await raw.query('select sealed from share where id = ?', [id])
  return row?.sealed instanceof Uint8Array ? Buffer.from(row.sealed) : undefined
}

type Made = { readonly id: string; readonly token: string }
const endings: [string, (share: Made) => Promise<unknown>][] = [
  ['its last view', ({ token }) => project.view(token, { password: 'right' })],
  ['its revocation', ({ id }) => project.revoke(id)],
  [
    'too many wrong passwords',
    async ({ token }) => {
      for (let guess = 0; guess < 3; guess++) await project.view(token, { password: 'wrong' })
    },
  ],
  [
    'its expiry, on the next request for it',
    async ({ token }) => {
      service.clock.offsetMs = 301_000
      expectGone(await project.view(token))
    },
  ],
  [
    'its expiry, without a request for it',
    async () => {
      service.clock.offsetMs = 301_000
      await endShares(service.app.services)
    },
  ],
  [
    'the minute in which its last reader may repeat the view',
    async ({ token }) => {
      await project.view(token, { password: 'right', claim: newClaim() })
      service.clock.offsetMs = 60_000
      await endShares(service.app.services)
    },
  ],
]

describe('the contents of a share are gone after', () => {
  test.each(endings)('%s', async (_what, end) => {
    const text = canary()
    // More than one page of the database.
    const content = text.padEnd(20_000, text)
    const share = await project.make({ content, password: 'right', maxFailures: 3, expiresIn: 300 })
    const sealed = await sealedOf(share.id)
    if (!sealed) throw new Error('it is not kept')
    const pieces = Array.from({ length: 20 }, (_, at) => sealed.subarray(at * 1_000, at * 1_000 + 48))
    const found = (haystack: Buffer) => pieces.filter((piece) => haystack.includes(piece)).length
    expect(found(await dumpTables())).toBe(pieces.length)
    // A piece may be split across two pages of a file.
    expect(found(await readFiles())).toBeGreaterThan(pieces.length / 2)
    try {
      await end(share)
    } finally {
      service.clock.offsetMs = 0
    }
    const [row] = await raw.query('select * from share where id = ?', [share.id])
    const gone = ['sealed', 'token_hash', 'token_root_id', 'password_hash', 'link_proof_hash', 'pass_proof_hash', 'mac']
    for (const column of gone) expect(row?.[column], column).toBeNull()
    expect((await project.find(share.id)).state).not.toBe('active')
    const tables = await dumpTables()
    const files = await readFiles()
    expect(found(tables)).toBe(0)
    // PostgreSQL overwrites dead rows later; their contents are encrypted.
    if (engine === 'sqlite') expect(found(files)).toBe(0)
    const log = Buffer.from(service.logs.join(''))
    for (const haystack of [tables, files, log]) {
      expect(holds(haystack, Buffer.from(text))).toEqual([])
      expect(holds(haystack, Buffer.from(share.token))).toEqual([])
    }
  })

  test('the search of these tests finds a label, which is not secret', async () => {
    const label = canary()
    await project.make({ content: 'x', label })
    expect(holds(await dumpTables(), Buffer.from(label))).toEqual(['raw'])
    expect(holds(await readFiles(), Buffer.from(label))).toContain('raw')
  })
})

test('an active share is encrypted, and its token and password are stored only as hashes', async () => {
  const [content, password, value] = [canary(), canary(), canary()]
  const { token } = await project.make({ content, password, maxViews: 3 })
  await project.set('development', { CANARY: value })
  const [secret] = await project.must<{ id: string }[]>('GET', '/secret?q=CANARY')
  const secrets = [{ id: secret?.id ?? '', environmentId: project.idOf('development') }]
  const other = await project.make({ secrets, maxViews: 3 })
  await project.view(token, { password })
  await project.view(other.token)
  for (const haystack of [await dumpTables(), await readFiles(), Buffer.from(service.logs.join(''))]) {
    for (const text of [content, password, value, token, other.token]) {
      expect(holds(haystack, Buffer.from(text))).toEqual([])
      expect(holds(haystack, createHash('sha256').update(text).digest())).toEqual([])
    }
  }
})

describe('an end-to-end share', () => {
  let proxy: Server
  let url: string
  const wire: Buffer[] = []
  const sockets = new Set<Socket>()

  /** Records all traffic to and from the service. */
  beforeAll(async () => {
    const target = new URL(service.url)
    proxy = createServer((client) => {
      const upstream = connect(Number(target.port), target.hostname)
      client.on('data', (bytes) => wire.push(bytes)).on('error', () => upstream.destroy())
      upstream.on('data', (bytes) => wire.push(bytes)).on('error', () => client.destroy())
      for (const socket of [client, upstream]) sockets.add(socket)
      client.pipe(upstream)
      upstream.pipe(client)
    })
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
    const address = proxy.address()
    url = `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`
  })
  afterAll(async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise((resolve) => proxy.close(resolve))
  })

  test('keeps link secret, passphrase and plaintext out of the traffic, the database and the log', async () => {
    const call = caller(url)
    const [plaintext, passphrase] = [canary(), canary()]
    const { envelope, fragment } = await seal({ t: 'text', v: plaintext }, passphrase)
    const body = { envelope, expiresIn: 300, maxViews: 3, label: 'watched' }
    const made = await call<Made>('POST', `${project.root}/secret-share`, { token: session, body })
    expect(made.status, made.text).toBe(201)
    const { token } = made.body
    const { meta, view } = readers({ call })
    await meta(token)
    const wrong = await unlock(fragment, 'wrong')
    expect((await view(token, { linkProof: wrong.linkProof, passProof: wrong.passProof ?? '' })).status).toBe(403)
    const { open, ...key } = await unlock(fragment, passphrase)
    const read = await view(token, { ...key, claim: newClaim() })
    expect(await open(read.body.ciphertext ?? '', read.body.commit ?? '')).toEqual({ t: 'text', v: plaintext })

    const wireBytes = Buffer.concat(wire)
    expect(wireBytes.includes('watched')).toBe(true)
    expect(wireBytes.includes(token)).toBe(true)
    const link = Buffer.from(fragment.slice('#1.'.length), 'base64url')
    const haystacks = {
      traffic: wireBytes,
      tables: await dumpTables(),
      files: await readFiles(),
      log: Buffer.from(service.logs.join('')),
    }
    for (const [place, haystack] of Object.entries(haystacks)) {
      for (const secret of [link.subarray(0, 32), Buffer.from(passphrase), Buffer.from(plaintext)]) {
        expect(holds(haystack, secret), place).toEqual([])
      }
      expect(haystack.includes(fragment.slice(1)), place).toBe(false)
    }
    // The service sees the proofs and stores only their hashes.
    for (const proof of [key.linkProof, key.passProof ?? '']) {
      expect(holds(wireBytes, Buffer.from(proof, 'base64url'))).toEqual(['base64 at 0'])
      for (const haystack of [haystacks.tables, haystacks.files, haystacks.log]) {
        expect(holds(haystack, Buffer.from(proof, 'base64url'))).toEqual([])
      }
    }
    // The stored ciphertext is encrypted again, so not even the sent ciphertext is in the tables.
    expect(holds(haystacks.tables, Buffer.from(envelope.ciphertext, 'base64url'))).toEqual([])
  })
})

/** A service with a split key, as processes: it starts sealed, is unsealed from several shells, and leaks no share. */
import { randomBytes } from 'node:crypto'
import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { SignedIn } from '@coffer/contract/auth'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createDatabase, type Database, password } from '../../../test/harness.ts'
import { freePort } from '../../../test/postgres.ts'
import { type Serving, serve } from '../../../test/process.ts'
import type { Ended, Settings } from '../../../test/program.ts'
import { setupCode } from '../../../test/setup-code.ts'
import { spellings } from '../../../test/spelling.ts'
import { startProgram } from '../../../test/start-server.ts'
import { tamper } from '../../../test/store.ts'
import { until } from '../../../test/wait.ts'
import { collectShares } from '../master-key/share-collector.ts'
import { sql } from '../store/engine/sql.ts'

let database: Database
let settings: Settings
let folder = ''
let session = ''
let shares: string[] = []
const printed: Ended[] = []

/** Runs a command with lines on its stdin. */
async function run(args: readonly string[], lines: readonly string[] = [], given = settings): Promise<Ended> {
  const program = startProgram(args, given)
  program.child.stdin?.end(lines.map((line) => `${line}\n`).join(''))
  const ended = await program.ended
  printed.push(ended)
  return ended
}

const unseal = (...lines: string[]) => run(['keys', 'unseal'], lines)
const share = (index: number) => shares[index - 1] ?? ''
const statusOf = async ({ url }: { url: string }) =>
  (await fetch(`${url}/v1/workspace/main/team`, { headers: { authorization: `Bearer ${session}` } })).status

async function readShares(out: string): Promise<string[]> {
  const names = (await readdir(out)).sort()
  return Promise.all(names.map(async (name) => (await readFile(join(out, name), 'utf8')).trim()))
}

/** Waits until the service that was sealed answers requests. */
const awaitReady = (service: Serving) =>
  until(async () => ((await statusOf(service)) === 200 ? true : undefined), 120_000, 'the service is unsealed')

beforeAll(async () => {
  database = await createDatabase({ hasSchema: true })
  folder = join(database.dataDir, 'shares')
  const service = await serve(database.settings)
  const owner = { email: 'owner@example.com', name: 'Owner', password, setupCode }
  session = (await service.call<SignedIn>('POST', '/v1/auth/register', { body: owner })).body.accessToken
  settings = { ...database.settings, COFFER_MASTER_KEY_SHARES: 'on' }
  const split = await run(['keys', 'split', '--out', folder], [], database.settings)
  expect(split).toMatchObject({ code: 0, err: '' })
  expect(split.out).toContain('Set COFFER_MASTER_KEY_SHARES=on and remove COFFER_MASTER_KEY_FILE')
  // The node that was running goes on.
  expect(await statusOf(service)).toBe(200)
  await service.stop()
  shares = await readShares(folder)
  expect(shares).toHaveLength(5)
})
afterAll(() => database.drop())

test('starts sealed, takes shares from several shells, and serves without a refused connection in between', async () => {
  const metricsPort = String(await freePort())
  const service = await serve({ ...settings, COFFER_METRICS_PORT: metricsPort })
  const scrape = async () => (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text()
  expect(await statusOf(service)).toBe(503)
  expect(await scrape()).toContain('coffer_sealed 1')
  const seen: (number | string)[] = []
  let isOver = false
  const polling = (async () => {
    while (!isOver) {
      // Each request opens a new connection: the sealed service closes them.
      seen.push(await statusOf(service).catch((error: Error) => String(error.cause ?? error)))
    }
  })()

  expect(await unseal(share(4))).toMatchObject({ code: 0, err: '', out: expect.stringContaining('1 of 3 shares') })
  const refused = await unseal(
    'hunter2',
    share(4),
    share(2).replace(/.$/, (last) => (last === '0' ? '1' : '0')),
  )
  expect(refused.code).toBe(1)
  expect(refused.out).toContain('is not a share')
  expect(refused.out).toContain('Share 4 was already given')
  expect(refused.out).toContain('mistyped or cut off')
  expect(refused.out).not.toContain('hunter2')
  expect(await unseal()).toMatchObject({ code: 0, out: expect.stringContaining('1 of 3 shares') })
  expect(await statusOf(service)).toBe(503)
  const last = await unseal(share(1), share(5))
  expect(last).toMatchObject({ code: 0, err: '' })
  expect(last.out).toMatch(/2 of 3 shares.*\n.*is unsealed/)
  await awaitReady(service)
  isOver = true
  await polling
  expect(new Set(seen)).toEqual(new Set([503, 200]))
  expect(seen.indexOf(200)).toBeGreaterThan(seen.lastIndexOf(503))
  expect(await scrape()).toContain('coffer_sealed 0')
  expect(await unseal(share(2))).toMatchObject({ code: 1, err: expect.stringContaining('No sealed service listens') })

  const command = await readFile(`/proc/${service.program.child.pid}/cmdline`, 'utf8')
  const environment = await readFile(`/proc/${service.program.child.pid}/environ`, 'utf8')
  const ended = await service.stop()
  expect(ended.code).toBe(0)
  await expectNoLeak([command, environment, ended.out, ended.err, ...printed.flatMap(({ out, err }) => [out, err])])
})

/** Neither shares nor the key are in the texts, in the database, or in files beside the shares. */
async function expectNoLeak(texts: readonly string[]): Promise<void> {
  const collector = collectShares()
  let key: Uint8Array | undefined
  for (const index of [1, 2, 3]) key = await collector.add(Buffer.from(share(index)))
  const secrets = [Buffer.from(key ?? ''), ...shares.map((text) => Buffer.from(text.split('-').slice(6, 10).join('-')))]
  const names = await readdir(database.dataDir, { recursive: true, withFileTypes: true })
  const files = names.filter((entry) => entry.isFile() && !entry.name.startsWith('coffer-share-'))
  const places = texts.map((text) => Buffer.from(text))
  for (const { parentPath, name } of files) places.push(await readFile(join(parentPath, name)))
  const rows = await tamper(database.settings, (db) =>
    db.all(sql`select i.custody, i.key_register, h.sealed from instance i left join master_handover h on 1 = 1`),
  )
  places.push(Buffer.from(JSON.stringify(rows)))
  expect(secrets.every(({ length }) => length >= 20)).toBe(true)
  for (const secret of secrets) {
    for (const { name, bytes } of spellings(secret)) {
      for (const place of places) expect(place.includes(bytes), name).toBe(false)
    }
  }
}

test('commands take the shares on stdin, and say how many are missing', async () => {
  const status = await run(['keys', 'status'], [share(1), 'mistyped', share(2), share(3)])
  expect(status).toMatchObject({ code: 0, out: expect.stringContaining('Custody: shares since') })
  expect(await run(['keys', 'status'], [share(1), share(2)])).toMatchObject({
    code: 1,
    err: expect.stringContaining('hand 3 shares, one per line on stdin or at a terminal; 2 came'),
  })
})

test.each([
  ['with a split key, whose shares come on stdin once', () => settings, () => shares.slice(0, 3)],
  ['with the former key, until the move is finished', () => database.settings, () => []],
])('a backup verifies %s', async (_how, given, lines) => {
  const file = join(database.dataDir, `${randomBytes(6).toString('hex')}.backup`)
  expect(await run(['backup', file], lines(), given())).toMatchObject({
    code: 0,
    err: '',
    out: expect.stringContaining(`Wrote and verified ${file}`),
  })
})

test('a signal or a kill while it is sealed leaves nothing in its way', async () => {
  const stopped = await serve(settings)
  expect(await unseal(share(1))).toMatchObject({ code: 0 })
  expect(await stopped.stop()).toMatchObject({ code: 0, err: '' })
  expect(await readdir(join(database.dataDir, 'unseal'))).toEqual([])
  const killed = await serve(settings)
  await killed.destroy()
  const again = await serve(settings)
  // Shares of the process before are gone.
  expect((await unseal()).out).toContain('0 of 3 shares')
  expect(await run([], [], { ...settings, COFFER_PORT: '0' })).toMatchObject({
    code: 1,
    err: expect.stringContaining('Another sealed service uses the folder'),
  })
  await again.stop()
})

test('shares that do not open the store are dropped, and it stays sealed', async () => {
  const before = await tamper(database.settings, (db) =>
    db.one<{ custody: string }>(sql`select custody from instance where id = 1`),
  )
  const custody = before?.custody ?? ''
  const changed = custody.replace(/"check":"\w+"/, `"check":"${'0'.repeat(16)}"`)
  expect(changed).not.toBe(custody)
  await tamper(database.settings, (db) => db.count(sql`update instance set custody = ${changed} where id = 1`))
  const service = await serve(settings)
  await tamper(database.settings, (db) => db.count(sql`update instance set custody = ${custody} where id = 1`))
  const ended = await unseal(share(1), share(2), share(3))
  expect(ended).toMatchObject({ code: 1, out: expect.stringContaining('all were dropped, begin again') })
  expect((await unseal()).out).toContain('0 of 3 shares')
  expect(await statusOf(service)).toBe(503)
  await service.stop()
})

test('the end of a move ends the shares of before and the key file', async () => {
  const next = join(database.dataDir, 'next')
  const options = ['--shares', '3', '--threshold', '2', '--out', next]
  const waiting = await serve(settings)
  expect(await unseal(share(1))).toMatchObject({ code: 0, out: expect.stringContaining('1 of 3 shares') })
  expect(await run(['keys', 'move', '--to', 'shares', ...options], shares.slice(0, 3))).toMatchObject({ code: 0 })
  const former = shares
  shares = await readShares(next)
  const finished = await run(['keys', 'move', '--finish'], shares)
  expect(finished).toMatchObject({ code: 0, out: expect.stringContaining('2 former master keys open nothing') })
  expect(await run([], [], { ...database.settings, COFFER_PORT: '0' })).toMatchObject({
    code: 1,
    err: expect.stringMatching(/was moved to shares on .*: set COFFER_MASTER_KEY_SHARES, and no other source/),
  })
  await rm(join(database.dataDir, 'master.key'))
  // A service that was sealed all the time knows the new set too.
  expect(await unseal(former[1] ?? '')).toMatchObject({ code: 1, out: expect.stringContaining('This share is of set') })
  expect(await unseal(share(1), share(2))).toMatchObject({ code: 0, out: expect.stringContaining('is unsealed') })
  await awaitReady(waiting)
  await waiting.stop()
  const service = await serve(settings)
  expect(await unseal(former[0] ?? '')).toMatchObject({ code: 1, out: expect.stringContaining('This share is of set') })
  expect(await unseal(share(3), share(1))).toMatchObject({ code: 0, out: expect.stringContaining('is unsealed') })
  await awaitReady(service)
  await service.stop()
  // Back to a file, online.
  const file = join(database.dataDir, 'again.key')
  expect(await run(['keys', 'move', '--to', 'file', file], shares)).toMatchObject({ code: 0 })
  const back = { ...database.settings, COFFER_MASTER_KEY_FILE: file }
  expect(await run(['keys', 'move', '--finish'], [], back)).toMatchObject({ code: 0 })
  expect(await run([], [], { ...settings, COFFER_PORT: '0' })).toMatchObject({
    code: 1,
    err: expect.stringContaining('is in a file: set COFFER_MASTER_KEY_FILE instead'),
  })
})

test.each<[string, string[], string]>([
  ['no terminal', ['keys', 'split'], 'Shares are shown at a terminal only'],
  ['a threshold of one', ['keys', 'split', '--threshold', '1', '--out', 'refused'], 'at least 2'],
  ['words for numbers', ['keys', 'split', '--shares', 'five'], 'Not a split'],
  ['an unknown option', ['keys', 'split', '--hunter2'], 'Not a split'],
])('a split is refused with %s', async (_, args, reason) => {
  const back = { ...database.settings, COFFER_MASTER_KEY_FILE: join(database.dataDir, 'again.key') }
  const inside = args.map((text) => (text === 'refused' ? join(database.dataDir, 'refused') : text))
  const ended = await run(inside, [], back)
  expect(ended).toMatchObject({ code: 1, out: '' })
  expect(ended.err).toContain(reason)
  expect(ended.err).not.toContain('hunter2')
})

test('a split into a folder with files is refused', async () => {
  const back = { ...database.settings, COFFER_MASTER_KEY_FILE: join(database.dataDir, 'again.key') }
  expect((await run(['keys', 'split', '--out', folder], [], back)).err).toContain('is not empty')
})

test('a split whose shares cannot be written says so, and leaves the master key as it was', async () => {
  const back = { ...database.settings, COFFER_MASTER_KEY_FILE: join(database.dataDir, 'again.key') }
  const before = await run(['keys', 'status'], [], back)
  expect(before).toMatchObject({ code: 0 })
  // There is room for the path of the folder, but not for that of a file in it.
  const start = join(database.dataDir, 'deep')
  const out = `${start}${'/sub'.repeat(Math.floor((4_085 - start.length) / 4))}`
  const ended = await run(['keys', 'split', '--out', out], [], back)
  expect(ended).toMatchObject({ code: 1, out: '' })
  expect(ended.err).toContain('(ENAMETOOLONG): the master key is as before; choose another folder with --out.')
  expect(ended.err).not.toContain(' at ')
  expect(await run(['keys', 'status'], [], back)).toEqual(before)
})

test('a store that is not split does not start sealed', async () => {
  const other = await createDatabase({ hasSchema: true })
  const ended = await run([], [], { ...other.settings, COFFER_MASTER_KEY_SHARES: 'on', COFFER_PORT: '0' })
  expect(ended).toMatchObject({ code: 1, err: expect.stringContaining('is not split: start without it') })
  await other.drop()
})

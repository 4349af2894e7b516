/**
 * No credential, password or key is written anywhere in the clear. After a broad scenario at debug level, the tests
 * search the database, the log and the responses for every secret of it, in every encoding.
 */
import { createHash, createHmac } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Canaries, createCanaries } from '../../../test/canary.ts'
import { runCanaryScenario } from '../../../test/canary-scenario.ts'
import { startService } from '../../../test/harness.ts'
import { spellings } from '../../../test/spelling.ts'
import { tokenPrefix } from '../crypto/token.ts'
import { verifyChain } from '../domain/audit/verify.ts'
import { openBackupFile } from '../domain/backup/file.ts'
import { unlockBackup } from '../domain/backup/read.ts'
import { writeBackup } from '../domain/backup/write.ts'

let service: Canaries['service']
let raw: Canaries['raw']
let secrets: Canaries['secrets']
let exchanges: Canaries['exchanges']
let send: Canaries['send']
let find: Canaries['find']
let dumpDatabase: Canaries['dumpDatabase']

beforeAll(async () => {
  service = await startService({ COFFER_SIGNUP: 'open', COFFER_EXCHANGE_RATE_LIMIT: '0' })
  const canaries = await createCanaries(service)
  ;({ raw, secrets, exchanges, send, find, dumpDatabase } = canaries)
  await runCanaryScenario(canaries)
})
afterAll(async () => {
  await raw.close()
  await service.stop()
})

/** With an unkeyed hash of a credential, a stolen database could be used to test guesses and to find equal credentials. */
const hashesOf = (secret: Buffer) =>
  ['md5', 'sha1', 'sha256', 'sha512'].flatMap((name) => [createHash(name).update(secret).digest()])

describe('after a broad scenario with passwords, tokens, sessions, JWTs and keys', () => {
  test('there are many secrets to search for', () => {
    const names = [...secrets.keys()].join('\n')
    expect(secrets.size).toBeGreaterThan(80)
    for (const kind of [
      'password of',
      'session',
      'token',
      'JWT',
      'master key',
      'root key',
      'key 1 of workspace',
      'key 2 of workspace',
    ]) {
      expect(names).toContain(kind)
    }
    for (const kind of ['key of environment', 'jwt signing key', 'audit signing key']) expect(names).toContain(kind)
    expect(exchanges.length).toBeGreaterThan(80)
    const statuses = [200, 201, 400, 401, 403, 404, 409, 413, 415, 429, 500]
    const routes = service.logs.map((line): { status?: number } => JSON.parse(line))
    for (const status of statuses)
      expect(
        routes.some((line) => line.status === status),
        `${status}`,
      ).toBe(true)
  })

  test('no secret is in the database, in any encoding', async () => {
    const dump = await dumpDatabase()
    expect(dump.length).toBeGreaterThan(10_000)
    expect(find(dump)).toEqual([])
  })

  test('no unkeyed hash of a credential is in the database', async () => {
    const dump = await dumpDatabase()
    const credentials = [...secrets].filter(([name]) => /password|token|session|JWT/.test(name))
    for (const [name, secret] of credentials) {
      const wholes = [secret, Buffer.concat([Buffer.from(tokenPrefix), secret])]
      for (const hash of wholes.flatMap(hashesOf)) {
        expect(
          spellings(hash).filter(({ bytes }) => dump.includes(bytes)),
          name,
        ).toEqual([])
      }
    }
  })

  test('no secret is in the log at debug level', () => {
    expect(service.logs.length).toBeGreaterThan(80)
    expect(find(Buffer.from(service.logs.join('')))).toEqual([])
  })

  test('no secret is in a response except the one that issues it', () => {
    const leaks = exchanges.flatMap(({ request, response, mayHold }) => {
      const others = [...secrets.keys()].filter((name) => !mayHold.includes(name))
      return find(Buffer.from(response), others).map((name) => `${request}: ${name}`)
    })
    expect(leaks).toEqual([])
  })

  test('each issued secret is in the response that issues it, so the search is for the right bytes', () => {
    const handed = exchanges.flatMap(({ response, mayHold }) => mayHold.map((name) => ({ name, response })))
    expect(handed.length).toBeGreaterThan(9)
    for (const { name, response } of handed) expect(find(Buffer.from(response), [name]), name).not.toEqual([])
  })

  test('the audit trail verifies', async () => {
    const chains = await raw.query('select chain_id from audit_head where sequence > 0')
    expect(chains).toHaveLength(3)
    for (const { chain_id } of chains) {
      expect(await verifyChain(service.app.services, String(chain_id))).toMatchObject({ ok: true })
    }
  })

  test('a backup holds none of them, neither as it is nor unsealed', async () => {
    const path = join(service.dataDir, 'canary.backup')
    await writeBackup(service.app.services, path)
    expect(find(await readFile(path))).toEqual([])
    const file = await openBackupFile(path)
    const contents: Buffer[] = []
    const key = unlockBackup(file, service.app.services.keys.master)
    for await (const { content } of file.frames(key)) contents.push(content)
    await file.close()
    const unsealed = Buffer.concat(contents)
    expect(find(unsealed)).toEqual([])
    expect(unsealed.includes('owner@example.com')).toBe(true)
  })
})

describe('the search finds', () => {
  const planted = 'planted-canary-0123456789-\u00e9'

  test('a canary that may be in the database and the log', async () => {
    const agent = 'planted-agent-9f2c4e1b7a'
    secrets.set('user agent', Buffer.from(agent))
    // Failed logins of a known person are always recorded; those for unknown addresses only up to a limit.
    const body = { email: 'owner@example.com', password: 'wrong' }
    await send('POST', '/v1/auth/login', { body, headers: { 'user-agent': agent } })
    expect(find(await dumpDatabase(), ['user agent'])).toContain('user agent (raw)')
    service.app.services.log.error(agent)
    expect(find(Buffer.from(service.logs.join('')), ['user agent'])).toEqual(['user agent (raw)'])
    secrets.delete('user agent')
  })

  test.each<[string, (secret: Buffer) => string | Buffer]>([
    ['raw bytes', (secret) => secret],
    ['hex', (secret) => secret.toString('hex')],
    ['upper-case hex', (secret) => secret.toString('hex').toUpperCase()],
    ['base64', (secret) => secret.toString('base64')],
    ['base64url', (secret) => secret.toString('base64url')],
    [
      'base64 of a longer text, at offset one',
      (secret) => Buffer.concat([Buffer.from('x'), secret, Buffer.from('yz')]).toString('base64'),
    ],
    [
      'base64 of a longer text, at offset two',
      (secret) => Buffer.concat([Buffer.from('xx'), secret, Buffer.from('y')]).toString('base64'),
    ],
    [
      'base64url of a longer text, at offset three',
      (secret) => Buffer.concat([Buffer.from('xxx'), secret]).toString('base64url'),
    ],
  ])('%s', (_what, spell) => {
    for (const secret of [
      Buffer.from(planted),
      createHmac('sha256', 'x').update('y').digest(),
      Buffer.alloc(32, 0xfb),
    ]) {
      secrets.set('planted', secret)
      const haystack = Buffer.concat([Buffer.from('before '), Buffer.from(spell(secret)), Buffer.from(' after')])
      expect(find(haystack, ['planted'])).not.toEqual([])
      expect(find(Buffer.from('before  after'), ['planted'])).toEqual([])
    }
    secrets.delete('planted')
  })

  test('a secret that was planted in the database', async () => {
    const secret = Buffer.from(planted)
    secrets.set('planted', secret)
    await raw.restoring(['instance'], async () => {
      await raw.query('update instance set wrapped_master = ?', [secret.toString('base64')])
      expect(find(await dumpDatabase(), ['planted'])).toEqual(['planted (base64 at 0)'])
    })
    secrets.delete('planted')
  })
})

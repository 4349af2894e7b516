/**
 * No credential, password or key is written anywhere in the clear. After a broad scenario at debug level, the tests
 * search the database, the log and the responses for every secret of it, in every encoding.
 */
import { createHash, createHmac } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import type { SignedIn } from '@coffer/contract/auth'
import type { DeviceCode } from '@coffer/contract/device'
import type { IssuedInvite } from '@coffer/contract/invite'
import type { RecoveryCodes, TotpEnrolment } from '@coffer/contract/mfa'
import type { IssuedToken } from '@coffer/contract/token'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readBase32 } from '../../../test/authenticator.ts'
import { engine, startService, type TestService } from '../../../test/harness.ts'
import { type Cell, openRaw, type RawDatabase } from '../../../test/raw-database.ts'
import { spellings } from '../../../test/spelling.ts'
import { asKey, associatedData, open } from '../crypto/envelope.ts'
import { masterWrapKey } from '../crypto/keyring.ts'
import { createBearer, sessionPrefix, tokenPrefix } from '../crypto/token.ts'
import { hotp, totpStep } from '../crypto/totp.ts'
import { verifyChain } from '../domain/audit/verify.ts'
import { asOperator } from '../domain/context.ts'
import { hourMs } from '../domain/time.ts'
import { rotateRoot, rotateWorkspaceKey } from '../domain/workspace/key.ts'
import { flushUsage } from '../jobs/usage.ts'
import { databaseFile } from '../open-store.ts'

let service: TestService
let raw: RawDatabase

/** Every secret of the run by its name. */
const secrets = new Map<string, Buffer>()
type Exchange = { readonly request: string; readonly response: string; readonly mayHold: readonly string[] }
const exchanges: Exchange[] = []

function plant(name: string, secret: string | Uint8Array): string {
  const bytes = Buffer.from(secret)
  expect(bytes.length, name).toBeGreaterThanOrEqual(12)
  secrets.set(name, bytes)
  return bytes.toString()
}

let made = 0
/** A password or other text that nothing else contains. */
const canary = (name: string) =>
  plant(name, `canary-${++made}-${createHash('sha256').update(name).digest('hex').slice(0, 20)}`)

/** The first 13 characters of a token are shown in lists on purpose; the rest is the secret. */
const plantBearer = (name: string, value: string) => {
  plant(name, value.slice(13))
  return value
}
const plantJwt = (name: string, value: string) => {
  plant(`${name}, its signature`, value.split('.')[2] ?? '')
  return value
}

type Sent = { status: number; headers: Headers; text: string }
type Options = { token?: string; body?: unknown; headers?: Record<string, string>; mayHold?: string[] }

async function send(method: string, path: string, options: Options = {}): Promise<Sent> {
  const { token, body, headers = {}, mayHold = [] } = options
  const response = await fetch(service.url + path, {
    method,
    headers: {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  const text = await response.text()
  const shown = [...response.headers].map(([name, value]) => `${name}: ${value}`).join('\n')
  exchanges.push({ request: `${method} ${path.split('?')[0]}`, response: `${shown}\n\n${text}`, mayHold })
  return { status: response.status, headers: response.headers, text }
}

async function sendFor<Body>(status: number, method: string, path: string, options: Options = {}): Promise<Body> {
  const answer = await send(method, path, options)
  expect(answer.status, `${method} ${path} ${answer.text}`).toBe(status)
  return JSON.parse(answer.text)
}

/** Sends raw bytes, for requests that no client library would send. */
function sendBytes(text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const { port } = new URL(service.url)
    const socket = connect(Number(port), '127.0.0.1', () => socket.end(text))
    const pieces: Buffer[] = []
    socket.on('data', (piece) => pieces.push(piece))
    socket.on('error', reject)
    socket.on('close', () => {
      exchanges.push({ request: 'raw', response: Buffer.concat(pieces).toString(), mayHold: [] })
      resolve()
    })
  })
}

beforeAll(async () => {
  service = await startService({ COFFER_SIGNUP: 'open', COFFER_EXCHANGE_RATE_LIMIT: '0' })
  raw = await openRaw(service)
  const { session, token, jwt } = await liveThrough()
  await useOwnAccount()
  await failInEveryWay(session, token, jwt)
  await breakTheStore(session)
  await turnTheKeys(token)
  await flushUsage(service.app.services)
  await unwrapKeys()
})
afterAll(async () => {
  await raw.close()
  await service.stop()
})

type Signed = { readonly session: string; readonly token: string; readonly jwt: string }

async function liveThrough(): Promise<Signed> {
  const password = canary('password of the owner')
  const register = { email: 'owner@example.com', name: 'Owner', password }
  const first = await sendFor<SignedIn>(201, 'POST', '/v1/auth/register', {
    body: register,
    mayHold: ['first session'],
  })
  plantBearer('first session', first.accessToken)
  const login = { email: 'owner@example.com', password }
  const second = await sendFor<SignedIn>(200, 'POST', '/v1/auth/login', { body: login, mayHold: ['second session'] })
  const session = plantBearer('second session', second.accessToken)
  const other = { email: 'other@example.com', name: 'Other', password: canary('password of another') }
  const third = await sendFor<SignedIn>(201, 'POST', '/v1/auth/register', { body: other, mayHold: ['third session'] })
  plantBearer('third session', third.accessToken)
  await sendFor(201, 'POST', '/v1/workspace', { token: third.accessToken, body: { name: 'Other', slug: 'other' } })
  await sendFor(200, 'POST', '/v1/auth/logout', { token: first.accessToken })

  const teams = await sendFor<{ id: string }[]>(200, 'GET', '/v1/workspace/main/team', { token: session })
  const project = await sendFor<{ id: string }>(201, 'POST', '/v1/workspace/main/project', {
    token: session,
    body: { name: 'App', slug: 'app', teamId: teams[0]?.id },
  })
  const environments = await sendFor<{ id: string }[]>(200, 'GET', '/v1/workspace/main/project/app/environment', {
    token: session,
  })
  const tokens = '/v1/workspace/main/tokens'
  const wish = { name: 'ci', permission: 'read-write', scope: { all: true }, expiresIn: '30d' }
  const issue = (name: string, body: object) =>
    sendFor<IssuedToken>(201, 'POST', tokens, { token: session, body, mayHold: [name] })
  const issued = await issue('rotated token', wish)
  plantBearer('rotated token', issued.token)
  const revoked = await issue('revoked token', { ...wish, scope: { projects: [project.id] }, permission: 'read' })
  plantBearer('revoked token', revoked.token)
  const cli = await sendFor<{ token: string }>(201, 'POST', `${tokens}/cli`, {
    token: session,
    body: { environmentId: environments[0]?.id },
    mayHold: ['cli token'],
  })
  plantBearer('cli token', cli.token)
  await sendFor(200, 'GET', '/v1/me', { token: cli.token })

  const oldJwt = await swap(issued.token, 'JWT of the old value')
  const rotated = await sendFor<IssuedToken>(200, 'POST', `${tokens}/${issued.id}/rotate`, {
    token: session,
    body: { graceSeconds: 600 },
    mayHold: ['token after its rotation'],
  })
  const token = plantBearer('token after its rotation', rotated.token)
  const jwt = await swap(token, 'JWT of the new value')
  for (const value of [issued.token, oldJwt, token, jwt]) await sendFor(200, 'GET', '/v1/workspace', { token: value })
  await sendFor(200, 'DELETE', `${tokens}/${revoked.id}`, { token: session })
  await sendFor(401, 'GET', '/v1/me', { token: revoked.token })
  await sendFor(200, 'GET', '/v1/workspace', {
    headers: { cookie: `__Host-coffer_session=${session}`, 'sec-fetch-site': 'same-origin' },
  })
  await invite(session, third.accessToken)
  for (const path of ['', '/rbac', '/team', '/project', '/tokens', '/audit', '/audit?format=ndjson', '/audit/verify']) {
    await send('GET', `/v1/workspace/main${path}`, { token: session })
  }
  return { session, token, jwt }
}

/** Invites in every state: resent, declined, accepted, and one that stays open. */
async function invite(session: string, invited: string): Promise<void> {
  const rbac = '/v1/workspace/main/rbac'
  const issue = async (name: string, path: string, body?: object) => {
    const options = { token: session, ...(body && { body }), mayHold: [name] }
    const issued = await sendFor<IssuedInvite>(body ? 201 : 200, 'POST', path, options)
    return { id: issued.id, token: plantBearer(name, issued.inviteToken) }
  }
  const wish = { role: 'member', scope: { all: true } }
  const first = await issue('invite', rbac, { ...wish, email: 'other@example.com' })
  const second = await issue('invite sent again', `${rbac}/${first.id}/resend`)
  const answer = (status: number, what: string, token: string) =>
    sendFor(status, 'POST', `/v1/workspace/invite/${what}`, { token: invited, body: { token } })
  await answer(404, 'accept', first.token)
  await answer(200, 'decline', second.token)
  const third = await issue('invite after a decline', `${rbac}/${first.id}/resend`)
  await answer(200, 'accept', third.token)
  const open = await issue('open invite', rbac, { ...wish, email: 'absent@example.com' })
  await answer(403, 'accept', open.token)
  await sendFor(401, 'GET', '/v1/me', { token: open.token })
  const password = canary('password of a refused registration')
  const registration = { email: 'somebody@example.com', name: 'Somebody', password, inviteToken: open.token }
  await sendFor(403, 'POST', '/v1/auth/register', { body: registration })
}

/** A second factor is set up and used, a device signs in, and the password is changed. */
async function useOwnAccount(): Promise<void> {
  const secret = canary('password of a careful person')
  const account = { email: 'careful@example.com', password: secret }
  const first = await sendFor<SignedIn>(201, 'POST', '/v1/auth/register', {
    body: { ...account, name: 'Careful' },
    mayHold: ['session of a careful person'],
  })
  const token = plantBearer('session of a careful person', first.accessToken)
  const enrolment = await sendFor<TotpEnrolment>(200, 'POST', '/v1/me/mfa/totp', {
    token,
    body: { password: secret },
    mayHold: ['secret of an app'],
  })
  plant('secret of an app', enrolment.secret)
  plant('secret of an app, its bytes', readBase32(enrolment.secret))
  const names = Array.from({ length: 10 }, (_, at) => `recovery code ${at}`)
  const { recoveryCodes } = await sendFor<RecoveryCodes>(200, 'POST', '/v1/me/mfa/totp/confirm', {
    token,
    body: { code: hotp(readBase32(enrolment.secret), totpStep(Date.now())) },
    mayHold: names,
  })
  for (const [at, recovery] of recoveryCodes.entries()) {
    plant(names[at] ?? '', recovery)
    plant(`${names[at]} without dashes`, recovery.replaceAll('-', ''))
  }
  const login = '/v1/auth/login'
  await sendFor(401, 'POST', login, { body: account })
  await sendFor(401, 'POST', login, { body: { ...account, code: canary('wrong code') } })
  const second = await sendFor<SignedIn>(200, 'POST', login, {
    body: { ...account, code: recoveryCodes[0] },
    mayHold: ['session by a recovery code'],
  })
  plantBearer('session by a recovery code', second.accessToken)
  const clientId = 'cli'
  const codes = await sendFor<DeviceCode>(200, 'POST', '/v1/auth/device/code', {
    body: { clientId },
    mayHold: ['device code'],
  })
  const deviceCode = plant('device code', codes.deviceCode)
  await sendFor(400, 'POST', '/v1/auth/device/token', { body: { clientId, deviceCode } })
  await sendFor(400, 'POST', '/v1/auth/device/token', { body: { clientId, deviceCode: canary('unknown device code') } })
  await sendFor(200, 'POST', '/v1/auth/device/lookup', { token, body: { userCode: codes.userCode } })
  await sendFor(200, 'POST', '/v1/auth/device/approve', { token, body: { userCode: codes.userCode, approve: true } })
  const cli = await sendFor<{ accessToken: string }>(200, 'POST', '/v1/auth/device/token', {
    body: { clientId, deviceCode },
    mayHold: ['session of a device'],
  })
  plantBearer('session of a device', cli.accessToken)
  const change = { currentPassword: canary('wrong current password'), newPassword: canary('new password') }
  await sendFor(403, 'PUT', '/v1/me/password', { token, body: change })
  await sendFor(200, 'PUT', '/v1/me/password', { token, body: { ...change, currentPassword: secret } })
  await sendFor(200, 'GET', '/v1/me/session', { token })
  const removal = { code: canary('wrong code for removal'), password: canary('wrong password for removal') }
  await sendFor(403, 'DELETE', '/v1/me/mfa/totp', { token, body: removal })
  await sendFor(403, 'DELETE', '/v1/me/mfa/totp', { token, body: { ...removal, password: change.newPassword } })
}

async function swap(token: string, name: string): Promise<string> {
  const mayHold = [`${name}, its signature`]
  const answer = await sendFor<{ accessToken: string }>(200, 'POST', '/v1/auth/exchange', { token, mayHold })
  return plantJwt(name, answer.accessToken)
}

async function failInEveryWay(session: string, token: string, jwt: string): Promise<void> {
  const login = '/v1/auth/login'
  for (const email of ['owner@example.com', 'nobody@example.com']) {
    await sendFor(401, 'POST', login, { body: { email, password: canary(`wrong password of ${email}`) } })
  }
  // Typing the password into the wrong field is a common slip.
  const slipped = canary('password typed as the address')
  await sendFor(401, 'POST', login, { body: { email: `${slipped}@example.com`, password: canary('no password') } })
  await sendFor(400, 'POST', login, { body: { email: canary('password that is no address'), password: 'x' } })
  for (let tries = 0; tries < 11; tries++) {
    await send('POST', login, { body: { email: 'locked@example.com', password: canary(`guess ${tries}`) } })
  }
  const secret = () => canary(`a value in a refused request ${made}`)
  const body = (extra: object) => ({ email: 'x@example.com', name: 'X', password: secret(), ...extra })
  await sendFor(400, 'POST', '/v1/auth/register', { body: body({ password: secret().slice(0, 8) }) })
  await sendFor(400, 'POST', '/v1/auth/register', { body: body({ note: secret() }) })
  await sendFor(400, 'POST', '/v1/auth/register', { body: body({ email: { address: secret() } }) })
  await sendFor(400, 'POST', '/v1/auth/register', {
    body: body({ workspace: { name: secret(), slug: `${secret()}!` } }),
  })
  await sendFor(409, 'POST', '/v1/auth/register', { body: body({ email: 'owner@example.com' }) })
  const headers = { 'content-type': 'application/json' }
  for (const text of [
    `{"password": "${secret()}"`,
    `${secret()}`,
    `"${secret()}"`,
    `["${secret()}"]`,
    `{"email":"x@example.com","password":"${secret()}","password":}`,
    `{"__proto__":{"x":"${secret()}"},"email":"x@example.com","password":"${secret()}"}`,
    `{"constructor":{"prototype":"${secret()}"}}`,
    `{"email":"\\ud800","password":"${secret()}"}`,
    `{"email":"x@example.com\\u0000","password":"${secret()}"}`,
  ]) {
    await sendFor(400, 'POST', login, { body: text, headers })
  }
  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  await sendFor(415, 'POST', login, { body: `password=${secret()}`, headers: form })
  await sendFor(415, 'POST', login, { body: secret(), headers: { 'content-type': 'text/plain' } })
  await sendFor(415, 'POST', login, { body: secret(), headers: { ...headers, 'content-encoding': 'gzip' } })
  await sendFor(413, 'POST', login, { body: `"${secret()}${'x'.repeat(9 * 1024 * 1024)}"`, headers })

  await sendFor(401, 'GET', '/v1/me', { token: secret() })
  await sendFor(401, 'GET', '/v1/me', { headers: { authorization: `Basic ${secret()}` } })
  const unknown = [createBearer(tokenPrefix), createBearer(sessionPrefix)].map((one, at) =>
    plantBearer(`unknown ${at}`, one),
  )
  for (const value of unknown) await sendFor(401, 'GET', '/v1/me', { token: value })
  await sendFor(401, 'GET', '/v1/me', { token: `${jwt}A` })
  await sendFor(401, 'GET', '/v1/me', { token: jwt.replace('.', '.A') })
  await sendFor(401, 'GET', `/v1/me?access_token=${token}`)
  await sendFor(404, 'GET', `/v1/${secret()}`, { token: session })
  await sendFor(404, 'GET', `/${secret()}?token=${token}`)
  await sendFor(404, 'GET', `/v1/workspace/${secret().slice(0, 40)}`, { token: session })
  await sendFor(400, 'GET', `/v1/workspace/%ff${secret()}`, { token: session })
  await sendFor(400, 'GET', `/v1/workspace/main/audit?cursor=${secret()}`, { token: session })
  await sendFor(200, 'GET', `/v1/workspace/main/audit?q=${secret()}&actor=${secret()}&unknown=${token}`, {
    token: session,
  })
  await sendFor(400, 'GET', `/v1/workspace/main/audit?from=${secret()}`, { token: session })
  await sendFor(200, 'GET', `/v1/me?token=${secret()}`, {
    token: session,
    headers: { 'x-api-key': secret(), referer: `https://example.com/?token=${token}`, cookie: `other=${secret()}` },
  })
  const wish = { name: 'ci', permission: 'read', scope: { all: true }, expiresIn: '30d' }
  const tokens = '/v1/workspace/main/tokens'
  await sendFor(400, 'POST', tokens, { token: session, body: { ...wish, expiresIn: secret() } })
  await sendFor(400, 'POST', tokens, { token: session, body: { ...wish, scope: { projects: [secret()] } } })
  await sendFor(400, 'POST', tokens, { token: session, body: { ...wish, allowedIps: [secret()] } })
  await sendFor(403, 'POST', tokens, { token, body: wish })
  await sendFor(404, 'DELETE', `${tokens}/01890000-0000-7000-8000-000000000000`, { token: session })
  await sendFor(409, 'POST', '/v1/workspace/main/team', { token: session, body: { name: 'Everyone' } })
  await sendBytes(`GET /v1/me HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${secret()}\r\n${secret()}\r\n\r\n`)
  await sendBytes(`${secret()} / HTTP/9.9\r\n\r\n`)
  await sendBytes(`GET /v1/me HTTP/1.1\r\nHost: x\r\nX: ${secret()}${'x'.repeat(70_000)}\r\n\r\n`)
}

async function expectBroken(method: string, path: string, options: Options): Promise<void> {
  expect((await send(method, path, options)).status).toBeGreaterThanOrEqual(500)
}

/** Provokes driver errors, which quote statements, parameters and whole rows. */
async function breakTheStore(session: string): Promise<void> {
  await raw.query('alter table audit_entry rename to audit_entry_away')
  const wrong = { email: 'owner@example.com', password: canary('password while the trail was away') }
  await expectBroken('POST', '/v1/auth/login', { body: wrong })
  const token = plantBearer('token while the trail was away', createBearer(tokenPrefix))
  await sendFor(401, 'GET', '/v1/me', { token })
  await expectBroken('POST', '/v1/auth/register', {
    body: { email: 'late@example.com', name: 'Late', password: canary('password that was never kept') },
  })
  await raw.query('alter table audit_entry_away rename to audit_entry')
  await raw.query('alter table token rename to token_away')
  service.app.services.credentials.clear()
  await expectBroken('GET', '/v1/me', { token: plantBearer('token while tokens were away', createBearer(tokenPrefix)) })
  await raw.query('alter table token_away rename to token')
  await raw.restoring(['account'], async () => {
    await raw.query('update account set created_at = 1')
    service.app.services.credentials.clear()
    const tampered = { email: 'owner@example.com', password: canary('password of a tampered account') }
    await expectBroken('POST', '/v1/auth/login', { body: tampered })
    await expectBroken('GET', '/v1/me', { token: session })
  })
  await sendFor(200, 'GET', '/v1/me', { token: session })
}

async function turnTheKeys(token: string): Promise<void> {
  await unwrapKeys()
  const ctx = asOperator(service.app.services)
  await rotateRoot(ctx, () => undefined, 0)
  await rotateWorkspaceKey(ctx, 'main', () => undefined, 0)
  // The token is found under the old root, and stored under the new one from here on.
  await sendFor(200, 'GET', '/v1/me', { token })
  await swap(token, 'JWT of the new signing key')
  service.clock.offsetMs = 13 * hourMs
  await sendFor(200, 'GET', '/v1/me', { token })
  service.clock.offsetMs = 0
}

/** Unwraps every key of the installation, so that the tests can search for it. */
async function unwrapKeys(): Promise<void> {
  const text = readFileSync(join(service.dataDir, 'master.key'), 'utf8').trim()
  const master = Buffer.from(text, text.length === 64 ? 'hex' : 'base64')
  expect(master.length).toBe(32)
  plant('master key', master)
  plant('key that wraps the root keys', masterWrapKey(master).export())
  const bytes = (cell: Cell | undefined) => (cell instanceof Uint8Array ? cell : Buffer.alloc(0))
  for (const row of await raw.query('select * from root_key')) {
    const id = String(row.id)
    plant(`root key ${id}`, open(masterWrapKey(master), associatedData('root-key', id), bytes(row.wrapped)))
    const root = service.app.services.keys.keyring.find(id)
    if (!root) throw new Error('the ring does not know this root')
    for (const purpose of ['wrap', 'token', 'rowMac', 'audit'] as const) {
      plant(`${purpose} key of root ${id}`, root[purpose].export())
    }
    for (const key of await raw.query('select * from workspace_key where root_id = ?', [id])) {
      const workspaceId = String(key.workspace_id)
      const place = associatedData('workspace-key', workspaceId, Number(key.version), id)
      const workspaceKey = open(root.wrap, place, bytes(key.wrapped))
      plant(`key ${String(key.version)} of workspace ${workspaceId}`, workspaceKey)
      const where = 'where workspace_id = ? and workspace_key_version = ?'
      for (const inner of await raw.query(`select * from environment_key ${where}`, [
        workspaceId,
        Number(key.version),
      ])) {
        const environmentId = String(inner.environment_id)
        const innerPlace = associatedData('environment-key', workspaceId, environmentId, Number(inner.version))
        const opened = open(asKey(workspaceKey), innerPlace, bytes(inner.wrapped))
        plant(`key of environment ${environmentId}`, opened)
      }
    }
    for (const key of await raw.query('select * from signing_key where root_id = ?', [id])) {
      const place = associatedData('signing-key', String(key.id), String(key.purpose), id)
      // The seed is the last 32 bytes of the PKCS #8 encoding.
      plant(
        `${String(key.purpose)} signing key ${String(key.id)}`,
        open(root.wrap, place, bytes(key.wrapped)).subarray(-32),
      )
    }
  }
}

/** With an unkeyed hash of a credential, a stolen database could be used to test guesses and to find equal credentials. */
const hashesOf = (secret: Buffer) =>
  ['md5', 'sha1', 'sha256', 'sha512'].flatMap((name) => [createHash(name).update(secret).digest()])

function find(haystack: Buffer, names: Iterable<string> = secrets.keys()): string[] {
  const found: string[] = []
  for (const name of names) {
    const secret = secrets.get(name) ?? Buffer.from('unknown secret name')
    for (const spelling of spellings(secret)) {
      if (haystack.includes(spelling.bytes)) found.push(`${name} (${spelling.name})`)
    }
  }
  return found
}

async function dumpDatabase(): Promise<Buffer> {
  const rows: Buffer[] = []
  for (const table of await raw.tables()) {
    for (const row of await raw.query(`select * from ${table}`)) {
      for (const [column, cell] of Object.entries(row)) {
        // Bytes both raw and as hex, as a dump would show them.
        if (cell instanceof Uint8Array)
          rows.push(
            Buffer.from(`${table}.${column}=`),
            Buffer.from(cell),
            Buffer.from(`\\x${Buffer.from(cell).toString('hex')}\n`),
          )
        else rows.push(Buffer.from(`${table}.${column}=${String(cell)}\n`))
      }
    }
  }
  if (engine === 'sqlite') {
    for (const suffix of ['', '-wal', '-shm']) {
      const path = join(service.dataDir, databaseFile + suffix)
      if (existsSync(path)) rows.push(readFileSync(path))
    }
  }
  return Buffer.concat(rows)
}

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

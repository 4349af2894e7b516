/**
 * A real service for a test: its own database on the engine under test, a real socket, and helpers for the data that
 * most tests start with.
 */
import { randomBytes } from 'node:crypto'
import { copyFile, cp, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { SignedIn } from '@coffer/contract/auth'
import type { Grant, Role, Scope } from '@coffer/contract/field'
import type { IssuedToken, NewToken } from '@coffer/contract/token'
import { expect, inject } from 'vitest'
import { type App, createApp, type Replacements } from '../server/src/app.ts'
import { readConfig } from '../server/src/config.ts'
import { newId } from '../server/src/crypto/id.ts'
import { hashPassword } from '../server/src/crypto/password.ts'
import { createBearer, sessionPrefix } from '../server/src/crypto/token.ts'
import { defaultPreferences } from '../server/src/domain/account/me.ts'
import { everything } from '../server/src/domain/scope.ts'
import { sessionMaxMs } from '../server/src/domain/session-life.ts'
import { createLog } from '../server/src/log.ts'
import { createOutbound } from '../server/src/outbound.ts'
import { parseAllowList } from '../server/src/outbound-allow.ts'
import { storeOver } from '../server/src/store/store.ts'
import type { Grants } from '../server/src/store/workspace/grant.ts'
import { type Call, caller } from './caller.ts'
import { connectPostgres } from './postgres-client.ts'
import { setupCode } from './setup-code.ts'

export type { Answer, Call, CallOptions } from './caller.ts'

export const engine = process.env.COFFER_TEST_ENGINE === 'postgres' ? 'postgres' : 'sqlite'
export const password = 'correct horse battery staple'

export type TestService = {
  readonly app: App
  readonly url: string
  readonly settings: Record<string, string>
  readonly dataDir: string
  /** All log lines, at debug level. */
  readonly logs: string[]
  /** The service's clock, moved by tests instead of sleeping. It runs in real time unless `fixedAt` is set. */
  readonly clock: { offsetMs: number; fixedAt?: number }
  readonly call: Call
  stop(): Promise<void>
}

/** No host name resolves, so requests to a vendor fail at once. Loopback addresses are allowed. */
export const offline: Partial<Replacements> = {
  // Retries without a delay: the result would be the same.
  sleep: async () => undefined,
  outbound: createOutbound({
    allow: parseAllowList('127.0.0.1'),
    resolve: async () => {
      throw Object.assign(new Error('offline'), { code: 'ENOTFOUND' })
    },
  }),
}

export type Database = {
  readonly settings: Record<string, string>
  readonly dataDir: string
  drop(): Promise<void>
}

/** Settings of a new database on the engine under test, empty unless `hasSchema`. */
export async function createDatabase({ hasSchema = false } = {}): Promise<Database> {
  const dataDir = await makeFolder()
  if (engine === 'postgres') return createOnPostgres(dataDir, hasSchema ? inject('postgresTemplate') : undefined)
  if (hasSchema) await copyFile(inject('sqliteTemplate'), join(dataDir, 'coffer.db'))
  return inFolder(dataDir)
}

/** Copies a database with its master key; no process may have it open. */
export async function copyDatabase({ settings, dataDir: source }: Database): Promise<Database> {
  const dataDir = await makeFolder()
  await cp(source, dataDir, { recursive: true })
  const url = settings.COFFER_DATABASE_URL
  return url === undefined ? inFolder(dataDir) : createOnPostgres(dataDir, new URL(url).pathname.slice(1))
}

const makeFolder = () => mkdtemp(join(inject('databaseFolder'), 'data-'))

function inFolder(dataDir: string): Database {
  return { settings: { COFFER_DATA_DIR: dataDir }, dataDir, drop: () => rm(dataDir, { recursive: true, force: true }) }
}

async function createOnPostgres(dataDir: string, template?: string): Promise<Database> {
  const name = `test_${randomBytes(8).toString('hex')}`
  const url = new URL(inject('postgresUrl'))
  await runOnPostgres(url.href, `create database ${name}${template === undefined ? '' : ` template ${template}`}`)
  url.pathname = `/${name}`
  const folder = inFolder(dataDir)
  return {
    // A test that stops a node has no load balancer that must leave it first.
    settings: { ...folder.settings, COFFER_DATABASE_URL: url.href, COFFER_DRAIN_SECONDS: '0' },
    dataDir,
    drop: async () => {
      await runOnPostgres(inject('postgresUrl'), `drop database if exists ${name} with (force)`)
      await folder.drop()
    },
  }
}

async function runOnPostgres(url: string, text: string): Promise<void> {
  const client = await connectPostgres(url)
  await client.query(text)
  await client.end()
}

export async function startService(
  settings: Record<string, string> = {},
  replacements: Partial<Replacements> = {},
): Promise<TestService> {
  const database = await createDatabase({ hasSchema: true })
  const service = await openService({ ...database.settings, ...settings }, database.dataDir, replacements)
  return {
    ...service,
    stop: async () => {
      await service.stop()
      await database.drop()
    },
  }
}

/** A service on an existing database: for restarts and for several nodes on one database. */
export async function openService(
  settings: Record<string, string>,
  dataDir: string,
  replacements: Partial<Replacements> = {},
  clock: TestService['clock'] = { offsetMs: 0 },
): Promise<TestService> {
  const logs: string[] = []
  const all = {
    COFFER_PORT: '0',
    COFFER_PUBLIC_URL: 'http://localhost:8080',
    COFFER_RATE_LIMIT: '0',
    COFFER_SHARE_RATE_LIMIT: '0',
    COFFER_SETUP_CODE: setupCode,
    ...settings,
  }
  const log = createLog('debug', { write: (line) => void logs.push(line) })
  const now = () => (clock.fixedAt ?? Date.now()) + clock.offsetMs
  const app = await createApp(readConfig(all), log, now, replacements)
  await new Promise<void>((resolve) => void app.server.listen(0, '127.0.0.1', resolve))
  const address = app.server.address()
  const url = `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`
  return { app, url, settings: all, dataDir, logs, clock, call: caller(url), stop: () => app.stop() }
}

export type TestUser = {
  readonly id: string
  readonly email: string
  readonly session: string
  readonly memberId?: string
}

/** The first account with its workspace `main`. */
export async function registerOwner(
  service: Pick<TestService, 'call'>,
  email = 'owner@example.com',
  code = setupCode,
): Promise<TestUser> {
  const { body, status, text } = await service.call<SignedIn>('POST', '/v1/auth/register', {
    body: { email, name: 'Owner', password, setupCode: code },
  })
  expect(status, text).toBe(201)
  return { id: body.user.id, email, session: body.accessToken }
}

let knownHash: Promise<string> | undefined

/** A user with an account, a session and an optional membership, without the invite flow and the cost of a login. */
export async function addUser(
  service: TestService,
  email: string,
  membership?: { workspaceId: string; role: Role; scope?: Scope; further?: readonly Grant[]; isOwner?: boolean },
): Promise<TestUser> {
  const { services } = service.app
  knownHash ??= hashPassword({ release: () => undefined }, password)
  const passwordHash = await knownHash
  const userId = newId()
  const memberId = newId()
  const session = createBearer(sessionPrefix)
  const createdAt = services.now()
  const at = { createdAt, lastSeenAt: createdAt, expiresAt: createdAt + sessionMaxMs }
  await services.engine.transaction(`test:${email}`, async ({ db }) => {
    const store = storeOver(db, services.keys)
    const named = { id: userId, email, name: email, preferences: defaultPreferences }
    await store.accounts.insert({ ...named, passwordHash, createdAt, emailVerifiedAt: null })
    store.sessions.insert({ id: newId(), userId, type: 'browser', ip: '', userAgent: '', ...at }, session)
    if (!membership) return
    const { workspaceId, role, scope = everything, further = [], isOwner = false } = membership
    const grants: Grants = [{ role, scope }, ...further]
    await store.members.insert({ id: memberId, workspaceId, userId, isOwner, grants, createdAt })
    store.changes.append('workspace', workspaceId, createdAt)
  })
  if (membership) services.snapshots.drop(membership.workspaceId)
  return { id: userId, email, session, memberId }
}

export async function createToken(
  service: Pick<TestService, 'call'>,
  session: string,
  body: Partial<NewToken> = {},
  workspace = 'main',
): Promise<IssuedToken> {
  const answer = await service.call<IssuedToken>('POST', `/v1/workspace/${workspace}/tokens`, {
    token: session,
    body: { name: 'ci', permission: 'read-write', scope: { all: true }, expiresIn: '30d', ...body },
  })
  expect(answer.status, answer.text).toBe(201)
  return answer.body
}

export async function exchange(service: Pick<TestService, 'call'>, token: string): Promise<string> {
  const answer = await service.call<{ accessToken: string }>('POST', '/v1/auth/exchange', { token })
  expect(answer.status, answer.text).toBe(200)
  return answer.body.accessToken
}

export type TestProject = {
  readonly id: string
  readonly slug: string
  readonly teamId: string
  readonly environments: { id: string; name: string }[]
}

export async function createProject(
  service: Pick<TestService, 'call'>,
  session: string,
  slug: string,
  options: { teamId?: string; workspace?: string } = {},
): Promise<TestProject> {
  const { workspace = 'main' } = options
  const teams = await service.call<{ id: string }[]>('GET', `/v1/workspace/${workspace}/team`, { token: session })
  const teamId = options.teamId ?? teams.body[0]?.id
  const answer = await service.call<TestProject>('POST', `/v1/workspace/${workspace}/project`, {
    token: session,
    body: { name: slug, slug, teamId },
  })
  expect(answer.status, answer.text).toBe(201)
  return answer.body
}

export async function createTeam(
  service: TestService,
  session: string,
  name: string,
  workspace = 'main',
): Promise<string> {
  const answer = await service.call<{ id: string }>('POST', `/v1/workspace/${workspace}/team`, {
    token: session,
    body: { name },
  })
  expect(answer.status, answer.text).toBe(201)
  return answer.body.id
}

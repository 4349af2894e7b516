/** Two workspaces, their people and direct access to the rows: the tests tamper with them and look for new rights. */
import type { SignedIn } from '@coffer/contract/auth'
import { expect } from 'vitest'
import { storeOver } from '../server/src/store/store.ts'
import { addUser, createProject, registerOwner, startService, type TestService, type TestUser } from './harness.ts'
import { type Cell, openRaw, type RawDatabase, type RawRow } from './raw-database.ts'

export const malloryPassword = 'what mallory always takes'
export const everything = JSON.stringify({ all: true, teams: [], projects: [], environments: [] })
export const unknownRoot = '01890000-0000-7000-8000-000000000000'

type Probe = readonly [method: string, path: string, body?: unknown]
const reads: Probe[] = [
  ['GET', '/v1/me'],
  ['GET', '/v1/workspace'],
  ...['main', 'strange'].flatMap((slug): Probe[] => [
    ['GET', `/v1/workspace/${slug}`],
    ['GET', `/v1/workspace/${slug}/team`],
    ['GET', `/v1/workspace/${slug}/project`],
    ['GET', `/v1/workspace/${slug}/tokens`],
    ['GET', `/v1/workspace/${slug}/audit?limit=1`],
  ]),
  ['GET', '/v1/workspace/main/project/closed/environment'],
]

/** Times of last use change with every request. */
const withoutTimes = (key: string, value: unknown) =>
  ['lastUsedAt', 'lastUsedIp', 'expiresAt', 'createdAt', 'updatedAt'].includes(key) ? undefined : value

export const isInMain = (right: string) => right.includes('/v1/workspace/main') || right.includes('"slug":"main"')

/** `start` creates the workspaces; the functions work from then on. */
export function createTamperedWorkspaces() {
  let service: TestService
  let raw: RawDatabase
  let attempts = 0

  async function start() {
    service = await startService({ COFFER_SIGNUP: 'open', COFFER_EXCHANGE_RATE_LIMIT: '0' })
    raw = await openRaw(service)
    const owner = await registerOwner(service)
    const mainId = String((await one("select id from workspace where slug = 'main'")).id)
    const projectId = (await createProject(service, owner.session, 'open')).id
    await createProject(service, owner.session, 'closed')
    const mallory = await signUp('mallory@example.com', malloryPassword)
    const { engine, keys } = service.app.services
    await engine.transaction('test', async ({ db }) => {
      const scope = { all: false, teams: [], projects: [projectId], environments: [] }
      const member = { id: crypto.randomUUID(), workspaceId: mainId, userId: mallory.id, createdAt: Date.now() }
      await storeOver(db, keys).members.insert({ ...member, isOwner: false, grants: [{ role: 'member', scope }] })
    })
    const stranger = await addUser(service, 'stranger@example.com')
    const strange = await service.call<{ id: string }>('POST', '/v1/workspace', {
      token: stranger.session,
      body: { name: 'Strange', slug: 'strange' },
    })
    const strangeId = strange.body.id
    invalidateAll()
    return { service, raw, owner, mallory, stranger, mainId, strangeId, projectId }
  }

  async function stop(): Promise<void> {
    await raw.close()
    await service.stop()
  }

  async function signUp(email: string, password: string): Promise<TestUser> {
    const body = { email, name: email, password }
    const answer = await service.call<SignedIn>('POST', '/v1/auth/register', { body })
    expect(answer.status, answer.text).toBe(201)
    return { id: answer.body.user.id, email, session: answer.body.accessToken }
  }

  /** Clears the caches, so that the tests read the database. */
  function invalidateAll(): void {
    service.app.services.snapshots.clear()
    service.app.services.credentials.clear()
  }

  async function one(text: string, values: readonly Cell[] = []): Promise<RawRow> {
    const [row, ...rest] = await raw.query(text, values)
    if (!row || rest.length > 0) throw new Error(`${text} gives ${rest.length + (row ? 1 : 0)} rows`)
    return row
  }

  /** Writes that only admins may do, each with an effect. */
  const writes = (): Probe[] => [
    ['POST', '/v1/workspace/main/team', { name: `Team ${++attempts}` }],
    ['POST', '/v1/workspace/main/project/open/environment', { name: `env-${++attempts}` }],
    ['PUT', '/v1/workspace/main', { name: `Main ${++attempts}` }],
  ]

  /** Everything that a credential can read or do, one line each. */
  async function rightsOf(token: string): Promise<string[]> {
    const rights: string[] = []
    for (const [method, path, body] of [...reads, ...writes()]) {
      const answer = await service.call(method, path, { token, ...(body === undefined ? {} : { body }) })
      if (answer.status >= 400) continue
      const things: unknown[] = Array.isArray(answer.body) ? answer.body : [answer.body]
      rights.push(...things.map((thing) => `${method} ${path} ${JSON.stringify(thing, withoutTimes)}`))
      if (things.length === 0) rights.push(`${method} ${path} nothing`)
    }
    return rights
  }

  return { start, stop, invalidateAll, one, rightsOf }
}

/** Two nodes on one database, for tests of changes that must take effect on both. */
import { expect } from 'vitest'
import { everything } from '../server/src/domain/scope.ts'
import {
  addUser,
  createDatabase,
  createProject,
  type Database,
  openService,
  registerOwner,
  type TestService,
  type TestUser,
} from './harness.ts'
import { until } from './wait.ts'

/** A change that one node acknowledged takes effect on the others within this time. */
export const allowedMs = 1_000

export type TwoNodes = {
  readonly database: Database
  readonly here: TestService
  readonly there: TestService
  readonly owner: TestUser
  readonly mainId: string
  addAdmin(): Promise<TestUser>
  /** Both nodes have cached the credentials; the second one may first have to read a change. */
  warm(credentials: readonly string[], path?: string): Promise<void>
  expectNoErrors(): void
  stop(): Promise<void>
}

export async function openTwoNodes(): Promise<TwoNodes> {
  const database = await createDatabase({ hasSchema: true })
  const settings = { ...database.settings, COFFER_EXCHANGE_RATE_LIMIT: '0' }
  const here = await openService(settings, database.dataDir)
  const owner = await registerOwner(here)
  const there = await openService(settings, database.dataDir)
  await createProject(here, owner.session, 'api')
  const mainId = await here.app.services.store.workspaces.findIdForAnybody('main')
  if (mainId === undefined) throw new Error('there is no workspace main')
  let admins = 0

  return {
    database,
    here,
    there,
    owner,
    mainId,
    addAdmin() {
      const email = `admin-${++admins}@example.com`
      return addUser(here, email, { workspaceId: mainId, role: 'admin', scope: everything })
    },
    async warm(credentials, path) {
      for (const token of credentials) {
        expect(await statusOf(here, token, path)).toBe(200)
        const known = async () => (await statusOf(there, token, path)) === 200 || undefined
        await until(known, allowedMs, 'the other node accepts the credential')
      }
    },
    expectNoErrors() {
      for (const { logs } of [here, there]) {
        expect(logs.filter((line) => /"level":"(error|warn)"/.test(line))).toEqual([])
      }
    },
    async stop() {
      await there.stop()
      await here.stop()
      await database.drop()
    },
  }
}

export const statusOf = async (node: TestService, token: string, path = '/v1/workspace/main/team') =>
  (await node.call('GET', path, { token })).status

/** A sync to a fake Heroku, and people who write references to environments that they may not be able to read. */
import type { Scope } from '@coffer/contract/field'
import { expect } from 'vitest'
import { heroku } from '../server/src/providers/heroku.ts'
import { addUser, type TestUser } from './harness.ts'
import { loopbackAllowed } from './issuer.ts'
import { emptyTarget, pushDue, readSync, type SyncWorld, setUpSync, startSyncWorld } from './sync.ts'
import { fakeHeroku } from './vendor/fake/heroku.ts'

export const debounceMs = 15_000
export const password = 'only for production'

export type ReferenceWorld = SyncWorld & { readonly workspaceId: string; stop(): Promise<void> }

export async function startReferenceWorld(): Promise<ReferenceWorld> {
  const fake = fakeHeroku()
  // The identity issuer is reached through the same outbound.
  Object.assign(fake, { hosts: [...fake.hosts, '127.0.0.1'] })
  const world = await startSyncWorld(heroku, fake, loopbackAllowed)
  const { service, owner } = world
  const workspace = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
  return { ...world, workspaceId: workspace.body.id }
}

/** No sync and no secret of an earlier test is left, and the target is empty. */
export async function resetReferences(world: ReferenceWorld): Promise<void> {
  const { project } = world
  for (const { id } of await project.must<{ id: string }[]>('GET', '/sync')) await project.must('DELETE', `/sync/${id}`)
  for (const environment of ['development', 'staging', 'production']) {
    for (const key of Object.keys(await project.state(environment)))
      await project.must('DELETE', `/secret/${key}?purge=true`)
  }
  await project.set('production', { DB_PASSWORD: password })
  await project.set('staging', { HOST: 'staging host' })
  await project.set('development', { ALPHA: 'one' })
  emptyTarget(world)
}

/** A reference as it is written in a value. */
export const refer = (name: string) => `\${${name}}`
export const passwordReference = refer('production.DB_PASSWORD')
export const remedyFor = (place: string) =>
  `To fix it, someone who can read it must delete and re-create the value of ${place}, or an admin must widen the scope of its author.`
/**
 * The stored error reveals no more than the value itself; a plan says more to people who can read the referenced place.
 */
export const refusal = `FLAG: refers to production.DB_PASSWORD, which cannot be resolved: it may not exist, or the author of FLAG cannot read it. ${remedyFor('FLAG')}`

/** Takes a function because a test file starts its world after it has called this one. */
export function referenceActions(current: () => ReferenceWorld) {
  let people = 0
  const state = () => Object.fromEntries(current().fake.state())
  const scopeOf = (...environments: string[]): Scope => ({
    all: false,
    teams: [],
    projects: [],
    environments: environments.map((name) => current().project.idOf(name)),
  })

  return {
    state,
    scopeOf,

    addDeveloper(...environments: string[]) {
      const { service, workspaceId } = current()
      return addUser(service, `developer-${++people}@example.com`, {
        workspaceId,
        role: 'developer',
        scope: scopeOf(...environments),
      })
    },

    write: (environment: string, values: Record<string, string>, token = current().owner.session) =>
      current().project.must<{ results: { status: string; version: number }[] }>(
        'POST',
        '/secret',
        {
          environments: [environment],
          mode: 'upsert',
          secrets: Object.entries(values).map(([key, value]) => ({ key, value })),
        },
        token,
      ),

    changeScope: ({ memberId }: TestUser, scope: Scope) =>
      current().service.call('PUT', `/v1/workspace/main/rbac/${memberId}`, {
        token: current().owner.session,
        body: { role: 'developer', scope },
      }),

    async removeMember({ memberId }: TestUser): Promise<void> {
      const { service, owner } = current()
      const path = `/v1/workspace/main/rbac/${memberId}`
      expect((await service.call('DELETE', path, { token: owner.session })).status).toBe(200)
    },

    /** A sync of the owner, who can read everything, after its first push. */
    async startSync(): Promise<string> {
      const id = await setUpSync(current())
      await pushDue(current())
      expect(await readSync(current(), id)).toMatchObject({ state: 'active' })
      return id
    },

    async expectBlocked(id: string, message: string): Promise<void> {
      await pushDue(current(), debounceMs)
      expect(await readSync(current(), id)).toMatchObject({ state: 'blocked', lastError: message })
      expect(JSON.stringify(state())).not.toContain(password)
    },

    /** Entries pushed earlier stay at the target, so only the error is checked. */
    async expectBlockedStill(id: string): Promise<void> {
      await pushDue(current(), debounceMs)
      expect(await readSync(current(), id)).toMatchObject({ state: 'blocked', lastError: refusal })
    },

    async expectPushed(id: string, pushed: Record<string, string>): Promise<void> {
      await pushDue(current(), debounceMs)
      expect(await readSync(current(), id)).toMatchObject({ state: 'active', lastError: null })
      expect(state()).toEqual(pushed)
    },
  }
}

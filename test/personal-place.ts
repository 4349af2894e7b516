/** Projects for tests about personal values, which their development and staging environments allow. */
import type { Role, Scope } from '@coffer/contract/field'
import type { WriteResults } from '@coffer/contract/secret'
import { expect } from 'vitest'
import { addUser, createProject, registerOwner, startService, type TestService, type TestUser } from './harness.ts'
import { openRaw, type RawDatabase } from './raw-database.ts'

type Sent = { token?: string; body?: unknown; headers?: Record<string, string> }
export type Place = { path: string; secret: string; dev: string; staging: string; production: string }

/** `start` opens the service; the functions work from then on. */
export function createPersonalPlaces() {
  let service: TestService
  let owner: TestUser
  let workspaceId: string
  let raw: RawDatabase
  let places = 0

  async function start() {
    service = await startService()
    owner = await registerOwner(service)
    const workspace = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
    workspaceId = workspace.body.id
    const developer = await addPerson('developer@example.com', 'developer')
    const member = await addPerson('member@example.com', 'member')
    raw = await openRaw(service)
    return { service, owner, developer, member, raw }
  }

  async function stop(): Promise<void> {
    await raw.close()
    await service.stop()
  }

  const addPerson = (email: string, role: Role, scope?: Scope) =>
    addUser(service, email, { workspaceId, role, ...(scope && { scope }) })

  /** A project whose development and staging environments allow personal values. */
  async function newPlace(): Promise<Place> {
    const slug = `place-${++places}`
    const { environments } = await createProject(service, owner.session, slug)
    const [dev = '', staging = '', production = ''] = environments.map(({ id }) => id)
    const path = `/v1/workspace/main/project/${slug}`
    const place = { path, secret: `${path}/secret`, dev, staging, production }
    for (const id of [dev, staging]) await allow(place, id, true)
    return place
  }

  async function allow(place: Place, environmentId: string, hasPersonalOverrides: boolean): Promise<void> {
    const answer = await send('PUT', `${place.path}/environment/${environmentId}`, { body: { hasPersonalOverrides } })
    expect(answer.status, answer.text).toBe(200)
  }

  const send = <Body = { message: string }>(
    method: string,
    path: string,
    { token = owner.session, ...more }: Sent = {},
  ) => service.call<Body>(method, path, { token, ...more })

  async function create(place: Place, values: Record<string, string>, environments = [place.dev]): Promise<void> {
    const secrets = Object.entries(values).map(([key, value]) => ({ key, value }))
    const answer = await send<WriteResults>('POST', place.secret, { body: { environments, secrets } })
    expect(answer.status, answer.text).toBe(201)
  }

  const setOwn = (place: Place, user: TestUser, value: string, key = 'A', environmentId = place.dev) =>
    send<{ version: number; message: string }>('PUT', `${place.secret}/${key}/value`, {
      token: user.session,
      body: { environmentId, value, isPersonal: true },
    })

  return { start, stop, addPerson, newPlace, allow, send, create, setOwn }
}

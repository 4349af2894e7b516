/** Creates the measured data through the API. */

import { type Api, createApi } from '@coffer/sdk'
import { setupCode } from '../test/setup-code.ts'
import type { Running } from './process.ts'

export type Seeded = {
  readonly session: string
  readonly token: string
  readonly writer: string
  readonly jwt: string
  readonly teamId: string
  readonly environmentId: string
}
export type World = { readonly service: Running; readonly seeded: Seeded }

/** Growing the store takes long requests. */
export const apiOf = ({ url }: Running, credential: string | null): Api =>
  createApi({ url, credential, timeoutMs: 120_000 })

export async function seed(service: Running): Promise<Seeded> {
  const account = { email: 'bench@example.com', name: 'Bench', password: 'a long enough password', setupCode }
  const { accessToken: session } = await apiOf(service, null).auth.register(account)
  return seedWorkspace(service, session, 'main')
}

/** A second workspace of the same account, with the same data as the first. */
export async function seedAnother(service: Running, { session }: Seeded, ws: string): Promise<Seeded> {
  await apiOf(service, session).workspace.create({ name: ws, slug: ws })
  return seedWorkspace(service, session, ws)
}

/** Three projects; the first has 50 secrets in development, every fifth one a reference. */
async function seedWorkspace(service: Running, session: string, ws: string): Promise<Seeded> {
  const api = apiOf(service, session)
  const team = await api.team.create({ ws }, { name: 'Bench' })
  const create = (slug: string) => api.project.create({ ws }, { name: slug, slug, teamId: team.id })
  const environmentId = (await create('api')).environments[0]?.id ?? ''
  await create('web')
  await create('worker')
  const secrets = Array.from({ length: 50 }, (_, index) => ({
    key: `SECRET_${index}`,
    value: index % 5 === 4 ? `https://\${SECRET_${index - 1}}/path` : `value-${index}-${'x'.repeat(24)}`,
  }))
  await api.secret.create({ ws, prj: 'api' }, { environments: [environmentId], secrets })
  const issue = async (permission: 'read' | 'read-write') => {
    const wanted = { name: permission, permission, scope: { all: true }, expiresIn: '24h' } as const
    return (await api.token.create({ ws }, wanted)).token
  }
  const [token, writer] = [await issue('read'), await issue('read-write')]
  const { accessToken: jwt } = await apiOf(service, token).auth.exchangeToken()
  return { session, token, writer, jwt, teamId: team.id, environmentId }
}

export const bearer = (credential: string) => ({ authorization: `Bearer ${credential}` })

export type Project = { readonly id: string; readonly path: string; readonly environmentId: string }

/** A separate project with this many secrets in its first environment. */
export async function createProject({ service, seeded }: World, slug: string, secretCount: number): Promise<Project> {
  const api = apiOf(service, seeded.session)
  const made = await api.project.create({ ws: 'main' }, { name: slug, slug, teamId: seeded.teamId })
  const path = `/v1/workspace/main/project/${slug}`
  const environmentId = made.environments[0]?.id ?? ''
  const secrets = Array.from({ length: secretCount }, (_, index) => ({
    key: `KEY_${index}`,
    value: `value-${index}-${'x'.repeat(24)}`,
  }))
  if (secretCount > 0) await api.secret.create({ ws: 'main', prj: slug }, { environments: [environmentId], secrets })
  return { id: made.id, path, environmentId }
}

/** Runs 16 requests at a time. */
export async function makeMany<Made>(count: number, make: (index: number) => Promise<Made>): Promise<Made[]> {
  const made: Made[] = []
  let next = 0
  async function work(): Promise<void> {
    while (next < count) made.push(await make(next++))
  }
  await Promise.all(Array.from({ length: 16 }, work))
  return made
}

/** Grows the store to a number of secrets, in projects of ten thousand. */
export async function grow(world: World, from: number, to: number, progress: (done: number) => void): Promise<void> {
  const perProject = Math.min(10_000, to - from)
  for (let done = from; done < to; done += perProject) {
    await createProject(world, `bulk-${done}`, Math.min(perProject, to - done))
    progress(Math.min(done + perProject, to))
  }
}

/** Creates the measured data through the API. */
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
type Answer = {
  readonly accessToken: string
  readonly token: string
  readonly id: string
  readonly environments: readonly { readonly id: string }[]
}

export async function call<Wanted = Answer>(
  service: Running,
  method: string,
  path: string,
  credential?: string,
  body?: unknown,
): Promise<Wanted> {
  const response = await fetch(service.url + path, {
    method,
    headers: {
      ...(credential === undefined ? {} : { authorization: `Bearer ${credential}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`)
  // The caller names the response type of the route it called.
  return (await response.json()) as Wanted
}

/** A workspace with three projects; the first has 50 secrets in development, every fifth one a reference. */
export async function seed(service: Running): Promise<Seeded> {
  const account = { email: 'bench@example.com', name: 'Bench', password: 'a long enough password' }
  const { accessToken: session } = await call(service, 'POST', '/v1/auth/register', undefined, account)
  const team = await call(service, 'POST', '/v1/workspace/main/team', session, { name: 'Bench' })
  const projects: Answer[] = []
  for (const slug of ['api', 'web', 'worker']) {
    const body = { name: slug, slug, teamId: team.id }
    projects.push(await call(service, 'POST', '/v1/workspace/main/project', session, body))
  }
  const environmentId = projects[0]?.environments[0]?.id ?? ''
  const secrets = Array.from({ length: 50 }, (_, index) => ({
    key: `SECRET_${index}`,
    value: index % 5 === 4 ? `https://\${SECRET_${index - 1}}/path` : `value-${index}-${'x'.repeat(24)}`,
  }))
  await call(service, 'POST', '/v1/workspace/main/project/api/secret', session, {
    environments: [environmentId],
    secrets,
  })
  const issue = async (permission: string) => {
    const wanted = { name: permission, permission, scope: { all: true }, expiresIn: '24h' }
    return (await call(service, 'POST', '/v1/workspace/main/tokens', session, wanted)).token
  }
  const [token, writer] = [await issue('read'), await issue('read-write')]
  const { accessToken: jwt } = await call(service, 'POST', '/v1/auth/exchange', token)
  return { session, token, writer, jwt, teamId: team.id, environmentId }
}

export const bearer = (credential: string) => ({ authorization: `Bearer ${credential}` })

export type Project = { readonly id: string; readonly path: string; readonly environmentId: string }

/** A separate project with this many secrets in its first environment. */
export async function createProject({ service, seeded }: World, slug: string, secretCount: number): Promise<Project> {
  const wanted = { name: slug, slug, teamId: seeded.teamId }
  const made = await call(service, 'POST', '/v1/workspace/main/project', seeded.session, wanted)
  const path = `/v1/workspace/main/project/${slug}`
  const environmentId = made.environments[0]?.id ?? ''
  const secrets = Array.from({ length: secretCount }, (_, index) => ({
    key: `KEY_${index}`,
    value: `value-${index}-${'x'.repeat(24)}`,
  }))
  if (secretCount > 0) {
    await call(service, 'POST', `${path}/secret`, seeded.session, { environments: [environmentId], secrets })
  }
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

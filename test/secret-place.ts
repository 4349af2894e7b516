/** Projects for tests about writes of secrets: each test has its own, and a refused request must not change it. */
import type { Secret, WriteResults } from '@coffer/contract/secret'
import { expect } from 'vitest'
import { createProject, registerOwner, startService, type TestService, type TestUser } from './harness.ts'

type Sent = { token?: string; body?: unknown }
export type Place = { slug: string; path: string; secret: string; dev: string; staging: string; production: string }

/** `start` opens the service; the functions work from then on. */
export function createSecretPlaces() {
  let service: TestService
  let owner: TestUser
  let places = 0

  async function start() {
    service = await startService()
    owner = await registerOwner(service)
    return { owner }
  }

  /** A project of its own for each test. */
  async function newPlace(): Promise<Place> {
    const slug = `place-${++places}`
    const { environments } = await createProject(service, owner.session, slug)
    const [dev = '', staging = '', production = ''] = environments.map(({ id }) => id)
    const path = `/v1/workspace/main/project/${slug}`
    return { slug, path, secret: `${path}/secret`, dev, staging, production }
  }

  const send = <Body = { message: string }>(method: string, path: string, { token = owner.session, body }: Sent = {}) =>
    service.call<Body>(method, path, { token, body })

  async function create(
    place: Place,
    values: Record<string, string>,
    environments = [place.dev],
  ): Promise<WriteResults> {
    const secrets = Object.entries(values).map(([key, value]) => ({ key, value }))
    const answer = await send<WriteResults>('POST', place.secret, { body: { environments, secrets } })
    expect(answer.status, answer.text).toBe(201)
    return answer.body
  }

  /** The values of one environment, by name. */
  async function valuesIn(place: Place, environment: string): Promise<Record<string, string>> {
    const { body } = await send<Secret[]>('GET', `${place.secret}?environmentId=${environment}`)
    return Object.fromEntries(body.flatMap(({ name, values }) => values.map(({ value }) => [name, value ?? ''])))
  }

  /** Everything that the owner can read of a project; a refused request must not change it. */
  async function stateOf(place: Place): Promise<string> {
    const parts = [place.secret, `${place.path}/environment`, `${place.secret}/trash`]
    const texts = await Promise.all(parts.map(async (path) => (await send('GET', path)).text))
    const revisions = [place.dev, place.staging, place.production].map(
      async (id) => (await send('GET', `${place.path}/environment/${id}/revision`)).text,
    )
    return [...texts, ...(await Promise.all(revisions))].join('\n')
  }

  async function expectRefused(place: Place, sent: [method: string, path: string, body?: unknown], status: number) {
    const before = await stateOf(place)
    const [method, path, body] = sent
    const answer = await send(method, path, { body })
    expect(answer.status, answer.text).toBe(status)
    expect(await stateOf(place)).toBe(before)
    return answer.body.message
  }

  const read = async (place: Place, key: string) => (await send<Secret>('GET', `${place.secret}/${key}`)).body

  return { start, stop: () => service.stop(), newPlace, send, create, valuesIn, stateOf, expectRefused, read }
}

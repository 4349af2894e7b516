/** Requests to a service that cannot write its audit trail, and the expected responses. */
import type { AuditVerdict } from '@coffer/contract/audit'
import type { Revision } from '@coffer/contract/history'
import { expect } from 'vitest'
import { createProject, createToken, registerOwner, type TestProject, type TestService } from './harness.ts'

export const path = '/v1/workspace/main/project/api'
export const canary = 'a value that must not leave unrecorded'

type Request = readonly [method: string, path: string, body?: unknown]
export type Fixture = {
  readonly service: TestService
  readonly session: string
  readonly project: TestProject
  /** A token scoped to exactly one environment. */
  readonly scoped: string
}

export async function createFixture(service: TestService): Promise<Fixture> {
  const { session } = await registerOwner(service)
  const project = await createProject(service, session, 'api')
  const write = (value: string) =>
    service.call('POST', `${path}/secret`, {
      token: session,
      body: { environments: ['development', 'staging'], secrets: [{ key: 'A', value }], mode: 'upsert' },
    })
  expect((await write('the first')).status).toBe(201)
  expect((await write(canary)).status).toBe(201)
  await service.call('PUT', `${path}/secret/A/value`, {
    token: session,
    body: { environmentId: 'staging', value: `${canary} in staging` },
  })
  const scope = { all: false, teams: [], projects: [], environments: [project.environments[0]?.id ?? ''] }
  const scoped = await createToken(service, session, { permission: 'read', scope })
  return { service, session, project, scoped: scoped.token }
}

/** Every way to read a value, or to compare a guess with one. */
export const reads: readonly Request[] = [
  ['GET', `${path}/secret`],
  ['GET', `${path}/secret?environmentId=development&q=A`],
  ['GET', `${path}/secret/A`],
  ['GET', `${path}/secret/A?environmentId=staging&resolve=true`],
  ['GET', `${path}/secret/export?environmentId=staging`],
  ['GET', `${path}/secret/export?environmentId=staging&format=json`],
  ['GET', `${path}/secret/A/version/2?environmentId=staging`],
  ['GET', `${path}/secret/diff?from=development&to=staging&values=true`],
  ['GET', '/v1/secrets'],
  ['GET', `${path}/secret/diff?from=development&to=staging`],
  ['PUT', `${path}/secret/A/value`, { environmentId: 'development', value: canary }],
  [
    'POST',
    `${path}/secret`,
    { environments: ['development'], secrets: [{ key: 'A', value: canary }], mode: 'upsert', dryRun: true },
  ],
]
export const promotion: Request = ['POST', `${path}/environment/staging/promote`, { from: 'development' }]
export const writes: readonly Request[] = [
  ['PUT', `${path}/secret/A/value`, { environmentId: 'development', value: 'never' }],
  ['POST', `${path}/secret`, { environments: ['development'], secrets: [{ key: 'B', value: 'never' }] }],
  ['PUT', `${path}/secret/A`, { name: 'RENAMED', values: [] }],
  ['DELETE', `${path}/secret/A`],
  ['POST', '/v1/workspace/main/team', { name: 'never' }],
]
/** Requests that reveal no values and need no audit entry. */
export const harmless: readonly Request[] = [
  ['GET', `${path}/secret?view=keys`],
  ['GET', `${path}/secret/A?view=keys`],
  ['GET', `${path}/secret/A/version?environmentId=staging`],
  ['GET', `${path}/secret/trash`],
  ['GET', path],
  ['GET', `${path}/environment`],
  ['GET', '/v1/workspace/main/team'],
  ['GET', '/v1/me'],
  ['GET', '/healthz'],
]

export function asker({ service, session, scoped, project }: Fixture) {
  const idOf = (name: string) => project.environments.find((environment) => environment.name === name)?.id ?? ''
  const ask = ([method, path, body]: Request, headers: Record<string, string> = {}) =>
    service.call(method, path.replace('/environment/staging/', `/environment/${idOf('staging')}/`), {
      token: path === '/v1/secrets' ? scoped : session,
      headers,
      ...(body !== undefined && { body }),
    })
  const askAll = (requests: readonly Request[]) => Promise.all(requests.map((request) => ask(request)))
  const statuses = async (requests: readonly Request[]) => (await askAll(requests)).map(({ status }) => status)
  const all = (requests: readonly Request[], status: number) => requests.map(() => status)
  return {
    ask,
    async expectAll(requests: readonly Request[], status: number) {
      expect(await statuses(requests), JSON.stringify(requests)).toEqual(all(requests, status))
    },
    /** 503 with Retry-After and without the value, also for responses that were cached before. */
    async expectRefused(requests: readonly Request[]) {
      for (let again = 0; again < 2; again++) {
        for (const { status, text, headers, body } of await askAll(requests)) {
          expect(status, text).toBe(503)
          expect(Number(headers.get('retry-after'))).toBeGreaterThan(0)
          expect(headers.get('etag')).toBeNull()
          expect(Object.keys(Object(body))).toEqual(['message'])
          expect(text).not.toContain(canary.slice(0, 12))
        }
      }
    },
    state: async () => ({
      revisions: await Promise.all(
        ['development', 'staging'].map(
          async (name) => (await ask(['GET', `${path}/environment/${idOf(name)}/revision`])).body as Revision[],
        ),
      ),
      keys: (await ask(['GET', `${path}/secret?view=keys`])).text,
      teams: (await ask(['GET', '/v1/workspace/main/team'])).text,
    }),
    async expectSoundTrail() {
      const { body } = await ask(['GET', '/v1/workspace/main/audit/verify'])
      expect(body).toMatchObject<Partial<AuditVerdict>>({ ok: true })
    },
  }
}

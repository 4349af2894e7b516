/** A project for tests about secrets, with helpers to write and read secrets and their history. */
import type { AuditEntry } from '@coffer/contract/audit'
import type { Revision } from '@coffer/contract/history'
import type { Secret } from '@coffer/contract/secret'
import { expect } from 'vitest'
import { type Answer, createProject, type TestService } from './harness.ts'

export type Values = Record<string, string>
export type SecretProject = Awaited<ReturnType<typeof createSecretProject>>

/** Counts for each database, so that names do not depend on the tests before. */
const made = new Map<string, number>()

export async function createSecretProject(service: TestService, session: string) {
  const number = (made.get(service.dataDir) ?? 0) + 1
  made.set(service.dataDir, number)
  const { id, slug, environments } = await createProject(service, session, `secrets-${number}`)
  const root = `/v1/workspace/main/project/${slug}`
  const idOf = (name: string) => environments.find((environment) => environment.name === name)?.id ?? ''

  const ask = <Body = { message: string }>(
    method: string,
    path: string,
    body?: unknown,
    token = session,
  ): Promise<Answer<Body>> => service.call<Body>(method, root + path, { token, ...(body !== undefined && { body }) })

  /** Fails unless the request succeeds; returns the body. */
  async function must<Body = unknown>(method: string, path: string, body?: unknown, token = session): Promise<Body> {
    const answer = await ask<Body>(method, path, body, token)
    expect([200, 201], `${method} ${path}: ${answer.text}`).toContain(answer.status)
    return answer.body
  }

  return {
    id,
    slug,
    root,
    idOf,
    ask,
    must,
    /** One request makes one revision. */
    set: (environment: string, values: Values, more: Record<string, unknown> = {}) =>
      must('POST', '/secret', {
        environments: [environment],
        secrets: Object.entries(values).map(([key, value]) => ({ key, value })),
        mode: 'upsert',
        ...more,
      }),
    remove: (environment: string, key: string) => must('DELETE', `/secret/${key}?environmentId=${environment}`),
    rename: (key: string, name: string) => must('PUT', `/secret/${key}`, { name, values: [] }),
    /** The shared values of an environment. */
    async state(environment: string): Promise<Values> {
      const secrets = await must<Secret[]>('GET', `/secret?environmentId=${environment}`)
      return Object.fromEntries(
        secrets.flatMap(({ name, values }) =>
          values.flatMap(({ value, isPersonal }) => (isPersonal || value === undefined ? [] : [[name, value]])),
        ),
      )
    },
    revisions: (environment: string, query = '?limit=200') =>
      must<Revision[]>('GET', `/environment/${idOf(environment)}/revision${query}`),
    /** Audit entries of reads in this project, newest first. */
    async views(): Promise<AuditEntry[]> {
      const path = `/v1/workspace/main/audit?limit=200&action=VIEW&project=${slug}`
      return (await service.call<AuditEntry[]>('GET', path, { token: session })).body
    },
    allowPersonal: (environment: string) =>
      must('PUT', `/environment/${idOf(environment)}`, { hasPersonalOverrides: true }),
  }
}

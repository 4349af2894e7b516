// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the values here hold references.
/** Reads and writes of secrets by name, and searches of the audit trail that tell which of them were found. */
import type { AuditEntry } from '@coffer/contract/audit'
import type { Secret } from '@coffer/contract/secret'
import { expect } from 'vitest'
import { registerOwner, startService, type TestService } from './harness.ts'
import { openRaw, type RawDatabase } from './raw-database.ts'
import { createSecretProject, type SecretProject } from './secret-project.ts'

export const path = '/v1/workspace/main/audit'

export const bulk = (environments: string[], secrets: Record<string, string>) => ({
  environments,
  secrets: Object.entries(secrets).map(([key, value]) => ({ key, value })),
})

/** `start` acts on secrets; the functions work from then on. */
export function createAuditedSteps() {
  let service: TestService
  let raw: RawDatabase
  let session: string
  /** The name of each step, by the id of its request. */
  const done = new Map<string, string>()
  const secretIds = new Map<string, string>()

  async function start() {
    service = await startService()
    raw = await openRaw(service)
    session = (await registerOwner(service)).session
    const project = await createSecretProject(service, session)
    const other = await createSecretProject(service, session)
    await act('bulk', project, 'POST', '/secret', bulk(['development', 'production'], { D: 'd', E: 'e' }))
    await act('one in two', project, 'POST', '/secret', bulk(['staging', 'production'], { F: 'f' }))
    const reference = bulk(['staging'], { URL: '${production.D}', LONE: '1' })
    await act('import', project, 'POST', '/secret', reference)
    await act('elsewhere', other, 'POST', '/secret', bulk(['development', 'production'], { D: 'd', E: 'e' }))
    await act('list', project, 'GET', '/secret')
    await act('list of two', project, 'GET', '/secret?environmentId=development&environmentId=production')
    await act('list of one', project, 'GET', '/secret?environmentId=staging')
    await act('resolved', project, 'GET', '/secret?environmentId=staging&resolve=true')
    await act('exported', project, 'GET', '/secret/export?environmentId=staging&resolve=true')
    await act('one', project, 'GET', '/secret/F')
    await act('batch', project, 'POST', '/secret/batch', {
      environmentId: 'development',
      operations: ['D', 'E'].map((key) => ({ op: 'set', key, value: 'new' })),
    })
    await act('list elsewhere', other, 'GET', '/secret')
    await act('diff', project, 'GET', '/secret/diff?from=development&to=production@1&values=true')
    await act('diff of one', project, 'GET', '/secret/diff?from=staging@1&to=staging&values=true')
    for (const { id, name } of await project.must<Secret[]>('GET', '/secret?view=keys')) secretIds.set(name, id)
    const copied = ['D', 'E'].map((key) => ({ id: secretIds.get(key), environmentId: project.idOf('production') }))
    const share = { secrets: copied, expiresIn: 3600 }
    const { token } = (await act('share', project, 'POST', '/secret-share', share)) as { token: string }
    const opened = await service.call('POST', `/v1/share/${token}/view`, { body: {} })
    expect(opened.status, opened.text).toBe(200)
    done.set(opened.headers.get('x-request-id') ?? '', 'share opened')
    await act('rename', project, 'PUT', '/secret/E', { name: 'RENAMED', values: [] })
    await act('list after', project, 'GET', '/secret?environmentId=development')
    return { service, raw, session, project, other }
  }

  async function stop(): Promise<void> {
    await raw.close()
    await service.stop()
  }

  async function find(query: Record<string, string>): Promise<AuditEntry[]> {
    const { status, text, body } = await service.call<AuditEntry[]>('GET', `${path}?${new URLSearchParams(query)}`, {
      token: session,
    })
    expect(status, text).toBe(200)
    return body
  }

  /** Newest first. Pages of two, one large page and the reversed stream must all agree. */
  async function findAll(query: Record<string, string>): Promise<AuditEntry[]> {
    const all = await find({ ...query, limit: '200' })
    const paged: AuditEntry[] = []
    for (let cursor: string | null = ''; cursor !== null; ) {
      const page = new URLSearchParams({ ...query, limit: '2', ...(cursor !== '' && { cursor }) })
      const answer = await service.call<AuditEntry[]>('GET', `${path}?${page}`, { token: session })
      expect(answer.body.length).toBeGreaterThan(all.length === 0 ? -1 : 0)
      paged.push(...answer.body)
      cursor = answer.headers.get('x-next-cursor')
    }
    expect(paged).toEqual(all)
    const stream = new URLSearchParams({ ...query, format: 'ndjson' })
    const { text } = await service.call('GET', `${path}?${stream}`, { token: session })
    const lines = text.split('\n').filter((line) => line !== '')
    expect(lines.map((line) => JSON.parse(line)).reverse()).toEqual(all)
    return all
  }

  /** Oldest first. */
  const named = async (query: Record<string, string>) =>
    (await findAll(query)).map(({ requestId }) => done.get(requestId) ?? '?').reverse()

  async function act(
    what: string,
    in_: SecretProject,
    method: string,
    target: string,
    body?: unknown,
    token = session,
  ) {
    const answer = await in_.ask<unknown>(method, target, body, token)
    expect([200, 201], `${what}: ${answer.text}`).toContain(answer.status)
    done.set(answer.headers.get('x-request-id') ?? '', what)
    return answer.body
  }

  return { start, stop, done, secretIds, find, findAll, named, act }
}
